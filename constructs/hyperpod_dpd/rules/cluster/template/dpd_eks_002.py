"""DPD-EKS-002: every control-plane log is on."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, items, properties, resources

_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")


@template_rule(
    "DPD-EKS-002",
    severity=Severity.ERROR,
    title="the control plane writes all five log types",
    sources=(
        "cdk-nag AwsSolutions-EKS2, which does not run on aws_eks_v2",
        "checkov CKV_AWS_37, empty for CloudFormation",
    ),
)
def control_plane_logs_are_on(template: Template) -> Iterator[Problem]:
    """Without the audit log nobody can say later who read a secret or changed a workload."""
    for logical_id, cluster in resources(template, "AWS::EKS::Cluster"):
        logging = (properties(cluster).get("Logging") or {}).get("ClusterLogging") or {}
        enabled = {entry.get("Type") for entry in items(logging.get("EnabledTypes"))}
        missing = [kind for kind in _TYPES if kind not in enabled]
        if missing:
            yield Problem(
                path=at(logical_id, "Properties.Logging"),
                says="control-plane logs are off",
                given=", ".join(f"`{kind}`" for kind in _TYPES if kind in enabled) or "none",
                limit=", ".join(f"`{kind}`" for kind in _TYPES),
                fix=f"enable {', '.join(f'`{kind}`' for kind in missing)}",
            )
