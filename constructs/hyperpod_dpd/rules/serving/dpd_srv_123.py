"""DPD-SRV-123: every rank hands over."""

from collections.abc import Iterator

from hyperpod_dpd.derive import resolve_or_none
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import hands_over_through_lmcache
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-123",
    severity=Severity.ERROR,
    title="models with latent attention are not handed over through LMCache on several ranks",
    sources=("LMCache 0.4.3 and 0.5.3 source (`save_only_first_rank` with latent attention)",),
    facts=("L3",),
)
def every_rank_hands_over(deployment: Deployment) -> Iterator[Problem]:
    """With latent attention LMCache stores on the first rank only: the router would wait for the others in vain."""
    facts = resolve_or_none(deployment)
    if facts is None or not hands_over_through_lmcache(deployment):
        return
    if facts.geometry.latent_attention is not None and facts.tensor_parallel > 1:
        yield Problem(
            path="serving.transfer.type",
            says=f"`{facts.geometry.name}` has latent attention, which LMCache hands over from one rank only",
            given=f"`type: lmcache-pd`, `tensor_parallel: {facts.tensor_parallel}`",
            computed=f"1 notification of {facts.tensor_parallel}",
            fix="set `type: nixl`",
        )
