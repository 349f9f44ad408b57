"""DPD-HP-001: the instance type supports disaggregated serving."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.instances import instance_types
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.violation import close_to


@deployment_rule(
    "DPD-HP-001",
    severity=Severity.ERROR,
    title="instance groups have a type on which disaggregated serving is supported",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (allow-list)",),
)
def instance_type_is_supported(deployment: Deployment) -> Iterator[Problem]:
    """The hand-off needs EFA between whole nodes; on other types the KV cache would crawl over TCP."""
    known = [row.name for row in instance_types()]
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if group.instance_type not in known:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].instance_type",
                says=f"group `{group.name}` has a type without disaggregated serving",
                given=f"`instance_type: {group.instance_type}`",
                limit=", ".join(known),
                fix=close_to(group.instance_type, known) or "choose one of these types",
            )
