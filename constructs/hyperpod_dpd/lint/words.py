"""Words that YAML, Python and LMCache take for true and false."""

from typing import Final

from hyperpod_dpd.lint.node import Node

TRUE: Final = frozenset({"1", "true", "yes", "on"})
FALSE: Final = frozenset({"0", "false", "no", "off"})


def is_true(node: Node | None) -> bool:
    """Whether a value is there and true."""
    return node is not None and (node.text or "").lower() in TRUE


def is_false(node: Node | None) -> bool:
    """Whether a value is there and false."""
    return node is not None and (node.text or "").lower() in FALSE
