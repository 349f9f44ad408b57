"""The security group of GPU nodes: EFA's health check asks for rules that CDK leaves out by default."""

from collections.abc import Sequence
from ipaddress import IPv4Network

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from hyperpod_dpd.spec.arguments import checked

_ALL = "-1"
LUSTRE_PORTS = ((988, 988), (1018, 1023))
"""FSx for Lustre: network driver and its callbacks."""


@jsii.implements(ec2.IConnectable)
class EfaSecurityGroup(Construct):
    """A security group whose members may exchange any traffic with each other, in both directions.

    The EFA health check of HyperPod needs the egress rule to the group itself; an open egress to 0.0.0.0/0 does not
    replace it (SageMaker DG sagemaker-hyperpod-prerequisites). Each rule is a resource of its own: `SecurityGroup`
    drops a self-referencing egress without a word once `allow_all_outbound` is on, and a resource can be waited for.

    Attributes:
        security_group: the group.
        rules: its rules, to depend on: the id of a group says nothing about whether its rules exist yet.
    """

    security_group: ec2.SecurityGroup
    rules: Sequence[cdk.CfnResource]

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        https_from_cidrs: Sequence[str] = (),
    ) -> None:
        """Create the group in `vpc`.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            vpc: the VPC.
            https_from_cidrs: address ranges that may reach port 443 of the members: needed when interface endpoints
                share this group, or when kubectl reaches a private API endpoint from elsewhere in the VPC.

        Raises:
            ValueError: one of `https_from_cidrs` is no range of IPv4 addresses.
        """
        super().__init__(scope, construct_id)
        self.security_group = ec2.SecurityGroup(
            self,
            "Group",
            vpc=vpc,
            description="EFA between GPU nodes, and the EKS control plane",
            allow_all_outbound=False,
        )
        rules = [
            self._ingress("FromItself", "every protocol from members: EFA", itself=True),
            self._egress("ToItself", "every protocol to members: EFA", itself=True),
            self._egress("ToAnywhere", "images, weights and AWS APIs"),
        ]
        for first, last in LUSTRE_PORTS:
            rules.append(self._ingress(f"Lustre{first}", "FSx for Lustre", itself=True, tcp=(first, last)))
        for index, cidr in enumerate(https_from_cidrs):
            _refuse_unless_range(cidr)
            # an id cannot hold what only CloudFormation knows, such as the range of an `ec2.Vpc`
            told = index if cdk.Token.is_unresolved(cidr) else cidr
            rules.append(self._ingress(f"HttpsFrom{told}", "HTTPS", cidr=cidr, tcp=(443, 443)))
        self.rules = tuple(rules)

    @property
    def connections(self) -> ec2.Connections:
        """Connections of the group, for rules of your own."""
        return self.security_group.connections

    def _ingress(
        self,
        construct_id: str,
        description: str,
        *,
        itself: bool = False,
        cidr: str | None = None,
        tcp: tuple[int, int] | None = None,
    ) -> cdk.CfnResource:
        return ec2.CfnSecurityGroupIngress(
            self,
            construct_id,
            group_id=self.security_group.security_group_id,
            source_security_group_id=self.security_group.security_group_id if itself else None,
            cidr_ip=cidr,
            ip_protocol="tcp" if tcp else _ALL,
            from_port=tcp[0] if tcp else None,
            to_port=tcp[1] if tcp else None,
            description=description,
        )

    def _egress(self, construct_id: str, description: str, *, itself: bool = False) -> cdk.CfnResource:
        # `add_egress_rule(Peer.any_ipv4(), Port.all_traffic())` throws once `allow_all_outbound` is off
        return ec2.CfnSecurityGroupEgress(
            self,
            construct_id,
            group_id=self.security_group.security_group_id,
            destination_security_group_id=self.security_group.security_group_id if itself else None,
            cidr_ip=None if itself else "0.0.0.0/0",
            ip_protocol=_ALL,
            description=description,
        )


def _refuse_unless_range(cidr: str) -> None:
    if cdk.Token.is_unresolved(cidr):
        return
    try:
        # bits of a host are EC2's to cut; CDK's stand-in for a VPC that was not looked up yet has some
        IPv4Network(cidr, strict=False)
    except ValueError as error:
        raise ValueError(
            f"no range of IPv4 addresses: given `{cidr}`, {error}. help: give one such as `10.0.0.0/16`"
        ) from None
    if "/" not in cidr:
        raise ValueError(
            f"no range of IPv4 addresses: given `{cidr}` without a length. help: give `{cidr}/32` for one address"
        )
