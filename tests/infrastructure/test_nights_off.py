"""Nights off and the monthly budget: schedules, rights, alarm, notices."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template

from hyperpod_dpd.scaling.budget import MonthlyBudget
from hyperpod_dpd.scaling.nights_off import SETTINGS, NightsOff
from hyperpod_dpd.spec import Schedule
from tests.support.deployments import ready
from tests.support.synth import context, deployments, synthesize

SCHEDULE = Schedule(
    stop_cron="cron(0 20 ? * MON-FRI *)",
    start_cron="cron(0 7 ? * MON-FRI *)",
    time_zone="Europe/Berlin",
)
CLUSTER = "arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl"
ROLE = "arn:aws:iam::123456789012:role/nodes"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("app")


@pytest.fixture(scope="module")
def template(folder: Path) -> dict[str, Any]:
    app = cdk.App(outdir=str(folder), context=context())
    stack = cdk.Stack(app, "stack", env=cdk.Environment(region="us-east-1"))
    topic = sns.Topic(stack, "Topic", enforce_ssl=True)
    NightsOff(
        stack,
        "NightsOff",
        deployment=ready("llama-3.3-70b-p5-p5en"),
        schedule=SCHEDULE,
        hyperpod_name="dpd",
        hyperpod_arn=CLUSTER,
        execution_role_arn=ROLE,
        topic=topic,
        log_key=kms.Key(stack, "Key"),
    )
    MonthlyBudget(stack, "Budget", deployment=ready(), monthly_usd=90_000, topic=topic)
    return dict(Template.from_stack(stack).to_json())


def _of_type(template: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [body["Properties"] for body in template["Resources"].values() if body["Type"] == kind]


def test_groups_go_to_zero_and_come_back_with_the_counts_of_the_file(template: dict[str, Any]) -> None:
    schedules = {
        each["ScheduleExpression"]: json.loads(each["Target"]["Input"])
        for each in _of_type(template, "AWS::Scheduler::Schedule")
    }
    groups = ready("llama-3.3-70b-p5-p5en").hyperpod.instance_groups
    assert schedules[SCHEDULE.stop_cron]["counts"] == {group.name: 0 for group in groups}
    assert schedules[SCHEDULE.start_cron]["counts"] == {group.name: group.count for group in groups}
    assert {
        each["ScheduleExpressionTimezone"] for each in _of_type(template, "AWS::Scheduler::Schedule")
    } == {"Europe/Berlin"}
    assert {event["cluster"] for event in schedules.values()} == {"dpd"}


def test_function_may_change_this_cluster_and_pass_its_role_and_nothing_else(
    template: dict[str, Any],
) -> None:
    statements = [
        statement
        for policy in _of_type(template, "AWS::IAM::Policy")
        for statement in policy["PolicyDocument"]["Statement"]
    ]
    by_action = {
        tuple([each["Action"]] if isinstance(each["Action"], str) else each["Action"]): each
        for each in statements
    }
    assert by_action.keys() == {
        ("sagemaker:DescribeCluster", "sagemaker:UpdateCluster"),
        ("iam:PassRole",),
        ("logs:CreateLogStream", "logs:PutLogEvents"),
        ("lambda:InvokeFunction",),
    }
    assert by_action["sagemaker:DescribeCluster", "sagemaker:UpdateCluster"]["Resource"] == CLUSTER
    assert by_action["iam:PassRole",]["Resource"] == ROLE
    assert by_action["iam:PassRole",]["Condition"] == {
        "StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}
    }
    assert not any(each["Resource"] == "*" for each in statements)


def test_only_schedules_of_this_account_may_call_the_function(template: dict[str, Any]) -> None:
    trusts = [
        role["AssumeRolePolicyDocument"]["Statement"][0] for role in _of_type(template, "AWS::IAM::Role")
    ]
    (caller,) = [each for each in trusts if each["Principal"] == {"Service": "scheduler.amazonaws.com"}]
    assert caller["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


def test_a_count_that_could_not_be_sent_raises_an_alarm(template: dict[str, Any]) -> None:
    (alarm,) = _of_type(template, "AWS::CloudWatch::Alarm")
    assert alarm["MetricName"] == "Errors"
    assert alarm["Threshold"] == 1
    (action,) = alarm["AlarmActions"]
    assert template["Resources"][action["Ref"]]["Type"] == "AWS::SNS::Topic"


def test_function_knows_every_setting_that_the_templates_give_a_group() -> None:
    cluster = synthesize(deployments()["every-option"]).only("hyperpod", "AWS::SageMaker::Cluster")
    given = {name for group in cluster["Properties"]["InstanceGroups"] for name in group}
    assert given - {"InstanceGroupName", "InstanceCount", "MinInstanceCount"} == set(SETTINGS)


def test_asset_is_the_function_alone(template: dict[str, Any], folder: Path) -> None:
    (function,) = _of_type(template, "AWS::Lambda::Function")
    asset = folder / f"asset.{function['Code']['S3Key'].removesuffix('.zip')}"
    assert sorted(path.name for path in asset.iterdir()) == ["__init__.py", "index.py"]
    assert function["Handler"] == "index.handler"


def test_budget_speaks_before_the_month_is_over(template: dict[str, Any]) -> None:
    (budget,) = _of_type(template, "AWS::Budgets::Budget")
    assert budget["Budget"]["BudgetLimit"] == {"Amount": 90_000, "Unit": "USD"}
    assert budget["Budget"]["CostFilters"] == {"Service": ["Amazon SageMaker"], "Region": ["us-east-1"]}
    # a name would make every change of the notices fail: the budget is replaced, and names are unique
    assert "BudgetName" not in budget["Budget"]
    notices = [each["Notification"] for each in budget["NotificationsWithSubscribers"]]
    assert len(notices) <= 5
    assert {each["NotificationType"] for each in notices if each["Threshold"] == 100} == {
        "ACTUAL",
        "FORECASTED",
    }
    assert all(
        template["Resources"][subscriber["Address"]["Ref"]]["Type"] == "AWS::SNS::Topic"
        for each in budget["NotificationsWithSubscribers"]
        for subscriber in each["Subscribers"]
    )
