"""The port to the outside: AWS clients, the clock, and plain HTTPS."""

import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import Message
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import boto3


CONNECT_TIMEOUT_SECONDS = 3
READ_TIMEOUT_SECONDS = 10
ATTEMPTS = 4
"""Tries of a call that is throttled or fails; the adaptive mode also slows down the calls that follow."""


SERVICE = "Service"
"""Key of an answer's metadata under which the name of the client is noted: EKS and SageMaker both have a
`DescribeCluster`, and an error does not say whose it is."""


class Account(Protocol):
    """What a check may use."""

    @property
    def account_id(self) -> str:
        """Number of the account to which the credentials belong."""

    @property
    def region(self) -> str:
        """Region that is asked."""

    def client(self, service: str, *, region: str | None = None) -> Any:
        """Return the boto3 client of `service`, in the deployment's region unless `region` says otherwise."""

    def now(self) -> datetime:
        """Return the time, with its zone."""

    def head(self, url: str, *, headers: Mapping[str, str]) -> "Answer":
        """Ask for `url` without its body and without following redirects."""

    def get(self, url: str) -> bytes:
        """Return the body of `url`, at most a megabyte."""


class Answer(Protocol):
    """What a web server says before the body."""

    @property
    def status(self) -> int:
        """HTTP status."""

    @property
    def headers(self) -> Message:
        """Headers."""


class AwsAccount:
    """The account behind a profile.

    Clients are made one at a time, because sessions are not safe to share between threads; clients are.
    """

    def __init__(
        self, *, region: str, profile: str | None = None, session: "boto3.Session | None" = None
    ) -> None:
        """Take the credentials of `profile`, or of the environment.

        Raises:
            botocore.exceptions.ProfileNotFound: there is no such profile.
        """
        # here, because what needs no account shall not wait for it
        import boto3  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415

        self._session = session or boto3.Session(profile_name=profile, region_name=region)
        self._session.events.register("after-call", _note_service)
        self._region = region
        self._config = Config(
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=READ_TIMEOUT_SECONDS,
            retries={"mode": "adaptive", "total_max_attempts": ATTEMPTS},
            # a bucket's own region is asked for explicitly
            s3={"us_east_1_regional_endpoint": "regional"},
        )
        self._clients: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()
        self._account_id: str | None = None

    @property
    def account_id(self) -> str:
        """Number of the account to which the credentials belong."""
        if self._account_id is None:
            self._account_id = str(self.client("sts").get_caller_identity()["Account"])
        return self._account_id

    @property
    def known_id(self) -> str | None:
        """The number of the account, None as long as nobody has asked for it with success."""
        return self._account_id

    @property
    def region(self) -> str:
        """Region that is asked."""
        return self._region

    def client(self, service: str, *, region: str | None = None) -> Any:
        """Return the client of `service`."""
        key = (service, region or self._region)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._session.client(  # type: ignore[call-overload]
                    service, region_name=key[1], config=self._config
                )
            return self._clients[key]

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    def head(self, url: str, *, headers: Mapping[str, str]) -> Answer:
        """Ask for `url` with HEAD; every status is an answer.

        Raises:
            OSError: no answer.
        """
        request = urllib.request.Request(_https(url), method="HEAD", headers=dict(headers))  # noqa: S310 - see _https
        try:
            with _OPENER.open(request, timeout=READ_TIMEOUT_SECONDS) as answer:
                return answer  # type: ignore[no-any-return]
        except urllib.error.HTTPError as answer:
            answer.close()
            return answer  # type: ignore[return-value]

    def get(self, url: str) -> bytes:
        """Return the body of `url`.

        Raises:
            OSError: no answer, or one that says no.
        """
        with _OPENER.open(_https(url), timeout=READ_TIMEOUT_SECONDS) as answer:
            return answer.read(1_000_000)  # type: ignore[no-any-return]


def _note_service(parsed: dict[str, Any], model: Any, **_: Any) -> None:
    parsed.setdefault("ResponseMetadata", {})[SERVICE] = model.service_model.service_name


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer: following it would carry a token to another host."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _https(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "localhost"):
        raise ValueError(f"refused `{url}`: only https leaves this machine")
    return url
