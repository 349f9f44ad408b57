"""The construct: rules that call a function, the function, and the alarms on what it counts."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from hyperpod_dpd.derive.nights import mornings
from hyperpod_dpd.observability.watch.handler import index
from hyperpod_dpd.security.function import own_function
from hyperpod_dpd.spec import Deployment, Schedule, TrainingPlan
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import NonEmptyStr

CHECK_MINUTES: Final = 5
"""Time between two looks at nodes, add-ons and training plans: 8,640 short runs a month, inside Lambda's free tier."""

NODE_GRACE_MINUTES: Final = 30
"""A node that starts is not Running for minutes, longer with deep health checks; a missing one costs a whole worker."""

ADDON_GRACE_MINUTES: Final = 15
PLAN_WARNING_HOURS: Final = 72
"""An extension has to be searched and bought, and may not be there: some working days ahead."""

PLAN_LAST_CALL_HOURS: Final = 12

_NODES_MISSING: Final = "nodes-missing"
_HANDLER = Path(__file__).parent / "handler"
_HYPERPOD_OPERATIONS = ["SageMaker HyperPod Cluster Event"]
_HYPERPOD_HEALTH = [
    "SageMaker HyperPod Cluster State Change",
    "SageMaker HyperPod Cluster Node Health Event",
]
_ADDON_EVENTS = [
    "EKS Addon Creation Failed",
    "EKS Addon Update Failed",
    "EKS Addon Deletion Failed",
    "EKS Addon Health Degraded",
    "EKS Addon Health Restored",
]
"""Detail types: SageMaker developer guide, HyperPod cluster events reference; EventBridge events reference, Amazon EKS
(2026-11-30)."""


class ClusterWatch(Construct):
    """Tells of what happens to the cluster outside of Kubernetes.

    EventBridge does not publish to the topic itself: conditions on its service principal are not supported where the
    topic is encrypted (SNS developer guide, key management), and without one any account's rule could publish. The
    function has a role of its own instead.

    Attributes:
        function: passes events on and checks the cluster.
        alarms: every alarm by its name without the deployment's.
    """

    function: lambda_.Function
    alarms: Mapping[str, cloudwatch.Alarm]

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        topic: sns.ITopic,
        eks_name: NonEmptyStr,
        hyperpod_name: NonEmptyStr,
        hyperpod_arn: NonEmptyStr,
        log_key: kms.IKey,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create rules, function and alarms.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: the deployment; its training plans are watched.
            topic: where alarms and messages go. CloudWatch must be allowed to publish to it.
            eks_name: name of the EKS cluster.
            hyperpod_name: name of the HyperPod cluster.
            hyperpod_arn: ARN of the HyperPod cluster.
            log_key: key of the function's log.
            removal_policy: whether the log outlives the stack.
        """
        super().__init__(scope, construct_id)
        self._deployment = deployment
        self._action = actions.SnsAction(topic)
        self._plans = _training_plans(deployment)
        self.function, role = own_function(
            self,
            folder=_HANDLER,
            description=f"Checks the cluster of {deployment.name} and passes HyperPod's events on",
            statements=self._statements(eks_name, hyperpod_arn),
            environment={
                "DPD_DEPLOYMENT": deployment.name,
                "DPD_EKS_NAME": eks_name,
                "DPD_HYPERPOD_NAME": hyperpod_name,
                "DPD_TRAINING_PLANS": json.dumps(list(self._plans)),
                "DPD_TOPIC_ARN": topic.topic_arn,
            },
            # a hundred add-ons one after the other
            timeout=cdk.Duration.minutes(2),
            log_key=log_key,
            log_retention_days=deployment.platform.log_retention_days,
            removal_policy=removal_policy,
        )
        topic.grant_publish(role)
        self._rules(hyperpod_name)
        self.alarms = dict(self._alarms())
        if deployment.platform.nights_off is not None:
            self._mute_mornings(deployment.platform.nights_off)

    def _statements(self, eks_name: str, hyperpod_arn: str) -> Iterator[iam.PolicyStatement]:
        stack = cdk.Stack.of(self)

        def eks(resource: str, name: str) -> str:
            return stack.format_arn(service="eks", resource=resource, resource_name=name)

        yield iam.PolicyStatement(
            actions=["sagemaker:DescribeCluster", "sagemaker:ListClusterNodes"], resources=[hyperpod_arn]
        )
        yield iam.PolicyStatement(actions=["eks:ListAddons"], resources=[eks("cluster", eks_name)])
        yield iam.PolicyStatement(actions=["eks:DescribeAddon"], resources=[eks("addon", f"{eks_name}/*")])
        if self._plans:
            yield iam.PolicyStatement(
                actions=["sagemaker:DescribeTrainingPlan"], resources=list(self._plans.values())
            )
        yield iam.PolicyStatement(
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": index.NAMESPACE}},
        )

    def _rules(self, hyperpod_name: str) -> None:
        patterns = {
            "Operations": events.EventPattern(
                source=["aws.sagemaker"],
                detail_type=_HYPERPOD_OPERATIONS,
                detail={"EventDetails": {"ClusterName": [hyperpod_name]}},
            ),
            "Health": events.EventPattern(
                source=["aws.sagemaker"],
                detail_type=_HYPERPOD_HEALTH,
                detail={"ClusterName": [hyperpod_name]},
            ),
            "Addons": events.EventPattern(source=["aws.eks"], detail_type=_ADDON_EVENTS),
        }
        for name, pattern in patterns.items():
            events.Rule(
                self,
                name,
                description=f"{name} of the cluster of {self._deployment.name}",
                event_pattern=pattern,
                targets=[targets.LambdaFunction(self.function)],
            )
        events.Rule(
            self,
            "Schedule",
            description=f"Checks the cluster of {self._deployment.name}",
            schedule=events.Schedule.rate(cdk.Duration.minutes(CHECK_MINUTES)),
            targets=[targets.LambdaFunction(self.function)],
        )

    def _alarms(self) -> Iterator[tuple[str, cloudwatch.Alarm]]:
        yield self._alarm(
            _NODES_MISSING,
            self.metric_missing_nodes(),
            above=0,
            minutes=NODE_GRACE_MINUTES,
            says="The instance groups want more nodes than run: a node is being replaced, or none can be had.",
        )
        yield self._alarm(
            "addons-unhealthy",
            self.metric_unhealthy_addons(),
            above=0,
            minutes=ADDON_GRACE_MINUTES,
            says="An EKS add-on reports an issue, or its update failed.",
        )
        for plan in self._plans:
            hours = self.metric_training_plan_hours(plan)
            for limit in (PLAN_WARNING_HOURS, PLAN_LAST_CALL_HOURS):
                yield self._alarm(
                    f"training-plan-{plan}-{limit}-hours",
                    hours,
                    below=limit,
                    minutes=CHECK_MINUTES,
                    says=f"In less than {limit} hours the instances of training plan {plan} are terminated. Extend it "
                    "(aws sagemaker search-training-plan-offerings, extend-training-plan) or move to other capacity.",
                )
        yield self._alarm(
            "watch-silent",
            self._metric(index.CHECKS, statistic="Sum"),
            below=1,
            minutes=6 * CHECK_MINUTES,
            missing_alarms=True,
            says="The cluster could not be checked for half an hour: the other alarms of this kind are blind. The log "
            "of the function names what it may not read.",
        )
        yield self._alarm(
            "watch-failing",
            self.function.metric_errors(period=cdk.Duration.minutes(CHECK_MINUTES), statistic="Sum"),
            above=0,
            minutes=CHECK_MINUTES,
            says="An event of HyperPod could not be passed on, or a check failed; the function's log says why.",
        )

    def _mute_mornings(self, schedule: Schedule) -> None:
        """Mute the alarm about missing nodes while those that were away for the night come back.

        At night it is silent by itself: the groups want none.
        """
        for minute, days in mornings(schedule).items():
            cloudwatch.AlarmMuteRule(
                self,
                f"Morning{minute // 60:02}{minute % 60:02}",
                description=f"The nodes of {self._deployment.name} come back after the night",
                alarms=[self.alarms[_NODES_MISSING]],
                schedule=cloudwatch.ScheduleExpression.cron(
                    minute=str(minute % 60),
                    hour=str(minute // 60),
                    week_day=",".join(days),
                    time_zone=cdk.TimeZone.of(schedule.time_zone),
                ),
                duration=cdk.Duration.minutes(schedule.warm_up_minutes),
            )

    def metric_missing_nodes(self) -> cloudwatch.Metric:
        """Nodes that the instance groups want and that do not run: the most within five minutes."""
        return self._metric(index.NODES)

    def metric_unhealthy_addons(self) -> cloudwatch.Metric:
        """EKS add-ons with an issue or a failed update: the most within five minutes."""
        return self._metric(index.ADDONS)

    def metric_training_plan_hours(self, plan: str) -> cloudwatch.Metric:
        """Hours until the training plan named `plan` ends and its instances are taken.

        Raises:
            ValueError: no instance group of the deployment has a training plan of that name.
        """
        if plan not in self._plans:
            listed = ", ".join(f"`{each}`" for each in self._plans) or "none"
            raise ValueError(
                f"no such training plan: given `{plan}`; limit {listed}. help: name one of the groups"
            )
        return self._metric(index.PLAN_HOURS, {"TrainingPlan": plan})

    def _metric(
        self, name: str, dimensions: dict[str, str] | None = None, *, statistic: str = "Maximum"
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=index.NAMESPACE,
            metric_name=name,
            dimensions_map={"Deployment": self._deployment.name, **(dimensions or {})},
            period=cdk.Duration.minutes(CHECK_MINUTES),
            statistic=statistic,
        )

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        *,
        says: str,
        minutes: int,
        above: float | None = None,
        below: float | None = None,
        missing_alarms: bool = False,
    ) -> tuple[str, cloudwatch.Alarm]:
        """Add an alarm; every period of `minutes` must be beyond the limit."""
        operators = cloudwatch.ComparisonOperator
        limit = above if above is not None else below
        assert limit is not None, "an alarm has a limit"
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._deployment.name}-{name}",
            alarm_description=f"{says} See `dpd status` and docs/observability.md.",
            metric=metric,
            threshold=limit,
            comparison_operator=operators.GREATER_THAN_THRESHOLD
            if above is not None
            else operators.LESS_THAN_THRESHOLD,
            evaluation_periods=minutes // CHECK_MINUTES,
            # without it a gap in the numbers would end an alarm, and its beginning would be told twice
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING
            if missing_alarms
            else cloudwatch.TreatMissingData.IGNORE,
        )
        alarm.add_alarm_action(self._action)
        alarm.add_ok_action(self._action)
        return name, alarm


def _training_plans(deployment: Deployment) -> dict[str, str]:
    """Return the ARN of each training plan by its name."""
    arns = [
        group.capacity.arn
        for group in deployment.hyperpod.instance_groups
        if isinstance(group.capacity, TrainingPlan)
    ]
    return {arn.rpartition("/")[2]: arn for arn in arns}
