"""What a failed call means for whoever runs the preflight."""

import re
from collections.abc import Callable, Collection
from enum import StrEnum
from textwrap import shorten

from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError

from hyperpod_dpd.preflight.account import SERVICE
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Gap
from hyperpod_dpd.spec.value import record

_LONGEST = 200
"""Characters of a foreign error that are shown; a page of HTML helps nobody."""


class Kind(StrEnum):
    """Why a call failed."""

    CREDENTIALS = "credentials"
    NETWORK = "network"
    DENIED = "denied"
    THROTTLED = "throttled"
    OTHER = "other"


@record
class Failure:
    """A failed call in words."""

    kind: Kind
    why: str
    fix: str
    needs: str | None = None
    by_organization: bool = False

    def gap(self, what: str) -> Gap:
        """Return what stays unknown because of it."""
        return Gap(
            what=what, why=self.why, fix=self.fix, needs=self.needs, by_organization=self.by_organization
        )

    @property
    def hopeless(self) -> bool:
        """Whether no other call can fare better."""
        return self.kind in (Kind.CREDENTIALS, Kind.NETWORK)


_NO_CREDENTIALS = (boto.NoCredentialsError, boto.PartialCredentialsError)
_STALE_LOGIN = (
    boto.SSOTokenLoadError,
    boto.UnauthorizedSSOTokenError,
    boto.TokenRetrievalError,
    boto.CredentialRetrievalError,
)
_BAD_CREDENTIALS = (
    (
        {"ExpiredToken", "ExpiredTokenException", "RequestExpired"},
        "the credentials have expired",
        "log in again, for example with `aws sso login`",
    ),
    (
        {
            "AuthFailure",
            "IncompleteSignature",
            "InvalidAccessKeyId",
            "InvalidClientTokenId",
            "SignatureDoesNotMatch",
            "UnrecognizedClientException",
        },
        "AWS does not accept the credentials in this region (`{code}`: {text})",
        "check the keys, and that the account has enabled the region (`aws account list-regions`)",
    ),
    (
        {"RequestTimeTooSkewed", "RequestInTheFuture"},
        "the clock of this machine is wrong (`{code}`)",
        "set the clock; signatures are valid for minutes",
    ),
)
"""Error codes, what they mean, what to do."""

_DENIED = {
    "403",
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "AuthorizationErrorException",
    "UnauthorizedException",
    "UnauthorizedOperation",
}
_THROTTLED = {
    "BandwidthLimitExceeded",
    "RequestLimitExceeded",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TooManyRequestsException",
}
_NETWORK = (boto.HTTPClientError, boto.ConnectionError)


def explain(error: Exception) -> Failure:
    """Return what `error` means."""
    # here, because it brings urllib3; whoever has something to explain has loaded it
    from botocore.parsers import ResponseParserError  # noqa: PLC0415

    if isinstance(error, ClientError):
        return _answered(error)
    if isinstance(error, BotoCoreError):
        return _not_answered(error)
    if isinstance(error, ResponseParserError):
        return Failure(
            kind=Kind.NETWORK,
            why=f"what answers is not AWS: {_short(error)}",
            fix="look for a proxy or a portal between this machine and AWS",
        )
    return Failure(
        kind=Kind.OTHER,
        why=f"an unexpected answer: {type(error).__name__}: {_short(error)}",
        fix="look by hand, and report this with the answer of `aws`",
    )


def _not_answered(error: BotoCoreError) -> Failure:
    if isinstance(error, _NO_CREDENTIALS):
        return Failure(
            kind=Kind.CREDENTIALS,
            why="no AWS credentials were found",
            fix="log in (`aws sso login`), set `AWS_PROFILE`, or give `--profile`",
        )
    if isinstance(error, _STALE_LOGIN):
        return Failure(
            kind=Kind.CREDENTIALS,
            why=f"the login of the profile is over: {_short(error)}",
            fix="log in again, for example with `aws sso login`",
        )
    if isinstance(error, boto.ProfileNotFound):
        return Failure(
            kind=Kind.CREDENTIALS, why=_short(error), fix="`aws configure list-profiles` lists the profiles"
        )
    if isinstance(error, _NETWORK):
        return Failure(
            kind=Kind.NETWORK,
            why=f"no connection to AWS: {_short(error)}",
            fix="check network, proxy (`HTTPS_PROXY`) and the name of the region",
        )
    return Failure(
        kind=Kind.OTHER,
        why=f"the AWS client gave up: {_short(error)}",
        fix="compare with the same call of `aws`",
    )


def code_of(error: ClientError) -> str:
    """Return the error code of an answer."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_there(ask: Callable[[], object], *, absent: Collection[str]) -> bool:
    """Return whether `ask` is answered; error codes in `absent` say that there is nothing to answer for.

    Raises:
        ClientError: it is refused otherwise.
    """
    try:
        ask()
    except ClientError as error:
        if code_of(error) not in absent:
            raise
        return False
    return True


def _answered(error: ClientError) -> Failure:
    code, operation = code_of(error), error.operation_name
    text = _without_blob(str(error.response.get("Error", {}).get("Message") or code))
    if code in _DENIED:
        return _denied(error, text)
    if code in _THROTTLED:
        return Failure(
            kind=Kind.THROTTLED,
            why=f"AWS throttles `{operation}` (`{code}`), also after several tries",
            fix="run it again in a minute",
        )
    for codes, why, fix in _BAD_CREDENTIALS:
        if code in codes:
            return Failure(kind=Kind.CREDENTIALS, why=why.format(code=code, text=text), fix=fix)
    return Failure(
        kind=Kind.OTHER,
        why=f"`{operation}` failed (`{code}`: {text})",
        fix="try again; if it stays, look by hand with `aws`",
    )


def _denied(error: ClientError, text: str) -> Failure:
    service = str(error.response["ResponseMetadata"].get(SERVICE, ""))
    action = Call(service=service, operation=error.operation_name).action or error.operation_name
    if "service control policy" in text:
        return Failure(
            kind=Kind.DENIED,
            why=f"a service control policy of the organization denies `{action}`",
            fix="ask the organization's administrator whether account and region may use the service",
            needs=action,
            by_organization=True,
        )
    return Failure(
        kind=Kind.DENIED,
        why=f"needs `{action}`",
        fix="let the caller do what `dpd preflight FILE --policy` prints",
        needs=action,
    )


_ENCODED = re.compile(r"\s*Encoded authorization failure message: \S+")


def _without_blob(text: str) -> str:
    """Return `text` in one line, without the blob that only `decode-authorization-message` can read."""
    return " ".join(_ENCODED.sub("", text).split()).rstrip(".")


def _short(error: Exception) -> str:
    return shorten(" ".join(str(error).split()).rstrip("."), _LONGEST, placeholder=" …")
