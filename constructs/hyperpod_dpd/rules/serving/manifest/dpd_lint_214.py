"""DPD-LINT-214: numbers are numbers."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.command import count
from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


def _fraction(text: str | None) -> bool:
    try:
        return text is not None and 0 < float(text) <= 1
    except ValueError:
        return False


def _positive(text: str | None) -> bool:
    number = count(text)
    return number is not None and number > 0


_WANTED: Final = {
    "--block-size": _positive,
    "--gpu-memory-utilization": _fraction,
    "--max-model-len": _positive,
    "--max-num-batched-tokens": _positive,
    "--max-num-seqs": _positive,
    "--pipeline-parallel-size": _positive,
    "--port": _positive,
    "--tensor-parallel-size": _positive,
}


@manifest_rule(
    "DPD-LINT-214",
    severity=Severity.ERROR,
    title="arguments that want a number have one",
    sources=(
        "vLLM `vllm serve` parser, run; it accepts a utilization of 1.5 and 0 ranks, and the engine ends at its start",
    ),
)
def numbers_are_numbers(manifests: ManifestSet) -> Iterator[Fault]:
    """A template that left a value out shifts the next argument into its place, and vLLM exits."""
    for worker in manifests.workers:
        for argument in worker.arguments.flags:
            wanted = _WANTED.get(argument.flag)
            if wanted is None:
                continue
            text = None if argument.value is None else argument.value.text
            if argument.value is not None and not argument.value.known:
                continue  # a shell variable: its value is not in the manifests
            if not wanted(text):
                yield fault(
                    argument.node,
                    says=f"`{argument.flag}` of {worker} is not what vLLM takes",
                    given=f"`{argument.text}`",
                    limit="more than 0 and at most 1" if wanted is _fraction else "a whole number above 0",
                    fix="write the number",
                )
