"""The VPC's default security group, closed."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from aws_cdk import custom_resources as cr
from constructs import Construct


class ClosedDefaultSecurityGroup(Construct):
    """Takes away the two rules that every default security group is born with.

    CloudFormation cannot change a group that it did not create, hence two API calls. `ec2.Vpc` can do the same, but
    asks AWS for zone names at synthesis as soon as the account is given.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, vpc: ec2.CfnVPC, log_group: logs.ILogGroup
    ) -> None:
        """Close the default group of `vpc`; the calls are logged in `log_group`."""
        super().__init__(scope, construct_id)
        group_id = vpc.attr_default_security_group
        itself = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]}
        anywhere = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
        arn = cdk.Stack.of(self).format_arn(service="ec2", resource="security-group", resource_name=group_id)
        for direction, rule in (("Ingress", itself), ("Egress", anywhere)):
            cr.AwsCustomResource(
                self,
                direction,
                # also the call at creation; a VPC that is replaced brings a new group, open again
                on_update=cr.AwsSdkCall(
                    service="ec2",
                    action=f"revokeSecurityGroup{direction}",
                    parameters={"GroupId": group_id, "IpPermissions": [rule]},
                    physical_resource_id=cr.PhysicalResourceId.of(group_id),
                    # somebody, or an organisation's policy, was faster
                    ignore_error_codes_matching="InvalidPermission.NotFound",
                ),
                policy=cr.AwsCustomResourcePolicy.from_sdk_calls(resources=[arn]),
                log_group=log_group,
                install_latest_aws_sdk=False,
            )
