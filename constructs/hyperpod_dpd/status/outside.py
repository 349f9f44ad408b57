"""The ports through which a status is read: AWS, kubectl, the endpoint. Everything is read-only."""

import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import boto3

    from hyperpod_dpd.preflight.account import Account

KUBECTL_TIMEOUT_SECONDS = 15
WEB_TIMEOUT_SECONDS = 10


class KubectlAbsentError(RuntimeError):
    """There is no kubectl on this machine."""


class KubectlError(RuntimeError):
    """Kubectl gave no answer; the text is its own."""


class Outside(Protocol):
    """What a source may use."""

    @property
    def account(self) -> "Account":
        """AWS clients."""

    @property
    def endpoint(self) -> str | None:
        """URL of the endpoint, where somebody gave one."""

    def now(self) -> datetime:
        """Return the time, with its zone."""

    def kubectl(self, *arguments: str) -> Any:
        """Return what `kubectl ARGUMENTS --output json` prints.

        Raises:
            KubectlAbsentError: it is not installed.
            KubectlError: it failed or took too long.
        """

    def signed(self, url: str, service: str) -> Any:
        """Return the JSON at `url` of the AWS `service`, asked for with a signature.

        Raises:
            OSError: no answer, or one that says no.
        """

    def status_of(self, url: str) -> int:
        """Return the HTTP status with which `url` answers.

        Raises:
            OSError: no answer.
        """


class Machine:
    """This machine, its credentials and its kubeconfig."""

    def __init__(
        self,
        *,
        session: "boto3.Session",
        account: "Account",
        context: str | None = None,
        endpoint: str | None = None,
    ) -> None:
        """Take the ports.

        Args:
            session: credentials for signed requests.
            account: AWS clients.
            context: kubeconfig context; None: the current one.
            endpoint: URL of the endpoint, without path.
        """
        self._session = session
        self._account = account
        self._context = ("--context", context) if context else ()
        self._endpoint = endpoint

    @property
    def account(self) -> "Account":
        """AWS clients."""
        return self._account

    @property
    def endpoint(self) -> str | None:
        """URL of the endpoint."""
        return self._endpoint

    def now(self) -> datetime:
        """Return the time in UTC."""
        return self._account.now()

    def kubectl(self, *arguments: str) -> Any:
        """Run kubectl and return its JSON."""
        program = shutil.which("kubectl")
        if program is None:
            raise KubectlAbsentError("`kubectl` is not installed")
        command = [program, *self._context, *arguments, "--output", "json"]
        try:
            done = subprocess.run(  # noqa: S603 - a list, no shell
                command, capture_output=True, text=True, check=False, timeout=KUBECTL_TIMEOUT_SECONDS
            )
            if done.returncode:
                raise KubectlError(_last_line(done.stderr) or f"exit code {done.returncode}")
            return json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            raise KubectlError(f"no answer within {KUBECTL_TIMEOUT_SECONDS} seconds") from None
        except (OSError, ValueError) as error:
            raise KubectlError(str(error)) from None

    def signed(self, url: str, service: str) -> Any:
        """Ask `url` with a signature."""
        from botocore.auth import SigV4Auth  # noqa: PLC0415 - only where there is something to ask
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415
        from botocore.exceptions import NoCredentialsError  # noqa: PLC0415

        credentials = self._session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        request = AWSRequest(method="GET", url=url)
        SigV4Auth(credentials, service, self._session.region_name).add_auth(request)
        with _open(url, dict(request.headers)) as answer:
            return json.load(answer)

    def status_of(self, url: str) -> int:
        """Ask for `url`; every status is an answer."""
        try:
            with _open(url, {}) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as answer:
            answer.close()
            return answer.code


def _open(url: str, headers: dict[str, str]) -> Any:
    if urlsplit(url).scheme not in ("http", "https"):
        raise OSError(f"not an address of the web: `{url}`")
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - checked above
    return urllib.request.urlopen(request, timeout=WEB_TIMEOUT_SECONDS)  # noqa: S310


def _last_line(text: str) -> str:
    lines: Sequence[str] = text.strip().splitlines() or [""]
    return lines[-1].removeprefix("error: ")
