"""Quantities of Kubernetes."""

import math
import re
from typing import Final

from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.physics import GIB

_UNITS: Final = {
    "": 1,
    "k": 1000,
    "M": 1000**2,
    "G": 1000**3,
    "T": 1000**4,
    "Ki": 1024,
    "Mi": 1024**2,
    "Gi": 1024**3,
    "Ti": 1024**4,
}
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)([kMGT]i?|Ki)?")


def gib(node: Node | None) -> float | None:
    """Return a quantity of bytes in GiB; None where it is absent or no quantity."""
    found = None if node is None else _QUANTITY.fullmatch(node.text or "")
    if found is None:
        return None
    size = float(found.group(1)) * _UNITS[found.group(2) or ""] / GIB
    return size if math.isfinite(size) else None
