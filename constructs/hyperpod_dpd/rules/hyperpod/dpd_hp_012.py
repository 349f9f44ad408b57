"""DPD-HP-012: taints are valid and not reserved."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.hyperpod.kubernetes_names import trouble_with_key, trouble_with_value
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_MOST = 50


@deployment_rule(
    "DPD-HP-012",
    severity=Severity.ERROR,
    title="taints of a group are valid, different, at most 50, and use no reserved prefix",
    sources=(
        "aws-cloudformation/cloudformation-coverage-roadmap #1326",
        "AWS::SageMaker::Cluster KubernetesConfig",
    ),
    facts=("P24",),
)
def taints_are_valid(deployment: Deployment) -> Iterator[Problem]:
    """HyperPod registers nodes with them; a node that cannot register never joins."""
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        path = f"hyperpod.instance_groups[{index}].taints"
        if len(group.taints) > _MOST:
            yield Problem(
                path=path,
                says=f"group `{group.name}` has too many taints",
                given=f"{len(group.taints)}",
                limit=f"{_MOST}",
                fix="remove some",
            )
        seen: set[tuple[str, str]] = set()
        for position, taint in enumerate(group.taints):
            trouble = trouble_with_key(taint.key) or trouble_with_value(taint.value)
            if (taint.key, taint.effect) in seen:
                trouble = "key and effect are given twice"
            seen.add((taint.key, taint.effect))
            if trouble:
                yield Problem(
                    path=f"{path}[{position}]",
                    says=f"group `{group.name}` has a taint that its nodes cannot have",
                    given=f"`{taint.key}={taint.value}:{taint.effect}`",
                    limit=trouble,
                    fix="use a prefix of your own, such as `example.com/team`, or none",
                )
