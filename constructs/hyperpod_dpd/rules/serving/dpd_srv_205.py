"""DPD-SRV-205: vLLM knows every extra argument."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.catalog.engine_words import vllm_flags
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.computed import COMPUTED_FLAG_VARIANTS, COMPUTED_FLAGS
from hyperpod_dpd.rules.serving.subjects import engine_or_none, extra_flags
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.violation import close_to

REMOVED_FLAGS: Final = {
    "--disable-log-requests": "remove it: requests are not logged unless `--enable-log-requests` asks for it",
    "--use-v2-block-manager": "remove it: there is no other any more",
}


@deployment_rule(
    "DPD-SRV-205",
    severity=Severity.ERROR,
    title="every flag in `extra_args` is one of the declared vLLM version",
    sources=("vLLM 0.19.0 and 0.25.1 `vllm serve` parser, run",),
    facts=("V5",),
)
def flags_are_known(deployment: Deployment) -> Iterator[Problem]:
    """VLLM exits with code 2 on a flag that it does not know, and the pod crashes in a loop."""
    engine = engine_or_none(deployment)
    known = vllm_flags(engine.vllm) if engine is not None else None
    for path, given, flag in extra_flags(deployment):
        if flag in REMOVED_FLAGS:
            yield Problem(
                path=path, says=f"vLLM has removed `{flag}`", given=f"`{given}`", fix=REMOVED_FLAGS[flag]
            )
        elif engine is None or known is None or flag in known:
            continue
        elif flag not in COMPUTED_FLAGS and flag not in COMPUTED_FLAG_VARIANTS:
            yield Problem(
                path=path,
                says=f"vLLM {engine.vllm} has no flag `{flag}`",
                given=f"`{given}`",
                fix=close_to(flag, sorted(known)) or "remove it",
            )
