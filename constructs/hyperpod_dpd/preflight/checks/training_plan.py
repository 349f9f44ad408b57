"""PRE-CAP-001: the training plans hold what the groups expect of them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from botocore.exceptions import ClientError

from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.preflight.published import PUBLISHED_CALL, published
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment, InstanceGroup, TrainingPlan

_USABLE = ("Active", "Scheduled")
_TARGET = "hyperpod-cluster"

_LONGEST_WAIT = timedelta(hours=12)
"""Longest timeout of an AWS::CloudFormation::WaitCondition, with which a deployment waits for its nodes."""

Groups = list[tuple[str, InstanceGroup]]
"""Groups of one plan, each with its path into the deployment."""


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    for plan_arn, groups in _groups(deployment).items():
        path = f"{groups[0][0]}.capacity.arn"
        try:
            plan = account.client("sagemaker").describe_training_plan(
                TrainingPlanName=plan_arn.rpartition("/")[2]
            )
        except ClientError as error:
            if code_of(error) not in ("ResourceNotFound", "ValidationException"):
                raise
            yield Problem(
                path=path,
                says="the account has no such training plan in this region",
                given=f"`{plan_arn}`",
                fix=f"`aws sagemaker list-training-plans --region {deployment.region}` lists those there are",
            )
            continue
        yield from _window(path, plan, account)
        yield from _hardware(deployment, groups, plan)
        yield from _count(deployment, account, groups, plan)


def _groups(deployment: Deployment) -> Mapping[str, Groups]:
    plans: dict[str, Groups] = defaultdict(list)
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if isinstance(group.capacity, TrainingPlan):
            plans[group.capacity.arn].append((f"hyperpod.instance_groups[{index}]", group))
    return plans


def _window(path: str, plan: dict[str, Any], account: Account) -> Iterator[Problem]:
    name, status = plan["TrainingPlanName"], plan["Status"]
    now, start, end = account.now(), plan.get("StartTime"), plan.get("EndTime")
    if status not in _USABLE or (end and end <= now):
        yield Problem(
            path=path,
            says="the training plan is over or failed",
            given=f"training plan `{name}`",
            computed=f"status `{status}`" + (f", ended {end:%Y-%m-%d %H:%M} UTC" if end else ""),
            limit="`Active` or `Scheduled`",
            fix="reserve another plan (`aws sagemaker search-training-plan-offerings`), or use `on-demand`",
        )
    elif start and start > now + _LONGEST_WAIT:
        yield Problem(
            path=path,
            says="the training plan begins too late for a deployment now",
            given=f"training plan `{name}`",
            computed=f"it begins {start:%Y-%m-%d %H:%M} UTC, in {_hours(start - now)}",
            limit=f"{_hours(_LONGEST_WAIT)}, after which CloudFormation waits for nodes no longer",
            fix="deploy shortly before it begins: until then the groups get no node",
        )
    targets = plan.get("TargetResources")
    if targets and _TARGET not in targets:
        yield Problem(
            path=path,
            says="the training plan is not for HyperPod",
            given=f"training plan `{name}`",
            computed="it is for " + ", ".join(f"`{target}`" for target in targets),
            limit=f"`{_TARGET}`",
            fix=f"reserve a plan with `--target-resources {_TARGET}`",
        )


def _hours(span: timedelta) -> str:
    return f"{span.total_seconds() / 3600:,.0f} hours"


def _hardware(deployment: Deployment, groups: Groups, plan: dict[str, Any]) -> Iterator[Problem | Gap]:
    name = plan["TrainingPlanName"]
    reserved = plan.get("ReservedCapacitySummaries", ())
    if not reserved:
        yield _untold(plan, "instance types and zone")
        return
    for path, group in groups:
        same_type = [row for row in reserved if row["InstanceType"] == group.instance_type]
        zone_id = deployment.zone_id(group)
        if not same_type:
            yield Problem(
                path=f"{path}.instance_type",
                says="the training plan holds another instance type",
                given=f"`{group.instance_type}` from training plan `{name}`",
                computed="it holds " + ", ".join(sorted({f"`{row['InstanceType']}`" for row in reserved})),
                fix="use that type, or another plan",
            )
            continue
        zones = {row["AvailabilityZoneId"] for row in same_type if row.get("AvailabilityZoneId")}
        if not zones:
            yield _untold(plan, f"the zone of `{group.instance_type}`")
        elif zone_id not in zones:
            yield Problem(
                path=f"{path}.capacity.arn",
                says="the training plan is in another zone",
                given=f"`{group.name}` in `{zone_id}`",
                computed=f"training plan `{name}` is in " + ", ".join(f"`{zone}`" for zone in sorted(zones)),
                fix="set `network.gpu_zone_id` to the plan's zone; EFA does not leave it",
            )


def _untold(plan: dict[str, Any], what: str) -> Gap:
    name = plan["TrainingPlanName"]
    return Gap(
        what=f"{what} of the training plan `{name}`",
        why="SageMaker's answer does not say it",
        fix=f"compare it with the file: `aws sagemaker describe-training-plan --training-plan-name {name}`",
    )


def _count(
    deployment: Deployment, account: Account, groups: Groups, plan: dict[str, Any]
) -> Iterator[Problem | Gap]:
    wanted = sum(group.count for _, group in groups)
    total, free = plan.get("TotalInstanceCount"), plan.get("AvailableInstanceCount")
    if total is None:
        yield _untold(plan, "the number of instances")
    too_few = total is not None and wanted > total
    taken = free is not None and wanted > free and not published(deployment, account, Parameter.HYPERPOD_ARN)
    if too_few or taken:
        yield Problem(
            path=f"{groups[0][0]}.count",
            says="the training plan holds too few instances"
            if too_few
            else "others use the training plan's instances",
            given=f"training plan `{plan['TrainingPlanName']}`",
            computed=" + ".join(f"{group.count} (`{group.name}`)" for _, group in groups) + f" = {wanted}",
            limit=f"{total} in all" if too_few else f"{free} of {total} free",
            fix="lower `count`, or reserve another plan for the rest",
        )


CHECK = Check(
    id="PRE-CAP-001",
    title="the training plans hold what the groups expect",
    calls=(
        PUBLISHED_CALL,
        Call(
            service="sagemaker",
            operation="DescribeTrainingPlan",
            on=lambda deployment: tuple(_groups(deployment)),
        ),
    ),
    look=_look,
    applies=lambda deployment: bool(_groups(deployment)),
)
