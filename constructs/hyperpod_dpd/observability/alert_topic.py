"""The topic at which every alert arrives, from Prometheus, from CloudWatch and from the budget."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from hyperpod_dpd.derive.alerts import PUBLISHERS
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked


class AlertTopic(Construct):
    """An encrypted topic with subscriptions, or the one that the deployment names.

    A topic that is given stays as it is: its owner lets the services of `PUBLISHERS` publish.

    Attributes:
        topic: the topic.
    """

    topic: sns.ITopic

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create or find the topic and subscribe the deployment's addresses.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: whose `platform.alerts` is served.
            removal_policy: whether the topic's key outlives the stack.
        """
        super().__init__(scope, construct_id)
        alerts = deployment.platform.alerts
        self.topic = (
            sns.Topic.from_topic_arn(self, "Topic", alerts.topic_arn)
            if alerts.topic_arn
            else self._created(deployment, removal_policy)
        )
        for address in alerts.email_addresses:
            self.topic.add_subscription(subscriptions.EmailSubscription(address))

    def _created(self, deployment: Deployment, removal_policy: cdk.RemovalPolicy) -> sns.Topic:
        key = kms.Key(
            self,
            "Key",
            description=f"Alerts of {deployment.name}",
            enable_key_rotation=True,
            removal_policy=removal_policy,
        )
        topic = sns.Topic(
            self,
            "Topic",
            display_name=f"Alerts of {deployment.name}",
            master_key=key,
            enforce_ssl=True,
        )
        account = cdk.Stack.of(self).account
        for service, actions in PUBLISHERS.items():
            topic.add_to_resource_policy(_only_from(account, service, actions, topic.topic_arn))
            # SNS encrypts with the publisher's rights
            key.add_to_resource_policy(
                _only_from(account, service, ("kms:Decrypt", "kms:GenerateDataKey*"), "*")
            )
        return topic


def _only_from(account: str, service: str, actions: tuple[str, ...], resource: str) -> iam.PolicyStatement:
    """Return a statement for `service` while it works for `account`: without it, for anybody's alarm."""
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(f"{service}.amazonaws.com")],
        actions=list(actions),
        resources=[resource],
        conditions={"StringEquals": {"aws:SourceAccount": account}},
    )
