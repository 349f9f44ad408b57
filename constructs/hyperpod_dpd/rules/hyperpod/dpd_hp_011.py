"""DPD-HP-011: labels are valid and not reserved."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.hyperpod.kubernetes_names import trouble_with_key, trouble_with_value
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_MOST = 50


@deployment_rule(
    "DPD-HP-011",
    severity=Severity.ERROR,
    title="labels of a group are valid, at most 50, and use no reserved prefix",
    sources=(
        "aws-cloudformation/cloudformation-coverage-roadmap #1326",
        "AWS::SageMaker::Cluster KubernetesConfig",
    ),
    facts=("P24",),
)
def labels_are_valid(deployment: Deployment) -> Iterator[Problem]:
    """A reserved prefix is refused on update, which leaves the stack in UPDATE_ROLLBACK_FAILED."""
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        labels, path = group.labels or {}, f"hyperpod.instance_groups[{index}].labels"
        if len(labels) > _MOST:
            yield Problem(
                path=path,
                says=f"group `{group.name}` has too many labels",
                given=f"{len(labels)}",
                limit=f"{_MOST}",
                fix="remove some",
            )
        for key, value in labels.items():
            trouble = trouble_with_key(key) or trouble_with_value(value)
            if trouble:
                yield Problem(
                    path=f"{path}.{key}",
                    says=f"group `{group.name}` has a label that its nodes cannot have",
                    given=f"`{key}: {value}`",
                    limit=trouble,
                    fix="use a prefix of your own, such as `example.com/team`, or none",
                )
