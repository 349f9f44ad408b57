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
