"""An FSx for Lustre file system in the GPU zone that shows the model bucket's objects as files."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import annotated_types as at
import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from constructs import Construct, IDependable

from hyperpod_dpd.derive.model_store import makes_file_system
from hyperpod_dpd.network.efa import LUSTRE_PORTS
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.spec import Deployment, FsxSource
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import NonEmptyStr
from hyperpod_dpd.storage.model_store import ModelStore

_THROUGHPUT_MB_PER_SECOND_AND_TIB = 1000
"""The fastest of 125, 250, 500 and 1000 (FSx API, PERSISTENT_2 on SSD): the smallest file system then reads 140 GB in
two minutes instead of sixteen, in which the GPUs would wait at their full price."""


class ModelFileSystem(Construct):
    """File system, its link to the model bucket, and the way there from the nodes.

    Attributes:
        file_system: the file system.
        association: its link to the bucket.
        security_group: security group of the file system's network interfaces.
        bindings: what the rendered volume needs of it.
    """

    file_system: fsx.CfnFileSystem
    association: fsx.CfnDataRepositoryAssociation
    security_group: ec2.CfnSecurityGroup
    bindings: Mapping[Binding, str]

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        store: ModelStore,
        vpc_id: NonEmptyStr,
        subnet_id: NonEmptyStr,
        client_security_group_ids: Annotated[Sequence[NonEmptyStr], at.MinLen(1)],
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        after: IDependable | None = None,
    ) -> None:
        """Create it.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: whose source of weights it is.
            store: bucket that it shows.
            vpc_id: VPC of the nodes.
            subnet_id: subnet of the GPU nodes: another zone would cost money and time at every load.
            client_security_group_ids: security groups of the nodes that mount it.
            removal_policy: whether it outlives the stack.
            after: what has to be in the bucket before the link is made, which then lists everything at once.

        Raises:
            ValueError: the deployment's file system is there already, or its source is none.
        """
        super().__init__(scope, construct_id)
        source = deployment.model.source
        if not isinstance(source, FsxSource) or not makes_file_system(deployment):
            raise ValueError(
                f"deployment `{deployment.name}` makes no file system: given `model.source.type: {source.type}`. "
                "help: leave it out, or set `source: {type: fsx}` without `file_system_id`"
            )
        self.security_group, rules = _security_group(self, vpc_id, client_security_group_ids)
        key = kms.Key(
            self,
            "Key",
            description=f"File system with the weights of {deployment.name}",
            enable_key_rotation=True,
            removal_policy=removal_policy,
        )
        self.file_system = fsx.CfnFileSystem(
            self,
            "FileSystem",
            kms_key_id=key.key_arn,
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            storage_capacity=source.storage_gib,
            storage_type="SSD",
            subnet_ids=[subnet_id],
            security_group_ids=[self.security_group.attr_group_id],
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type="PERSISTENT_2",
                per_unit_storage_throughput=_THROUGHPUT_MB_PER_SECOND_AND_TIB,
                # weights do not compress
                data_compression_type="NONE",
                # FSx takes no backups of a linked file system; the bucket is the original
                automatic_backup_retention_days=0,
            ),
        )
        self.file_system.apply_removal_policy(removal_policy)
        self.file_system.node.add_dependency(*rules)
        self.association = fsx.CfnDataRepositoryAssociation(
            self,
            "Bucket",
            file_system_id=self.file_system.ref,
            # the rendered paths are the bucket's keys
            file_system_path="/",
            data_repository_path=f"s3://{store.bucket.bucket_name}",
            batch_import_meta_data_on_create=True,
            # one direction: nothing that is written to the file system reaches the bucket
            s3=fsx.CfnDataRepositoryAssociation.S3Property(
                auto_import_policy=fsx.CfnDataRepositoryAssociation.AutoImportPolicyProperty(
                    events=["NEW", "CHANGED", "DELETED"]
                )
            ),
        )
        self.association.apply_removal_policy(removal_policy)
        if after is not None:
            self.association.node.add_dependency(after)
        self.bindings = {
            Binding.FSX_FILE_SYSTEM_ID: self.file_system.ref,
            Binding.FSX_DNS_NAME: self.file_system.attr_dns_name,
            Binding.FSX_MOUNT_NAME: self.file_system.attr_lustre_mount_name,
        }


def _security_group(
    scope: Construct, vpc_id: str, clients: Sequence[str]
) -> tuple[ec2.CfnSecurityGroup, list[cdk.CfnResource]]:
    """Return the group, and the rules without which FSx fails half-way (FSx user guide, limit-access-security-groups)."""
    group = ec2.CfnSecurityGroup(
        scope,
        "Group",
        group_description="FSx for Lustre with the weights of the model",
        vpc_id=vpc_id,
        # without an entry of its own a group may send everything everywhere
        security_group_egress=[
            ec2.CfnSecurityGroup.EgressProperty(
                ip_protocol="icmp",
                from_port=252,
                to_port=86,
                cidr_ip="255.255.255.255/32",
                description="nothing beyond the rules for Lustre",
            )
        ],
    )
    rules: list[cdk.CfnResource] = []
    peers = {"Itself": group.attr_group_id} | {f"Client{index}": peer for index, peer in enumerate(clients)}
    for name, peer in peers.items():
        for ports in LUSTRE_PORTS:
            rules.append(_let_in(scope, f"From{name}{ports[0]}", group.attr_group_id, peer, ports))
            rules.append(
                ec2.CfnSecurityGroupEgress(
                    scope,
                    f"To{name}{ports[0]}",
                    group_id=group.attr_group_id,
                    destination_security_group_id=peer,
                    ip_protocol="tcp",
                    from_port=ports[0],
                    to_port=ports[1],
                    description="Lustre",
                )
            )
            if name != "Itself":
                # the servers call their clients back
                rules.append(_let_in(scope, f"Back{name}{ports[0]}", peer, group.attr_group_id, ports))
    return group, rules


def _let_in(
    scope: Construct, construct_id: str, group: str, source: str, ports: tuple[int, int]
) -> ec2.CfnSecurityGroupIngress:
    return ec2.CfnSecurityGroupIngress(
        scope,
        construct_id,
        group_id=group,
        source_security_group_id=source,
        ip_protocol="tcp",
        from_port=ports[0],
        to_port=ports[1],
        description="Lustre",
    )
