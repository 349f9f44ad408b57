"""PRE-OBS-003: the given alert topic exists and takes alerts."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from hyperpod_dpd.derive.alerts import PUBLISHERS
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

_PATH = "platform.alerts.topic_arn"
_AWS_OWNED_KEY = "alias/aws/sns"


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    topic = deployment.platform.alerts.topic_arn
    assert topic is not None  # the check does not apply otherwise
    given = f"`topic_arn: {topic}`"
    try:
        attributes = account.client("sns").get_topic_attributes(TopicArn=topic)["Attributes"]
    except ClientError as error:
        if code_of(error) not in {"NotFound", "NotFoundException"}:
            raise
        yield Problem(
            path=_PATH,
            says="the topic does not exist",
            given=given,
            fix="create it, or remove `topic_arn` to have one made",
        )
        return
    refused = [service for service in PUBLISHERS if not _may_publish(attributes.get("Policy", ""), service)]
    if refused:
        yield Problem(
            path=_PATH,
            says="the topic's policy does not let every service publish that has alerts",
            given=given,
            computed="no statement for " + ", ".join(f"`{service}.amazonaws.com`" for service in refused),
            fix="add the statements of docs/observability.md, How an alert reaches you",
        )
    if attributes.get("KmsMasterKeyId", "").endswith(_AWS_OWNED_KEY):
        yield Problem(
            path=_PATH,
            says="the topic is encrypted with a key that no service may use",
            given=given,
            computed=f"`KmsMasterKeyId: {attributes['KmsMasterKeyId']}`",
            fix="encrypt it with a key of yours whose policy lets the services in, or with none",
        )


def _may_publish(policy: str, service: str) -> bool:
    """Whether a statement allows it. Conditions are not judged: what they compare is known to the service only."""
    statements = json.loads(policy).get("Statement", []) if policy else []
    return any(
        statement.get("Effect") == "Allow"
        and _names(statement.get("Principal"), f"{service}.amazonaws.com")
        and any(
            action.lower() in {"sns:publish", "sns:*", "*"} for action in _listed(statement.get("Action"))
        )
        for statement in _listed(statements)
    )


def _names(principal: Any, service: str) -> bool:
    if isinstance(principal, Mapping):
        return service in _listed(principal.get("Service")) or "*" in _listed(principal.get("AWS"))
    return bool(principal == "*")


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _topic(deployment: Deployment) -> tuple[str, ...]:
    topic = deployment.platform.alerts.topic_arn
    return () if topic is None else (topic,)


CHECK = Check(
    id="PRE-OBS-003",
    title="the given alert topic exists and takes alerts",
    calls=(Call(service="sns", operation="GetTopicAttributes", on=_topic),),
    look=_look,
    applies=lambda deployment: deployment.platform.alerts.topic_arn is not None,
)
