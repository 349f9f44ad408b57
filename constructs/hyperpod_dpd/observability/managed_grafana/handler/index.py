"""Put a data source and dashboards into a Grafana workspace, for CloudFormation.

Runs on Lambda with the standard library and boto3 only. The dashboards lie beside this file.
"""

import json
import logging
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

DASHBOARDS = Path(__file__).parent

DATA_SOURCE_UID = "hyperpod-dpd-prometheus"
FOLDER_UID = "hyperpod-dpd"
FOLDER_TITLE = "Disaggregated serving"

TOKEN_SECONDS = 900
"""Longer than the function may run; the account that the token belongs to is deleted when the import ends."""

PATIENCE_SECONDS = 240.0
"""A new workspace answers 5xx at first, and a new role's rights take a while to be known everywhere."""
PAUSE_SECONDS = 5.0
REQUEST_SECONDS = 30

MAX_REASON_CHARACTERS = 1000
"""CloudFormation refuses an answer above 4,096 bytes."""

_NOT_FOUND = 404
_TRANSIENT = frozenset({429, 500, 502, 503, 504})

_log = logging.getLogger(__name__)
_log.setLevel(logging.INFO)


class ImportFailedError(Exception):
    """The import cannot go on; the message is for whoever deploys."""


def handler(event: Mapping[str, Any], _context: object) -> None:
    """Import on create and update, and answer CloudFormation whatever happens."""
    properties = event["ResourceProperties"]
    # a constant: another id would make CloudFormation delete "the old" resource
    physical_id = event.get("PhysicalResourceId") or f"{properties['WorkspaceId']}/dashboards"
    reason = ""
    if event["RequestType"] != "Delete":
        try:
            import_all(properties)
        except ImportFailedError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001
            # unanswered, CloudFormation would wait until its time is over and then know less
            _log.exception("the import failed in an unforeseen way")
            reason = f"the import failed: {type(error).__name__}: {error}"
    respond(event, physical_id, reason)


def import_all(properties: Mapping[str, str]) -> None:
    """Put the data source and every dashboard into the workspace.

    Raises:
        ImportFailedError: AWS or Grafana refused a step, in its own words.
    """
    with short_lived_token(properties["WorkspaceId"]) as token:
        grafana = Grafana(properties["Url"], token)
        _put_data_source(grafana, properties)
        _put_folder(grafana)
        for path in sorted(DASHBOARDS.glob("*.json")):
            _put_dashboard(grafana, json.loads(path.read_text(encoding="utf-8")))
        # last: the dashboards are there for whoever looks why this fails
        _ask_data_source(grafana)


@contextmanager
def short_lived_token(workspace_id: str) -> Iterator[str]:
    """Yield a token of a service account of the workspace that is gone afterwards."""
    client = boto3.client("grafana")
    try:
        account = client.create_workspace_service_account(
            workspaceId=workspace_id, name=f"dashboard-import-{uuid.uuid4()}", grafanaRole="ADMIN"
        )
    except (BotoCoreError, ClientError) as error:
        raise ImportFailedError(
            f"no service account in the Grafana workspace `{workspace_id}`: {error}"
        ) from error
    try:
        token = client.create_workspace_service_account_token(
            workspaceId=workspace_id,
            serviceAccountId=account["id"],
            name="import",
            secondsToLive=TOKEN_SECONDS,
        )
        yield token["serviceAccountToken"]["key"]
    except (BotoCoreError, ClientError) as error:
        raise ImportFailedError(f"no token in the Grafana workspace `{workspace_id}`: {error}") from error
    finally:
        try:
            client.delete_workspace_service_account(workspaceId=workspace_id, serviceAccountId=account["id"])
        except (BotoCoreError, ClientError) as error:
            # the token dies by itself; what was imported stays imported
            _log.warning("the service account %s stays: %s", account["id"], error)


class Grafana:
    """The HTTP API of a workspace."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._until = time.monotonic() + PATIENCE_SECONDS

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        """Return status and answer; where Grafana is not ready, ask again for a while.

        Raises:
            ImportFailedError: Grafana cannot be reached, or stays unready.
        """
        while True:
            status, answer = self._once(method, path, body)
            if status not in _TRANSIENT and status != 0:
                return status, answer
            if not self.wait():
                raise ImportFailedError(f"{method} {self._url}{path}: {_words(status, answer)}")

    def wait(self) -> bool:
        """Pause before another attempt; False where there is no time left for one."""
        if time.monotonic() + PAUSE_SECONDS > self._until:
            return False
        time.sleep(PAUSE_SECONDS)
        return True

    def need(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer of a call that must succeed.

        Raises:
            ImportFailedError: it does not; the message holds Grafana's.
        """
        status, answer = self.call(method, path, body)
        if status // 100 != 2:
            raise ImportFailedError(f"{method} {self._url}{path}: {_words(status, answer)}")
        return answer

    def has(self, path: str) -> bool:
        """Whether there is something at `path`.

        Raises:
            ImportFailedError: Grafana does not say.
        """
        status, answer = self.call("GET", path)
        if status // 100 != 2 and status != _NOT_FOUND:
            raise ImportFailedError(f"GET {self._url}{path}: {_words(status, answer)}")
        return status != _NOT_FOUND

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        request = urllib.request.Request(  # noqa: S310 the workspace's own https address
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
                "Accept": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:  # noqa: S310
                return answer.status, _json(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _json(error.read())
        except OSError as error:
            return 0, {"message": str(error)}


def _put_data_source(grafana: Grafana, properties: Mapping[str, str]) -> None:
    plugin = properties["DataSourceType"]
    body = {
        "uid": DATA_SOURCE_UID,
        "name": "Amazon Managed Service for Prometheus",
        "type": plugin,
        "access": "proxy",
        "url": properties["PrometheusUrl"],
        "isDefault": True,
        "jsonData": {
            "httpMethod": "POST",
            "sigV4Auth": True,
            # the workspace's own role
            "sigV4AuthType": "ec2_iam_role",
            "sigV4Region": properties["Region"],
        },
    }
    if not grafana.has(f"/api/plugins/{plugin}/settings"):
        raise ImportFailedError(
            f"the workspace does not have the plugin `{plugin}`, with which Grafana signs requests to Amazon Managed "
            "Service for Prometheus. help: install it in the workspace, or give the workspace the pinned version"
        )
    path = f"/api/datasources/uid/{DATA_SOURCE_UID}"
    if grafana.has(path):
        grafana.need("PUT", path, body)
    else:
        grafana.need("POST", "/api/datasources", body)


def _put_folder(grafana: Grafana) -> None:
    if not grafana.has(f"/api/folders/{FOLDER_UID}"):
        grafana.need("POST", "/api/folders", {"uid": FOLDER_UID, "title": FOLDER_TITLE})


def _put_dashboard(grafana: Grafana, dashboard: dict[str, Any]) -> None:
    answer = grafana.need(
        "POST",
        "/api/dashboards/db",
        {
            "dashboard": dashboard,
            "folderUid": FOLDER_UID,
            "overwrite": True,
            "message": "hyperpod-dpd",
        },
    )
    if answer.get("status") != "success" or answer.get("uid") != dashboard["uid"]:
        raise ImportFailedError(f"dashboard `{dashboard['uid']}` was not taken: {json.dumps(answer)}")


def _ask_data_source(grafana: Grafana) -> None:
    """Let Grafana ask Prometheus: a workspace whose role may not read shows empty dashboards and no error."""
    path = f"/api/datasources/uid/{DATA_SOURCE_UID}/health"
    while True:
        status, answer = grafana.call("GET", path)
        if status // 100 == 2 and answer.get("status") == "OK":
            return
        if not grafana.wait():
            raise ImportFailedError(f"the data source does not work: {_words(status, answer)}")


def respond(event: Mapping[str, Any], physical_id: str, reason: str) -> None:
    """Send the answer to CloudFormation; no reason is success.

    Raises:
        urllib.error.URLError: the address did not accept it; Lambda then runs the function again.
    """
    body = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")} | {
        "PhysicalResourceId": physical_id,
        "Status": "FAILED" if reason else "SUCCESS",
        "Reason": reason[:MAX_REASON_CHARACTERS],
    }
    request = urllib.request.Request(  # noqa: S310 CloudFormation's own https address
        event["ResponseURL"],
        data=json.dumps(body).encode(),
        method="PUT",
        headers={"Content-Type": ""},
    )
    with urllib.request.urlopen(request, timeout=REQUEST_SECONDS):  # noqa: S310
        _log.info("answered %s %s", body["Status"], reason)


def _json(data: bytes) -> Any:
    try:
        found = json.loads(data) if data else {}
    except ValueError:
        # what stands before Grafana answers in HTML
        return {"message": data.decode(errors="replace").strip()[:300]}
    return found if isinstance(found, dict) else {"message": json.dumps(found)}


def _words(status: int, answer: Mapping[str, Any]) -> str:
    """Return what Grafana said, with its status; 0 is no answer at all."""
    message = answer.get("message") or answer.get("error") or json.dumps(answer)
    return f"{status} {message}" if status else f"no answer: {message}"
