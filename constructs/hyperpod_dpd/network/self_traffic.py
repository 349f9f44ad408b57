"""Whether the members of a security group may reach each other: EFA's health check asks for both directions."""

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from constructs import Construct, IConstruct, IValidation

UNSEEN = "hyperpod-dpd:efa-rules-unseen"
"""Id of the warning about a group whose rules are not part of the application."""


def require_self_traffic(scope: Construct, group: ec2.ISecurityGroup) -> None:
    """Let the synthesis of `scope` fail unless `group` has ingress and egress of every protocol to itself.

    The rules of an imported group cannot be seen: that is a warning with a stable id, never silence.
    """
    if isinstance(group, ec2.SecurityGroup):
        scope.node.add_validation(_SelfTraffic(scope, group))
        return
    cdk.Annotations.of(scope).add_warning_v2(
        UNSEEN,
        f"the rules of the imported security group `{group.node.path}` cannot be seen. help: give it ingress and egress "
        "of every protocol to itself, or use `EfaSecurityGroup`",
    )


@jsii.implements(IValidation)
class _SelfTraffic:
    """Looks for the two rules among everything in the application."""

    def __init__(self, scope: IConstruct, group: ec2.SecurityGroup) -> None:
        self._scope = scope
        self._group = group

    def validate(self) -> list[str]:
        """Return one message for each missing direction."""
        group = self._group.security_group_id
        everything = self._scope.node.root.node.find_all()
        present = {
            "egress": any(
                isinstance(rule, ec2.CfnSecurityGroupEgress)
                and (rule.group_id, rule.destination_security_group_id, rule.ip_protocol)
                == (group, group, "-1")
                for rule in everything
            ),
            "ingress": any(
                isinstance(rule, ec2.CfnSecurityGroupIngress)
                and (rule.group_id, rule.source_security_group_id, rule.ip_protocol) == (group, group, "-1")
                for rule in everything
            ),
        }
        return [
            f"DPD-NET-001 EFA does not work in this security group: given `{self._group.node.path}` without {direction} "
            "of every protocol to itself. help: use `EfaSecurityGroup`, or add the rule as a resource of its own"
            for direction, there in present.items()
            if not there
        ]
