"""The construct: a build inside the VPC, its access to the cluster, and the resource that runs it."""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from hyperpod_dpd import spec
from hyperpod_dpd.builds import BuildNetwork, BuildProject, BuildRun, BuildRunner
from hyperpod_dpd.cluster.dependencies_chart.environment import build_environment
from hyperpod_dpd.derive.builds import CHART_MACHINE
from hyperpod_dpd.network import ClusterNetwork
from hyperpod_dpd.spec.arguments import checked

_HERE = Path(__file__).parent
_BUILD_TIMEOUT_MINUTES = 30
_HTTPS = 443


class HyperPodDependencies(Construct):
    """Installs what HyperPod expects on an EKS cluster before the HyperPod cluster is created.

    A CodeBuild project inside the VPC runs `helm upgrade --install` from a pinned commit (or an archive in S3) and
    checks every download against the catalog. CloudFormation waits for the build and shows its failure text. Deleting
    the resource uninstalls the chart; a cluster that is gone counts as uninstalled.

    Attributes:
        resource: the custom resource; whatever needs the chart depends on it.
    """

    resource: cdk.CustomResource

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster | eks.Cluster,
        network: ClusterNetwork,
        source: spec.DependenciesChart | None = None,
        log_key: kms.IKey,
        log_retention_days: int = 90,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create the project and run it.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            cluster: EKS cluster into which the chart goes.
            network: VPC of the cluster; the build runs in its system subnets, which need a way to S3 and, for the
                source `git`, to the internet.
            source: where the chart comes from.
            log_key: key of the build's and the handler's logs.
            log_retention_days: days that these logs are kept, a value that CloudWatch Logs accepts.
            removal_policy: whether these logs outlive the stack.

        Raises:
            UnknownCatalogEntryError: no health-monitoring agent is published for the stack's region.
            ValueError: the stack has no region, or `source: s3` without the archive's address or digest.
        """
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        environment = build_environment(
            region_name=_region(stack), cluster_name=cluster.cluster_name, source=source
        )
        runner = BuildRunner(
            self,
            "Runner",
            log_key=log_key,
            log_retention_days=log_retention_days,
            removal_policy=removal_policy,
        )
        place = BuildNetwork(
            self,
            "Network",
            vpc_id=network.vpc.vpc_id,
            subnet_ids=[subnet.subnet_id for subnet in network.system_subnets],
            description="Build that installs the HyperPod dependencies chart",
        )
        project = BuildProject(
            self,
            "Build",
            description="Installs the HyperPod dependencies chart",
            source=assets.Asset(self, "Scripts", path=str(_HERE / "scripts")),
            build_logs=runner.build_logs,
            timeout_minutes=_BUILD_TIMEOUT_MINUTES,
            machine=CHART_MACHINE,
            network=place,
        )
        for statement in [
            iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[cluster.cluster_arn]),
            *_archive_statements(stack, source),
        ]:
            project.role.add_to_policy(statement)
        run = BuildRun(
            self,
            "Run",
            runner=runner,
            project=project,
            resource_type="Custom::HyperPodDependencies",
            physical_id=f"{cluster.cluster_name}/hyperpod-dependencies",
            environment={**environment, "DPD_ACTION": "install"},
            on_delete={"DPD_ACTION": "uninstall"},
        )
        self.resource = run.resource
        self.resource.node.add_dependency(
            _cluster_admin(self, cluster, project.role), _way_to_cluster(self, cluster, place)
        )


def _way_to_cluster(
    scope: Construct, cluster: eks.ICluster | eks.Cluster, place: BuildNetwork
) -> ec2.CfnSecurityGroupIngress:
    return ec2.CfnSecurityGroupIngress(
        scope,
        "BuildToCluster",
        group_id=cluster.cluster_security_group_id,
        source_security_group_id=place.group.attr_group_id,
        ip_protocol="tcp",
        from_port=_HTTPS,
        to_port=_HTTPS,
        description="HyperPod dependencies build to the API server",
    )


def _archive_statements(stack: cdk.Stack, source: spec.DependenciesChart | None) -> list[iam.PolicyStatement]:
    if source is None or source.s3_uri is None:
        return []
    archive = source.s3_uri.removeprefix("s3://")
    return [
        iam.PolicyStatement(actions=["s3:GetObject"], resources=[f"arn:{stack.partition}:s3:::{archive}"])
    ]


def _cluster_admin(
    scope: Construct, cluster: eks.ICluster | eks.Cluster, role: iam.Role
) -> eks.CfnAccessEntry:
    # Kubernetes lets nobody grant what he does not hold, and the chart brings ClusterRoles
    return eks.CfnAccessEntry(
        scope,
        "Access",
        cluster_name=cluster.cluster_name,
        principal_arn=role.role_arn,
        access_policies=[
            eks.CfnAccessEntry.AccessPolicyProperty(
                policy_arn=f"arn:{cdk.Stack.of(scope).partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                access_scope=eks.CfnAccessEntry.AccessScopeProperty(type="cluster"),
            )
        ],
    )


def _region(stack: cdk.Stack) -> str:
    if cdk.Token.is_unresolved(stack.region):
        raise ValueError(
            f"stack `{stack.stack_name}` has no region: the health-monitoring agent's registry depends on it. "
            "help: give the stack `env=cdk.Environment(region=...)`"
        )
    return stack.region
