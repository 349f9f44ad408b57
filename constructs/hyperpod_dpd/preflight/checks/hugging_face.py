"""PRE-DAT-005: the Hugging Face Hub lets the token have the model in the pinned revision."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from hyperpod_dpd.derive.model_store import import_origin
from hyperpod_dpd.derive.secrets import import_token, source_token
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.preflight.secret import VALUE_CALL, secret_value
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.serving.model_source import repository
from hyperpod_dpd.spec import Deployment, HubOrigin, HuggingFaceSource

HUB = "https://huggingface.co"
_WITH_GATE = "the model is gated"


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    name = repository(deployment)
    revision = deployment.model.revision or "main"
    secret = source_token(deployment) or import_token(deployment)
    headers = {}
    if secret is not None:
        token = _token(account, secret)
        if not token:
            return  # PRE-SEC-001 says so
        headers["Authorization"] = f"Bearer {token}"
    try:
        status = account.head(f"{HUB}/{name}/resolve/{revision}/config.json", headers=headers).status
    except OSError as error:
        yield Gap(
            what=f"whether the Hub gives out `{name}`",
            why=f"`{HUB}` cannot be reached from here: {error}",
            fix="run it where the internet is, or use `source.type: s3`",
        )
        return
    imported = not isinstance(deployment.model.source, HuggingFaceSource)
    yield from _judge(status, name, revision, secret, "imported_from" if imported else "source")


def _token(account: Account, secret: str) -> str:
    try:
        return secret_value(account, secret).strip()
    except ClientError as error:
        # absent, or about to be deleted
        if code_of(error) not in ("ResourceNotFoundException", "InvalidRequestException"):
            raise
        return ""


def _judge(status: int, name: str, revision: str, secret: str | None, part: str) -> Iterator[Problem | Gap]:
    if status in (200, 302, 307):
        return
    if status == 401 and secret is None:
        yield Problem(
            path=f"model.{part}",
            says=_WITH_GATE,
            given=f"`{name}` without `token_secret`",
            computed="the Hub answers 401",
            fix=f"accept the licence at {HUB}/{name}, name a secret as `model.{part}.token_secret`, fill it with "
            "`dpd secret set`",
        )
    elif status == 401:
        yield Problem(
            path=f"model.{part}.token_secret",
            says="the Hub does not accept the token",
            given=f"the token in `{secret}`",
            computed="the Hub answers 401",
            fix="store a valid token with the right to read gated repositories",
        )
    elif status == 403:
        yield Problem(
            path=f"model.{part}.token_secret",
            says=f"{_WITH_GATE}, and the owner of the token has not been let in",
            given=f"`{name}` with the token in `{secret}`",
            computed="the Hub answers 403",
            fix=f"accept the licence at {HUB}/{name} as the owner of the token, and wait for the approval",
        )
    elif status == 404:
        yield Problem(
            path="model.revision",
            says="the Hub has no such model or revision",
            given=f"`{name}` at `{revision}`",
            computed="the Hub answers 404",
            fix=f"copy the commit from {HUB}/{name}/commits/main",
        )
    else:
        yield Gap(
            what=f"whether the Hub gives out `{name}`",
            why=f"the Hub answers {status}",
            fix="run it again in a minute",
        )


CHECK = Check(
    id="PRE-DAT-005",
    title="the Hugging Face Hub gives out the model",
    calls=(VALUE_CALL,),
    look=_look,
    applies=lambda deployment: (
        isinstance(deployment.model.source, HuggingFaceSource)
        or isinstance(import_origin(deployment), HubOrigin)
    ),
)
