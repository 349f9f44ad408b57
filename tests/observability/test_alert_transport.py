"""An alert reaches the topic: who may publish, what AMP is told, and what a real Alertmanager makes of it."""

import json
import queue
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from hyperpod_dpd.observability.alert_manager import alert_manager_definition
from hyperpod_dpd.observability.alert_topic import AlertTopic
from hyperpod_dpd.observability.metrics_workspace import MetricsWorkspace
from hyperpod_dpd.observability.rules import rule_groups
from hyperpod_dpd.security.logs import logs_key
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.spec import Deployment
from tests.observability.alerting import (
    accepted,
    alert,
    alertmanager,
    attributes,
    configuration_in,
    fire,
    publishing_to,
    sns,
)
from tests.support.deployments import changed, ready
from tests.support.template import Template, app, only, resources, synthesized, text

ACCOUNT = "123456789012"
REGION = "us-east-1"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:alerts"


def template(deployment: Deployment) -> Template:
    stack = cdk.Stack(app(), "platform", env=cdk.Environment(account=ACCOUNT, region=REGION))
    keep = cdk.RemovalPolicy.RETAIN
    key = logs_key(stack, "LogsKey", removal_policy=keep)
    topic = AlertTopic(stack, "AlertTopic", deployment=deployment, removal_policy=keep)
    metrics = MetricsWorkspace(
        stack, "Metrics", deployment=deployment, topic=topic.topic, log_key=key, removal_policy=keep
    )
    for binding, value in metrics.bindings.items():
        cdk.CfnOutput(stack, binding.output_key, value=value)
    return synthesized(stack)


@cache
def made() -> Template:
    return template(
        changed(ready(), platform__alerts__email_addresses=("on-call@example.com", "b@example.com"))
    )


# -- who may publish ----------------------------------------------------------------------------------------------


def allows(
    statements: list[Mapping[str, Any]], service: str, action: str, context: Mapping[str, str]
) -> bool:
    """Whether a policy lets a service do `action`: no matching Deny, and at least one matching Allow."""
    effects = {
        statement["Effect"]
        for statement in statements
        if _is_for(statement["Principal"], service)
        and any(_matches(pattern, action) for pattern in _listed(statement["Action"]))
        and _holds(statement.get("Condition", {}), context)
    }
    return effects == {"Allow"}


def _is_for(principal: Any, service: str) -> bool:
    return principal == "*" or service in _listed(principal.get("Service", []))


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else value


def _matches(pattern: str, action: str) -> bool:
    return action == pattern or (pattern.endswith("*") and action.startswith(pattern[:-1]))


def _holds(condition: Mapping[str, Mapping[str, str]], context: Mapping[str, str]) -> bool:
    assert set(condition) <= {"StringEquals", "Bool"}
    return all(context.get(key) == wanted for pairs in condition.values() for key, wanted in pairs.items())


OURS = {"aws:SourceAccount": ACCOUNT, "aws:SecureTransport": "true"}


@pytest.mark.parametrize("policy", ["topic", "key"])
@pytest.mark.parametrize(
    ("service", "context", "allowed"),
    [
        ("aps.amazonaws.com", OURS, True),
        ("cloudwatch.amazonaws.com", OURS, True),
        ("budgets.amazonaws.com", OURS, True),
        ("aps.amazonaws.com", {**OURS, "aws:SourceAccount": "210987654321"}, False),
        ("cloudwatch.amazonaws.com", {"aws:SecureTransport": "true"}, False),
        ("events.amazonaws.com", OURS, False),
    ],
)
def test_services_publish_for_this_account_only(
    policy: str, service: str, context: dict[str, str], allowed: bool
) -> None:
    if policy == "topic":
        _, resource = only(made(), "AWS::SNS::TopicPolicy")
        statements, actions = resource["Properties"]["PolicyDocument"]["Statement"], ["sns:Publish"]
    else:
        statements, actions = topic_key()["KeyPolicy"]["Statement"], ["kms:Decrypt", "kms:GenerateDataKey"]
    assert {allows(statements, service, action, context) for action in actions} == {allowed}


def test_nothing_is_published_without_tls() -> None:
    _, resource = only(made(), "AWS::SNS::TopicPolicy")
    statements = resource["Properties"]["PolicyDocument"]["Statement"]
    context = {**OURS, "aws:SecureTransport": "false"}
    assert not allows(statements, "aps.amazonaws.com", "sns:Publish", context)


def topic_key() -> Mapping[str, Any]:
    _, topic = only(made(), "AWS::SNS::Topic")
    key = topic["Properties"]["KmsMasterKeyId"]["Fn::GetAtt"][0]
    properties: Mapping[str, Any] = made()["Resources"][key]["Properties"]
    return properties


def test_the_topic_has_a_key_of_its_own_that_is_rotated() -> None:
    assert topic_key()["EnableKeyRotation"] is True
    assert "AWS::Logs::LogGroup" not in json.dumps(topic_key())


def test_every_address_is_subscribed() -> None:
    found = resources(made(), "AWS::SNS::Subscription").values()
    assert {(each["Properties"]["Protocol"], each["Properties"]["Endpoint"]) for each in found} == {
        ("email", "on-call@example.com"),
        ("email", "b@example.com"),
    }


def test_a_given_topic_is_used_and_left_as_it_is() -> None:
    given = template(
        changed(
            ready(), platform__alerts__topic_arn=TOPIC, platform__alerts__email_addresses=("a@example.com",)
        )
    )
    kinds = {resource["Type"] for resource in given["Resources"].values()}
    assert not kinds & {"AWS::SNS::Topic", "AWS::SNS::TopicPolicy"}
    _, subscription = only(given, "AWS::SNS::Subscription")
    assert subscription["Properties"]["TopicArn"] == TOPIC
    _, workspace = only(given, "AWS::APS::Workspace")
    assert f"topic_arn: {TOPIC}\n" in workspace["Properties"]["AlertManagerDefinition"]


# -- the workspace ------------------------------------------------------------------------------------------------


def test_the_workspace_logs_what_its_rules_and_alert_manager_cannot_do() -> None:
    logical_id, workspace = only(made(), "AWS::APS::Workspace")
    group = workspace["Properties"]["LoggingConfiguration"]["LogGroupArn"]["Fn::GetAtt"]
    log = made()["Resources"][group[0]]["Properties"]
    # the Arn of a log group ends with `:*`, which AMP asks for
    assert group[1] == "Arn"
    assert log["LogGroupName"].startswith("/aws/vendedlogs/")
    assert "KmsKeyId" in log
    assert made()["Resources"][logical_id]["DeletionPolicy"] == "Retain"


def test_the_address_is_what_the_binding_of_reviewed_yaml_wants() -> None:
    shown = text(made()["Outputs"]["BindAmpWorkspaceUrl"]["Value"])
    workspace, _ = only(made(), "AWS::APS::Workspace")
    real = shown.replace(f"${{{workspace}.WorkspaceId}}", "ws-0123abcd-0000-4000-8000-0123456789ab")
    assert Binding.AMP_WORKSPACE_URL.refuse(real) is None


def test_alerts_wait_for_the_policy_that_lets_them_through() -> None:
    _, workspace = only(made(), "AWS::APS::Workspace")
    policy, _ = only(made(), "AWS::SNS::TopicPolicy")
    assert policy in workspace["DependsOn"]


# -- Alertmanager -------------------------------------------------------------------------------------------------


def configuration() -> dict[str, Any]:
    return configuration_in(alert_manager_definition(topic_arn=TOPIC, region=REGION))


def test_the_template_holds_the_definition_with_the_topic_s_name() -> None:
    _, workspace = only(made(), "AWS::APS::Workspace")
    topic, _ = only(made(), "AWS::SNS::Topic")
    shown = text(workspace["Properties"]["AlertManagerDefinition"])
    assert shown.replace(f"${{{topic}}}", TOPIC) == alert_manager_definition(topic_arn=TOPIC, region=REGION)


def test_amtool_accepts_the_configuration(tmp_path: Path) -> None:
    assert "1 receivers" in accepted(configuration(), tmp_path)


def test_amp_supports_every_receiver() -> None:
    for receiver in configuration()["receivers"]:
        assert set(receiver) == {"name", "sns_configs"}


def test_silenced_alerts_exist() -> None:
    known = {alert.name for group in rule_groups(ready()) for alert in group.alerts}
    for rule in configuration()["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            name, _, value = matcher.partition("=")
            assert name != "alertname" or json.loads(value) in known


def test_a_real_alertmanager_publishes_alerts_to_the_topic(tmp_path: Path) -> None:
    with sns() as service, alertmanager(publishing_to(service, configuration()), tmp_path) as running:
        fire(running, alert("DpdTtftBudgetBurningFast"))
        messages = [service.published.get(timeout=60)]
        # whoever is told of an alert knows whom it silences
        fire(
            running,
            alert("DpdTtftBudgetBurningSlowly", "warning"),
            alert("DpdGpuXid", "warning", deployment=""),
        )
        messages.append(service.published.get(timeout=60))
        # what is silenced would have come with the others
        with pytest.raises(queue.Empty):
            service.published.get(timeout=0.5)
    by_subject = {message["Subject"]: message for message in messages}
    assert set(by_subject) == {
        "[FIRING] critical DpdTtftBudgetBurningFast llama",
        "[FIRING] warning DpdGpuXid ",
    }
    for message in messages:
        assert message["TopicArn"] == TOPIC
        assert len(message["Subject"]) <= 100
    body = by_subject["[FIRING] critical DpdTtftBudgetBurningFast llama"]["Message"]
    for part in (
        "12 bytes/s over EFA",
        "The KV cache crosses TCP.",
        "docs/runbooks/DpdTtftBudgetBurningFast.md",
    ):
        assert part in body
    assert attributes(by_subject["[FIRING] warning DpdGpuXid "]) == {
        "severity": "warning",
        "status": "firing",
        "deployment": "none",
    }
