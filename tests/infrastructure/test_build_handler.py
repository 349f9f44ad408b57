"""The custom resource's function: a request starts a build, the build's end answers the request."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from hyperpod_dpd.builds import runner
from hyperpod_dpd.builds.handler import index

BUILD_ID = "dependencies:1234"
LIMIT = "AccountLimitExceededException"
ENVIRONMENT = {"DPD_ACTION": "install", "DPD_COMMIT": "011ca92"}


class _CloudFormation(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.answers.append(json.loads(body))  # type: ignore[attr-defined]
        self.server.content_types.append(self.headers["Content-Type"])  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def cloudformation() -> Iterator[Any]:
    server = HTTPServer(("127.0.0.1", 0), _CloudFormation)
    server.answers, server.content_types, server.status = [], [], 200  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class Aws:
    """CodeBuild and CloudWatch Logs, as far as the function uses them."""

    build: dict[str, Any] = field(default_factory=dict)
    lines: list[list[str]] = field(default_factory=list)
    started: list[dict[str, Any]] = field(default_factory=list)
    refuse: str | None = None
    running: list[dict[str, Any]] = field(default_factory=list)
    """Builds of the project, which runs one at a time."""
    stopped: list[str] = field(default_factory=list)

    def client(self, service: str) -> "Aws":
        assert service in {"codebuild", "logs"}
        return self

    def start_build(self, **parameters: Any) -> Any:
        if self.refuse:
            raise ClientError({"Error": {"Code": self.refuse, "Message": "no"}}, "StartBuild")
        if any(build["buildStatus"] == "IN_PROGRESS" for build in self.running):
            raise ClientError({"Error": {"Code": LIMIT, "Message": "one at a time"}}, "StartBuild")
        self.started.append(parameters)
        return {"build": {"id": BUILD_ID}}

    def batch_get_builds(self, ids: list[str]) -> Any:
        known = {build["id"]: build for build in (*self.running, {"id": BUILD_ID, **self.build})}
        return {"builds": [known[each] for each in ids]}

    def list_builds_for_project(self, **parameters: Any) -> Any:
        assert parameters["projectName"] == "dependencies"
        return {"ids": [build["id"] for build in self.running]}

    def stop_build(self, **parameters: Any) -> None:
        self.stopped.append(parameters["id"])
        (build,) = [build for build in self.running if build["id"] == parameters["id"]]
        build["buildStatus"] = "STOPPED"

    def get_log_events(self, **parameters: Any) -> Any:
        if self.refuse:
            raise ClientError({"Error": {"Code": self.refuse, "Message": "no"}}, "GetLogEvents")
        assert parameters["logGroupName"] == "builds"
        lines = self.lines.pop(0) if len(self.lines) > 1 else self.lines[0]
        return {"events": [{"message": line} for line in lines]}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Aws:
    fake = Aws(lines=[[]])
    monkeypatch.setattr(index, "START_PAUSE_SECONDS", 0)
    monkeypatch.setattr(boto3, "client", fake.client)
    return fake


def _request(kind: str, server: Any, **properties: Any) -> dict[str, Any]:
    return {
        "RequestType": kind,
        "ResponseURL": f"http://127.0.0.1:{server.server_port}/answer",
        "StackId": "stack",
        "RequestId": "request-1",
        "LogicalResourceId": "Chart",
        "ResourceProperties": {
            "ServiceToken": "arn",
            "Project": "dependencies",
            "Source": "bucket/key.zip",
            "PhysicalId": "dpd/hyperpod-dependencies",
            "Environment": ENVIRONMENT,
            "OnDelete": {"DPD_ACTION": "uninstall"},
            **properties,
        },
    }


def _build(aws: Aws, status: str) -> dict[str, Any]:
    variables = aws.started[-1]["environmentVariablesOverride"]
    return {
        "id": BUILD_ID,
        "buildStatus": status,
        "environment": {"environmentVariables": variables},
        "logs": {"groupName": "builds", "streamName": "1234"},
        "phases": [
            {"phaseType": "BUILD", "contexts": [{"message": "exit status 1"}]},
            {"phaseType": "FINALIZING", "contexts": [{"message": ""}]},
        ],
    }


def _ended() -> dict[str, Any]:
    return {"source": "aws.codebuild", "detail": {"build-id": BUILD_ID}}


@pytest.mark.parametrize(
    ("kind", "action"), [("Create", "install"), ("Update", "install"), ("Delete", "uninstall")]
)
def test_a_request_starts_one_build_and_is_not_answered_yet(
    aws: Aws, cloudformation: Any, kind: str, action: str
) -> None:
    index.handler(_request(kind, cloudformation), None)
    (started,) = aws.started
    variables = {entry["name"]: entry["value"] for entry in started["environmentVariablesOverride"]}
    assert variables["DPD_ACTION"] == action
    assert variables["DPD_COMMIT"] == "011ca92"
    assert started["sourceLocationOverride"] == "bucket/key.zip"
    assert started["projectName"] == "dependencies"
    # delivered twice, CodeBuild starts once
    assert started["idempotencyToken"] == "request-1"
    assert cloudformation.answers == []


def test_a_build_that_succeeds_answers_success(aws: Aws, cloudformation: Any) -> None:
    index.handler(_request("Create", cloudformation), None)
    aws.build = _build(aws, "SUCCEEDED")
    index.handler(_ended(), None)
    (answer,) = cloudformation.answers
    assert answer == {
        "Status": "SUCCESS",
        "Reason": "",
        "StackId": "stack",
        "RequestId": "request-1",
        "LogicalResourceId": "Chart",
        "PhysicalResourceId": "dpd/hyperpod-dependencies",
        "Data": {},
    }
    # the pre-signed address is signed for an empty content type
    assert cloudformation.content_types == [""]


def test_the_physical_id_never_changes(aws: Aws, cloudformation: Any) -> None:
    for kind in ("Create", "Update", "Delete"):
        index.handler(_request(kind, cloudformation), None)
        aws.build = _build(aws, "SUCCEEDED")
        index.handler(_ended(), None)
    assert {answer["PhysicalResourceId"] for answer in cloudformation.answers} == {
        "dpd/hyperpod-dependencies"
    }


@pytest.mark.parametrize("status", ["FAILED", "FAULT", "STOPPED", "TIMED_OUT"])
def test_a_build_that_fails_answers_with_the_scripts_last_words(
    aws: Aws, cloudformation: Any, status: str
) -> None:
    index.handler(_request("Create", cloudformation), None)
    aws.build = _build(aws, status)
    aws.lines = [["noise", "dpd-error: first", "dpd-error: helm upgrade failed: on fire\n", "noise"]]
    index.handler(_ended(), None)
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert answer["Reason"] == f"helm upgrade failed: on fire (build {BUILD_ID} ended as {status})"


def test_a_reason_never_exceeds_what_cloudformation_takes(aws: Aws, cloudformation: Any) -> None:
    index.handler(_request("Create", cloudformation), None)
    aws.build = _build(aws, "FAILED")
    aws.lines = [["dpd-error: " + "x" * 10_000]]
    index.handler(_ended(), None)
    assert len(json.dumps(cloudformation.answers[0])) < 4096


def test_log_lines_that_arrive_late_are_waited_for(aws: Aws, cloudformation: Any) -> None:
    index.handler(_request("Create", cloudformation), None)
    pauses: list[float] = []
    aws.lines = [[], ["dpd-error: late"]]
    text = index.failure_text(_build(aws, "FAILED"), pause=pauses.append)
    assert text.startswith("late (")
    assert pauses == [index.LOG_PAUSE_SECONDS]


def test_without_the_scripts_words_codebuilds_are_given(aws: Aws, cloudformation: Any) -> None:
    index.handler(_request("Create", cloudformation), None)
    build = _build(aws, "FAILED")
    aws.refuse = "AccessDeniedException"
    text = index.failure_text(build, pause=lambda _seconds: None)
    assert text == f"build {BUILD_ID} ended as FAILED: BUILD: exit status 1"


def test_a_build_that_never_got_a_log_still_has_a_reason(aws: Aws) -> None:
    text = index.failure_text({"id": BUILD_ID, "buildStatus": "FAULT"}, pause=lambda _seconds: None)
    assert text == f"build {BUILD_ID} ended as FAULT: CodeBuild gives no reason"


@pytest.mark.parametrize("kind", ["Create", "Update", "Delete"])
def test_a_build_that_cannot_start_is_answered_at_once(aws: Aws, cloudformation: Any, kind: str) -> None:
    aws.refuse = "AccessDeniedException"
    index.handler(_request(kind, cloudformation), None)
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert "AccessDeniedException" in answer["Reason"]


def _running(name: str, *, request: str | None) -> dict[str, Any]:
    variables = [{"name": "DPD_REQUEST", "value": json.dumps({"RequestId": request})}] if request else []
    return {
        "id": name,
        "buildStatus": "IN_PROGRESS",
        "environment": {"environmentVariables": [{"name": "DPD_COMMIT", "value": "011ca92"}, *variables]},
    }


@pytest.mark.parametrize("kind", ["Update", "Delete"])
def test_a_roll_back_stops_the_build_that_nobody_waits_for_and_starts_its_own(
    aws: Aws, cloudformation: Any, kind: str
) -> None:
    aws.running = [_running("dependencies:0", request="request-0")]
    index.handler(_request(kind, cloudformation), None)
    assert aws.stopped == ["dependencies:0"]
    assert len(aws.started) == 1
    assert cloudformation.answers == []


def test_a_build_with_a_handle_is_found_and_stopped_too(aws: Aws, cloudformation: Any) -> None:
    index.handler(_waiting(cloudformation), None)
    variables = aws.started[0]["environmentVariablesOverride"]
    aws.running = [_running("dependencies:0", request=None)]
    aws.running[0]["environment"]["environmentVariables"] = variables
    later = _waiting(cloudformation, "Update") | {"RequestId": "request-2"}
    index.handler(later, None)
    assert aws.stopped == ["dependencies:0"]
    assert len(aws.started) == 2


@pytest.mark.parametrize("request_id", [None, "request-1"])
def test_builds_started_by_hand_and_by_the_same_request_are_not_stopped(
    aws: Aws, cloudformation: Any, request_id: str | None
) -> None:
    aws.running = [_running("dependencies:0", request=request_id)]
    index.handler(_request("Update", cloudformation), None)
    assert aws.stopped == []
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert "one at a time" in answer["Reason"]


def test_an_account_without_builds_is_told_where_the_quotas_are(aws: Aws, cloudformation: Any) -> None:
    aws.refuse = LIMIT
    index.handler(_request("Create", cloudformation), None)
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert "help: `dpd preflight` names the quotas" in answer["Reason"]


def test_the_handler_gives_up_before_lambda_and_cloudformation_do() -> None:
    trying_minutes = index.START_ATTEMPTS * index.START_PAUSE_SECONDS / 60
    assert trying_minutes < runner._FUNCTION_TIMEOUT_MINUTES < runner._MARGIN_MINUTES


def test_deleting_without_a_project_is_done(aws: Aws, cloudformation: Any) -> None:
    aws.refuse = "ResourceNotFoundException"
    index.handler(_request("Delete", cloudformation), None)
    assert cloudformation.answers[0]["Status"] == "SUCCESS"


def test_creating_without_a_project_is_a_failure(aws: Aws, cloudformation: Any) -> None:
    aws.refuse = "ResourceNotFoundException"
    index.handler(_request("Create", cloudformation), None)
    assert cloudformation.answers[0]["Status"] == "FAILED"


def test_a_build_started_by_hand_answers_nobody(aws: Aws, cloudformation: Any) -> None:
    index.handler(_request("Create", cloudformation), None)
    build = _build(aws, "SUCCEEDED")
    build["environment"]["environmentVariables"] = []
    aws.build = build
    index.handler(_ended(), None)
    assert cloudformation.answers == []


def test_an_answer_that_is_refused_fails_the_function_so_that_lambda_repeats_it(
    aws: Aws, cloudformation: Any
) -> None:
    index.handler(_request("Create", cloudformation), None)
    aws.build = _build(aws, "SUCCEEDED")
    cloudformation.status = 500
    with pytest.raises(OSError, match="500"):
        index.handler(_ended(), None)


def test_deleting_what_leaves_nothing_behind_starts_no_build(aws: Aws, cloudformation: Any) -> None:
    request = _request("Delete", cloudformation)
    del request["ResourceProperties"]["OnDelete"]
    index.handler(request, None)
    assert aws.started == []
    assert cloudformation.answers[0]["Status"] == "SUCCESS"


def test_variables_that_the_build_exports_become_attributes(aws: Aws, cloudformation: Any) -> None:
    index.handler(_request("Create", cloudformation, Exports=["IMAGE_URI"]), None)
    exported = [{"name": "IMAGE_URI", "value": "registry/router@sha256:1"}, {"name": "OTHER", "value": "x"}]
    aws.build = _build(aws, "SUCCEEDED") | {"exportedEnvironmentVariables": exported}
    index.handler(_ended(), None)
    assert cloudformation.answers[0]["Data"] == {"IMAGE_URI": "registry/router@sha256:1"}


def test_a_build_that_succeeds_without_its_result_is_a_failure(aws: Aws, cloudformation: Any) -> None:
    index.handler(_request("Create", cloudformation, Exports=["IMAGE_URI"]), None)
    aws.build = _build(aws, "SUCCEEDED") | {
        "exportedEnvironmentVariables": [{"name": "IMAGE_URI", "value": ""}]
    }
    index.handler(_ended(), None)
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert answer["Reason"] == f"build {BUILD_ID} succeeded without IMAGE_URI"


def _waiting(server: Any, kind: str = "Create") -> dict[str, Any]:
    return _request(kind, server, WaitHandle=f"http://127.0.0.1:{server.server_port}/handle")


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_a_request_with_a_handle_is_answered_at_once(aws: Aws, cloudformation: Any, kind: str) -> None:
    index.handler(_waiting(cloudformation, kind), None)
    assert len(aws.started) == 1
    assert [answer["Status"] for answer in cloudformation.answers] == ["SUCCESS"]


@pytest.mark.parametrize(("status", "signalled"), [("SUCCEEDED", "SUCCESS"), ("TIMED_OUT", "FAILURE")])
def test_the_end_of_the_build_is_signalled_to_the_handle(
    aws: Aws, cloudformation: Any, status: str, signalled: str
) -> None:
    index.handler(_waiting(cloudformation), None)
    aws.build = _build(aws, status)
    aws.lines = [["dpd-error: the disk is full"]]
    index.handler(_ended(), None)
    signal = cloudformation.answers[1]
    assert (signal["Status"], signal["UniqueId"]) == (signalled, BUILD_ID)
    assert ("the disk is full" in signal["Reason"]) is (signalled == "FAILURE")
    # CloudFormation refuses a signal without a reason
    assert signal["Reason"]


@pytest.mark.parametrize(("value", "status"), [("registry/router@sha256:1", "SUCCESS"), ("", "FAILURE")])
def test_a_signal_carries_what_the_build_exports_and_fails_without_it(
    aws: Aws, cloudformation: Any, value: str, status: str
) -> None:
    request = _waiting(cloudformation)
    request["ResourceProperties"]["Exports"] = ["IMAGE_URI"]
    index.handler(request, None)
    exported = [{"name": "IMAGE_URI", "value": value}]
    aws.build = _build(aws, "SUCCEEDED") | {"exportedEnvironmentVariables": exported}
    index.handler(_ended(), None)
    signal = cloudformation.answers[1]
    assert (signal["Status"], signal["Data"]) == (status, value)


def test_a_build_that_cannot_start_fails_the_request_in_place_of_the_handle(
    aws: Aws, cloudformation: Any
) -> None:
    aws.refuse = LIMIT
    index.handler(_waiting(cloudformation), None)
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert "RequestId" in answer


def test_a_handle_for_which_nobody_waits_any_more_is_no_error(aws: Aws, cloudformation: Any) -> None:
    index.handler(_waiting(cloudformation), None)
    aws.build = _build(aws, "SUCCEEDED")
    cloudformation.status = 403
    index.handler(_ended(), None)


def test_a_handle_that_cannot_be_reached_fails_the_function_so_that_lambda_repeats_it(
    aws: Aws, cloudformation: Any
) -> None:
    index.handler(_waiting(cloudformation), None)
    aws.build = _build(aws, "SUCCEEDED")
    cloudformation.status = 503
    with pytest.raises(OSError, match="503"):
        index.handler(_ended(), None)
