"""Start the build that CloudFormation asks for, and answer once the build has ended.

One function with two entrances: a request of the custom resource, and CodeBuild's state-change event. Between them
nothing runs and nothing polls. Runs on Lambda with the standard library and boto3 only.
"""

import json
import logging
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

ERROR_MARK = "dpd-error: "
MAX_REASON_CHARACTERS = 1000
"""CloudFormation refuses an answer above 4,096 bytes."""
LOG_ATTEMPTS = 5
LOG_PAUSE_SECONDS = 2.0

_ANSWER_KEYS = ("StackId", "RequestId", "LogicalResourceId")
_log = logging.getLogger(__name__)
_log.setLevel(logging.INFO)


def handler(event: Mapping[str, Any], _context: object) -> None:
    """Take either kind of event."""
    if "RequestType" in event:
        start(event)
    else:
        finish(event["detail"]["build-id"])


def start(request: Mapping[str, Any]) -> None:
    """Start the build of a create, update or delete request; answer at once only when there is no build."""
    properties = request["ResourceProperties"]
    answer = {key: request[key] for key in _ANSWER_KEYS}
    answer["ResponseURL"] = request["ResponseURL"]
    # a constant: another id would make CloudFormation delete the "old" resource, which is the new release
    answer["PhysicalResourceId"] = f"{properties['Environment']['DPD_CLUSTER']}/hyperpod-dependencies"
    delete = request["RequestType"] == "Delete"
    variables = {
        **properties["Environment"],
        "DPD_ACTION": "uninstall" if delete else "install",
        # whoever may read builds can read this pre-signed address; it accepts one answer to this request
        "DPD_REQUEST": json.dumps(answer),
    }
    try:
        build = boto3.client("codebuild").start_build(
            projectName=os.environ["PROJECT_NAME"],
            # Lambda delivers at least once
            idempotencyToken=request["RequestId"],
            sourceLocationOverride=properties["Source"],
            environmentVariablesOverride=[
                {"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()
            ],
        )
    except (BotoCoreError, ClientError) as error:
        if delete and _code(error) == "ResourceNotFoundException":
            respond(answer, "SUCCESS", "the build project is gone; nothing was uninstalled")
        else:
            respond(answer, "FAILED", f"the build could not be started: {error}")
        return
    _log.info("started %s", build["build"]["id"])


def finish(build_id: str) -> None:
    """Answer the request that started the build `build_id`; a build that nobody waits for is left alone."""
    (build,) = boto3.client("codebuild").batch_get_builds(ids=[build_id])["builds"]
    variables = {entry["name"]: entry["value"] for entry in build["environment"]["environmentVariables"]}
    if "DPD_REQUEST" not in variables:
        _log.info("%s was started by hand", build_id)
        return
    answer = json.loads(variables["DPD_REQUEST"])
    if build["buildStatus"] == "SUCCEEDED":
        respond(answer, "SUCCESS", "")
    else:
        respond(answer, "FAILED", failure_text(build))


def failure_text(build: Mapping[str, Any], *, pause: Callable[[float], None] = time.sleep) -> str:
    """Return why `build` failed: the script's own words, else CodeBuild's."""
    where = f"build {build['id']} ended as {build['buildStatus']}"
    for attempt in range(LOG_ATTEMPTS):
        if attempt:
            # the event overtakes the last log lines
            pause(LOG_PAUSE_SECONDS)
        words = _marked_line(build.get("logs", {}))
        if words:
            return f"{words} ({where})"
    contexts = [
        f"{phase['phaseType']}: {context['message']}"
        for phase in build.get("phases", ())
        for context in phase.get("contexts", ())
        if context.get("message")
    ]
    return f"{where}: {'; '.join(contexts) or 'CodeBuild gives no reason'}"


def respond(answer: Mapping[str, str], status: str, reason: str) -> None:
    """Send the answer to CloudFormation.

    Raises:
        urllib.error.URLError: the address did not accept it; Lambda then runs the function again.
    """
    body = {key: answer[key] for key in (*_ANSWER_KEYS, "PhysicalResourceId")}
    body |= {"Status": status, "Reason": reason[:MAX_REASON_CHARACTERS]}
    request = urllib.request.Request(  # noqa: S310 CloudFormation's own https address
        answer["ResponseURL"],
        data=json.dumps(body).encode(),
        method="PUT",
        headers={"Content-Type": ""},
    )
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        _log.info("answered %s %s", status, reason)


def _marked_line(logs: Mapping[str, Any]) -> str:
    if not logs.get("groupName") or not logs.get("streamName"):
        return ""
    try:
        events = boto3.client("logs").get_log_events(
            logGroupName=logs["groupName"], logStreamName=logs["streamName"], limit=100, startFromHead=False
        )["events"]
    except (BotoCoreError, ClientError) as error:
        _log.warning("the log cannot be read: %s", error)
        return ""
    marked = [event["message"].partition(ERROR_MARK)[2] for event in events if ERROR_MARK in event["message"]]
    return marked[-1].strip() if marked else ""


def _code(error: Exception) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else ""
