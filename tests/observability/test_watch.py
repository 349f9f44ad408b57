"""The watch in a template: which events reach it, what it may do, what its alarms say."""

import contextlib
import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
import pytest
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from moto.events.models import EventPattern

from hyperpod_dpd.observability.watch import ClusterWatch
from hyperpod_dpd.observability.watch.handler import index
from hyperpod_dpd.spec import Schedule, TrainingPlan
from tests.observability.test_watch_function import NO_CAPACITY, REPLACEMENT, health, state
from tests.support.deployments import changed, ready
from tests.support.synth import context
from tests.support.template import Template, only, resources, text

HYPERPOD_ARN = "arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl"
PLAN_ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p5"


def app(
    outdir: Path | None = None, *, hyperpod_name: str = "llama-hyperpod", nights_off: Schedule | None = None
) -> tuple[cdk.App, cdk.Stack]:
    application = cdk.App(context=context(), outdir=None if outdir is None else str(outdir))
    stack = cdk.Stack(application, "watch", env=cdk.Environment(account="123456789012", region="us-east-1"))
    key = kms.Key(stack, "Key", enable_key_rotation=True)
    topic = sns.Topic(stack, "Topic", master_key=key, enforce_ssl=True)
    ClusterWatch(
        stack,
        "Watch",
        deployment=changed(
            ready(),
            name="llama",
            hyperpod__instance_groups__0__capacity=TrainingPlan(type="training-plan", arn=PLAN_ARN),
            platform__nights_off=nights_off,
        ),
        topic=topic,
        eks_name="eks",
        hyperpod_name=hyperpod_name,
        hyperpod_arn=HYPERPOD_ARN,
        log_key=key,
    )
    return application, stack


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    application, stack = app(tmp_path_factory.mktemp("watch"))
    made: Template = application.synth().get_stack_by_name(stack.stack_name).template
    return made


def reached(template: Template, event: dict[str, Any]) -> list[str]:
    """Return the rules whose pattern `event` matches, as EventBridge does it."""
    return [
        rule["Properties"]["Description"].split()[0]
        for rule in resources(template, "AWS::Events::Rule").values()
        if "EventPattern" in rule["Properties"]
        and EventPattern.load(json.dumps(rule["Properties"]["EventPattern"])).matches_event(event)  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize(
    ("event", "rules"),
    [
        (NO_CAPACITY, ["Operations"]),
        (REPLACEMENT, ["Operations"]),
        (health("Unhealthy"), ["Health"]),
        (state("Failed"), ["Health"]),
        (
            {"source": "aws.eks", "detail-type": "EKS Addon Health Degraded", "detail": {"anything": 1}},
            ["Addons"],
        ),
        ({"source": "aws.eks", "detail-type": "EKS Addon Update Succeeded", "detail": {}}, []),
        ({**health("Unhealthy"), "source": "somebody"}, []),
    ],
)
def test_events_of_the_cluster_reach_the_function(
    template: Template, event: dict[str, Any], rules: list[str]
) -> None:
    assert reached(template, event) == rules


def test_events_of_another_cluster_do_not(tmp_path: Path) -> None:
    application, stack = app(tmp_path, hyperpod_name="another")
    other = application.synth().get_stack_by_name(stack.stack_name).template
    for event in (NO_CAPACITY, health("Unhealthy"), state("Failed")):
        assert reached(other, event) == []


def test_every_rule_calls_the_function_and_may(template: Template) -> None:
    function, _ = only(template, "AWS::Lambda::Function")
    rules = resources(template, "AWS::Events::Rule")
    assert len(rules) == 4
    for rule in rules.values():
        (target,) = rule["Properties"]["Targets"]
        assert text(target["Arn"]) == f"${{{function}.Arn}}"
    permitted = {
        text(permission["Properties"]["SourceArn"])
        for permission in resources(template, "AWS::Lambda::Permission").values()
    }
    assert permitted == {f"${{{rule}.Arn}}" for rule in rules}


def test_eventbridge_publishes_nothing_itself(template: Template) -> None:
    assert "events.amazonaws.com" not in json.dumps(
        [
            resource
            for kind in ("AWS::SNS::TopicPolicy", "AWS::KMS::Key")
            for resource in resources(template, kind).values()
        ]
    )


def test_the_function_may_read_its_cluster_and_publish_to_the_encrypted_topic(template: Template) -> None:
    _, policy = only(template, "AWS::IAM::Policy")
    may: dict[str, Any] = {}
    for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
        assert statement["Effect"] == "Allow"
        for action in [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]:
            may[action] = (statement["Resource"], statement.get("Condition"))
    assert may["sagemaker:DescribeCluster"][0] == may["sagemaker:ListClusterNodes"][0] == HYPERPOD_ARN
    assert may["sagemaker:DescribeTrainingPlan"][0] == PLAN_ARN
    assert text(may["eks:DescribeAddon"][0]).endswith(":addon/eks/*")
    assert may["cloudwatch:PutMetricData"] == (
        "*",
        {"StringEquals": {"cloudwatch:namespace": index.NAMESPACE}},
    )
    # without the key's permission a message to an encrypted topic is refused
    assert {"sns:Publish", "kms:Decrypt", "kms:GenerateDataKey*"} <= may.keys()


def test_every_alarm_goes_to_the_topic_and_comes_from_a_metric_of_the_function(template: Template) -> None:
    alarms = resources(template, "AWS::CloudWatch::Alarm")
    topic, _ = only(template, "AWS::SNS::Topic")
    measured = {index.NODES, index.ADDONS, index.PLAN_HOURS, index.CHECKS, "Errors"}
    assert {alarm["Properties"]["MetricName"] for alarm in alarms.values()} == measured
    for alarm in alarms.values():
        said = alarm["Properties"]
        assert said["AlarmName"].startswith("llama-")
        assert len(said["AlarmDescription"].split()) > 8
        assert said["AlarmActions"] == said["OKActions"] == [{"Ref": topic}]
        assert said["Namespace"] in (index.NAMESPACE, "AWS/Lambda")
        if said["Namespace"] == index.NAMESPACE:
            assert {"Name": "Deployment", "Value": "llama"} in said["Dimensions"]


def test_nodes_are_not_missed_while_they_come_back_in_the_morning(template: Template, tmp_path: Path) -> None:
    assert resources(template, "AWS::CloudWatch::AlarmMuteRule") == {}
    schedule = Schedule(
        stop_cron="cron(0 20 ? * MON-FRI *)",
        start_cron="cron(30 6 ? * MON-FRI *)",
        time_zone="Europe/Berlin",
        warm_up_minutes=90,
    )
    application, stack = app(tmp_path, nights_off=schedule)
    made = application.synth().get_stack_by_name(stack.stack_name).template
    _, rule = only(made, "AWS::CloudWatch::AlarmMuteRule")
    assert rule["Properties"]["Rule"]["Schedule"] == {
        "Expression": "cron(30 6 * * MON,TUE,WED,THU,FRI)",
        "Timezone": "Europe/Berlin",
        "Duration": "PT1H30M",
    }
    (target,) = rule["Properties"]["MuteTargets"]["AlarmNames"]
    assert made["Resources"][target["Ref"]]["Properties"]["AlarmName"] == "llama-nodes-missing"


def test_a_training_plan_alarms_twice_before_its_end(template: Template) -> None:
    alarms = {
        alarm["Properties"]["AlarmName"]: alarm["Properties"]
        for alarm in resources(template, "AWS::CloudWatch::Alarm").values()
    }
    limits = {
        name: alarm["Threshold"] for name, alarm in alarms.items() if alarm["MetricName"] == index.PLAN_HOURS
    }
    assert limits == {"llama-training-plan-p5-72-hours": 72, "llama-training-plan-p5-12-hours": 12}
    for name in limits:
        assert alarms[name]["ComparisonOperator"] == "LessThanThreshold"
        assert {"Name": "TrainingPlan", "Value": "p5"} in alarms[name]["Dimensions"]


def test_silence_of_the_watch_itself_is_an_alarm(template: Template) -> None:
    (silent,) = (
        alarm["Properties"]
        for alarm in resources(template, "AWS::CloudWatch::Alarm").values()
        if alarm["Properties"]["MetricName"] == index.CHECKS
    )
    assert silent["TreatMissingData"] == "breaching"
    assert (silent["ComparisonOperator"], silent["Threshold"]) == ("LessThanThreshold", 1)
    assert silent["EvaluationPeriods"] * silent["Period"] == 30 * 60


def test_a_deployment_without_a_training_plan_has_no_alarm_about_one() -> None:
    stack = cdk.Stack(cdk.App(), "watch", env=cdk.Environment(account="123456789012", region="us-east-1"))
    key = kms.Key(stack, "Key")
    watch = ClusterWatch(
        stack,
        "Watch",
        deployment=ready(),
        topic=sns.Topic(stack, "Topic"),
        eks_name="eks",
        hyperpod_name="llama",
        hyperpod_arn=HYPERPOD_ARN,
        log_key=key,
    )
    assert set(watch.alarms) == {"nodes-missing", "addons-unhealthy", "watch-silent", "watch-failing"}


ACCEPTED = {
    "AwsSolutions-IAM5[Resource::*]",
    "AwsSolutions-IAM5[Resource::arn:aws:eks:us-east-1:123456789012:addon/eks/*]",
    "AwsSolutions-IAM5[Action::kms:GenerateDataKey*]",
}
"""Metrics have no ARN; an add-on's ends with an id; CDK's own grant of a key."""


def test_the_rule_pack_finds_nothing_else(tmp_path: Path) -> None:
    application, _ = app(tmp_path)
    cdk.Validations.of(application).add_plugins(cdk_nag.AwsSolutionsChecks())
    with contextlib.suppress(RuntimeError):
        application.synth()
    (pack,) = json.loads((tmp_path / "validation-report.json").read_text())["pluginReports"]
    assert {violation["ruleName"] for violation in pack["violations"]} == ACCEPTED


def test_metrics_are_there_for_alarms_and_dashboards_of_your_own() -> None:
    _, stack = app()
    watch = stack.node.find_child("Watch")
    assert isinstance(watch, ClusterWatch)
    metrics = {
        "NodesMissing": watch.metric_missing_nodes(),
        "AddonsUnhealthy": watch.metric_unhealthy_addons(),
        "TrainingPlanHoursLeft": watch.metric_training_plan_hours("p5"),
    }
    for name, metric in metrics.items():
        assert (metric.namespace, metric.metric_name) == ("HyperPodDpd", name)
        assert metric.dimensions is not None
        assert metric.dimensions["Deployment"] == "llama"
    with pytest.raises(ValueError, match="given `other`; limit `p5`"):
        watch.metric_training_plan_hours("other")
