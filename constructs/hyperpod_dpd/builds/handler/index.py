"""Start the build that CloudFormation asks for, and say how it ended.

One function with two entrances: a request of the custom resource, and CodeBuild's state-change event. Between them
nothing runs and nothing polls. A request that names a wait handle is answered at once, and the build's end is signalled
to the handle. Runs on Lambda with the standard library and boto3 only.
"""

import json
import logging
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
START_ATTEMPTS = 30
START_PAUSE_SECONDS = 10.0
"""Five minutes: a stopped build ends within one, and a queue that was full for a moment has room again. CloudFormation
waits ten minutes longer than queue and build take."""
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
    """Start the build of a create, update or delete request; answer at once only when nobody waits for its end."""
    properties = request["ResourceProperties"]
    answer = {key: request[key] for key in _ANSWER_KEYS}
    answer["ResponseURL"] = request["ResponseURL"]
    # a constant: another id would make CloudFormation delete the "old" resource, which is what the build has just made
    answer["PhysicalResourceId"] = properties["PhysicalId"]
    delete = request["RequestType"] == "Delete"
    if delete and "OnDelete" not in properties:
        respond(answer, "SUCCESS", "there is nothing to undo")
        return
    signalled = None if delete else properties.get("WaitHandle")
    wanted = {"Signal": signalled, "RequestId": request["RequestId"]} if signalled else dict(answer)
    wanted["Exports"] = properties.get("Exports", [])
    variables = {
        **properties["Environment"],
        **(properties["OnDelete"] if delete else {}),
        # whoever may read builds can read this pre-signed address; it accepts one answer to this request
        "DPD_REQUEST": json.dumps(wanted),
    }
    build: Mapping[str, Any] = {
        "projectName": properties["Project"],
        # Lambda delivers at least once
        "idempotencyToken": request["RequestId"],
        "sourceLocationOverride": properties["Source"],
        "environmentVariablesOverride": [
            {"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()
        ],
    }
    try:
        build_id = start_build(build, answer["RequestId"], pause=time.sleep)
    except (BotoCoreError, ClientError) as error:
        if delete and _code(error) == "ResourceNotFoundException":
            respond(answer, "SUCCESS", "the build project is gone; nothing was undone")
        else:
            respond(answer, "FAILED", f"the build could not be started: {error}{_advice(error)}")
        return
    _log.info("started %s", build_id)
    if signalled:
        respond(answer, "SUCCESS", "")


def start_build(build: Mapping[str, Any], request_id: str, *, pause: Callable[[float], None]) -> str:
    """Start `build` and return its id; a project runs one build at a time, and what an earlier request left is stopped.

    CloudFormation gives requests up that have not been answered: a stack that is rolled back asks again, or asks for the
    opposite, while the first build is still running. Nobody waits for that one any more.

    Raises:
        ClientError: CodeBuild does not start it, for a limit only after the last attempt.
    """
    codebuild = boto3.client("codebuild")
    for attempt in range(1, START_ATTEMPTS + 1):
        try:
            return str(codebuild.start_build(**build)["build"]["id"])
        except ClientError as error:
            if _code(error) != "AccountLimitExceededException" or attempt == START_ATTEMPTS:
                raise
            _log.info("attempt %s: %s", attempt, error)
        for left in _left_over(codebuild, build["projectName"], request_id):
            _log.info("stopping %s", left)
            codebuild.stop_build(id=left)
        pause(START_PAUSE_SECONDS)
    raise AssertionError("the last attempt returns or raises")


def _left_over(codebuild: Any, project: str, request_id: str) -> list[str]:
    """Return the builds of `project` that run for another request; one that was started by hand is left alone."""
    newest = codebuild.list_builds_for_project(projectName=project, sortOrder="DESCENDING")["ids"]
    if not newest:
        return []
    # a project runs one at a time
    builds = codebuild.batch_get_builds(ids=newest[:10])["builds"]
    requests = {build["id"]: _wanted(build) for build in builds if build["buildStatus"] == "IN_PROGRESS"}
    return [found for found, wanted in requests.items() if wanted and wanted["RequestId"] != request_id]


def _wanted(build: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the request wrote into `build`; None if it was started by hand."""
    for entry in build["environment"]["environmentVariables"]:
        if entry["name"] == "DPD_REQUEST":
            wanted: dict[str, Any] = json.loads(entry["value"])
            return wanted
    return None


def finish(build_id: str) -> None:
    """Say to whoever started the build `build_id` how it ended; one that was started by hand is left alone."""
    (build,) = boto3.client("codebuild").batch_get_builds(ids=[build_id])["builds"]
    wanted = _wanted(build)
    if wanted is None:
        _log.info("%s was started by hand", build_id)
        return
    exported = {entry["name"]: entry["value"] for entry in build.get("exportedEnvironmentVariables", ())}
    data = {name: exported.get(name, "") for name in wanted["Exports"]}
    missing = [name for name, value in data.items() if not value]
    if build["buildStatus"] != "SUCCEEDED":
        reason = failure_text(build)
    else:
        reason = f"build {build_id} succeeded without {', '.join(missing)}" if missing else ""
    if "Signal" in wanted:
        # a signal carries one text
        signal(wanted["Signal"], build_id, reason, next(iter(data.values()), ""))
    else:
        respond(wanted, "FAILED" if reason else "SUCCESS", reason, {} if reason else data)


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


def respond(
    answer: Mapping[str, Any], status: str, reason: str, data: Mapping[str, str] | None = None
) -> None:
    """Send the answer to CloudFormation; `data` becomes the resource's attributes.

    Raises:
        urllib.error.URLError: the address did not accept it; Lambda then runs the function again.
    """
    body: dict[str, Any] = {key: answer[key] for key in (*_ANSWER_KEYS, "PhysicalResourceId")}
    body |= {"Status": status, "Reason": reason[:MAX_REASON_CHARACTERS], "Data": dict(data or {})}
    _put(answer["ResponseURL"], body)
    _log.info("answered %s %s", status, reason)


def signal(handle: str, build_id: str, reason: str, data: str = "") -> None:
    """Signal the end of a build, and what came of it, to the wait handle; an empty `reason` is success.

    Raises:
        urllib.error.URLError: the address did not answer; Lambda then runs the function again.
    """
    body = {
        "Status": "FAILURE" if reason else "SUCCESS",
        "Reason": reason[:MAX_REASON_CHARACTERS] or "done",
        "UniqueId": build_id,
        "Data": data,
    }
    try:
        _put(handle, body)
    except urllib.error.HTTPError as error:
        # a roll-back runs the inputs of before with their handle, for which nobody waits any more
        if error.code >= 500:
            raise
        _log.warning("the handle takes no signal: %s", error)
        return
    _log.info("signalled %s %s", body["Status"], reason)


def _put(address: str, body: Mapping[str, Any]) -> None:
    request = urllib.request.Request(  # noqa: S310 CloudFormation's own https address
        address,
        data=json.dumps(body).encode(),
        method="PUT",
        # the pre-signed address is signed for an empty content type
        headers={"Content-Type": ""},
    )
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        pass


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


def _advice(error: Exception) -> str:
    if _code(error) != "AccountLimitExceededException":
        return ""
    return (
        ". help: `dpd preflight` names the quotas of CodeBuild; a new account may have less than they say, which "
        "AWS Support mends"
    )


def _code(error: Exception) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else ""
