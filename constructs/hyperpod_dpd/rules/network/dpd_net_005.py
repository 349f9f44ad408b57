"""DPD-NET-005: the two CIDRs of the VPC do not overlap."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.network.cidrs import ipv4_network
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-005",
    severity=Severity.ERROR,
    title="`cidr` and `gpu_cidr` do not overlap",
    sources=(
        "Amazon VPC user guide, vpc-cidr-blocks",
        "aws/sagemaker-hyperpod-cluster-setup vpc-template.yaml",
    ),
)
def cidrs_do_not_overlap(deployment: Deployment) -> Iterator[Problem]:
    """A VPC refuses a secondary CIDR that overlaps its primary one."""
    primary, _ = ipv4_network(deployment.network.cidr)
    secondary, _ = ipv4_network(deployment.network.gpu_cidr)
    if primary and secondary and primary.overlaps(secondary):
        yield Problem(
            path="network.gpu_cidr",
            says="`gpu_cidr` overlaps `cidr`",
            given=f"`gpu_cidr: {secondary}` and `cidr: {primary}`",
            fix="choose another `gpu_cidr`, for example `10.1.0.0/16` beside `10.192.0.0/16`",
        )
