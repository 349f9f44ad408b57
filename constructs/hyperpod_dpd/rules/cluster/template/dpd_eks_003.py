"""DPD-EKS-003: access entries decide who gets in."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources


@template_rule(
    "DPD-EKS-003",
    severity=Severity.ERROR,
    title="the authentication mode is `API` or `API_AND_CONFIG_MAP`",
    sources=(
        "SageMaker DG sagemaker-hyperpod-eks-prerequisites",
        "aws_eks.Cluster (v1) defaults to CONFIG_MAP",
    ),
)
def authentication_uses_the_api(template: Template) -> Iterator[Problem]:
    """HyperPod creates access entries for its nodes, which a CONFIG_MAP cluster does not have."""
    for logical_id, cluster in resources(template, "AWS::EKS::Cluster"):
        mode = (properties(cluster).get("AccessConfig") or {}).get("AuthenticationMode", "CONFIG_MAP")
        if mode not in {"API", "API_AND_CONFIG_MAP"}:
            yield Problem(
                path=at(logical_id, "Properties.AccessConfig.AuthenticationMode"),
                says="HyperPod cannot join a cluster with this authentication mode",
                given=f"`{mode}`",
                limit="`API` or `API_AND_CONFIG_MAP`",
                fix="set `AuthenticationMode: API`",
            )
