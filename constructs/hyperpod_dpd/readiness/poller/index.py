"""One function with three entrances: the request that starts a wait, the one that ends namespaces, the look a minute.

Between two looks nothing runs. What AWS or Kubernetes does not answer now is asked again a minute later: throttling,
a role that does not reach everywhere yet, an API server that restarts.
"""

import logging
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from hyperpod_dpd.readiness.poller.addons import addon_active
from hyperpod_dpd.readiness.poller.answers import respond, signal
from hyperpod_dpd.readiness.poller.gone import remaining
from hyperpod_dpd.readiness.poller.kubernetes import ApiError, connect
from hyperpod_dpd.readiness.poller.nodes import nodes_healthy, utc_now
from hyperpod_dpd.readiness.poller.verdict import Outcome, Verdict, failed, together, waiting
from hyperpod_dpd.readiness.poller.workloads import (
    job_complete,
    resource_state,
    rollout,
    service_answers,
    webhook_answers,
)

MARGIN = timedelta(minutes=3)
"""How long before the wait condition's own end the wait gives up, so that its reason is heard."""

GONE = "Custom::DpdGone"
"""Type of the resource whose deletion waits for namespaces."""

_log = logging.getLogger(__name__)
_log.setLevel(logging.INFO)

Judge = Callable[[Mapping[str, Any], "_Sources"], Verdict]


def handler(event: Mapping[str, Any], context: Any) -> None:
    """Take any kind of event."""
    if "RequestType" not in event:
        look(event)
    elif event["RequestType"] == "Delete" and event["ResourceType"] == GONE:
        gone(event, seconds_left=lambda: context.get_remaining_time_in_millis() / 1000)
    else:
        # the time at which a wait begins; there is nothing to undo when it is deleted
        respond(event, data={"Started": utc_now().isoformat()})


def gone(request: Mapping[str, Any], *, seconds_left: Callable[[], float]) -> None:
    """Answer the deletion of a resource once its namespaces are gone; a cluster that is gone has none.

    Raises:
        StillThereError: not yet, and the time of this run is nearly over; Lambda runs it again.
        ApiError: Kubernetes does not answer; Lambda runs it again.
    """
    namespaces = request["ResourceProperties"]["Namespaces"]
    try:
        kubernetes = connect(os.environ["DPD_EKS_NAME"])
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        respond(request)
        return
    respond(
        request,
        failure=remaining(namespaces, kubernetes=kubernetes, now=utc_now, seconds_left=seconds_left),
    )


def look(event: Mapping[str, Any]) -> None:
    """Look at the requirements of a wait once; when it is over, tell CloudFormation and look no more."""
    now, started = utc_now(), datetime.fromisoformat(event["started"])
    sources = _Sources(started=started, now=now)
    verdict = together(_judge(requirement, sources) for requirement in event["requirements"])
    _log.info("%s: %s %s", event["wait"], verdict.outcome.value, verdict.text)
    if verdict.outcome is Outcome.WAITING:
        within = timedelta(seconds=event["within_seconds"])
        if now - started < within - MARGIN:
            return
        verdict = failed(f"not there within {within}: {verdict.text}")
    signal(event["handle"], verdict)
    # after the signal: a look that failed in between is repeated, and the same signal twice counts once
    boto3.client("events").disable_rule(Name=event["rule"].rpartition("/")[2])


class _Sources:
    """Clients, made when a requirement needs them."""

    def __init__(self, *, started: datetime, now: datetime) -> None:
        self.started = started
        self.now = now
        self.eks_name = os.environ["DPD_EKS_NAME"]
        self.hyperpod_name = os.environ["DPD_HYPERPOD_NAME"]
        self._kubernetes: Any = None

    @property
    def kubernetes(self) -> Any:
        """The cluster's API."""
        if self._kubernetes is None:
            self._kubernetes = connect(self.eks_name)
        return self._kubernetes


_JUDGES: Mapping[str, Judge] = {
    "nodes-healthy": lambda wanted, sources: nodes_healthy(
        wanted,
        cluster_name=sources.hyperpod_name,
        sagemaker=boto3.client("sagemaker"),
        kubernetes=sources.kubernetes,
        started=sources.started,
        now=sources.now,
    ),
    "addon-active": lambda wanted, sources: addon_active(
        wanted, cluster_name=sources.eks_name, eks=boto3.client("eks")
    ),
    "rollout": lambda wanted, sources: rollout(wanted, kubernetes=sources.kubernetes),
    "service-answers": lambda wanted, sources: service_answers(wanted, kubernetes=sources.kubernetes),
    "webhook-answers": lambda wanted, sources: webhook_answers(wanted, kubernetes=sources.kubernetes),
    "job-complete": lambda wanted, sources: job_complete(wanted, kubernetes=sources.kubernetes),
    "resource-state": lambda wanted, sources: resource_state(wanted, kubernetes=sources.kubernetes),
}


def _judge(requirement: Mapping[str, Any], sources: _Sources) -> Verdict:
    judge = _JUDGES[requirement["is"]]
    try:
        return judge(requirement, sources)
    except (ApiError, BotoCoreError, ClientError) as error:
        return waiting(f"{requirement['is']} cannot be seen: {error}")
