"""DPD-HP-005: group names are different."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-HP-005",
    severity=Severity.ERROR,
    title="every instance group has a name of its own",
    sources=("AWS::SageMaker::Cluster InstanceGroups",),
)
def group_names_differ(deployment: Deployment) -> Iterator[Problem]:
    """HyperPod knows a group by its name; the second one would overwrite the first or be refused."""
    names = [group.name for group in deployment.hyperpod.instance_groups]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].name",
                says=f"two instance groups are called `{name}`",
                given=f"`instance_groups[{names.index(name)}]` and `instance_groups[{index}]`",
                fix="rename one of them",
            )
