"""DPD-EKS-024: EKS Auto Mode is off."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources


@template_rule(
    "DPD-EKS-024",
    severity=Severity.ERROR,
    title="EKS Auto Mode is off",
    sources=("aws_eks_v2.Cluster turns Auto Mode on unless told otherwise", "kubernetes/autoscaler #7540"),
    facts=("P17",),
)
def auto_mode_is_off(template: Template) -> Iterator[Problem]:
    """Nothing says that HyperPod works beside Auto Mode, whose node manager does not know HyperPod's nodes."""
    for logical_id, cluster in resources(template, "AWS::EKS::Cluster"):
        if (properties(cluster).get("ComputeConfig") or {}).get("Enabled") is True:
            yield Problem(
                path=at(logical_id, "Properties.ComputeConfig.Enabled"),
                says="EKS Auto Mode is on",
                given="`ComputeConfig.Enabled: true`",
                fix="use `default_capacity_type=DefaultCapacityType.NODEGROUP`",
            )
