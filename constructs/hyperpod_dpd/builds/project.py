"""A CodeBuild project that runs a folder of scripts with the rights of its own role."""

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from hyperpod_dpd.derive.builds import BuildMachine

_BUILD_IMAGE = "aws/codebuild/amazonlinux-x86_64-standard:5.0"
_HTTPS = 443


class BuildNetwork(Construct):
    """Place of a build inside a VPC, with a security group of its own that lets HTTPS out.

    Attributes:
        group: the security group.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, vpc_id: str, subnet_ids: Sequence[str], description: str
    ) -> None:
        """Create the group in the VPC `vpc_id`, for builds in `subnet_ids`."""
        super().__init__(scope, construct_id)
        self.vpc_id = vpc_id
        self.subnet_ids = list(subnet_ids)
        self.group = ec2.CfnSecurityGroup(
            self,
            "Group",
            group_description=description,
            vpc_id=vpc_id,
            # S3, GitHub and AWS endpoints have no fixed addresses; a closed VPC has no route beyond its endpoints
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol="tcp",
                    from_port=_HTTPS,
                    to_port=_HTTPS,
                    cidr_ip="0.0.0.0/0",
                    description="HTTPS to AWS and the build's sources",
                )
            ],
        )

    def vpc_config(self) -> codebuild.CfnProject.VpcConfigProperty:
        """Return the place as a project takes it."""
        return codebuild.CfnProject.VpcConfigProperty(
            vpc_id=self.vpc_id, subnets=self.subnet_ids, security_group_ids=[self.group.attr_group_id]
        )

    def statements(self) -> list[iam.PolicyStatement]:
        """Return what CodeBuild needs to put a build's network interface there."""
        stack = Stack.of(self)
        interfaces = stack.format_arn(service="ec2", resource="network-interface", resource_name="*")
        subnets = [
            stack.format_arn(service="ec2", resource="subnet", resource_name=subnet)
            for subnet in self.subnet_ids
        ]
        group = stack.format_arn(
            service="ec2", resource="security-group", resource_name=self.group.attr_group_id
        )
        return [
            # EC2 scopes none of the Describe calls
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
            iam.PolicyStatement(
                actions=["ec2:CreateNetworkInterface"], resources=[interfaces, group, *subnets]
            ),
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


class BuildProject(Construct):
    """A project whose source is an asset with a `buildspec.yml`.

    Attributes:
        project: the project.
        role: its role; give it what the scripts need, they get the log and the asset by themselves.
        location: where CodeBuild finds the asset.
        timeout_minutes: how long a build may run.
        queue_minutes: how long it may wait for its turn.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        description: str,
        source: assets.Asset,
        build_logs: logs.LogGroup,
        timeout_minutes: int,
        queue_minutes: int = 10,
        buildspec: str | None = None,
        machine: BuildMachine,
        runs_docker: bool = False,
        network: BuildNetwork | None = None,
    ) -> None:
        """Create project and role.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            description: what its builds do.
            source: folder of scripts.
            build_logs: where builds log.
            timeout_minutes: how long a build may run, at most 2,160 (AWS::CodeBuild::Project).
            queue_minutes: how long it may wait for its turn, at most 480: a new account runs one large build at a time.
            buildspec: path of the build specification inside `source`; `buildspec.yml` when absent.
            machine: size of the build machine.
            runs_docker: whether builds run Docker, which needs a privileged container.
            network: where in a VPC builds run; absent: in CodeBuild's own network, which reaches the internet.
        """
        super().__init__(scope, construct_id)
        self.timeout_minutes = timeout_minutes
        self.queue_minutes = queue_minutes
        self.location = f"{source.s3_bucket_name}/{source.s3_object_key}"
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("codebuild.amazonaws.com"))
        for statement in [
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[build_logs.log_group_arn]
            ),
            iam.PolicyStatement(
                actions=["s3:GetObject", "s3:GetObjectVersion"],
                resources=[source.bucket.arn_for_objects(source.s3_object_key)],
            ),
            iam.PolicyStatement(
                actions=["s3:GetBucketLocation", "s3:GetBucketAcl", "s3:ListBucket"],
                resources=[source.bucket.bucket_arn],
            ),
            *(network.statements() if network else []),
        ]:
            self.role.add_to_policy(statement)
        self.project = codebuild.CfnProject(
            self,
            "Project",
            description=description,
            service_role=self.role.role_arn,
            source=codebuild.CfnProject.SourceProperty(
                type="S3", location=self.location, build_spec=buildspec
            ),
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type="LINUX_CONTAINER",
                image=_BUILD_IMAGE,
                compute_type=machine,
                privileged_mode=runs_docker or None,
            ),
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=build_logs.log_group_name
                )
            ),
            vpc_config=network.vpc_config() if network else None,
            timeout_in_minutes=timeout_minutes,
            queued_timeout_in_minutes=queue_minutes,
            concurrent_build_limit=1,
        )
        # CodeBuild validates the VPC with the role's own rights when the project is created
        self.project.node.add_dependency(self.role)
