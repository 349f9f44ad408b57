"""`dpd secret set`: put a value into a secret of Secrets Manager without showing it to anybody on the way."""

import getpass
import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import paint
from hyperpod_dpd.derive.secret_names import OWNED
from hyperpod_dpd.derive.secrets import region_of_arn

_LONGEST_BYTES = 65_536
"""Longest value of a secret (Secrets Manager quotas)."""


class _RefusedError(Exception):
    """What is wrong, in the form of every message."""


def _add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    below = actions.add_parser(
        "set",
        help="store a value, read from standard input or asked for without echo",
        description="Store a value, read from standard input, or asked for without echo on a terminal.",
    )
    below.add_argument("name", metavar="NAME", help="name or ARN of the secret")
    below.add_argument("--region", metavar="REGION", help="region of the secret (default: the profile's)")
    below.add_argument("--profile", metavar="NAME", help="profile of the AWS configuration to use")
    below.add_argument(
        "--create", action="store_true", help="make the secret where it does not exist: one of your own"
    )
    below.add_argument(
        "--kms-key",
        metavar="KEY",
        help="with --create: id, ARN or alias of the key that encrypts it (default: the account's own key)",
    )


def _run(arguments: Namespace) -> Exit:
    # here, because help and completion need no AWS
    import boto3  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    from hyperpod_dpd.preflight.failure import explain  # noqa: PLC0415

    try:
        _refuse_misuse(arguments)
        session = boto3.Session(
            profile_name=arguments.profile, region_name=arguments.region or region_of_arn(arguments.name)
        )
        client = session.client("secretsmanager")
        missing = _is_missing(client, arguments.name)
        if missing:
            _refuse_unless_creatable(arguments, client.meta.region_name)
        value = _value(arguments.name)
        _store(client, arguments, value, create=missing)
    except _RefusedError as refused:
        return _fail(str(refused))
    except (BotoCoreError, ClientError) as error:
        failure = explain(error)
        return _fail(f"the secret `{arguments.name}` was not set: {failure.why}. help: {failure.fix}")
    print(f"{arguments.name}: {'made and ' if missing else ''}filled in {client.meta.region_name}")
    return Exit.OK


COMMAND = Command(
    description="""\
Fill a secret that a deployment names, such as the token of a gated model or the router's keys. The value is read from
standard input, or asked for without echo on a terminal: never from the command line, which every process of the
machine can read, and which the shell remembers. One trailing newline is not part of it.

Secrets below `hyperpod-dpd/DEPLOYMENT/` are made by that deployment's platform stack, empty; every other secret is
yours, and is made with `--create`.

examples:
  dpd secret set hyperpod-dpd/llama/huggingface --region us-east-1
  dpd secret set mine/api-keys --create --kms-key alias/mine < keys.txt""",
    add_arguments=_add_arguments,
    run=_run,
)


def _refuse_misuse(arguments: Namespace) -> None:
    if arguments.kms_key is not None and not arguments.create:
        raise _RefusedError(
            f"`--kms-key {arguments.kms_key}` without `--create`: a secret that exists keeps its key. "
            "help: leave `--kms-key` out"
        )
    region = region_of_arn(arguments.name)
    if region is not None and arguments.region not in (None, region):
        raise _RefusedError(
            f"the secret `{arguments.name}` is of `{region}`: given `--region {arguments.region}`. "
            "help: leave `--region` out"
        )


def _is_missing(client: Any, name: str) -> bool:
    from botocore.exceptions import ClientError  # noqa: PLC0415 -- as above

    try:
        row = client.describe_secret(SecretId=name)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return True
        raise
    if row.get("DeletedDate"):
        raise _RefusedError(
            f"the secret `{name}` is scheduled for deletion. help: `aws secretsmanager restore-secret "
            f"--region {client.meta.region_name} --secret-id {name}`"
        )
    return False


def _refuse_unless_creatable(arguments: Namespace, region: str) -> None:
    name = arguments.name
    own = name.split("/")
    if own[0] == OWNED and len(own) > 2:
        raise _RefusedError(
            f"there is no secret `{name}` in `{region}`, and `cdk deploy` makes it: the stack of deployment "
            f"`{own[1]}` would fail on one that is there. help: run it once the stack `{own[1]}-platform` is being "
            "deployed; the import waits two hours for the value"
        )
    if not arguments.create:
        raise _RefusedError(
            f"there is no secret `{name}` in `{region}`. help: check name and `--region`, or make it with `--create`"
        )
    if region_of_arn(name) is not None:
        raise _RefusedError(f"a secret cannot be made by its ARN: given `{name}`. help: give its name")


def _value(name: str) -> str:
    if sys.stdin.isatty():
        value = getpass.getpass(f"value of {name} (not shown): ")
    else:
        try:
            value = sys.stdin.read(_LONGEST_BYTES + 1)
        except UnicodeDecodeError:
            raise _RefusedError("standard input is not text in UTF-8. help: give the value as text") from None
    # `echo` and editors end a file with one
    value = value.removesuffix("\n").removesuffix("\r")
    if not value.strip():
        raise _RefusedError(
            "the value is empty: nothing was changed. help: type it, or give it on standard input"
        )
    size_bytes = len(value.encode())
    if size_bytes > _LONGEST_BYTES:
        raise _RefusedError(
            f"the value has more than {_LONGEST_BYTES:,} bytes, which is the longest. help: give only the secret"
        )
    return value


def _store(client: Any, arguments: Namespace, value: str, *, create: bool) -> None:
    if create:
        key = {"KmsKeyId": arguments.kms_key} if arguments.kms_key else {}
        client.create_secret(Name=arguments.name, SecretString=value, **key)
    else:
        client.put_secret_value(SecretId=arguments.name, SecretString=value)


def _fail(problem: str) -> Exit:
    print(f"{paint('error', 'error', sys.stderr)}: {problem}", file=sys.stderr)
    return Exit.FINDINGS
