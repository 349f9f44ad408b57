"""PRE-DAT-001: the given model bucket is in the region and holds the model."""

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.serving.model_source import key_prefix
from hyperpod_dpd.spec import Deployment, S3Source

_CONFIG = "config.json"
_WEIGHTS = ".safetensors"


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    bucket, folder = _bucket(deployment), f"{key_prefix(deployment)}/"
    client = account.client("s3")
    try:
        there = client.head_bucket(Bucket=bucket)
    except ClientError as error:
        code = code_of(error)
        if code in ("404", "NoSuchBucket"):
            yield _problem(
                "bucket",
                "the model bucket does not exist",
                f"`bucket: {bucket}`",
                fix="create it and copy the model, or remove `bucket` to have one made and filled",
            )
            return
        # another region answers a redirect
        if code != "301":
            raise
        yield _elsewhere(deployment, bucket, error.response["ResponseMetadata"]["HTTPHeaders"])
        return
    if there.get("BucketRegion", deployment.region) != deployment.region:
        yield _elsewhere(deployment, bucket, {"x-amz-bucket-region": there["BucketRegion"]})
        return
    sizes = {
        row["Key"].removeprefix(folder): row["Size"]
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=folder)
        for row in page.get("Contents", ())
    }
    yield from _content(f"s3://{bucket}/{folder}", sizes)
    if _CONFIG in sizes:
        # listing and reading are two permissions; nodes need both, and so does whoever copies a model
        client.head_object(Bucket=bucket, Key=f"{folder}{_CONFIG}")


def _content(place: str, sizes: dict[str, int]) -> Iterator[Problem]:
    fix = "copy the whole repository there, with `config.json`, tokenizer and every `*.safetensors`"
    if not any(sizes.values()):
        yield _problem("prefix", "the model folder is empty", f"`{place}`", fix=fix)
        return
    if _CONFIG not in sizes:
        yield _problem(
            "prefix",
            "the model folder has no `config.json`",
            f"`{place}` with {len(sizes)} objects",
            fix="point `prefix` to the folder that holds it, without the name of the bucket",
        )
    if not any(name.endswith(_WEIGHTS) and size for name, size in sizes.items()):
        yield _problem(
            "prefix",
            "the model folder has no weights in safetensors",
            f"`{place}` with {len(sizes)} objects",
            fix=fix,
        )


def _elsewhere(deployment: Deployment, bucket: str, headers: dict[str, Any]) -> Problem:
    actual = headers.get("x-amz-bucket-region", "another region")
    return _problem(
        "bucket",
        "the model bucket is in another region",
        f"`bucket: {bucket}`",
        computed=f"it is in `{actual}`",
        limit=f"`{deployment.region}`: the S3 endpoint of the VPC reaches no other",
        fix="replicate the model into a bucket of the deployment's region",
    )


def _problem(key: str, says: str, given: str, *, fix: str, computed: str = "", limit: str = "") -> Problem:
    return Problem(
        path=f"model.source.{key}", says=says, given=given, computed=computed, limit=limit, fix=fix
    )


def _bucket(deployment: Deployment) -> str:
    source = deployment.model.source
    return source.bucket or "" if isinstance(source, S3Source) else ""


def _bucket_arn(deployment: Deployment) -> tuple[str, ...]:
    return (f"arn:aws:s3:::{_bucket(deployment)}",)


CHECK = Check(
    id="PRE-DAT-001",
    title="the model bucket is in the region and holds the model",
    calls=(
        Call(service="s3", operation="HeadBucket", on=_bucket_arn),
        Call(service="s3", operation="ListObjectsV2", on=_bucket_arn),
        Call(
            service="s3",
            operation="HeadObject",
            on=lambda deployment: (f"arn:aws:s3:::{_bucket(deployment)}/{key_prefix(deployment)}/{_CONFIG}",),
        ),
    ),
    look=_look,
    applies=lambda deployment: bool(_bucket(deployment)),
)
