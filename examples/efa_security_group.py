"""Only the EFA security group, in a VPC of your own.

A security group of CDK's has no egress to itself once all outbound traffic is allowed, and without that rule EFA's
health check fails. `EfaSecurityGroup` has both directions as resources that a cluster can wait for.
"""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from hyperpod_dpd import EfaSecurityGroup


class MyNetwork(cdk.Stack):
    """A VPC as you make it today, with the group added."""

    def __init__(self, scope: cdk.App, construct_id: str) -> None:
        """Create both, and let a bastion reach SSH of the members."""
        super().__init__(scope, construct_id)
        vpc = ec2.Vpc(self, "Vpc", max_azs=2)
        efa = EfaSecurityGroup(self, "Efa", vpc=vpc)
        bastion = ec2.SecurityGroup(self, "Bastion", vpc=vpc, description="jump host")
        bastion.connections.allow_to(efa, ec2.Port.SSH, "from the jump host")
        cdk.CfnOutput(self, "EfaSecurityGroupId", value=efa.security_group.security_group_id)


if __name__ == "__main__":
    app = cdk.App()
    MyNetwork(app, "my-network")
    app.synth()
