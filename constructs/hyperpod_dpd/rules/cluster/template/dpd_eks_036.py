"""DPD-EKS-036: the role of the inference operator has the name that the add-on looks for."""

from collections.abc import Iterator

from hyperpod_dpd.rules.cluster.inference_addon import CONFIGURATION, configured, name_of
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at

_PREFIX = "SageMakerHyperPodInference"


@template_rule(
    "DPD-EKS-036",
    severity=Severity.ERROR,
    title="the inference operator's role is called `SageMakerHyperPodInference…`",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-setup (the add-on checks the prefix)",),
)
def operator_role_has_its_prefix(template: Template) -> Iterator[Problem]:
    """The add-on refuses another name; a generated name starts with the stack's."""
    for logical_id, value in configured(template, "executionRoleArn"):
        name = value.rpartition("/")[2] if isinstance(value, str) else name_of(template, value, "RoleName")
        if name is None or not name.startswith(_PREFIX):
            yield Problem(
                path=at(logical_id, CONFIGURATION, "executionRoleArn"),
                says="the role of the inference operator has a name that the add-on refuses",
                given=f"`{name}`" if name else "no explicit name",
                limit=f"`{_PREFIX}` at its beginning",
                fix="give the role such a name",
            )
