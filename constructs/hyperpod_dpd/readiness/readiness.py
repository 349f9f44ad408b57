"""The poller: one function for every wait of a deployment."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, DependencyGroup, IDependable

from hyperpod_dpd.cluster.handle import ClusterHandle
from hyperpod_dpd.cluster.kubectl import Kubectl
from hyperpod_dpd.readiness.access import allow_to_look
from hyperpod_dpd.security.function import FunctionNetwork, own_function
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.forms import Label

_POLLER: Final = Path(__file__).parent / "poller"
_PACKAGE: Final = Path("hyperpod_dpd", "readiness", "poller")
_TIMEOUT_SECONDS: Final = 900
"""Lambda's limit, for the deletion of namespaces; a look takes seconds."""


class Readiness(Construct):
    """Looks at nodes, add-ons and workloads of a cluster for the waits that name it.

    The function lives in the VPC, where a private endpoint of the cluster is reached too, and knows itself to Kubernetes
    by an access entry with a group of its own that may only read.

    Attributes:
        function: the poller.
        role: its role; a wait adds that its own schedule may be stopped.
        ready: its rights in Kubernetes, to depend on.
    """

    function: lambda_.Function
    role: iam.Role
    ready: IDependable

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: Label,
        handle: ClusterHandle,
        kubectl: Kubectl,
        log_key: kms.IKey,
        log_retention_days: int = 90,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create the poller.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            name: name of the deployment; the poller's rights in Kubernetes carry it.
            handle: the cluster that is looked at.
            kubectl: the way into it.
            log_key: key of the function's log.
            log_retention_days: days that the log is kept, a value that CloudWatch Logs accepts.
            removal_policy: whether the log outlives the stack.
        """
        super().__init__(scope, construct_id)
        with _package() as folder:
            self.function, self.role = own_function(
                self,
                folder=folder,
                handler="hyperpod_dpd.readiness.poller.index.handler",
                description=f"Looks whether what {name} waits for is there, and tells CloudFormation",
                statements=_look(self, handle),
                environment={"DPD_EKS_NAME": handle.eks_name, "DPD_HYPERPOD_NAME": handle.hyperpod_name},
                network=FunctionNetwork(
                    vpc=handle.vpc, subnets=handle.subnets, security_group=kubectl.security_group
                ),
                timeout=cdk.Duration.seconds(_TIMEOUT_SECONDS),
                log_key=log_key,
                log_retention_days=log_retention_days,
                removal_policy=removal_policy,
            )
        rights = allow_to_look(
            self,
            kubectl=kubectl,
            eks_name=handle.eks_name,
            principal_arn=self.role.role_arn,
            name=f"hyperpod-dpd-readiness-{name}",
        )
        self.ready = DependencyGroup(kubectl.ready, *rights)


@contextmanager
def _package() -> Iterator[Path]:
    """Yield a folder with the poller's package under the name by which it imports itself, without bytecode."""
    with TemporaryDirectory() as folder:
        target = Path(folder, _PACKAGE)
        target.mkdir(parents=True)
        for package in (target.parent, target.parent.parent):
            (package / "__init__.py").touch()
        for module in _POLLER.glob("*.py"):
            shutil.copy(module, target)
        yield Path(folder)


def _look(scope: Construct, handle: ClusterHandle) -> list[iam.PolicyStatement]:
    stack = cdk.Stack.of(scope)
    addons = stack.format_arn(service="eks", resource="addon", resource_name=f"{handle.eks_name}/*")
    return [
        iam.PolicyStatement(
            sid="LookAtHyperPod",
            actions=[
                "sagemaker:DescribeCluster",
                "sagemaker:DescribeClusterEvent",
                "sagemaker:ListClusterEvents",
                "sagemaker:ListClusterNodes",
            ],
            resources=[handle.hyperpod_arn],
        ),
        iam.PolicyStatement(sid="LookAtEks", actions=["eks:DescribeCluster"], resources=[handle.eks_arn]),
        # an add-on's ARN ends with an id that EKS makes up
        iam.PolicyStatement(
            sid="LookAtAddons", actions=["eks:DescribeAddon"], resources=[handle.eks_arn, addons]
        ),
    ]
