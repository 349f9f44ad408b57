"""What decoders write to their logs about retrievals."""

import re
from dataclasses import dataclass
from typing import Final

_RETRIEVED: Final = re.compile(
    r"Retrieved (?P<tokens>\d+) out of (?:total )?(?P<wanted>\d+)"
    r"(?:.*?throughput: (?P<speed>\d+(?:\.\d+)?) GB/s)?"
)
"""LMCache 0.4.3 and 0.5.3, v1/cache_engine.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved:
    """One retrieval of one rank.

    Attributes:
        tokens: tokens that were there.
        wanted: tokens that were asked for.
        gb_per_second: speed of the copy; None where the line does not say.
    """

    tokens: int
    wanted: int
    gb_per_second: float | None


def retrievals(text: str) -> tuple[Retrieved, ...]:
    """Return the retrievals that `text` tells of, in its order."""
    return tuple(
        Retrieved(
            tokens=int(match["tokens"]),
            wanted=int(match["wanted"]),
            gb_per_second=None if match["speed"] is None else float(match["speed"]),
        )
        for match in _RETRIEVED.finditer(text)
    )
