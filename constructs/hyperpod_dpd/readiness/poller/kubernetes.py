"""The cluster's API, asked with the function's own AWS identity."""

import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
from botocore.signers import RequestSigner

TIMEOUT_SECONDS = 10
_TOKEN_SECONDS = 60
_PAGE = 500
_MAX_WORDS = 300


class ApiError(Exception):
    """The API did not answer with what was asked for; `status` is its HTTP status, 0 when it was not reached."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


class KubernetesApi:
    """Reads objects, and asks for objects without creating them."""

    def __init__(self, *, endpoint: str, token: str, context: ssl.SSLContext | None) -> None:
        """Use the API at `endpoint` as the owner of `token`."""
        self._endpoint = endpoint.rstrip("/")
        self._token = token
        self._context = context

    def get(self, path: str, **query: str) -> Any:
        """Return the object at `path`.

        Raises:
            ApiError: the API was not reached or refused.
        """
        return self._call("GET", path, query)

    def items(self, path: str, **query: str) -> Iterator[Any]:
        """Yield every object of the list at `path`.

        Raises:
            ApiError: the API was not reached or refused.
        """
        following = ""
        while True:
            page = self._call("GET", path, {**query, "limit": str(_PAGE), "continue": following})
            yield from page.get("items") or ()
            following = page.get("metadata", {}).get("continue") or ""
            if not following:
                return

    def try_to_create(self, path: str, body: Mapping[str, Any]) -> Any:
        """Ask for `body` to be created below `path` as a rehearsal: every webhook is called, nothing is kept.

        Raises:
            ApiError: the API was not reached or refused.
        """
        return self._call("POST", path, {"dryRun": "All"}, body)

    def _call(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None = None
    ) -> Any:
        given = urllib.parse.urlencode({name: value for name, value in query.items() if value})
        request = urllib.request.Request(  # noqa: S310 -- the cluster's own https address
            f"{self._endpoint}{path}{'?' if given else ''}{given}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Accept": "application/json",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=self._context) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise ApiError(error.code, _words(error)) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise ApiError(0, f"the Kubernetes API was not reached: {reason}") from None


def connect(cluster_name: str) -> KubernetesApi:
    """Return the API of the EKS cluster `cluster_name`.

    Raises:
        botocore.exceptions.ClientError: EKS does not describe the cluster.
    """
    cluster = boto3.client("eks").describe_cluster(name=cluster_name)["cluster"]
    authority = base64.b64decode(cluster["certificateAuthority"]["data"]).decode()
    return KubernetesApi(
        endpoint=cluster["endpoint"],
        token=token(cluster_name),
        context=_trusting(authority),
    )


def _trusting(authority: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority)
    # Python 3.13 and later refuse certificates without an authority key identifier by default, and those of EKS have
    # none (awslabs/mcp #3791); chain, dates and host name are checked all the same
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def token(cluster_name: str) -> str:
    """Return what EKS takes as a bearer token: a pre-signed question to STS who is asking, valid for one minute."""
    session = boto3.Session()
    client = session.client("sts")
    credentials = session.get_credentials()
    assert credentials is not None  # Lambda gives every function some
    signer = RequestSigner(
        client.meta.service_model.service_id,
        client.meta.region_name,
        "sts",
        "v4",
        credentials,
        session.events,
    )
    url = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"{client.meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {"x-k8s-aws-id": cluster_name},
            "context": {},
        },
        region_name=client.meta.region_name,
        expires_in=_TOKEN_SECONDS,
        operation_name="",
    )
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def _words(error: urllib.error.HTTPError) -> str:
    """Return the API's own sentence, else the start of what a proxy in between said."""
    text = error.read().decode(errors="replace")
    try:
        message = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        message = text[:_MAX_WORDS] or error.reason
    return str(message)
