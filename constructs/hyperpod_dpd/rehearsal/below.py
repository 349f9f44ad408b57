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
