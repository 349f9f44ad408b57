"""The construct: a build project, its access to the cluster, and the resource that runs it."""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from hyperpod_dpd import spec
from hyperpod_dpd.cluster.dependencies_chart.environment import build_environment
from hyperpod_dpd.network import ClusterNetwork
from hyperpod_dpd.security.logs import log_group

_HERE = Path(__file__).parent
_BUILD_IMAGE = "aws/codebuild/amazonlinux-x86_64-standard:5.0"
_BUILD_TIMEOUT_MINUTES = 30
# longer than the build plus its queue, so that a build that hangs is reported by its own text
_SERVICE_TIMEOUT_MINUTES = 50
_HTTPS = 443


class HyperPodDependencies(Construct):
    """Installs what HyperPod expects on an EKS cluster before the HyperPod cluster is created.

    A CodeBuild project inside the VPC runs `helm upgrade --install` from a pinned commit (or an archive in S3) and
    checks every download against the catalog. CloudFormation waits for the build and shows its failure text. Deleting
    the resource uninstalls the chart; a cluster that is gone counts as uninstalled.

    Attributes:
        resource: the custom resource; whatever needs the chart depends on it.
    """

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

        def logs_of(name: str) -> logs.LogGroup:
            return log_group(
                self, name, key=log_key, retention_days=log_retention_days, removal_policy=removal_policy
            )

        scripts = assets.Asset(self, "Scripts", path=str(_HERE / "scripts"))
        place = _BuildNetwork(
            self,
            vpc_id=network.vpc.vpc_id,
            subnet_ids=[subnet.subnet_id for subnet in network.system_subnets],
            cluster_security_group_id=cluster.cluster_security_group_id,
        )
        build_logs = logs_of("BuildLogs")
        role = iam.Role(self, "BuildRole", assumed_by=iam.ServicePrincipal("codebuild.amazonaws.com"))
        for statement in [
            *_build_statements(stack, cluster, build_logs, scripts, place),
            *_archive_statements(stack, source),
        ]:
            role.add_to_policy(statement)
        access = _cluster_admin(self, cluster, role)
        project = _project(self, role, build_logs, scripts, place)
        function = _handler(self, project, build_logs, logs_of("HandlerLogs"))
        self.resource = self._run(project, function, scripts, environment)
        self.resource.node.add_dependency(access, place.rule)

    def _run(
        self,
        project: codebuild.CfnProject,
        function: lambda_.Function,
        scripts: assets.Asset,
        environment: dict[str, str],
    ) -> cdk.CustomResource:
        ended = events.Rule(
            self,
            "BuildEnded",
            description="A build of the HyperPod dependencies chart has ended",
            event_pattern=events.EventPattern(
                source=["aws.codebuild"],
                detail_type=["CodeBuild Build State Change"],
                detail={
                    "project-name": [project.ref],
                    "build-status": ["SUCCEEDED", "FAILED", "FAULT", "STOPPED", "TIMED_OUT"],
                },
            ),
            targets=[targets.LambdaFunction(function)],
        )
        resource = cdk.CustomResource(
            self,
            "Resource",
            resource_type="Custom::HyperPodDependencies",
            service_token=function.function_arn,
            service_timeout=cdk.Duration.minutes(_SERVICE_TIMEOUT_MINUTES),
            # the whole input, so that a roll-back runs the script and the pins of before
            properties={"Source": _location(scripts), "Environment": environment},
        )
        # without the rule nobody would answer
        resource.node.add_dependency(ended, function)
        return resource


class _BuildNetwork:
    """Security group of the build and its way to the cluster's private endpoint."""

    def __init__(
        self, scope: Construct, *, vpc_id: str, subnet_ids: list[str], cluster_security_group_id: str
    ) -> None:
        self.vpc_id = vpc_id
        self.subnet_ids = subnet_ids
        self.group = ec2.CfnSecurityGroup(
            scope,
            "BuildGroup",
            group_description="Build that installs the HyperPod dependencies chart",
            vpc_id=vpc_id,
            # S3, GitHub and AWS endpoints have no fixed addresses; a closed VPC has no route beyond its endpoints
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol="tcp",
                    from_port=_HTTPS,
                    to_port=_HTTPS,
                    cidr_ip="0.0.0.0/0",
                    description="HTTPS to the cluster, AWS and the chart's sources",
                )
            ],
        )
        self.rule = ec2.CfnSecurityGroupIngress(
            scope,
            "BuildToCluster",
            group_id=cluster_security_group_id,
            source_security_group_id=self.group.attr_group_id,
            ip_protocol="tcp",
            from_port=_HTTPS,
            to_port=_HTTPS,
            description="HyperPod dependencies build to the API server",
        )


def _build_statements(
    stack: cdk.Stack,
    cluster: eks.ICluster | eks.Cluster,
    build_logs: logs.LogGroup,
    scripts: assets.Asset,
    place: _BuildNetwork,
) -> list[iam.PolicyStatement]:
    interfaces = stack.format_arn(service="ec2", resource="network-interface", resource_name="*")
    subnets = [
        stack.format_arn(service="ec2", resource="subnet", resource_name=subnet)
        for subnet in place.subnet_ids
    ]
    group = stack.format_arn(
        service="ec2", resource="security-group", resource_name=place.group.attr_group_id
    )
    return [
        iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[build_logs.log_group_arn]
        ),
        iam.PolicyStatement(
            actions=["s3:GetObject", "s3:GetObjectVersion"],
            resources=[scripts.bucket.arn_for_objects(scripts.s3_object_key)],
        ),
        iam.PolicyStatement(
            actions=["s3:GetBucketLocation", "s3:GetBucketAcl", "s3:ListBucket"],
            resources=[scripts.bucket.bucket_arn],
        ),
        iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[cluster.cluster_arn]),
        # what CodeBuild does in a VPC; EC2 scopes none of the Describe calls
        iam.PolicyStatement(
            actions=[
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            resources=["*"],
        ),
        iam.PolicyStatement(actions=["ec2:CreateNetworkInterface"], resources=[interfaces, group, *subnets]),
        iam.PolicyStatement(actions=["ec2:DeleteNetworkInterface"], resources=[interfaces]),
        iam.PolicyStatement(
            actions=["ec2:CreateNetworkInterfacePermission"],
            resources=[interfaces],
            conditions={
                "StringEquals": {"ec2:AuthorizedService": "codebuild.amazonaws.com"},
                "ArnEquals": {"ec2:Subnet": subnets},
            },
        ),
    ]


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


def _project(
    scope: Construct,
    role: iam.Role,
    build_logs: logs.LogGroup,
    scripts: assets.Asset,
    place: _BuildNetwork,
) -> codebuild.CfnProject:
    project = codebuild.CfnProject(
        scope,
        "Project",
        description="Installs the HyperPod dependencies chart",
        service_role=role.role_arn,
        source=codebuild.CfnProject.SourceProperty(type="S3", location=_location(scripts)),
        artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
        environment=codebuild.CfnProject.EnvironmentProperty(
            type="LINUX_CONTAINER", image=_BUILD_IMAGE, compute_type="BUILD_GENERAL1_SMALL"
        ),
        logs_config=codebuild.CfnProject.LogsConfigProperty(
            cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                status="ENABLED", group_name=build_logs.log_group_name
            )
        ),
        vpc_config=codebuild.CfnProject.VpcConfigProperty(
            vpc_id=place.vpc_id,
            subnets=place.subnet_ids,
            security_group_ids=[place.group.attr_group_id],
        ),
        timeout_in_minutes=_BUILD_TIMEOUT_MINUTES,
        queued_timeout_in_minutes=10,
        concurrent_build_limit=1,
    )
    # CodeBuild validates the VPC with the role's own rights when the project is created
    project.node.add_dependency(role)
    return project


def _handler(
    scope: Construct,
    project: codebuild.CfnProject,
    build_logs: logs.LogGroup,
    handler_logs: logs.LogGroup,
) -> lambda_.Function:
    role = iam.Role(scope, "HandlerRole", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[handler_logs.log_group_arn]
        )
    )
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["codebuild:StartBuild", "codebuild:BatchGetBuilds"], resources=[project.attr_arn]
        )
    )
    role.add_to_policy(
        iam.PolicyStatement(actions=["logs:GetLogEvents"], resources=[build_logs.log_group_arn])
    )
    function = lambda_.Function(
        scope,
        "Handler",
        description="Starts the HyperPod dependencies build and answers CloudFormation when it has ended",
        runtime=lambda_.Runtime.PYTHON_3_14,
        handler="index.handler",
        # bytecode differs from machine to machine, and the asset's hash with it
        code=lambda_.Code.from_asset(str(_HERE / "handler"), exclude=["__pycache__", "*.pyc"]),
        role=role,
        log_group=handler_logs,
        environment={"PROJECT_NAME": project.ref},
        timeout=cdk.Duration.minutes(2),
        memory_size=256,
    )
    # the first request must not meet a role without its policy
    function.node.add_dependency(role)
    return function


def _region(stack: cdk.Stack) -> str:
    if cdk.Token.is_unresolved(stack.region):
        raise ValueError(
            f"stack `{stack.stack_name}` has no region: the health-monitoring agent's registry depends on it. "
            "help: give the stack `env=cdk.Environment(region=...)`"
        )
    return stack.region


def _location(scripts: assets.Asset) -> str:
    return f"{scripts.s3_bucket_name}/{scripts.s3_object_key}"
