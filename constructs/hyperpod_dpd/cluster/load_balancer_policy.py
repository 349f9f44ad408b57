"""What the AWS Load Balancer Controller may do.

AWS has no managed policy for it. The actions are those of the controller's own policy document (kubernetes-sigs/
aws-load-balancer-controller, docs/install/iam_policy.json, 2.13 to 3.5), without what nothing here uses: WAF and Shield
are only looked at, Cognito, address pools and trust stores left out. Whatever it changes carries the tag of this
cluster, where the original asks for the tag of any.
"""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

_TAG = "elbv2.k8s.aws/cluster"
_READ_EC2 = (
    "AccountAttributes",
    "Addresses",
    "AvailabilityZones",
    "Instances",
    "InternetGateways",
    "NetworkInterfaces",
    "RouteTables",
    "SecurityGroups",
    "Subnets",
    "Tags",
    "VpcPeeringConnections",
    "Vpcs",
)
_READ_BALANCERS = (
    "CapacityReservation",
    "ListenerAttributes",
    "ListenerCertificates",
    "Listeners",
    "LoadBalancerAttributes",
    "LoadBalancers",
    "Rules",
    "SSLPolicies",
    "Tags",
    "TargetGroupAttributes",
    "TargetGroups",
    "TargetHealth",
)


def load_balancer_statements(
    stack: cdk.Stack, *, eks_name: str, vpc_id: str, node_security_group_ids: Sequence[str]
) -> list[iam.PolicyStatement]:
    """Return the statements for the controller of the cluster `eks_name`.

    Args:
        stack: where the policy lives.
        eks_name: name of the cluster, with which the controller tags what it makes.
        vpc_id: VPC of the load balancers.
        node_security_group_ids: security groups of the nodes, which the controller opens for its load balancers.
    """

    def ec2(resource: str, name: str) -> str:
        return stack.format_arn(service="ec2", resource=resource, resource_name=name)

    def balancing(kind: str) -> str:
        return stack.format_arn(service="elasticloadbalancing", resource=kind, resource_name="*")

    made = {"StringEquals": {f"aws:RequestTag/{_TAG}": eks_name}}
    owned = {"StringEquals": {f"aws:ResourceTag/{_TAG}": eks_name}}
    groups = ec2("security-group", "*")
    balancers, targets = balancing("loadbalancer"), balancing("targetgroup")
    listeners = [balancing(f"{kind}/app") for kind in ("listener", "listener-rule")]
    return [
        # none of these calls knows resources
        iam.PolicyStatement(
            sid="Look",
            actions=[
                *(f"ec2:Describe{what}" for what in _READ_EC2),
                "ec2:GetSecurityGroupsForVpc",
                *(f"elasticloadbalancing:Describe{what}" for what in _READ_BALANCERS),
                "acm:DescribeCertificate",
                "acm:ListCertificates",
                "shield:DescribeProtection",
                "shield:GetSubscriptionState",
                "waf-regional:GetWebACLForResource",
                "wafv2:GetWebACLForResource",
            ],
            resources=["*"],
        ),
        iam.PolicyStatement(
            sid="FirstBalancerOfTheAccount",
            actions=["iam:CreateServiceLinkedRole"],
            resources=[
                stack.format_arn(
                    service="iam",
                    region="",
                    resource="role",
                    resource_name="aws-service-role/elasticloadbalancing.amazonaws.com/*",
                )
            ],
            conditions={"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}},
        ),
        iam.PolicyStatement(
            sid="MakeGroupsInTheVpc", actions=["ec2:CreateSecurityGroup"], resources=[ec2("vpc", vpc_id)]
        ),
        iam.PolicyStatement(
            sid="MakeGroups", actions=["ec2:CreateSecurityGroup"], resources=[groups], conditions=made
        ),
        iam.PolicyStatement(
            sid="TagNewGroups",
            actions=["ec2:CreateTags"],
            resources=[groups],
            conditions={"StringEquals": {**made["StringEquals"], "ec2:CreateAction": "CreateSecurityGroup"}},
        ),
        iam.PolicyStatement(
            sid="ChangeGroups",
            actions=[
                "ec2:AuthorizeSecurityGroupIngress",
                "ec2:CreateTags",
                "ec2:DeleteSecurityGroup",
                "ec2:DeleteTags",
                "ec2:RevokeSecurityGroupIngress",
            ],
            resources=[groups],
            conditions=owned,
        ),
        iam.PolicyStatement(
            sid="OpenNodes",
            actions=["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"],
            resources=[ec2("security-group", group) for group in node_security_group_ids],
        ),
        iam.PolicyStatement(
            sid="MakeBalancers",
            actions=[
                "elasticloadbalancing:AddTags",
                "elasticloadbalancing:CreateLoadBalancer",
                "elasticloadbalancing:CreateTargetGroup",
            ],
            resources=[balancers, targets],
            conditions=made,
        ),
        iam.PolicyStatement(
            sid="ChangeBalancers",
            actions=[
                "elasticloadbalancing:AddTags",
                "elasticloadbalancing:CreateListener",
                "elasticloadbalancing:DeleteLoadBalancer",
                "elasticloadbalancing:DeleteTargetGroup",
                "elasticloadbalancing:DeregisterTargets",
                "elasticloadbalancing:ModifyLoadBalancerAttributes",
                "elasticloadbalancing:ModifyTargetGroup",
                "elasticloadbalancing:ModifyTargetGroupAttributes",
                "elasticloadbalancing:RegisterTargets",
                "elasticloadbalancing:RemoveTags",
                "elasticloadbalancing:SetIpAddressType",
                "elasticloadbalancing:SetSecurityGroups",
                "elasticloadbalancing:SetSubnets",
            ],
            resources=[balancers, targets],
            conditions=owned,
        ),
        iam.PolicyStatement(
            sid="ChangeListeners",
            actions=[
                "elasticloadbalancing:AddListenerCertificates",
                "elasticloadbalancing:AddTags",
                "elasticloadbalancing:CreateRule",
                "elasticloadbalancing:DeleteListener",
                "elasticloadbalancing:DeleteRule",
                "elasticloadbalancing:ModifyListener",
                "elasticloadbalancing:ModifyListenerAttributes",
                "elasticloadbalancing:ModifyRule",
                "elasticloadbalancing:RemoveListenerCertificates",
                "elasticloadbalancing:RemoveTags",
                "elasticloadbalancing:SetRulePriorities",
            ],
            # listeners of network load balancers are not made here; new ones are tagged after they exist
            resources=listeners,
        ),
    ]
