"""The import of dashboards into Amazon Managed Grafana, against something that answers as Grafana does."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import boto3
import pytest
from botocore.exceptions import ClientError

from hyperpod_dpd.catalog.grafana import MANAGED_GRAFANA
from hyperpod_dpd.observability.alert_topic import AlertTopic
from hyperpod_dpd.observability.dashboards import BOARDS, as_json
from hyperpod_dpd.observability.dashboards.grafana import SCHEMA_VERSION
from hyperpod_dpd.observability.managed_grafana import ManagedGrafana, dashboard_import
from hyperpod_dpd.observability.managed_grafana.handler import index
from hyperpod_dpd.observability.metrics_workspace import MetricsWorkspace
from hyperpod_dpd.security.logs import logs_key
from tests.support.deployments import changed, ready
from tests.support.template import Template, app, depends_on, only, resources, synthesized, text

TOKEN = "glsa_only-this-one"
PROMETHEUS = "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-1"


@dataclass
class Grafana:
    """State of a Grafana workspace, with the faults that it is told to have."""

    plugins: set[str] = field(default_factory=lambda: {MANAGED_GRAFANA.prometheus_data_source})
    data_sources: dict[str, Any] = field(default_factory=dict)
    folders: dict[str, Any] = field(default_factory=dict)
    dashboards: dict[str, Any] = field(default_factory=dict)
    folder_of: dict[str, str] = field(default_factory=dict)
    health: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Answers to come for the data source's health; the last one stays. None: OK."""
    unready: int = 0
    """Requests that are answered 503 in HTML first, as by what stands before a new workspace."""
    refuses: str = ""
    """Part of a path that is answered 403."""

    def answer(self, method: str, path: str, body: Any, token: str | None) -> tuple[int, Any]:
        if self.unready:
            self.unready -= 1
            return 503, b"<html>Service Unavailable</html>"
        if token != f"Bearer {TOKEN}":
            return 401, {"message": "Invalid API key"}
        if self.refuses and self.refuses in path:
            return 403, {"message": "You'll need additional permissions to perform this action."}
        match [part for part in path.split("/") if part]:
            case ["api", "plugins", name, "settings"]:
                return (200, {"id": name}) if name in self.plugins else (404, {"message": "Plugin not found"})
            case ["api", "datasources"]:
                return self._source(body)
            case ["api", "datasources", "uid", uid, "health"]:
                assert uid in self.data_sources
                if not self.health:
                    return 200, {"status": "OK", "message": "Successfully queried the Prometheus API."}
                return self.health.pop(0) if len(self.health) > 1 else self.health[0]
            case ["api", "datasources", "uid", uid]:
                if uid not in self.data_sources:
                    return 404, {"message": "Data source not found"}
                return self._source(body) if method == "PUT" else (200, self.data_sources[uid])
            case ["api", "folders"]:
                self.folders[body["uid"]] = body
                return 200, body
            case ["api", "folders", uid]:
                return (
                    (200, self.folders[uid])
                    if uid in self.folders
                    else (404, {"message": "folder not found"})
                )
            case ["api", "dashboards", "db"]:
                return self._dashboard(body)
        return 404, {"message": "Not found"}

    def _source(self, body: Any) -> tuple[int, Any]:
        if body["type"] not in self.plugins:
            return 400, {"message": "bad request data"}
        self.data_sources[body["uid"]] = body
        return 200, {"message": "Datasource added"}

    def _dashboard(self, body: Any) -> tuple[int, Any]:
        uid = body["dashboard"]["uid"]
        if body["folderUid"] not in self.folders:
            return 400, {"message": "folder not found"}
        if uid in self.dashboards and not body["overwrite"]:
            return 412, {
                "message": "A dashboard with the same uid already exists",
                "status": "version-mismatch",
            }
        if body["dashboard"]["schemaVersion"] > MANAGED_GRAFANA.dashboard_schema_version:
            return 400, {"message": "schema is newer than this Grafana"}
        self.dashboards[uid] = body["dashboard"]
        self.folder_of[uid] = body["folderUid"]
        return 200, {"status": "success", "uid": uid, "version": 1}


class _Http(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        if self.path == "/cloudformation":
            self.server.answers.append(body)  # type: ignore[attr-defined]
            status, data = 200, b"{}"
        else:
            grafana: Grafana = self.server.grafana  # type: ignore[attr-defined]
            status, answer = grafana.answer(self.command, self.path, body, self.headers.get("Authorization"))
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()

    def log_message(self, *_arguments: Any) -> None:
        pass


@dataclass
class Aws:
    """Service accounts of the workspace, as far as the import uses them."""

    accounts: dict[str, str] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    refuses: str = ""

    def client(self, service: str) -> "Aws":
        assert service == "grafana"
        return self

    def _may(self, operation: str) -> None:
        if operation == self.refuses:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, operation)

    def create_workspace_service_account(self, **given: str) -> Any:
        self._may("CreateWorkspaceServiceAccount")
        assert (given["workspaceId"], given["grafanaRole"]) == ("g-0123456789", "ADMIN")
        assert given["name"] not in self.seen
        self.seen.append(given["name"])
        self.accounts["7"] = given["name"]
        return {"id": "7"}

    def create_workspace_service_account_token(self, **given: Any) -> Any:
        self._may("CreateWorkspaceServiceAccountToken")
        assert given["serviceAccountId"] in self.accounts
        assert given["secondsToLive"] <= 3600
        return {"serviceAccountToken": {"key": TOKEN}}

    def delete_workspace_service_account(self, **given: str) -> None:
        assert given["workspaceId"] == "g-0123456789"
        del self.accounts[given["serviceAccountId"]]
        self._may("DeleteWorkspaceServiceAccount")


@pytest.fixture
def grafana() -> Grafana:
    return Grafana()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Aws:
    fake = Aws()
    monkeypatch.setattr(boto3, "client", fake.client)
    return fake


@pytest.fixture
def server(grafana: Grafana, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(index, "PAUSE_SECONDS", 0.001)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Http)
    http.grafana, http.answers = grafana, []  # type: ignore[attr-defined]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield http
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("boards")
    for board in BOARDS:
        (folder / f"{board.uid}.json").write_text(as_json(board), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def beside_the_function(boards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "DASHBOARDS", boards)


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "PATIENCE_SECONDS", 0.05)


def request(kind: str, server: Any, **changes: str) -> dict[str, Any]:
    address = f"http://127.0.0.1:{server.server_port}"
    return {
        "RequestType": kind,
        "ResponseURL": f"{address}/cloudformation",
        "StackId": "stack",
        "RequestId": "request-1",
        "LogicalResourceId": "Dashboards",
        "ResourceProperties": {
            "ServiceToken": "arn",
            "WorkspaceId": "g-0123456789",
            "Url": address,
            "DataSourceType": MANAGED_GRAFANA.prometheus_data_source,
            "PrometheusUrl": PROMETHEUS,
            "Region": "us-east-1",
            "Dashboards": "digest",
            **changes,
        },
    }


def answer_to(event: dict[str, Any], server: Any) -> Any:
    index.handler(event, None)
    (answer,) = server.answers
    return answer


def test_data_source_folder_and_dashboards_are_imported(grafana: Grafana, aws: Aws, server: Any) -> None:
    answer = answer_to(request("Create", server), server)
    assert (answer["Status"], answer["Reason"]) == ("SUCCESS", "")
    assert grafana.dashboards == {board.uid: json.loads(as_json(board)) for board in BOARDS}
    assert set(grafana.folder_of.values()) == {index.FOLDER_UID}
    (source,) = grafana.data_sources.values()
    assert source["url"] == PROMETHEUS
    assert source["jsonData"]["sigV4Auth"] is True
    assert source["jsonData"]["sigV4Region"] == "us-east-1"
    # whatever happens, nobody keeps a key to the workspace
    assert aws.accounts == {}


def test_a_second_import_updates_what_the_first_made(grafana: Grafana, aws: Aws, server: Any) -> None:
    answer_to(request("Create", server), server)
    server.answers.clear()
    grafana.dashboards[BOARDS[0].uid]["title"] = "changed by hand"
    answer = answer_to(request("Update", server, PrometheusUrl=f"{PROMETHEUS}b"), server)
    assert answer["Status"] == "SUCCESS"
    assert grafana.dashboards[BOARDS[0].uid]["title"] == BOARDS[0].title
    (source,) = grafana.data_sources.values()
    assert source["url"] == f"{PROMETHEUS}b"


def test_another_content_keeps_the_physical_id(aws: Aws, server: Any) -> None:
    first = answer_to(request("Create", server), server)["PhysicalResourceId"]
    server.answers.clear()
    event = request("Update", server) | {"PhysicalResourceId": first}
    assert answer_to(event, server)["PhysicalResourceId"] == first


def test_a_workspace_that_is_not_ready_yet_is_asked_again(grafana: Grafana, aws: Aws, server: Any) -> None:
    grafana.unready = 3
    assert answer_to(request("Create", server), server)["Status"] == "SUCCESS"


def test_rights_that_are_not_known_everywhere_yet_are_waited_for(
    grafana: Grafana, aws: Aws, server: Any
) -> None:
    grafana.health = [(400, {"status": "ERROR", "message": "403 Forbidden"})] * 3 + [(200, {"status": "OK"})]
    assert answer_to(request("Create", server), server)["Status"] == "SUCCESS"


def test_deleting_the_step_leaves_the_workspace_alone(grafana: Grafana, aws: Aws, server: Any) -> None:
    assert answer_to(request("Delete", server), server)["Status"] == "SUCCESS"
    assert aws.seen == []
    assert grafana.data_sources == {}


def _unready(grafana: Grafana, _aws: Aws) -> None:
    grafana.unready = 1_000_000


def _no_plugin(grafana: Grafana, _aws: Aws) -> None:
    grafana.plugins = {"prometheus"}


def _may_not_read(grafana: Grafana, _aws: Aws) -> None:
    grafana.health = [(400, {"status": "ERROR", "message": "403 Forbidden: aps:QueryMetrics"})]


def _refused(grafana: Grafana, _aws: Aws) -> None:
    grafana.refuses = "/api/dashboards"


def _folder_refused(grafana: Grafana, _aws: Aws) -> None:
    grafana.refuses = "/api/folders"


def _no_account(_grafana: Grafana, aws: Aws) -> None:
    aws.refuses = "CreateWorkspaceServiceAccount"


def _no_token(_grafana: Grafana, aws: Aws) -> None:
    aws.refuses = "CreateWorkspaceServiceAccountToken"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (_unready, "503 <html>Service Unavailable</html>"),
        (_no_plugin, "does not have the plugin `grafana-amazonprometheus-datasource`"),
        (_may_not_read, "the data source does not work: 400 403 Forbidden: aps:QueryMetrics"),
        (_refused, "/api/dashboards/db: 403 You'll need additional permissions"),
        (_folder_refused, "/api/folders/hyperpod-dpd: 403 You'll need additional permissions"),
        (
            _no_account,
            "no service account in the Grafana workspace `g-0123456789`: An error occurred (AccessDenied",
        ),
        (_no_token, "no token in the Grafana workspace `g-0123456789`: An error occurred (AccessDenied"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_a_failure_reaches_cloudformation_in_its_own_words(
    grafana: Grafana, aws: Aws, server: Any, monkeypatch: pytest.MonkeyPatch, fault: Any, words: str
) -> None:
    impatient(monkeypatch)
    fault(grafana, aws)
    answer = answer_to(request("Create", server), server)
    assert answer["Status"] == "FAILED"
    assert words in answer["Reason"]
    assert aws.accounts == {}


def test_a_workspace_that_nobody_reaches_is_named(
    aws: Aws, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    answer = answer_to(request("Create", server, Url="http://127.0.0.1:9"), server)
    assert answer["Status"] == "FAILED"
    assert "http://127.0.0.1:9/api/plugins" in answer["Reason"]
    assert "no answer" in answer["Reason"]


def test_what_nobody_foresaw_is_answered_too(aws: Aws, server: Any) -> None:
    event = request("Create", server)
    del event["ResourceProperties"]["PrometheusUrl"]
    answer = answer_to(event, server)
    assert answer["Status"] == "FAILED"
    assert "KeyError: 'PrometheusUrl'" in answer["Reason"]
    assert aws.accounts == {}


def test_an_account_that_cannot_be_deleted_does_not_fail_the_import(aws: Aws, server: Any) -> None:
    aws.refuses = "DeleteWorkspaceServiceAccount"
    assert answer_to(request("Create", server), server)["Status"] == "SUCCESS"


# -- what is deployed ---------------------------------------------------------------------------------------------


@cache
def made() -> Template:
    deployment = changed(ready(), platform__grafana="managed")
    stack = cdk.Stack(app(), "platform", env=cdk.Environment(account="123456789012", region="us-east-1"))
    keep = cdk.RemovalPolicy.RETAIN
    key = logs_key(stack, "LogsKey", removal_policy=keep)
    topic = AlertTopic(stack, "AlertTopic", deployment=deployment, removal_policy=keep)
    metrics = MetricsWorkspace(
        stack, "Metrics", deployment=deployment, topic=topic.topic, log_key=key, removal_policy=keep
    )
    ManagedGrafana(stack, "Grafana", deployment=deployment, metrics=metrics, log_key=key, removal_policy=keep)
    return synthesized(stack)


def test_the_pinned_version_reads_the_dashboards() -> None:
    assert MANAGED_GRAFANA.dashboard_schema_version >= SCHEMA_VERSION
    assert {json.loads(as_json(board))["schemaVersion"] for board in BOARDS} == {SCHEMA_VERSION}
    _, workspace = only(made(), "AWS::Grafana::Workspace")
    assert workspace["Properties"]["GrafanaVersion"] == MANAGED_GRAFANA.version


def test_the_workspace_may_read_one_prometheus_workspace_and_nothing_else() -> None:
    _, workspace = only(made(), "AWS::Grafana::Workspace")
    role = workspace["Properties"]["RoleArn"]["Fn::GetAtt"][0]
    metrics, _ = only(made(), "AWS::APS::Workspace")
    (policy,) = (
        each["Properties"]["PolicyDocument"]["Statement"]
        for each in resources(made(), "AWS::IAM::Policy").values()
        if each["Properties"]["Roles"] == [{"Ref": role}]
    )
    assert [text(statement["Resource"]) for statement in policy] == [f"${{{metrics}.Arn}}"]
    assert all(action.startswith("aps:") and "*" not in action for action in policy[0]["Action"])
    (trust,) = made()["Resources"][role]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": "123456789012"}


def test_the_import_waits_for_the_rights_that_its_last_question_needs() -> None:
    _, step = only(made(), "Custom::GrafanaDashboards")
    workspace, properties = only(made(), "AWS::Grafana::Workspace")
    role = properties["Properties"]["RoleArn"]["Fn::GetAtt"][0]
    policies = {
        name
        for name, each in resources(made(), "AWS::IAM::Policy").items()
        if each["Properties"]["Roles"] == [{"Ref": role}]
    }
    assert policies <= depends_on(step)
    assert step["Properties"]["WorkspaceId"] == {"Fn::GetAtt": [workspace, "Id"]}


def test_another_dashboard_makes_the_import_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = only(made(), "Custom::GrafanaDashboards")[1]["Properties"]
    monkeypatch.setattr(dashboard_import, "BOARDS", BOARDS[:-1])
    made.cache_clear()
    after = only(made(), "Custom::GrafanaDashboards")[1]["Properties"]
    made.cache_clear()
    assert {key for key in before if before[key] != after[key]} == {"Dashboards"}


def test_the_function_holds_the_handler_and_every_dashboard() -> None:
    stack = cdk.Stack(app(), "platform", env=cdk.Environment(region="us-east-1"))
    dashboard_import.DashboardImport(
        stack,
        "Import",
        workspace_id="g-0123456789",
        url="https://grafana",
        prometheus_url=PROMETHEUS,
        log_key=logs_key(stack, "Key", removal_policy=cdk.RemovalPolicy.DESTROY),
        log_retention_days=90,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    root = stack.node.root
    assert isinstance(root, cdk.App)
    assembly = Path(root.synth().directory)
    (asset,) = (path for path in assembly.iterdir() if (path / "index.py").is_file())
    assert {path.name for path in asset.iterdir()} == {"index.py", *(f"{board.uid}.json" for board in BOARDS)}
