"""An account that answers from a table, through real boto3 clients.

Like botocore's Stubber: requests are validated against the service's model on their way out, and answers against its
output shape. Unlike it, answers do not depend on the order of calls, which threads do not have, and every call is
recorded.
"""

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.message import Message
from typing import Any

import boto3
import botocore.session
from botocore.validate import validate_parameters

from hyperpod_dpd.preflight.account import AwsAccount
from hyperpod_dpd.spec.value import record

ACCOUNT_ID = "123456789012"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

Parameters = Mapping[str, Any]


@record
class Refusal:
    """An answer that is an error."""

    code: str
    message: str = "because of a test"
    status: int = 400
    headers: tuple[tuple[str, str], ...] = ()


Reply = dict[str, Any] | Refusal
Answers = Mapping[tuple[str, str], Reply | Callable[[Parameters], Reply]]


@record
class WebAnswer:
    """An answer of a web server that is not AWS."""

    status: int
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def headers(self) -> Message:
        message = Message()
        for name, value in self.fields:
            message[name] = value
        return message


Web = Callable[[str, Mapping[str, str]], WebAnswer]


_LOADER = botocore.session.Session().get_component("data_loader")


class _Http:
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


class TableAccount(AwsAccount):
    """Answers from `answers`; what the table does not hold fails the test that asks for it."""

    def __init__(self, answers: Answers, *, region: str = "us-east-1", web: Web | None = None) -> None:
        session = boto3.Session(
            aws_access_key_id="testing", aws_secret_access_key="testing", region_name=region
        )
        # service models are megabytes of JSON: read once, not for every account
        session._session.register_component("data_loader", _LOADER)
        super().__init__(region=region, session=session)
        self.calls: list[tuple[str, str]] = []
        self.urls: list[str] = []
        self._answers = answers
        self._web = web
        self._recording = threading.Lock()
        session.events.register("provide-client-params", self._remember)
        session.events.register("before-call", self._answer)  # type: ignore[arg-type]

    @staticmethod
    def _remember(params: Parameters, context: dict[str, Any], **_: Any) -> None:
        context["parameters"] = params

    def _answer(self, model: Any, context: dict[str, Any], **_: Any) -> tuple[_Http, dict[str, Any]]:
        call = (model.service_model.service_name, model.name)
        with self._recording:
            self.calls.append(call)
        reply = self._answers[call]
        if callable(reply):
            reply = reply(context["parameters"])
        if isinstance(reply, Refusal):
            metadata = {"HTTPStatusCode": reply.status, "HTTPHeaders": dict(reply.headers)}
            error = {"Code": reply.code, "Message": reply.message}
            return _Http(reply.status), {"Error": error, "ResponseMetadata": metadata}
        validate_parameters(reply, model.output_shape)
        return _Http(200), {
            **reply,
            "ResponseMetadata": {"HTTPStatusCode": 200, "HTTPHeaders": {}, "RetryAttempts": 0},
        }

    def now(self) -> datetime:
        return NOW

    def head(self, url: str, *, headers: Mapping[str, str]) -> WebAnswer:
        self.urls.append(url)
        if self._web is None:
            raise OSError("the test has no web")
        return self._web(url, headers)

    def get(self, url: str) -> bytes:
        self.urls.append(url)
        return b'{"token": "anonymous"}'
