"""DPD-SRV-417: the operator can place the workers where the deployment wants them."""

from collections.abc import Iterator

from hyperpod_dpd.derive import resolve_or_none
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import self_managed
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-417",
    severity=Severity.ERROR,
    title="on the operator backend groups have no hard taints, and roles that share a group take whole nodes",
    sources=(
        "aws/sagemaker-hyperpod-cli charts/inference-operator (no tolerations, no affinity between pods)",
        "ai-dynamo/dynamo PR 9521 (EFA has no loopback within a host)",
    ),
)
def operator_can_place_workers(deployment: Deployment) -> Iterator[Problem]:
    """A pod that tolerates nothing stays pending, and two roles on one node cannot reach each other over EFA."""
    facts = resolve_or_none(deployment)
    if facts is None or self_managed(deployment):
        return
    used = {facts.prefill.group.name, facts.decode.group.name}
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        hard = [taint for taint in group.taints if taint.effect != "PreferNoSchedule"]
        if group.name in used and hard:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].taints",
                says="the operator's pods tolerate no taints",
                given=", ".join(f"`{taint.key}`" for taint in hard),
                fix="remove the taints, or use `backend: self-managed`",
            )
    if len(used) == 1 and not facts.prefill.whole_node:
        yield Problem(
            path="serving.prefill.instance_group",
            says="the operator keeps the two roles on different nodes only where each takes a whole one",
            given=f"both roles on `{facts.prefill.group.name}` with {facts.prefill.gpus} GPUs per worker",
            limit=f"{facts.prefill.instance.gpus} GPUs per worker",
            fix="give each role a group of its own, or use `backend: self-managed`",
        )
