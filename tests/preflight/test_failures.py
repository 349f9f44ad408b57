"""Everything that can go wrong between a preflight and AWS: a gap with a way out, never a traceback, never a wait."""

import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError

from hyperpod_dpd.preflight import runner
from hyperpod_dpd.preflight.account import ATTEMPTS, AwsAccount
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.checks import CHECKS, GATE
from hyperpod_dpd.preflight.failure import Kind, explain
from hyperpod_dpd.preflight.report import Outcome, Report, Status
from hyperpod_dpd.preflight.runner import preflight
from tests.preflight.aws import ACCOUNT_ID, Refusal, TableAccount
from tests.preflight.healthy import deployments, healthy

DEFAULT = deployments()["default"]

LIMIT_SECONDS = 60
"""Far more than what a machine stands still for."""


class _Body:
    """The body of an answer, as botocore reads it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._content


def _answer(status: int, code: str) -> AWSResponse:
    body = f"<ErrorResponse><Error><Code>{code}</Code><Message>test</Message></Error></ErrorResponse>"
    return AWSResponse("https://test", status, HTTPHeaders(), _Body(body.encode()))


def _caller() -> AWSResponse:
    body = (
        "<GetCallerIdentityResponse><GetCallerIdentityResult>"
        f"<Arn>arn:aws:iam::{ACCOUNT_ID}:user/x</Arn><Account>{ACCOUNT_ID}</Account>"
        "</GetCallerIdentityResult></GetCallerIdentityResponse>"
    )
    return AWSResponse("https://test", 200, HTTPHeaders(), _Body(body.encode()))


def _account(send: Callable[[], AWSResponse]) -> AwsAccount:
    """An account that answers with `send` below botocore's retries."""
    session = boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing")
    session.events.register("before-send", lambda **_: send())  # type: ignore[arg-type]
    return AwsAccount(region="us-east-1", session=session)


@pytest.fixture
def without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once; botocore would wait for seconds between two tries."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    monkeypatch.setattr("botocore.retries.bucket.TokenBucket.acquire", lambda *_, **__: True)


def _gate(account: AwsAccount) -> Report:
    return preflight(DEFAULT, account, checks=CHECKS, gate=GATE)


@pytest.mark.usefixtures("without_waits")
def test_throttled_call_is_tried_again() -> None:
    answers = [_answer(400, "Throttling"), _answer(400, "ThrottlingException"), _caller()]
    account = _account(lambda: answers.pop(0))
    report = preflight(DEFAULT, account, checks=(), gate=GATE)
    assert answers == []
    assert [outcome.status for outcome in report.outcomes] == [Status.OK]


@pytest.mark.usefixtures("without_waits")
def test_call_that_stays_throttled_is_unknown_and_stops_nothing_else() -> None:
    tries: list[str] = []

    def throttle() -> AWSResponse:
        tries.append("try")
        return _answer(400, "Throttling")

    report = preflight(DEFAULT, _account(throttle), checks=(_ok("PRE-TST-001"),), gate=GATE)
    assert len(tries) == ATTEMPTS
    ((check, gap),) = report.gaps
    assert check is GATE
    assert "AWS throttles `GetCallerIdentity` (`Throttling`), also after several tries" in gap.message
    assert "run it again in a minute" in gap.fix
    assert report.outcomes[1].status is Status.OK


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("ExpiredToken", "the credentials have expired"),
        ("ExpiredTokenException", "the credentials have expired"),
        ("InvalidClientTokenId", "AWS does not accept the credentials in this region"),
        ("SignatureDoesNotMatch", "AWS does not accept the credentials in this region"),
        ("RequestTimeTooSkewed", "the clock of this machine is wrong"),
    ],
)
def test_bad_credentials_are_said_once_and_nothing_else_is_asked(code: str, says: str) -> None:
    account = TableAccount({**healthy(), ("sts", "GetCallerIdentity"): Refusal(code=code, status=403)})
    report = _gate(account)
    ((_, gap),) = report.gaps
    assert says in gap.message
    assert account.calls == [("sts", "GetCallerIdentity")]
    assert report.count(Status.SKIPPED) == len(report.outcomes) - 1 > 10


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    report = _gate(AwsAccount(region="us-east-1"))
    ((_, gap),) = report.gaps
    assert "no AWS credentials were found" in gap.message
    assert "--profile" in gap.fix


@pytest.mark.parametrize("url", ["http://hub.example/x", "ftp://hub.example/x", "file:///etc/passwd"])
def test_only_https_leaves_this_machine(url: str) -> None:
    account = AwsAccount(region="us-east-1")
    with pytest.raises(ValueError, match="only https leaves this machine"):
        account.head(url, headers={"Authorization": "Bearer secret"})
    with pytest.raises(ValueError, match="only https leaves this machine"):
        account.get(url)


def test_a_client_is_of_the_accounts_region_unless_another_is_named() -> None:
    session = boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing")
    account = AwsAccount(region="us-west-2", session=session)
    assert account.client("ec2").meta.region_name == "us-west-2"
    assert account.client("ec2", region="eu-west-1").meta.region_name == "eu-west-1"
    assert account.client("ec2") is account.client("ec2", region="us-west-2")


def _local_account(monkeypatch: pytest.MonkeyPatch, port: int) -> AwsAccount:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    session = boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing")
    return AwsAccount(region="us-east-1", session=session)


@pytest.mark.usefixtures("without_waits")
def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        report = _gate(_local_account(monkeypatch, unused.getsockname()[1]))
    ((_, gap),) = report.gaps
    assert "no connection to AWS" in gap.message
    assert "`HTTPS_PROXY`" in gap.fix
    assert report.count(Status.SKIPPED) == len(report.outcomes) - 1


def test_network_that_swallows_everything_costs_no_more_than_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # one attempt of the client alone would take this long
    monkeypatch.setattr("hyperpod_dpd.preflight.account.READ_TIMEOUT_SECONDS", LIMIT_SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        account = _local_account(monkeypatch, silent.getsockname()[1])
        started = time.monotonic()
        report = preflight(DEFAULT, account, checks=CHECKS, gate=GATE, timeout_seconds=0.5)
        assert time.monotonic() - started < LIMIT_SECONDS
    ((_, gap),) = report.gaps
    assert "no answer within 0.5 seconds" in gap.message
    assert report.count(Status.SKIPPED) == len(report.outcomes) - 1


@pytest.mark.usefixtures("without_waits")
def test_portal_that_answers_instead_of_aws_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Portal(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(503)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Portal) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        report = preflight(DEFAULT, _local_account(monkeypatch, server.server_port), checks=(), gate=GATE)
        server.shutdown()
        thread.join()
    ((_, gap),) = report.gaps
    assert "what answers is not AWS" in gap.message
    assert len(gap.message) < 500


def _ok(check_id: str) -> Check:
    return Check(id=check_id, title="something holds", calls=(), look=lambda _deployment, _account: ())


def test_slow_check_is_left_behind_and_the_others_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    seen: list[Outcome] = []

    def now() -> float:
        """Return a time that passes as soon as the others have answered."""
        return 0.0 if len(seen) < 2 else LIMIT_SECONDS

    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=now))

    def wait(_deployment: object, _account: object) -> Iterator[Gap]:
        release.wait()
        yield from ()

    slow = Check(id="PRE-TST-001", title="something slow holds", calls=(), look=wait)
    report = preflight(
        DEFAULT,
        TableAccount(healthy()),
        checks=(slow, _ok("PRE-TST-002")),
        gate=GATE,
        timeout_seconds=LIMIT_SECONDS,
        done=seen.append,
    )
    release.set()
    ((check, gap),) = report.gaps
    assert check is slow
    assert gap.message == (
        "could not check that something slow holds: no answer within 60 seconds. "
        "help: run it again, or give a longer `--timeout`"
    )
    assert [outcome.check.id for outcome in seen] == ["PRE-ACC-001", "PRE-TST-002", "PRE-TST-001"]


def test_checks_run_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=60)

    def meet(_deployment: object, _account: object) -> Iterator[Gap]:
        together.wait()
        yield from ()

    checks = [
        Check(id=f"PRE-TST-00{number}", title="it meets the others", calls=(), look=meet)
        for number in range(3)
    ]
    report = preflight(DEFAULT, TableAccount(healthy()), checks=checks, gate=GATE)
    assert report.gaps == []


def test_answer_that_nobody_expected_is_unknown_and_says_what_it_was() -> None:
    def stumble(_deployment: object, _account: object) -> Iterator[Gap]:
        raise KeyError("Quota")

    check = Check(id="PRE-TST-001", title="something holds", calls=(), look=stumble)
    report = preflight(DEFAULT, TableAccount(healthy()), checks=(check,), gate=GATE)
    ((_, gap),) = report.gaps
    assert "an unexpected answer: KeyError: 'Quota'" in gap.message


def test_what_was_found_before_a_failure_is_kept() -> None:
    """Old bootstrap, and then something breaks."""
    answers = {
        **healthy(),
        ("sagemaker", "DescribeCluster"): Refusal(code="AccessDeniedException", status=400),
        ("eks", "DescribeCluster"): {"cluster": {"name": "llama-3-3-70b-p5"}},
    }
    names = next(check for check in CHECKS if check.id == "PRE-NAM-001")
    report = preflight(DEFAULT, TableAccount(answers), checks=(names,), gate=GATE)
    assert [finding.problem.path for finding in report.findings] == ["name"]
    assert [gap.needs for _, gap in report.gaps] == ["sagemaker:DescribeCluster"]
    assert report.outcomes[1].status is Status.WRONG


def test_service_control_policy_is_told_from_a_missing_permission() -> None:
    message = (
        "User: arn:aws:sts::1:assumed-role/a/b is not authorized to perform: ec2:DescribeVpcs with an explicit deny "
        "in a service control policy"
    )
    answers = {**healthy(), ("ec2", "DescribeVpcs"): Refusal(code="UnauthorizedOperation", message=message)}
    network = next(check for check in CHECKS if check.id == "PRE-QUO-003")
    report = preflight(DEFAULT, TableAccount(answers), checks=(network,), gate=GATE)
    ((_, gap),) = report.gaps
    assert "a service control policy of the organization denies `ec2:DescribeVpcs`" in gap.message
    assert "organization's administrator" in gap.fix
    assert report.denied_by_organization == ["ec2:DescribeVpcs"]


def test_message_that_only_aws_can_decode_is_left_out() -> None:
    error = ClientError(
        {
            "Error": {"Code": "Odd", "Message": "No. Encoded authorization failure message: 4dKL-x_y"},
            "ResponseMetadata": {},  # type: ignore[typeddict-item]
        },
        "RunInstances",
    )
    failure = explain(error)
    assert failure.kind is Kind.OTHER
    assert failure.why == "`RunInstances` failed (`Odd`: No)"


@pytest.mark.parametrize(
    ("service", "operation", "action"),
    [
        ("service-quotas", "GetServiceQuota", "servicequotas:GetServiceQuota"),
        ("amp", "ListWorkspaces", "aps:ListWorkspaces"),
        ("sso-admin", "ListInstances", "sso:ListInstances"),
        ("s3", "HeadObject", "s3:GetObject"),
        ("s3", "ListObjectsV2", "s3:ListBucket"),
        ("eks", "DescribeCluster", "eks:DescribeCluster"),
        ("sts", "GetCallerIdentity", None),
    ],
)
def test_permission_of_a_call(service: str, operation: str, action: str | None) -> None:
    assert Call(service=service, operation=operation).action == action
