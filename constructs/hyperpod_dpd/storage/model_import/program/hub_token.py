"""The token of a gated model, from Secrets Manager."""

import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from hyperpod_dpd.storage.model_import.program.model_files import ImportFailedError

TOKEN_POLL_SECONDS = 15.0


def wait_for_token(
    secret: str,
    client: Any,
    *,
    seconds: float,
    say: Callable[[str], None] = print,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Return the token in `secret`; an empty secret is waited for, as the stack has just made it.

    Raises:
        ImportFailedError: nobody filled it in time.
    """
    started = clock()
    said = False
    while True:
        token = _secret_text(secret, client).strip()
        if token:
            return token
        if not said:
            say(
                f"the secret `{secret}` is empty: waiting {seconds / 60:,.0f} minutes for `dpd secret set {secret}`"
            )
            said = True
        if clock() - started >= seconds:
            raise ImportFailedError(
                f"the secret `{secret}` is still empty after {seconds / 60:,.0f} minutes. help: fill it with "
                f"`dpd secret set {secret}`, then deploy again"
            )
        sleep(TOKEN_POLL_SECONDS)


def _secret_text(secret: str, client: Any) -> str:
    try:
        return str(client.get_secret_value(SecretId=secret).get("SecretString", ""))
    except ClientError as error:
        # a secret that was made without a value has no version
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return ""
        raise
