"""Look at the cluster, and pass on what HyperPod says about it.

One function with two entrances: a check on a schedule, whose numbers become CloudWatch metrics, and an event of
HyperPod, which becomes a message on the alert topic. An event of an EKS add-on only brings the next check forward:
what EKS says about the add-on then counts, not the shape of the event. Runs on Lambda with the standard library and
boto3 only.
"""

import json
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

NAMESPACE = "HyperPodDpd"
"""Namespace of every metric."""

CHECKS = "ChecksCompleted"
NODES = "NodesMissing"
ADDONS = "AddonsUnhealthy"
PLAN_HOURS = "TrainingPlanHoursLeft"

TERMINATION_SECONDS = 30 * 60
"""A reservation's instances are terminated from this long before its end (SageMaker developer guide, training plans)."""

REPEAT_SECONDS = 60 * 60
"""A message that differs from an earlier one in its numbers and ids only is not sent again for so long: HyperPod retries
a launch that fails every few minutes, and says so each time. Remembered by a running copy of the function, so that a new
one repeats it sooner; it is never sent later."""

SUBJECT_CHARACTERS = 100
"""Longest subject of an e-mail that SNS takes."""

_ADDON_HEALTHY = ("ACTIVE", "CREATING", "UPDATING", "PENDING", "DELETING")
_HELP = "`dpd status` shows nodes, events and add-ons; docs/observability.md says what follows"

_log = logging.getLogger(__name__)
_log.setLevel(logging.INFO)
_sent: dict[str, float] = {}


class CheckFailedError(RuntimeError):
    """A part of the check could not be done; the others were."""


def handler(event: Mapping[str, Any], _context: object) -> None:
    """Take either kind of event.

    Raises:
        CheckFailedError: not everything could be looked at; the alarm on missing checks tells it.
        botocore.exceptions.ClientError: a message could not be sent; Lambda tries twice more.
    """
    if event.get("source") == "aws.sagemaker":
        pass_on(event)
    else:
        check()


# Events ----------------------------------------------------------------------------------------------------------------


def pass_on(event: Mapping[str, Any], *, clock: Callable[[], float] = time.monotonic) -> None:
    """Publish `event` if somebody has to know about it and has not just been told."""
    text = message(event)
    if text is None:
        _log.info("nothing to tell: %s", json.dumps(event))
        return
    headline, body = text
    signature = re.sub(
        r"\b(i-[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+)\b", "#", f"{headline} {body['detail']}"
    )
    last = _sent.get(signature)
    if last is not None and clock() - last < REPEAT_SECONDS:
        _log.info("told before: %s", json.dumps(event))
        return
    lines = [headline, "", *(f"{name}: {said}" for name, said in body.items() if said), "", f"help: {_HELP}"]
    boto3.client("sns").publish(
        TopicArn=os.environ["DPD_TOPIC_ARN"],
        Subject=_subject(f"{os.environ['DPD_DEPLOYMENT']}: {headline}"),
        Message="\n".join(lines),
    )
    _sent[signature] = clock()


def message(event: Mapping[str, Any]) -> tuple[str, dict[str, str]] | None:
    """Return headline and details of what `event` says, or None where nobody has to know."""
    detail = event["detail"]
    kind = event["detail-type"]
    if kind == "SageMaker HyperPod Cluster Event":
        return _operation(event, detail["EventDetails"])
    if kind == "SageMaker HyperPod Cluster Node Health Event":
        return _health(event, detail)
    if kind == "SageMaker HyperPod Cluster State Change":
        return _state(event, detail)
    return None


def _operation(event: Mapping[str, Any], said: Mapping[str, Any]) -> tuple[str, dict[str, str]] | None:
    """Errors, and every step of a node's replacement.

    Warnings are left out: each scaling of a group announces nodes that "lost orchestration-ready status".
    """
    description = str(said.get("Description", ""))
    failed = said.get("EventLevel") == "Error"
    if not failed and "instance replacement" not in description:
        return None
    subject = said.get("InstanceId") or said.get("InstanceGroupName") or said.get("ClusterName")
    headline = f"HyperPod error of {subject}" if failed else f"HyperPod replaces {subject}"
    return headline, {
        "detail": description,
        "cause": _failure((said.get("EventDetails") or {}).get("EventMetadata") or {}),
        "group": str(said.get("InstanceGroupName", "")),
        **_origin(event, said),
    }


def _health(event: Mapping[str, Any], detail: Mapping[str, Any]) -> tuple[str, dict[str, str]] | None:
    summary = detail.get("HealthSummary") or {}
    if summary.get("HealthStatus") == "Healthy":
        return None
    status = str(summary.get("HealthStatus", "unknown")).lower()
    return f"node {detail.get('InstanceId')} is {status}", {
        "detail": str(summary.get("HealthStatusReason", "")),
        "repair": str(summary.get("RepairAction", "")),
        "recommendation": str(summary.get("Recommendation", "")),
        **_origin(event, detail),
    }


def _state(event: Mapping[str, Any], detail: Mapping[str, Any]) -> tuple[str, dict[str, str]] | None:
    status = str(detail.get("ClusterStatus"))
    groups = [
        f"{group.get('InstanceGroupName')}: {group.get('Status')}, {group.get('CurrentCount')} of "
        f"{group.get('TargetCount')}"
        for group in detail.get("InstanceGroups") or ()
    ]
    if status not in ("Failed", "RollingBack", "Deleting"):
        return None
    return f"HyperPod cluster {detail.get('ClusterName')} is {status}", {
        "detail": str(detail.get("FailureMessage", "")),
        "groups": "; ".join(groups),
        **_origin(event, detail),
    }


def _failure(metadata: Mapping[str, Any]) -> str:
    """Return HyperPod's own reason, for example that a zone has no capacity; its place depends on the resource."""
    texts = [
        str(part["FailureMessage"])
        for part in metadata.values()
        if isinstance(part, Mapping) and part.get("FailureMessage")
    ]
    return "; ".join(texts)


def _origin(event: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, str]:
    return {
        "cluster": str(said.get("ClusterName", "")),
        "time": str(event.get("time", "")),
        "region": str(event.get("region", "")),
    }


def _subject(text: str) -> str:
    """Return what SNS takes as a subject: printable ASCII of one line."""
    plain = re.sub(r"[^\x21-\x7e]+", " ", text).strip()
    return plain if len(plain) <= SUBJECT_CHARACTERS else plain[: SUBJECT_CHARACTERS - 3] + "..."


# Check -----------------------------------------------------------------------------------------------------------------


def check() -> None:
    """Look at nodes, add-ons and training plans, and write what was found as metrics.

    Raises:
        CheckFailedError: not everything could be looked at.
    """
    deployment = {"Name": "Deployment", "Value": os.environ["DPD_DEPLOYMENT"]}
    data: list[dict[str, Any]] = []
    failures: list[str] = []
    for look in (nodes_missing, addons_unhealthy, plans_end):
        try:
            for name, number, dimensions in look():
                data.append(_datum(name, number, [deployment, *dimensions]))
        except (BotoCoreError, ClientError) as error:
            failures.append(f"{look.__name__}: {error}")
    if not failures:
        data.append(_datum(CHECKS, 1, [deployment]))
    if data:
        boto3.client("cloudwatch").put_metric_data(Namespace=NAMESPACE, MetricData=data)
    if failures:
        raise CheckFailedError("; ".join(failures))


Found = Iterator[tuple[str, float, list[dict[str, str]]]]
"""Name, value and further dimensions of metrics."""


def nodes_missing() -> Found:
    """Yield how many nodes the instance groups want and do not have running."""
    client = boto3.client("sagemaker")
    name = os.environ["DPD_HYPERPOD_NAME"]
    groups = client.describe_cluster(ClusterName=name).get("InstanceGroups", ())
    pages = client.get_paginator("list_cluster_nodes").paginate(ClusterName=name)
    running = Counter(
        node["InstanceGroupName"]
        for page in pages
        for node in page["ClusterNodeSummaries"]
        if node["InstanceStatus"]["Status"] == "Running"
    )
    missing = {
        group["InstanceGroupName"]: group.get("TargetCount", 0) - running[group["InstanceGroupName"]]
        for group in groups
    }
    short = {group: number for group, number in missing.items() if number > 0}
    if short:
        _log.warning("missing nodes: %s", json.dumps(short))
    yield NODES, sum(short.values()), []


def addons_unhealthy() -> Found:
    """Yield how many EKS add-ons report an issue or a state that does not pass by itself."""
    client = boto3.client("eks")
    cluster = os.environ["DPD_EKS_NAME"]
    ill = 0
    for page in client.get_paginator("list_addons").paginate(clusterName=cluster):
        for name in page["addons"]:
            addon = client.describe_addon(clusterName=cluster, addonName=name)["addon"]
            issues = addon.get("health", {}).get("issues", ())
            if issues or addon["status"] not in _ADDON_HEALTHY:
                ill += 1
                _log.warning("add-on %s is %s: %s", name, addon["status"], json.dumps(issues, default=str))
    yield ADDONS, ill, []


def plans_end() -> Found:
    """Yield the hours until each training plan's instances are terminated; 0 once they are."""
    client = boto3.client("sagemaker")
    for name in json.loads(os.environ["DPD_TRAINING_PLANS"]):
        plan = client.describe_training_plan(TrainingPlanName=name)
        yield PLAN_HOURS, hours_left(plan, datetime.now(UTC)), [{"Name": "TrainingPlan", "Value": name}]


def hours_left(plan: Mapping[str, Any], now: datetime) -> float:
    """Return the hours for which `plan` still lends its instances.

    A plan may consist of several reservations with gaps between them: the end of the one that runs now counts.
    """
    if plan["Status"] in ("Expired", "Failed"):
        return 0.0
    active = [
        part["EndTime"]
        for part in plan.get("ReservedCapacitySummaries", ())
        if part.get("Status") == "Active" and part.get("EndTime")
    ]
    end: datetime = min(active) if active else plan["EndTime"]
    return max(0.0, ((end - now).total_seconds() - TERMINATION_SECONDS) / 3600)


def _datum(name: str, number: float, dimensions: list[dict[str, str]]) -> dict[str, Any]:
    return {"MetricName": name, "Value": number, "Dimensions": dimensions}
