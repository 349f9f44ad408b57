"""Run the benchmark that a settings file describes.

usage: python -m hyperpod_dpd.evidence.benchmark SETTINGS

Exit code 0: measured and sound; 1: measured, with flaws; 2: not measured.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from hyperpod_dpd.evidence.benchmark.counters import NoCountersError
from hyperpod_dpd.evidence.benchmark.drive import RunFailedError, drive
from hyperpod_dpd.evidence.benchmark.run import benchmark
from hyperpod_dpd.evidence.benchmark.settings import Settings, UnreadableSettingsError, read_settings
from hyperpod_dpd.evidence.benchmark.store import NotStoredError, store_at
from hyperpod_dpd.evidence.benchmark.tokenizer import NoTokenizerError, bring
from hyperpod_dpd.evidence.proof.web import NoAnswerError
from hyperpod_dpd.evidence.proof.wire import find_out
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
            settings, trusting = _as_spoken(read_settings(Path(arguments[0])))
            store = store_at(settings.results, region=settings.region)
            tokenizer = bring(settings.tokenizer, folder / "tokenizer", region=settings.region)
            result = benchmark(
                settings,
                partial(drive, settings, tokenizer=tokenizer, trusts_any_certificate=trusting),
                store,
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


def _as_spoken(settings: Settings) -> tuple[Settings, bool]:
    """Return the settings with the scheme that AWS's router speaks, and whether its certificate is taken as it is."""
    if settings.reads_router:
        return settings, False
    wire = find_out(settings.url)
    print(f"the endpoint speaks {wire.says}", flush=True)
    return replace(settings, url=wire.url), bool(wire.doubt)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
