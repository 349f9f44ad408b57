"""PRE-DAT-003: the archive of the dependencies chart is where the closed network looks for it."""

import base64
from collections.abc import Iterator

from botocore.exceptions import ClientError

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

_PATH = "cluster.dependencies_chart"


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    source = deployment.cluster.dependencies_chart
    bucket, key = _place(deployment)
    if not _exists(account, bucket, key):
        yield Problem(
            path=f"{_PATH}.s3_uri",
            says="the archive of the dependencies chart is not there",
            given=f"`s3_uri: {source.s3_uri}`",
            fix="`make dependencies-archive`, then `aws s3 cp --checksum-algorithm SHA256` it there",
        )
        return
    row = account.client("s3").head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    actual = _digest(row)
    if actual is None:
        yield Gap(
            what=f"the SHA-256 of `{source.s3_uri}`",
            why="S3 keeps no SHA-256 of the whole object; the build will compute it",
            fix="upload it with `--checksum-algorithm SHA256`, or with `--metadata sha256=…`",
        )
    elif actual != source.sha256:
        yield Problem(
            path=f"{_PATH}.sha256",
            says="the archive of the dependencies chart is another one",
            given=f"`sha256: {source.sha256}`",
            computed=f"`{actual}` of `{source.s3_uri}`",
            fix="upload the archive again, or correct `sha256`",
        )


def _exists(account: Account, bucket: str, key: str) -> bool:
    """Whether the object is there: asked by listing, because S3 answers 403 for what the caller may only not list."""
    try:
        answer = account.client("s3").list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
    except ClientError as error:
        if code_of(error) == "NoSuchBucket":
            return False
        raise
    return any(row["Key"] == key for row in answer.get("Contents", ()))


def _digest(row: dict[str, object]) -> str | None:
    """Return the SHA-256 in hexadecimal that S3 knows of the object, or that the uploader wrote beside it."""
    if row.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT" and row.get("ChecksumSHA256"):
        return base64.b64decode(str(row["ChecksumSHA256"])).hex()
    metadata = row.get("Metadata")
    return metadata.get("sha256") if isinstance(metadata, dict) else None


def _place(deployment: Deployment) -> tuple[str, str]:
    uri = deployment.cluster.dependencies_chart.s3_uri or ""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


CHECK = Check(
    id="PRE-DAT-003",
    title="the archive of the dependencies chart is there, unchanged",
    calls=(
        Call(
            service="s3",
            operation="ListObjectsV2",
            on=lambda deployment: (f"arn:aws:s3:::{_place(deployment)[0]}",),
        ),
        Call(
            service="s3",
            operation="HeadObject",
            on=lambda deployment: ("arn:aws:s3:::" + "/".join(_place(deployment)),),
        ),
    ),
    look=_look,
    applies=lambda deployment: (
        creates_cluster(deployment) and deployment.cluster.dependencies_chart.source == "s3"
    ),
)
