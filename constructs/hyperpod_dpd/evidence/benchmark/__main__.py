"""Run the benchmark that a settings file describes.

usage: python -m hyperpod_dpd.evidence.benchmark SETTINGS

Exit code 0: measured and sound; 1: measured, with flaws; 2: not measured.
"""

import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hyperpod_dpd.evidence.benchmark.counters import NoCountersError
from hyperpod_dpd.evidence.benchmark.drive import RunFailedError, drive
from hyperpod_dpd.evidence.benchmark.run import benchmark
from hyperpod_dpd.evidence.benchmark.settings import UnreadableSettingsError, read_settings
from hyperpod_dpd.evidence.benchmark.store import NotStoredError, store_at
from hyperpod_dpd.evidence.benchmark.tokenizer import NoTokenizerError, bring
from hyperpod_dpd.evidence.benchmark.wire import connect
from hyperpod_dpd.evidence.proof.web import NoAnswerError
from hyperpod_dpd.evidence.results import UNVERIFIED
from hyperpod_dpd.evidence.soundness import flaws

_FAILURES = (
    UnreadableSettingsError,
    NoTokenizerError,
    RunFailedError,
    NoAnswerError,
    NoCountersError,
    NotStoredError,
)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and return the exit code."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            settings, connection = connect(read_settings(Path(arguments[0])))
            print(f"the requests go to {connection}", flush=True)
            store = store_at(settings.results, region=settings.region)
            tokenizer = bring(settings.tokenizer, folder / "tokenizer", region=settings.region)
            result = benchmark(
                settings,
                partial(
                    drive,
                    settings,
                    tokenizer=tokenizer,
                    trusts_any_certificate=connection.tls == UNVERIFIED,
                ),
                store,
                connection=connection,
                folder=folder,
                say=partial(print, flush=True),
            )
        except _FAILURES as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            return 2
    found = flaws(result)
    for flaw in found:
        print(f"warning: {flaw}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
