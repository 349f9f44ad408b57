"""DPD-HP-019: instance groups say what HyperPod would otherwise decide."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources

_WHY = {
    "ThreadsPerCore": "absent means 1, which halves the vCPUs",
    "LifeCycleConfig": "without a script kubelet and images stay on the small root volume",
    "OverrideVpcConfig": "it cannot be added to a group later",
}


@template_rule(
    "DPD-HP-019",
    severity=Severity.ERROR,
    title="instance groups state threads per core, lifecycle script and subnet",
    sources=(
        "AWS::SageMaker::Cluster",
        "awslabs/agent-plugins cloudformation-errors.md (ThreadsPerCore must be resent)",
    ),
    facts=("P4",),
)
def groups_state_everything(template: Template) -> Iterator[Problem]:
    """HyperPod's own choice is the wrong one here, and an update that leaves a value out changes it."""
    for logical_id, cluster in resources(template, "AWS::SageMaker::Cluster"):
        for index, group in enumerate(properties(cluster).get("InstanceGroups", [])):
            for key, why in _WHY.items():
                if key not in group:
                    yield Problem(
                        path=at(logical_id, "Properties.InstanceGroups", index, key),
                        says=f"group `{group.get('InstanceGroupName')}` leaves `{key}` to HyperPod",
                        given=f"no `{key}`",
                        limit=why,
                        fix=f"set `{key}`",
                    )
