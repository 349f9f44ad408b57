"""The resources of the default deployment, written down with bare L1 and L2 constructs.

The floor of `make synth`: same imports, stacks and assets, no specification, no rules, no constructs of the library.
`bench_synth.py` refuses to compare once the resources differ from the product's.

usage: python tools/synth_bare.py OUTDIR
"""

import json
import sys
from pathlib import Path
from typing import cast

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
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_s3_deployment as s3_deployment
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_ssm as ssm
from aws_cdk import custom_resources as cr
from constructs import Construct

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "constructs" / "hyperpod_dpd"
NAME = "llama-3-3-70b-p5"
REGION = "us-east-1"
ZONES = ("use1-az6", "use1-az4")
KEEP = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE


def _logs_key(scope: Construct) -> kms.Key:
    key = kms.Key(scope, "LogsKey", enable_key_rotation=True, removal_policy=KEEP)
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(f"logs.{REGION}.amazonaws.com")],
            actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
            resources=["*"],
            conditions={
                "ArnLike": {"kms:EncryptionContext:aws:logs:arn": f"arn:aws:logs:{REGION}:*:log-group:*"}
            },
        )
    )
    return key


def _log_group(scope: Construct, name: str, key: kms.Key) -> logs.LogGroup:
    return logs.LogGroup(
        scope, name, encryption_key=key, retention=logs.RetentionDays.THREE_MONTHS, removal_policy=KEEP
    )


def _parameters(scope: Construct, **values: str) -> None:
    for name, value in values.items():
        ssm.StringParameter(
            scope, f"Parameter-{name}", parameter_name=f"/dpd/{NAME}/{name}", string_value=value
        )


def _rule(
    scope: Construct, name: str, group: str, source: str, ports: tuple[int, int] | None = None
) -> ec2.CfnSecurityGroupIngress:
    return ec2.CfnSecurityGroupIngress(
        scope,
        name,
        group_id=group,
        source_security_group_id=source,
        ip_protocol="tcp" if ports else "-1",
        from_port=ports[0] if ports else None,
        to_port=ports[1] if ports else None,
        description=name,
    )


class Network(cdk.Stack):
    """VPC, seven subnets, NAT gateway, EFA security group, flow log, closed default group."""

    def __init__(self, scope: cdk.App) -> None:
        super().__init__(scope, f"{NAME}-network", env=cdk.Environment(region=REGION), description="network")
        self._cfn = ec2.CfnVPC(
            self, "Vpc", cidr_block="10.192.0.0/16", enable_dns_hostnames=True, enable_dns_support=True
        )
        private, control, public = (
            ec2.CfnRouteTable(self, f"{name}Routes", vpc_id=self._cfn.ref)
            for name in ("Private", "ControlPlane", "Public")
        )
        self.control = [
            self._subnet(f"Control-{zone}", zone, f"10.192.1.{16 * index}/28", control)
            for index, zone in enumerate(ZONES)
        ]
        self.system = [
            self._subnet(f"System-{zone}", zone, f"10.192.{16 * (index + 1)}.0/20", private)
            for index, zone in enumerate(ZONES)
        ]
        secondary = ec2.CfnVPCCidrBlock(self, "GpuCidr", vpc_id=self._cfn.ref, cidr_block="10.1.0.0/16")
        self.gpu = self._subnet("Gpu", ZONES[0], "10.1.0.0/16", private)
        self.gpu.node.add_dependency(secondary)
        gateway = ec2.CfnInternetGateway(self, "Gateway")
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "Attachment", vpc_id=self._cfn.ref, internet_gateway_id=gateway.ref
        )
        route = ec2.CfnRoute(
            self,
            "PublicRoute",
            route_table_id=public.ref,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.ref,
        )
        route.add_resource_dependency(attachment)
        publics = [
            self._subnet(f"Public-{zone}", zone, f"10.192.0.{64 * index}/26", public)
            for index, zone in enumerate(ZONES)
        ]
        address = ec2.CfnEIP(self, "Address", domain="vpc")
        nat = ec2.CfnNatGateway(
            self, "Nat", subnet_id=publics[0].subnet_id, allocation_id=address.attr_allocation_id
        )
        ec2.CfnRoute(
            self,
            "PrivateRoute",
            route_table_id=private.ref,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=nat.ref,
        )
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Interface",
            vpc_id=self._cfn.ref,
            vpc_cidr_block="10.192.0.0/16",
            availability_zones=[subnet.availability_zone for subnet in self.system],
            private_subnet_ids=[subnet.subnet_id for subnet in self.system],
            private_subnet_route_table_ids=[private.ref] * len(ZONES),
            public_subnet_ids=[subnet.subnet_id for subnet in publics],
            public_subnet_route_table_ids=[public.ref] * len(ZONES),
        )
        self._security_group()
        ec2.CfnVPCEndpoint(
            self,
            "S3",
            vpc_id=self._cfn.ref,
            vpc_endpoint_type="Gateway",
            service_name=f"com.amazonaws.{REGION}.s3",
            route_table_ids=[private.ref],
        )
        self._logged()
        _parameters(
            self,
            vpc=self._cfn.ref,
            gpu=self.gpu.subnet_id,
            system=",".join(subnet.subnet_id for subnet in self.system),
            efa=self.efa.security_group_id,
        )

    def _subnet(self, name: str, zone: str, cidr: str, routes: ec2.CfnRouteTable) -> ec2.ISubnet:
        subnet = ec2.CfnSubnet(
            self,
            name,
            vpc_id=self._cfn.ref,
            availability_zone_id=zone,
            cidr_block=cidr,
            map_public_ip_on_launch=False,
            tags=[cdk.CfnTag(key="Name", value=name)],
        )
        ec2.CfnSubnetRouteTableAssociation(
            self, f"{name}-Routes", subnet_id=subnet.ref, route_table_id=routes.ref
        )
        return ec2.Subnet.from_subnet_attributes(
            self,
            f"{name}-Interface",
            subnet_id=subnet.ref,
            availability_zone=subnet.attr_availability_zone,
            ipv4_cidr_block=cidr,
            route_table_id=routes.ref,
        )

    def _security_group(self) -> None:
        self.efa = ec2.SecurityGroup(self, "Efa", vpc=self.vpc, description="EFA", allow_all_outbound=False)
        group = self.efa.security_group_id
        self.rules: list[cdk.CfnResource] = [
            _rule(self, "FromItself", group, group),
            _rule(self, "Lustre988", group, group, (988, 988)),
            _rule(self, "Lustre1018", group, group, (1018, 1023)),
            ec2.CfnSecurityGroupEgress(
                self, "ToItself", group_id=group, destination_security_group_id=group, ip_protocol="-1"
            ),
            ec2.CfnSecurityGroupEgress(
                self, "ToAnywhere", group_id=group, cidr_ip="0.0.0.0/0", ip_protocol="-1"
            ),
        ]

    def _logged(self) -> None:
        key = _logs_key(self)
        ec2.FlowLog(
            self,
            "FlowLog",
            resource_type=ec2.FlowLogResourceType.from_vpc(self.vpc),
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(_log_group(self, "FlowLogGroup", key)),
        )
        group = self._cfn.attr_default_security_group
        arn = self.format_arn(service="ec2", resource="security-group", resource_name=group)
        default_logs = _log_group(self, "DefaultGroupLogs", key)
        for direction in ("Ingress", "Egress"):
            cr.AwsCustomResource(
                self,
                f"Default{direction}",
                on_create=cr.AwsSdkCall(
                    service="ec2",
                    action=f"revokeSecurityGroup{direction}",
                    parameters={"GroupId": group, "IpPermissions": [{"IpProtocol": "-1"}]},
                    physical_resource_id=cr.PhysicalResourceId.of(direction),
                    ignore_error_codes_matching="InvalidPermission.NotFound",
                ),
                policy=cr.AwsCustomResourcePolicy.from_sdk_calls(resources=[arn]),
                log_group=default_logs,
                install_latest_aws_sdk=False,
            )


class Cluster(cdk.Stack):
    """EKS with add-ons and system nodes."""

    def __init__(self, scope: cdk.App, network: Network) -> None:
        super().__init__(scope, f"{NAME}-cluster", env=cdk.Environment(region=REGION), description="cluster")
        _log_group(self, "ControlPlaneLogs", _logs_key(self))
        self.cluster = eks.Cluster(
            self,
            "Eks",
            cluster_name=NAME,
            version=eks.KubernetesVersion.V1_35,
            vpc=network.vpc,
            vpc_subnets=[ec2.SubnetSelection(subnets=list(network.control))],
            security_group=network.efa,
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            bootstrap_cluster_creator_admin_permissions=False,
            cluster_logging=list(eks.ClusterLoggingTypes),
            secrets_encryption_key=kms.Key(self, "SecretsKey", enable_key_rotation=True, removal_policy=KEEP),
            removal_policy=KEEP,
        )
        cdk.Annotations.of(self.cluster).acknowledge_warning(
            "@aws-cdk/aws-eks:clusterMustManuallyTagSubnet", "tagged"
        )
        oidc = eks.OidcProviderNative(self, "Oidc", url=self.cluster.cluster_open_id_connect_issuer_url)
        nodes = self._nodes(network)
        for name in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent", "coredns"):
            addon = eks.CfnAddon(
                self,
                name,
                addon_name=name,
                cluster_name=self.cluster.cluster_name,
                resolve_conflicts="OVERWRITE",
                configuration_values=json.dumps({}),
            )
            if name == "coredns":
                addon.node.add_dependency(nodes)
        system, gpu = self.cluster.cluster_security_group_id, network.efa.security_group_id
        _rule(self, "SystemToGpu", gpu, system)
        _rule(self, "GpuToSystem", system, gpu)
        _parameters(
            self,
            name=self.cluster.cluster_name,
            arn=self.cluster.cluster_arn,
            group=system,
            oidc=oidc.oidc_provider_arn,
        )

    def _nodes(self, network: Network) -> eks.Nodegroup:
        role = iam.Role(
            self,
            "NodeRole",
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name(policy)
                for policy in (
                    "AmazonEKSWorkerNodePolicy",
                    "AmazonEKS_CNI_Policy",
                    "AmazonEC2ContainerRegistryPullOnly",
                    "AmazonSSMManagedInstanceCore",
                )
            ],
        )
        template = ec2.LaunchTemplate(
            self,
            "Template",
            http_endpoint=True,
            require_imdsv2=True,
            http_put_response_hop_limit=1,
            block_devices=[
                ec2.BlockDevice(
                    device_name="/dev/xvda", volume=ec2.BlockDeviceVolume.ebs(100, encrypted=True)
                )
            ],
        )
        return eks.Nodegroup(
            self,
            "Nodes",
            cluster=cast("eks.ICluster", self.cluster),
            node_role=role,
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
            instance_types=[ec2.InstanceType("m6i.xlarge")],
            launch_template_spec=eks.LaunchTemplateSpec(
                id=cast("str", template.launch_template_id), version=template.latest_version_number
            ),
            min_size=2,
            desired_size=2,
            max_size=4,
            labels={"nodes": "system"},
            subnets=ec2.SubnetSelection(subnets=list(network.system)),
        )


class HyperPod(cdk.Stack):
    """Dependencies build, lifecycle bucket, role, cluster."""

    def __init__(self, scope: cdk.App, network: Network, cluster: eks.Cluster) -> None:
        super().__init__(
            scope, f"{NAME}-hyperpod", env=cdk.Environment(region=REGION), description="hyperpod"
        )
        self._key = _logs_key(self)
        scripts, upload = self._scripts()
        chart = self._chart(network, cluster)
        role = self._role(network, cluster, scripts)
        subnet, group = network.gpu.subnet_id, network.efa.security_group_id
        vpc = sagemaker.CfnCluster.VpcConfigProperty(security_group_ids=[group], subnets=[subnet])
        resource = sagemaker.CfnCluster(
            self,
            "Cluster",
            cluster_name=NAME,
            orchestrator=sagemaker.CfnCluster.OrchestratorProperty(
                eks=sagemaker.CfnCluster.ClusterOrchestratorEksConfigProperty(cluster_arn=cluster.cluster_arn)
            ),
            vpc_config=vpc,
            node_recovery="Automatic",
            node_provisioning_mode="Continuous",
            instance_groups=[
                sagemaker.CfnCluster.ClusterInstanceGroupProperty(
                    instance_group_name=name,
                    instance_type="ml.p5.48xlarge",
                    instance_count=1,
                    execution_role=role.role_arn,
                    life_cycle_config=sagemaker.CfnCluster.ClusterLifeCycleConfigProperty(
                        source_s3_uri=f"s3://{scripts.bucket_name}/lifecycle", on_create="on_create.sh"
                    ),
                    threads_per_core=2,
                    override_vpc_config=vpc,
                    instance_storage_configs=[
                        sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty(
                            ebs_volume_config=sagemaker.CfnCluster.ClusterEbsVolumeConfigProperty(
                                volume_size_in_gb=500
                            )
                        )
                    ],
                    on_start_deep_health_checks=["InstanceStress", "InstanceConnectivity"],
                )
                for name in ("prefill", "decode")
            ],
        )
        resource.apply_removal_policy(KEEP)
        resource.node.add_dependency(role.node.find_child("DefaultPolicy"), upload, chart, *network.rules)
        _parameters(self, name=NAME, arn=resource.attr_cluster_arn)

    def _bucket(self, name: str, bucket_name: str | None = None) -> s3.Bucket:
        return s3.Bucket(
            self,
            name,
            bucket_name=bucket_name,
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            versioned=True,
            lifecycle_rules=[s3.LifecycleRule(noncurrent_version_expiration=cdk.Duration.days(90))],
            removal_policy=KEEP,
        )

    def _scripts(self) -> tuple[s3.Bucket, s3_deployment.BucketDeployment]:
        access_logs = self._bucket("AccessLogs")
        bucket = self._bucket("Scripts", f"sagemaker-{NAME}-{self.account}-{REGION}")
        access_logs.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("logging.s3.amazonaws.com")],
                actions=["s3:PutObject"],
                resources=[access_logs.arn_for_objects("scripts/*")],
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            )
        )
        cast(
            s3.CfnBucket, bucket.node.default_child
        ).logging_configuration = s3.CfnBucket.LoggingConfigurationProperty(
            destination_bucket_name=access_logs.bucket_name, log_file_prefix="scripts/"
        )
        upload = s3_deployment.BucketDeployment(
            self,
            "Upload",
            sources=[s3_deployment.Source.asset(str(LIBRARY / "storage" / "lifecycle"))],
            destination_bucket=bucket,
            destination_key_prefix="lifecycle",
            log_group=_log_group(self, "UploadLogs", self._key),
        )
        return bucket, upload

    def _role(self, network: Network, cluster: eks.Cluster, scripts: s3.Bucket) -> iam.Role:
        role = iam.Role(
            self,
            "ExecutionRole",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSageMakerClusterInstanceRolePolicy")
            ],
        )
        ec2_arn = f"arn:aws:ec2:{REGION}:{self.account}"
        for actions, resources in (
            (
                ["ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:AttachNetworkInterface"],
                [
                    f"{ec2_arn}:network-interface/*",
                    f"{ec2_arn}:instance/*",
                    f"{ec2_arn}:subnet/{network.gpu.subnet_id}",
                    f"{ec2_arn}:security-group/{network.efa.security_group_id}",
                ],
            ),
            (["ec2:CreateTags"], [f"{ec2_arn}:network-interface/*"]),
            (["ec2:DescribeInstances", "ec2:DescribeSubnets"], ["*"]),
            (["ecr:GetAuthorizationToken"], ["*"]),
            (["ecr:BatchGetImage"], [f"arn:aws:ecr:{REGION}:*:repository/*"]),
            (["eks-auth:AssumeRoleForPodIdentity"], [cluster.cluster_arn]),
            (["s3:ListBucket"], [scripts.bucket_arn]),
            (["s3:GetObject"], [scripts.arn_for_objects("*")]),
        ):
            role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources))
        return role

    def _chart(self, network: Network, cluster: eks.Cluster) -> cdk.CustomResource:
        asset = assets.Asset(
            self, "ChartScripts", path=str(LIBRARY / "cluster" / "dependencies_chart" / "scripts")
        )
        group = ec2.CfnSecurityGroup(
            self,
            "BuildGroup",
            group_description="build",
            vpc_id=network.vpc.vpc_id,
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol="tcp", from_port=443, to_port=443, cidr_ip="0.0.0.0/0"
                )
            ],
        )
        rule = _rule(
            self, "BuildToCluster", cluster.cluster_security_group_id, group.attr_group_id, (443, 443)
        )
        build_logs = _log_group(self, "BuildLogs", self._key)
        role = iam.Role(self, "BuildRole", assumed_by=iam.ServicePrincipal("codebuild.amazonaws.com"))
        for actions, resources in (
            (["logs:CreateLogStream", "logs:PutLogEvents"], [build_logs.log_group_arn]),
            (["s3:GetObject", "s3:GetObjectVersion"], [asset.bucket.arn_for_objects(asset.s3_object_key)]),
            (["s3:ListBucket"], [asset.bucket.bucket_arn]),
            (["eks:DescribeCluster"], [cluster.cluster_arn]),
            (["ec2:DescribeSubnets", "ec2:DescribeVpcs"], ["*"]),
            (["ec2:CreateNetworkInterface"], [f"arn:aws:ec2:{REGION}:{self.account}:network-interface/*"]),
            (["ec2:DeleteNetworkInterface"], [f"arn:aws:ec2:{REGION}:{self.account}:network-interface/*"]),
            (["ec2:CreateNetworkInterfacePermission"], [f"arn:aws:ec2:{REGION}:{self.account}:*"]),
        ):
            role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources))
        entry = eks.CfnAccessEntry(
            self,
            "Access",
            cluster_name=cluster.cluster_name,
            principal_arn=role.role_arn,
            access_policies=[
                eks.CfnAccessEntry.AccessPolicyProperty(
                    policy_arn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                    access_scope=eks.CfnAccessEntry.AccessScopeProperty(type="cluster"),
                )
            ],
        )
        location = f"{asset.s3_bucket_name}/{asset.s3_object_key}"
        project = codebuild.CfnProject(
            self,
            "Project",
            service_role=role.role_arn,
            source=codebuild.CfnProject.SourceProperty(type="S3", location=location),
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type="LINUX_CONTAINER",
                image="aws/codebuild/amazonlinux-x86_64-standard:5.0",
                compute_type="BUILD_GENERAL1_SMALL",
            ),
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=build_logs.log_group_name
                )
            ),
            vpc_config=codebuild.CfnProject.VpcConfigProperty(
                vpc_id=network.vpc.vpc_id,
                subnets=[subnet.subnet_id for subnet in network.system],
                security_group_ids=[group.attr_group_id],
            ),
        )
        project.node.add_dependency(role)
        function = self._handler(project, build_logs)
        ended = events.Rule(
            self,
            "BuildEnded",
            event_pattern=events.EventPattern(
                source=["aws.codebuild"], detail={"project-name": [project.ref]}
            ),
            targets=[targets.LambdaFunction(function)],
        )
        resource = cdk.CustomResource(
            self,
            "Chart",
            resource_type="Custom::HyperPodDependencies",
            service_token=function.function_arn,
            service_timeout=cdk.Duration.minutes(50),
            properties={"Source": location, "Environment": {"DPD_CLUSTER": cluster.cluster_name}},
        )
        resource.node.add_dependency(ended, function, entry, rule)
        return resource

    def _handler(self, project: codebuild.CfnProject, build_logs: logs.LogGroup) -> lambda_.Function:
        handler_logs = _log_group(self, "HandlerLogs", self._key)
        role = iam.Role(self, "HandlerRole", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        for actions, resources in (
            (["logs:CreateLogStream", "logs:PutLogEvents"], [handler_logs.log_group_arn]),
            (["codebuild:StartBuild", "codebuild:BatchGetBuilds"], [project.attr_arn]),
            (["logs:GetLogEvents"], [build_logs.log_group_arn]),
        ):
            role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources))
        function = lambda_.Function(
            self,
            "Handler",
            runtime=lambda_.Runtime.PYTHON_3_14,
            handler="index.handler",
            code=lambda_.Code.from_asset(
                str(LIBRARY / "builds" / "handler"), exclude=["__pycache__", "*.pyc"]
            ),
            role=role,
            log_group=handler_logs,
            environment={"PROJECT_NAME": project.ref},
            timeout=cdk.Duration.minutes(2),
        )
        function.node.add_dependency(role)
        return function


def main(outdir: str) -> None:
    """Write the three stacks to `outdir`."""
    app = cdk.App(outdir=outdir, context=json.loads((ROOT / "cdk.json").read_text())["context"])
    network = Network(app)
    cluster = Cluster(app, network)
    HyperPod(app, network, cluster.cluster)
    cdk.Tags.of(app).add(
        "deployment", NAME, exclude_resource_types=["aws:cdk:stack", "AWS::SageMaker::Cluster"]
    )
    app.synth()


if __name__ == "__main__":
    main(sys.argv[1])
