"""What each tensor-parallel rank stored and retrieved, read from LMCache's lines in the log of an engine.

python -m tools.evidence.ranks LOG ...
"""

import argparse
import json
import re
from collections import defaultdict, deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

_MARK: Final = re.compile(r"\((Worker_TP\d+|EngineCore) pid=\d+\)")
"""What vLLM puts before each line of a process."""

_TRANSFER: Final = re.compile(r"(?P<verb>Stored|Retrieved) (?P<tokens>\d+) out of (?:total )?(?P<wanted>\d+)")


@dataclass(kw_only=True)
class RankTokens:
    """Transfers of one rank in one direction."""

    transfers: int = 0
    incomplete: int = 0
    """Of them, with fewer tokens than were wanted."""

    tokens: int = 0


def transfers(log: Path, verb: str) -> dict[str, RankTokens]:
    """Return what every rank `Stored` or `Retrieved`, by the rank's name; one process has only `EngineCore`.

    Ranks that write at once put their marks together before the first line, and none before the next one. Each rank gets
    one of both lines then, whichever it wrote.
    """
    ranks: defaultdict[str, RankTokens] = defaultdict(RankTokens)
    left: deque[str] = deque()
    with log.open(errors="replace") as lines:
        for line in lines:
            left.extendleft(reversed(_MARK.findall(line)))
            writer = left.popleft() if left else None
            found = _TRANSFER.search(line)
            if writer is None or found is None or found["verb"] != verb:
                continue
            rank = ranks[writer]
            rank.transfers += 1
            rank.tokens += int(found["tokens"])
            rank.incomplete += int(found["tokens"]) < int(found["wanted"])
    return dict(sorted(ranks.items()))


def recorded(log: Path, verb: str) -> dict[str, dict[str, int]]:
    """Return `transfers` as results carry them."""
    return {rank: asdict(done) for rank, done in transfers(log, verb).items()}


def main() -> None:
    """Print what is in each log, a line of JSON for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("logs", type=Path, nargs="+")
    for log in parser.parse_args().logs:
        found = {verb.lower(): recorded(log, verb) for verb in ("Stored", "Retrieved")}
        print(json.dumps({"log": log.name, **found}))


if __name__ == "__main__":
    main()
