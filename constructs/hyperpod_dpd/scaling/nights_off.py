"""GPU groups that go to zero in the evening and come back in the morning."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from constructs import Construct

from hyperpod_dpd.security.function import own_function
from hyperpod_dpd.spec import Deployment, Schedule
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import NonEmptyStr

_HANDLER: Final = Path(__file__).parent / "handler"
SETTINGS: Final = (
    "CapacityRequirements",
    "ExecutionRole",
    "InstanceStorageConfigs",
    "InstanceType",
    "KubernetesConfig",
    "LifeCycleConfig",
    "OnStartDeepHealthChecks",
    "OverrideVpcConfig",
    "ThreadsPerCore",
    "TrainingPlanArn",
)
"""What a group has beside name and counts. The function's boto3 comes with Lambda and must know all of it, or an update
would reset what it does not know."""

_TIMEOUT_MINUTES: Final = 15
"""Lambda's longest run: the function tries again while the cluster is busy with another change."""


class NightsOff(Construct):
    """Two schedules and the function that gives the instance groups their counts.

    The stack that owns the cluster keeps the counts of the deployment file: a deployment that changes the cluster
    during the night brings its nodes back until the next evening. Nodes that come in the morning pass their deep health
    checks again, and on-demand capacity may be gone.

    Attributes:
        function: sends the counts.
        alarm: a count that could not be sent, which would cost nodes for a night or an endpoint for a day.
    """

    function: lambda_.Function
    alarm: cloudwatch.Alarm

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        schedule: Schedule,
        hyperpod_name: NonEmptyStr,
        hyperpod_arn: NonEmptyStr,
        execution_role_arn: NonEmptyStr,
        topic: sns.ITopic,
        log_key: kms.IKey,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create schedules, function and alarm.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: the deployment, whose groups come back with the counts of its file.
            schedule: when they go and come.
            hyperpod_name: name of the HyperPod cluster.
            hyperpod_arn: its ARN.
            execution_role_arn: ARN of the role of its nodes, which SageMaker wants passed on with every update.
            topic: where the alarm goes. CloudWatch must be allowed to publish to it.
            log_key: key of the function's log.
            removal_policy: whether the log outlives the stack.
        """
        super().__init__(scope, construct_id)
        self._name = hyperpod_name
        self.function, _ = own_function(
            self,
            folder=_HANDLER,
            description=f"Gives the GPU groups of {deployment.name} their nodes by day and none by night",
            statements=[
                iam.PolicyStatement(
                    actions=["sagemaker:DescribeCluster", "sagemaker:UpdateCluster"], resources=[hyperpod_arn]
                ),
                iam.PolicyStatement(
                    actions=["iam:PassRole"],
                    resources=[execution_role_arn],
                    conditions={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
                ),
            ],
            timeout=cdk.Duration.minutes(_TIMEOUT_MINUTES),
            log_key=log_key,
            log_retention_days=deployment.platform.log_retention_days,
            removal_policy=removal_policy,
        )
        caller = iam.Role(self, "CallerRole", assumed_by=_only_schedules_of(self))
        self.function.grant_invoke(caller)
        groups = deployment.hyperpod.instance_groups
        self._schedule("Stop", schedule, schedule.stop_cron, caller, {group.name: 0 for group in groups})
        self._schedule(
            "Start", schedule, schedule.start_cron, caller, {group.name: group.count for group in groups}
        )
        self.alarm = self._alarm(deployment, topic)

    def _schedule(
        self, name: str, schedule: Schedule, cron: str, caller: iam.Role, counts: Mapping[str, int]
    ) -> None:
        stack = cdk.Stack.of(self)
        event = {"cluster": self._name, "counts": counts, "settings": list(SETTINGS)}
        resource = scheduler.CfnSchedule(
            self,
            name,
            description=f"{name} of the GPU groups: {json.dumps(dict(counts))}",
            schedule_expression=cron,
            schedule_expression_timezone=schedule.time_zone,
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=self.function.function_arn,
                role_arn=caller.role_arn,
                input=stack.to_json_string(event),
            ),
        )
        # EventBridge tries the role when it makes the schedule
        resource.node.add_dependency(caller)

    def _alarm(self, deployment: Deployment, topic: sns.ITopic) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            "Failed",
            alarm_name=f"{deployment.name}-nights-off-failed",
            alarm_description=(
                "The GPU groups did not get the counts of the schedule: nodes run and cost through the night, or are "
                "missing by day. `dpd scale` does it by hand; the log of the function says why."
            ),
            metric=self.function.metric_errors(period=cdk.Duration.minutes(5)),
            threshold=1,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(topic))
        return alarm


def _only_schedules_of(scope: Construct) -> iam.IPrincipal:
    """Return EventBridge Scheduler, for schedules of this account only."""
    return iam.ServicePrincipal(
        "scheduler.amazonaws.com",
        conditions={"StringEquals": {"aws:SourceAccount": cdk.Stack.of(scope).account}},
    )
