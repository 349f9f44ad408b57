"""Copy a model from the Hugging Face Hub or another bucket into the model bucket: all of it, or a reason why not.

Runs in CodeBuild. File by file: download to disk, verify the origin's checksum, upload with SHA-256 checksums that S3
verifies, delete. An object that an earlier run has stored is not copied again, so that a run that was cut short goes on
where it ended. The manifest, which is the completion marker, is written last. Where it says that the commit has been
imported, and the objects are as it says, nobody is asked for anything: no hub, and no token.

The last line with `dpd-error:` is the reason that CloudFormation shows.
"""

import argparse
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from hyperpod_dpd.storage.model_import.program.folder import Folder
from hyperpod_dpd.storage.model_import.program.hub import Hub
from hyperpod_dpd.storage.model_import.program.hub_token import wait_for_token
from hyperpod_dpd.storage.model_import.program.model_files import ImportFailedError, Origin
from hyperpod_dpd.storage.model_import.program.store import Store
from hyperpod_dpd.storage.model_import.program.transfer import arrived, import_model

ERROR_MARK = "dpd-error: "


def _origin(given: argparse.Namespace) -> Origin:
    if given.origin.startswith("s3://"):
        return Folder(given.origin, boto3.client("s3"))
    repository, _, revision = given.origin.removeprefix("hf://").rpartition("@")
    token = None
    if given.token_secret:
        token = wait_for_token(
            given.token_secret, boto3.client("secretsmanager"), seconds=given.token_wait_seconds
        )
    return Hub(repository, revision, token)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="copy a model into the model bucket")
    parser.add_argument(
        "--origin", required=True, help="hf://organisation/repository@commit, or s3://bucket/folder"
    )
    parser.add_argument("--bucket", required=True, help="model bucket")
    parser.add_argument("--prefix", required=True, help="key prefix of the model's folder")
    parser.add_argument("--manifest-key", required=True, help="key of the completion marker")
    parser.add_argument("--token-secret", default="", help="secret with the token of a gated model")
    parser.add_argument(
        "--token-wait-seconds", type=float, default=7200, help="how long an empty one is waited for"
    )
    parser.add_argument("--parallel", type=int, default=8, help="files on their way at a time")
    parser.add_argument("--work", type=Path, required=True, help="folder on disk for files on their way")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Import; return the exit code."""
    given = _parser().parse_args(arguments)
    given.work.mkdir(parents=True, exist_ok=True)
    store = Store(given.bucket, given.prefix, given.manifest_key, boto3.client("s3"))
    try:
        report = arrived(given.origin, store)
        if report is None:
            report = import_model(_origin(given), store, given.work, parallel=given.parallel)
    except (ImportFailedError, BotoCoreError, ClientError) as error:
        print(f"{ERROR_MARK}{error}", file=sys.stderr)
        return 1
    except Exception as error:  # noqa: BLE001 -- nobody reads the middle of a build's log: the reason is its last line
        traceback.print_exc()
        print(f"{ERROR_MARK}{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"s3://{given.bucket}/{given.prefix} holds {given.origin}: {report}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
