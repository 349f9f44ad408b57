"""DPD-HP-014: a training plan is one of this region and account."""

import re
from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, TrainingPlan

_PLAN = re.compile(r"arn:aws(?:-[a-z]+)*:sagemaker:([a-z0-9-]+):(\d{12}):training-plan/[A-Za-z0-9-]+")


@deployment_rule(
    "DPD-HP-014",
    severity=Severity.ERROR,
    title="a training plan's ARN names a plan of the deployment's region and account",
    sources=("AWS::SageMaker::Cluster TrainingPlanArn", "awslabs/awsome-distributed-ai #204"),
    facts=("P1",),
)
def training_plan_is_local(deployment: Deployment) -> Iterator[Problem]:
    """Reserved capacity is bound to one region; a plan of another one refuses the cluster while it is paid for."""
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if not isinstance(group.capacity, TrainingPlan):
            continue
        arn, path = group.capacity.arn, f"hyperpod.instance_groups[{index}].capacity.arn"
        match = _PLAN.fullmatch(arn)
        if match is None:
            yield Problem(
                path=path,
                says=f"group `{group.name}` names no training plan",
                given=f"`{arn}`",
                limit="`arn:aws:sagemaker:<region>:<account>:training-plan/<name>`",
                fix="`aws sagemaker list-training-plans` shows the ARN",
            )
            continue
        region, account = match.groups()
        if region != deployment.region or account != (deployment.account or account):
            yield Problem(
                path=path,
                says=f"the training plan of group `{group.name}` is elsewhere",
                given=f"`{arn}`",
                limit=f"region {deployment.region}"
                + (f", account {deployment.account}" if deployment.account else ""),
                fix="name a plan of this region and account",
            )
