"""DPD-EKS-012: system nodes are amd64."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.system_nodes import is_arm
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-012",
    severity=Severity.ERROR,
    title="system nodes have amd64 processors",
    sources=("aws/sagemaker-hyperpod-cli PR 427",),
    facts=("P14",),
)
def system_nodes_are_amd64(deployment: Deployment) -> Iterator[Problem]:
    """The inference operator's image exists for amd64 only and crashes on Graviton."""
    name = deployment.cluster.system_nodes.instance_type
    if is_arm(name):
        yield Problem(
            path="cluster.system_nodes.instance_type",
            says="system nodes would be ARM",
            given=f"`instance_type: {name}`",
            fix="choose an Intel or AMD type such as `m6i.xlarge`",
        )
