"""DPD-LINT-207: both roles lay the cache out alike."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, ManifestSet, Worker, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.rules.serving.dpd_srv_215 import SHAPING_FLAGS

_EQUAL: Final = frozenset(
    {"--block-size", "--dtype", "--kv-cache-dtype", "--max-model-len", "--quantization", "--revision"}
)


@manifest_rule(
    "DPD-LINT-207",
    severity=Severity.ERROR,
    title="model, dtype, block size and everything that shapes the KV cache are equal on both roles",
    sources=("vLLM NIXL connector documentation (compatibility hash)", "vllm-project/vllm issue 49238"),
    facts=("V7",),
)
def caches_are_alike(manifests: ManifestSet) -> Iterator[Fault]:
    """What one side writes in another layout, the other reads as garbage."""
    for endpoint in manifests.endpoints:
        for prefill, decode in endpoint.pairs:
            for flag in sorted(_EQUAL | SHAPING_FLAGS):
                ours, theirs = _said(prefill, flag), _said(decode, flag)
                if ours != theirs:
                    yield fault(
                        decode.argument_at(flag) if theirs is not None else prefill.argument_at(flag),
                        says=f"`{flag}` differs between the roles",
                        given=f"{_shown(ours)} at `{prefill.owner.name}`, {_shown(theirs)} at `{decode.owner.name}`",
                        fix="give it to both roles, with the same value",
                    )
            ours, theirs = _model(prefill), _model(decode)
            if ours != theirs:
                yield fault(
                    decode.argument_at("--model"),
                    says="prefill and decode serve different models",
                    given=f"{_shown(ours)} at `{prefill.owner.name}`, {_shown(theirs)} at `{decode.owner.name}`",
                    fix="serve the same model, by the same revision",
                )


def _said(worker: Worker, flag: str) -> str | None:
    found = worker.arguments.last(flag)
    if found is None:
        return None
    return found.value.text if found.value is not None else "on"


def _model(worker: Worker) -> str | None:
    if worker.arguments.positional:
        return worker.arguments.positional[0].text
    return worker.arguments.value("--model")


def _shown(value: str | None) -> str:
    return "nothing" if value is None else f"`{value}`"
