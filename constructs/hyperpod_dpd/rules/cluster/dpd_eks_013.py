"""DPD-EKS-013: system nodes are of a known plain type."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.system_nodes import families, is_arm, system_instance
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-013",
    severity=Severity.ERROR,
    title="system nodes are of a known general-purpose type",
    sources=("awslabs/amazon-eks-ami eni-max-pods.txt",),
    facts=("P15",),
)
def system_nodes_are_known(deployment: Deployment) -> Iterator[Problem]:
    """Of an unknown type nobody can say whether the add-ons fit; an accelerator would idle below controllers."""
    name = deployment.cluster.system_nodes.instance_type
    if system_instance(name) is None and not is_arm(name):
        yield Problem(
            path="cluster.system_nodes.instance_type",
            says="system nodes of a type that the catalog does not have",
            given=f"`instance_type: {name}`",
            limit=f"families {', '.join(families())}",
            fix="choose a type without `ml.` and without accelerators, such as `m6i.xlarge`",
        )
