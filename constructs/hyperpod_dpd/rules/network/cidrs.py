"""Reading a CIDR once for all rules about addresses."""

from ipaddress import IPv4Interface, IPv4Network


def ipv4_network(text: str) -> tuple[IPv4Network | None, str]:
    """Return the network that `text` writes, or None and the reason why it writes none."""
    if "/" not in text:
        return None, "no prefix length"
    try:
        return IPv4Network(text), ""
    except ValueError as error:
        if "host bits" in str(error):
            return None, f"the network of that address is `{IPv4Interface(text).network}`"
        return None, "not four numbers from 0 to 255 and a prefix length"


def overlaps(network: IPv4Network, text: str) -> bool:
    """Return whether `network` shares an address with the network that `text` writes."""
    other, _ = ipv4_network(text)
    return other is not None and network.overlaps(other)


PRIVATE_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
"""What is never seen on the internet (RFC 1918, RFC 6598)."""


def is_private(network: IPv4Network) -> bool:
    """Return whether all of `network` lies in one of `PRIVATE_RANGES`; the standard library also counts examples."""
    return any(network.subnet_of(IPv4Network(text)) for text in PRIVATE_RANGES)
