"""What a status says about an account, a cluster and an endpoint in every condition."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.message import Message
from typing import Any
from urllib.error import HTTPError, URLError

import boto3
import pytest

from hyperpod_dpd.preflight.account import AwsAccount
from hyperpod_dpd.spec import Deployment, ExistingCluster, Scaling
from hyperpod_dpd.status.look import look
from hyperpod_dpd.status.observation import Row, Snapshot, State, Unseen
from hyperpod_dpd.status.outside import KubectlAbsentError, KubectlError
from hyperpod_dpd.status.sources.stacks import stacks
from tests.support.deployments import changed, ready
from tests.support.status_account import REGION, StatusAccount, running

_AMP = "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-1"


_RULE = {"type": "alerting", "name": "DpdNoDecoder", "health": "ok", "labels": {"deployment": ready().name}}


def _rules(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"data": {"groups": [{"name": "dpd-workers", "rules": list(rules)}]}}


class _Outside:
    """AWS on loopback; kubectl, endpoint and alerts from what the test says."""

    def __init__(self, account: Any) -> None:
        self.account = account
        self.endpoint: str | None = None
        self.answers: dict[str, Any] = {}
        self.alerts: Callable[[], Any] = lambda: {"data": {"alerts": []}}
        self.rules: Callable[[], Any] = lambda: _rules(_RULE)
        self.ready: Callable[[], int] = lambda: 200
        self.asked: list[str] = []

    def now(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC)

    def kubectl(self, *arguments: str) -> Any:
        answer = self.answers.get(" ".join(arguments), KubectlAbsentError("`kubectl` is not installed"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def signed(self, url: str, service: str) -> Any:
        self.asked.append(f"{service} {url}")
        return self.rules() if url.endswith("/rules") else self.alerts()

    def status_of(self, url: str) -> int:
        self.asked.append(url)
        return self.ready()


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return ready()


@pytest.fixture
def aws(deployment: Deployment) -> Iterator[StatusAccount]:
    with running() as account:
        account.client("sts")
        _reset(account)
        account.deploy(deployment)
        yield account


def _reset(account: StatusAccount) -> None:
    import urllib.request  # noqa: PLC0415

    urllib.request.urlopen(urllib.request.Request(f"{account.url}/moto-api/reset", method="POST")).close()


@pytest.fixture
def outside(aws: StatusAccount, monkeypatch: pytest.MonkeyPatch) -> _Outside:
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    return _Outside(AwsAccount(region=REGION, session=boto3.Session(region_name=REGION)))


def _rows(snapshot: Snapshot, kind: str) -> list[Row]:
    return [row for row in snapshot.rows if row.kind == kind]


def _gap(snapshot: Snapshot, what: str) -> Unseen:
    return next(gap for gap in snapshot.unseen if what in gap.what)


def test_deployment_that_is_well_is_well(deployment: Deployment, outside: _Outside) -> None:
    snapshot = look(deployment, outside)
    assert [row for row in snapshot.rows if row.state is not State.WELL] == []
    assert [row.name for row in _rows(snapshot, "stack")] == [
        f"{deployment.name}-{part}" for part in ("network", "cluster", "hyperpod")
    ]
    assert _rows(snapshot, "EKS")[0].detail == "Kubernetes 1.35"
    assert [row.word for row in _rows(snapshot, "nodes")] == ["2 of 2"]
    assert [row.name for row in _rows(snapshot, "node")] == ["decode/decode-0", "prefill/prefill-0"]
    assert all(gap.skipped for gap in snapshot.unseen)


def test_nothing_deployed_says_so_without_an_error_of_its_own(outside: _Outside) -> None:
    snapshot = look(changed(ready(), name="absent"), outside)
    (stack,) = _rows(snapshot, "stack")
    assert (stack.state, stack.word) == (State.ILL, "absent")
    assert "ResourceNotFound" in _gap(snapshot, "EKS").why
    assert "could not find" in _gap(snapshot, "HyperPod").why.lower()


def test_stack_that_can_only_be_deleted_says_how_it_is_tried_again(deployment: Deployment) -> None:
    class Cloudformation:
        def client(self, _service: str) -> Any:
            return self

        get_paginator = client

        def paginate(self) -> list[dict[str, Any]]:
            return [
                {
                    "Stacks": [
                        {
                            "StackName": f"{deployment.name}-platform",
                            "StackStatus": "ROLLBACK_COMPLETE",
                            "StackStatusReason": "no capacity",
                            "CreationTime": 1,
                            "Tags": [{"Key": "hyperpod-dpd:deployment", "Value": deployment.name}],
                        }
                    ]
                }
            ]

    (row,) = stacks(deployment, _Outside(Cloudformation()))
    assert isinstance(row, Row)
    assert row.state is State.ILL
    assert row.detail.startswith(
        "no capacity; its first creation failed; once the cause is mended: `aws cloudformation"
    )
    assert f"--no-enable-termination-protection --stack-name {deployment.name}-platform`" in row.detail


def test_cluster_of_others_has_no_stacks_to_miss(deployment: Deployment, outside: _Outside) -> None:
    existing = ExistingCluster(eks_name=deployment.name, hyperpod_name=deployment.name)
    snapshot = look(changed(deployment, name="mine", cluster__existing=existing), outside)
    assert _gap(snapshot, "stacks").skipped
    assert _rows(snapshot, "EKS")[0].state is State.WELL


def test_group_differs_from_the_file(deployment: Deployment, outside: _Outside) -> None:
    larger = changed(
        deployment, hyperpod__instance_groups__0__count=3, hyperpod__instance_groups__1__name="renamed"
    )
    groups = {row.name: row for row in _rows(look(larger, outside), "group")}
    assert groups["prefill"].detail.endswith("; the file wants 3")
    assert groups["renamed"].word == "absent"
    assert groups["decode"].detail.endswith("; in the cluster, not in the file")
    assert {row.state for row in groups.values()} == {State.ILL}


def test_degraded_addon_says_why(deployment: Deployment, outside: _Outside, aws: StatusAccount) -> None:
    aws.addons["coredns"] |= {
        "status": "DEGRADED",
        "health": {"issues": [{"code": "InsufficientNumberOfReplicas", "message": "0 of 2"}]},
    }
    aws.addons["vpc-cni"]["status"] = "UPDATING"
    addons = {row.name: row for row in _rows(look(deployment, outside), "add-on")}
    assert (addons["coredns"].state, addons["coredns"].detail) == (
        State.ILL,
        "InsufficientNumberOfReplicas: 0 of 2",
    )
    assert addons["vpc-cni"].state is State.BUSY


def test_events_show_warnings_and_the_last_one_of_each_node(
    deployment: Deployment, outside: _Outside, aws: StatusAccount
) -> None:
    common = {
        "EventId": "1",
        "ClusterArn": "a",
        "ClusterName": deployment.name,
        "InstanceGroupName": "decode",
    }
    aws.events = [
        {**common, "ResourceType": "InstanceGroup", "EventTime": 1796000300, "EventLevel": "Error"}
        | {"Description": "Insufficient capacity"},
        {**common, "ResourceType": "Instance", "InstanceId": "decode-0", "EventTime": 1796000200}
        | {"EventLevel": "Info", "Description": "newer"},
        {**common, "ResourceType": "Instance", "InstanceId": "decode-0", "EventTime": 1796000100}
        | {"EventLevel": "Info", "Description": "older"},
    ]
    snapshot = look(deployment, outside)
    (event,) = _rows(snapshot, "event")
    assert (event.name, event.word, event.state) == ("decode", "Error", State.NOTE)
    assert event.detail.endswith("Insufficient capacity")


def test_an_addon_that_is_gone_is_missed_on_a_cluster_of_ones_own_only(
    deployment: Deployment, outside: _Outside, aws: StatusAccount
) -> None:
    del aws.addons["coredns"]
    gone = {row.name: row for row in _rows(look(deployment, outside), "add-on")}["coredns"]
    assert (gone.state, gone.word) == (State.ILL, "absent")
    existing = ExistingCluster(eks_name=deployment.name, hyperpod_name=deployment.cluster_name)
    others = look(changed(deployment, cluster__existing=existing), outside)
    assert "coredns" not in {row.name for row in _rows(others, "add-on")}


def test_an_event_that_warns_is_found_behind_hundreds_that_do_not(
    deployment: Deployment, outside: _Outside, aws: StatusAccount
) -> None:
    common = {"EventId": "1", "ClusterArn": "a", "ClusterName": deployment.name, "ResourceType": "Cluster"}
    calm = {**common, "EventTime": 1796000300, "EventLevel": "Info", "Description": "scaled"}
    aws.events = [*[calm] * 250, {**calm, "EventLevel": "Warn", "Description": "no capacity"}]
    (event,) = _rows(look(deployment, outside), "event")
    assert event.detail.endswith("no capacity")


@pytest.mark.parametrize(
    ("operation", "section", "still_seen"),
    [
        ("ListClusterEvents", "events", "node"),
        ("DescribeAddon", "the rest of EKS", "EKS"),
        ("ListAddons", "the rest of EKS", "EKS"),
    ],
)
def test_denied_call_is_said_and_the_rest_is_still_seen(
    deployment: Deployment,
    outside: _Outside,
    aws: StatusAccount,
    operation: str,
    section: str,
    still_seen: str,
) -> None:
    aws.denied = {operation}
    snapshot = look(deployment, outside)
    gap = _gap(snapshot, section)
    assert not gap.skipped
    assert operation in gap.why
    assert gap.needs is not None
    assert _rows(snapshot, still_seen)


def test_without_credentials_one_thing_is_said_once(deployment: Deployment) -> None:
    class NoAccount:
        @property
        def account_id(self) -> str:
            from botocore.exceptions import NoCredentialsError  # noqa: PLC0415

            raise NoCredentialsError

    snapshot = look(deployment, _Outside(NoAccount()))
    (gap,) = snapshot.unseen
    assert "no AWS credentials were found" in gap.why
    assert list(snapshot.rows) == []


# -- pods -------------------------------------------------------------------------------------------------------------


def _pod(name: str, role: str, *, is_ready: bool, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"app.kubernetes.io/component": role}},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(is_ready)}],
            **status,
        },
    }


@pytest.fixture
def kubernetes(deployment: Deployment, outside: _Outside) -> dict[str, Any]:
    """kubectl's answers; its context is the deployment's cluster."""
    server = outside.account.client("eks").describe_cluster(name=deployment.name)["cluster"]["endpoint"]
    outside.answers = {
        "config view --minify": {"clusters": [{"cluster": {"server": server.upper()}}]},
        f"get pods --namespace {deployment.name}-system": {
            "items": [_pod("router-1", "router", is_ready=True)]
        },
        f"get pods --namespace {deployment.name}-workers": {
            "items": [_pod("prefill-1", "prefill", is_ready=True), _pod("decode-1", "decode", is_ready=True)]
        },
    }
    return outside.answers


def test_pods_are_counted_by_role(deployment: Deployment, outside: _Outside, kubernetes: Any) -> None:
    assert kubernetes
    rows = {row.name: row for row in _rows(look(deployment, outside), "pods")}
    assert {name: row.word for name, row in rows.items()} == dict.fromkeys(
        ("prefill", "decode", "router"), "1 of 1 ready"
    )
    assert {row.state for row in rows.values()} == {State.WELL}


def test_pod_that_is_not_ready_says_what_it_waits_for(
    deployment: Deployment, outside: _Outside, kubernetes: dict[str, Any]
) -> None:
    pulling = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    kubernetes[f"get pods --namespace {deployment.name}-workers"] = {
        "items": [
            _pod("prefill-1", "prefill", is_ready=False, containerStatuses=[pulling]),
            _pod(
                "prefill-2",
                "prefill",
                is_ready=False,
                phase="Pending",
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "no node",
                    }
                ],
            ),
        ]
    }
    snapshot = look(deployment, outside)
    pods = {row.name: row for row in _rows(snapshot, "pod")}
    first, second = pods["prefill/prefill-1"], pods["prefill/prefill-2"]
    assert (first.state, first.word, first.detail) == (State.ILL, "ImagePullBackOff", "no such image")
    assert (second.state, second.word, second.detail) == (State.BUSY, "Unschedulable", "no node")
    roles = {row.name: row for row in _rows(snapshot, "pods")}
    assert (roles["decode"].state, roles["decode"].word) == (State.ILL, "0 of 1 ready")
    assert roles["prefill"].word == "0 of 2 ready"


def test_scaled_role_is_well_above_its_minimum(
    deployment: Deployment, outside: _Outside, kubernetes: dict[str, Any]
) -> None:
    scaled = changed(deployment, serving__decode__scaling=Scaling(minimum=1, maximum=4))
    kubernetes[f"get pods --namespace {deployment.name}-workers"]["items"].append(
        _pod("decode-2", "decode", is_ready=True)
    )
    rows = {row.name: row for row in _rows(look(scaled, outside), "pods")}
    assert (rows["decode"].state, rows["decode"].word) == (State.WELL, "2 of 2 ready")


def test_pods_of_another_cluster_are_never_shown(
    deployment: Deployment, outside: _Outside, kubernetes: dict[str, Any]
) -> None:
    kubernetes["config view --minify"] = {"clusters": [{"cluster": {"server": "https://127.0.0.1:6443"}}]}
    snapshot = look(deployment, outside)
    gap = _gap(snapshot, "pods")
    assert "of another cluster (`https://127.0.0.1:6443`)" in gap.why
    assert f"aws eks update-kubeconfig --region us-east-1 --name {deployment.name}" in gap.why
    assert _rows(snapshot, "pods") == []


def test_kubectl_that_is_refused_is_unseen_and_absent_is_skipped(
    deployment: Deployment, outside: _Outside, kubernetes: dict[str, Any]
) -> None:
    kubernetes[f"get pods --namespace {deployment.name}-system"] = KubectlError("Forbidden")
    assert not _gap(look(deployment, outside), "pods").skipped
    kubernetes.clear()
    assert _gap(look(deployment, outside), "pods").skipped


# -- endpoint and alerts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "state"), [(200, State.WELL), (503, State.ILL)])
def test_endpoint_says_ready(deployment: Deployment, outside: _Outside, status: int, state: State) -> None:
    outside.endpoint = "http://127.0.0.1:8081/"
    outside.ready = lambda: status
    (row,) = _rows(look(deployment, outside), "endpoint")
    assert (row.name, row.word, row.state) == ("http://127.0.0.1:8081/ready", str(status), state)


def test_endpoint_that_does_not_answer_is_ill(deployment: Deployment, outside: _Outside) -> None:
    def refuse() -> int:
        raise URLError("connection refused")

    outside.endpoint = "http://127.0.0.1:8081"
    outside.ready = refuse
    (row,) = _rows(look(deployment, outside), "endpoint")
    assert (row.state, row.word, row.detail) == (State.ILL, "unreachable", "connection refused")


@pytest.fixture
def workspace(deployment: Deployment, outside: _Outside) -> _Outside:
    outside.account.client("cloudformation").create_stack(
        StackName=f"{deployment.name}-platform",
        TemplateBody='{"Resources": {"T": {"Type": "AWS::SNS::Topic"}}, "Outputs": {"BindAmpWorkspaceUrl": {"Value": "'
        + _AMP
        + '"}}}',
        Tags=[{"Key": "hyperpod-dpd:deployment", "Value": deployment.name}],
    )
    return outside


def test_alerts_that_fire_are_named(deployment: Deployment, workspace: _Outside) -> None:
    workspace.alerts = lambda: {
        "data": {
            "alerts": [
                {
                    "state": "firing",
                    "labels": {"alertname": "DpdNoDecoder"},
                    "annotations": {"summary": "no decoder is ready"},
                },
                {"state": "pending", "labels": {"alertname": "DpdSlow"}, "annotations": {}},
            ]
        }
    }
    rows = _rows(look(deployment, workspace), "alert")
    assert [(row.name, row.state, row.detail) for row in rows] == [
        ("DpdNoDecoder", State.ILL, "no decoder is ready"),
        ("DpdSlow", State.BUSY, ""),
    ]
    assert f"aps {_AMP}/api/v1/alerts" in workspace.asked


def test_no_alert_is_said_as_well(deployment: Deployment, workspace: _Outside) -> None:
    (row,) = _rows(look(deployment, workspace), "alerts")
    assert (row.word, row.state) == ("0 firing", State.WELL)


@pytest.mark.parametrize(
    ("rules", "word", "detail"),
    [
        ([], "absent", "no alert can fire"),
        ([_RULE | {"labels": {"deployment": "another"}}], "absent", "no alert can fire"),
        ([_RULE | {"type": "recording"}], "absent", "no alert can fire"),
        (
            [_RULE, _RULE | {"health": "err", "name": "DpdSlow", "lastError": "many-to-many"}],
            "1 of 2 cannot be evaluated",
            "`DpdSlow`: many-to-many",
        ),
    ],
)
def test_silence_of_rules_that_are_absent_or_broken_is_no_good_news(
    deployment: Deployment,
    workspace: _Outside,
    rules: list[dict[str, Any]],
    word: str,
    detail: str,
) -> None:
    workspace.rules = lambda: _rules(*rules)
    (row,) = _rows(look(deployment, workspace), "alerts")
    assert (row.state, row.word) == (State.ILL, word)
    assert detail in row.detail


def test_rules_that_may_not_be_read_leave_silence_unexplained(
    deployment: Deployment, workspace: _Outside
) -> None:
    def refuse() -> Any:
        raise HTTPError(_AMP, 403, "Forbidden", Message(), None)

    workspace.rules = refuse
    snapshot = look(deployment, workspace)
    assert _rows(snapshot, "alerts") == []
    assert _gap(snapshot, "rules of the alerts").needs == "aps:ListRules"


@pytest.mark.parametrize(
    ("error", "needs", "says"),
    [
        (HTTPError(_AMP, 403, "Forbidden", Message(), None), "aps:ListAlerts", "needs `aps:ListAlerts`"),
        (HTTPError(_AMP, 500, "Oops", Message(), None), None, "answers 500 Oops"),
        (URLError("timed out"), None, "does not answer: timed out"),
    ],
)
def test_workspace_that_refuses_is_unseen(
    deployment: Deployment, workspace: _Outside, error: OSError, needs: str | None, says: str
) -> None:
    def refuse() -> Any:
        raise error

    workspace.alerts = refuse
    gap = _gap(look(deployment, workspace), "alerts")
    assert (gap.needs, gap.skipped) == (needs, False)
    assert says in gap.why
