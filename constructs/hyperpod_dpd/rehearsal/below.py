"""What lies below a node, nothing where the way there is absent."""

from collections.abc import Mapping

from hyperpod_dpd.lint.node import Node


def items(node: Node, *keys: str) -> tuple[Node, ...]:
    """Return the items of the list below `keys`."""
    found = node.get(*keys)
    return () if found is None else found.items


def pairs(node: Node, *keys: str) -> Mapping[str, Node]:
    """Return the children of the mapping below `keys`."""
    found = node.get(*keys)
    return {} if found is None else found.pairs


def named_ports(container: Node) -> Mapping[str, int]:
    """Return the ports of `container` by name."""
    return {
        name: number
        for entry in items(container, "ports")
        if (name := entry.text_at("name")) is not None
        and (port := entry.get("containerPort")) is not None
        and (number := port.number) is not None
    }
