"""What each tensor-parallel rank stored and retrieved, read from LMCache's lines in the log of an engine."""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LINE: Final = re.compile(
    r"\((?P<rank>Worker_TP\d+|EngineCore)\b.*?"
    r"(?P<verb>Stored|Retrieved) (?P<tokens>\d+) out of (?:total )?(?P<wanted>\d+)"
)


@dataclass(kw_only=True)
class RankTokens:
    """Transfers of one rank in one direction."""

    transfers: int = 0
    incomplete: int = 0
    """Of them, with fewer tokens than were wanted."""

    tokens: int = 0


def transfers(log: Path, verb: str) -> dict[str, RankTokens]:
    """Return what every rank `Stored` or `Retrieved`, by the rank's name; one process has only `EngineCore`."""
    ranks: defaultdict[str, RankTokens] = defaultdict(RankTokens)
    with log.open(errors="replace") as lines:
        for line in lines:
            found = _LINE.search(line)
            if found is None or found["verb"] != verb:
                continue
            rank = ranks[found["rank"]]
            rank.transfers += 1
            rank.tokens += int(found["tokens"])
            rank.incomplete += int(found["tokens"]) < int(found["wanted"])
    return dict(sorted(ranks.items()))
