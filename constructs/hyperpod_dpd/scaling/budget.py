"""A budget that speaks up before the month is over."""

from typing import Final

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns
from constructs import Construct

from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import PositiveInt

_NOTICES: Final = (("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
"""Kind of cost and percent of the budget at which it is told; AWS Budgets takes five notices for a budget."""


class MonthlyBudget(Construct):
    """Tells when the month's cost of SageMaker in the deployment's region nears the budget.

    The instance groups are all but everything that a deployment costs, and they are billed by SageMaker. They carry the
    tags that the file asks for and no other, so nothing tells them apart in every account, and the account's other use of
    SageMaker in the region counts as well. AWS updates billing data a few times a day: the notice comes hours after the
    cost.

    Attributes:
        budget: the budget.
    """

    budget: budgets.CfnBudget

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        monthly_usd: PositiveInt,
        topic: sns.ITopic,
    ) -> None:
        """Create the budget.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: the deployment, for its region.
            monthly_usd: the budget in US dollars a month.
            topic: where notices go; `budgets.amazonaws.com` must be allowed to publish to it. Of this account.
        """
        super().__init__(scope, construct_id)
        # without a name: a change of the notices replaces the budget, and names are unique in an account
        self.budget = budgets.CfnBudget(
            self,
            "Resource",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=monthly_usd, unit="USD"),
                cost_filters={"Service": ["Amazon SageMaker"], "Region": [deployment.region]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[
                        budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=topic.topic_arn)
                    ],
                )
                for kind, percent in _NOTICES
            ],
        )
        # the topic's policy must allow it before the first notice
        self.budget.node.add_dependency(topic)
