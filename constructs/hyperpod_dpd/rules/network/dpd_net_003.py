"""DPD-NET-003: groups that exchange KV cache share one zone."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-003",
    severity=Severity.ERROR,
    title="every instance group sits in one availability zone",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (sameAZ)", "llm-d/llm-d PR 1554"),
    facts=("E6",),
)
def groups_share_one_zone(deployment: Deployment) -> Iterator[Problem]:
    """EFA traffic does not leave its zone, so a prefiller in another zone never reaches the decoder."""
    home = deployment.network.gpu_zone_id
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        zone_id = deployment.zone_id(group)
        if zone_id != home:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].zone_id",
                says=f"group `{group.name}` is in another zone than the GPU subnet",
                given=f"`zone_id: {zone_id}`",
                limit=f"`network.gpu_zone_id: {home}`",
                fix=f"remove `zone_id` from `{group.name}` or move every group to one zone",
            )
