"""PRE-DAT-001: given buckets are there, and hold the model that is served or imported, under a named key."""

from collections.abc import Iterator
from dataclasses import dataclass

from botocore.exceptions import ClientError

from hyperpod_dpd.derive.model_store import import_origin
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import code_of, explain
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.serving.model_source import key_prefix
from hyperpod_dpd.spec import Deployment, FolderOrigin, S3Source

_CONFIG = "config.json"
_WEIGHTS = ".safetensors"


@dataclass(frozen=True)
class _Folder:
    """A folder of a model that the deployment names."""

    path: str
    """Path of the bucket in the deployment."""
    given: str
    bucket: str
    folder: str
    holds_model: bool = True
    """Whether the model has to be there already."""
    near: bool = True
    """Whether the bucket has to be in the deployment's region."""
    key_arn: str | None = None
    """Key of the objects, as far as the deployment names one."""


def _folders(deployment: Deployment) -> Iterator[_Folder]:
    origin = import_origin(deployment)
    source = deployment.model.source
    if isinstance(source, S3Source) and source.bucket is not None:
        yield _Folder(
            path="model.source",
            given=f"`bucket: {source.bucket}`",
            bucket=source.bucket,
            folder=f"{key_prefix(deployment)}/",
            holds_model=origin is None,
            key_arn=source.kms_key_arn,
        )
    if isinstance(origin, FolderOrigin):
        bucket, _, folder = origin.uri.removeprefix("s3://").partition("/")
        yield _Folder(
            path="model.imported_from",
            given=f"`uri: {origin.uri}`",
            bucket=bucket,
            folder=f"{folder.strip('/')}/",
            near=False,
            key_arn=origin.kms_key_arn,
        )


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    for folder in _folders(deployment):
        yield from _look_at(folder, deployment, account)


def _look_at(place: _Folder, deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    bucket, folder = place.bucket, place.folder
    client = account.client("s3")
    try:
        there = client.head_bucket(Bucket=bucket)
    except ClientError as error:
        code = code_of(error)
        if code in ("404", "NoSuchBucket"):
            yield _problem(
                place,
                "bucket",
                "the model bucket does not exist",
                place.given,
                fix="create it and copy the model, or remove `bucket` to have one made and filled",
            )
            return
        # another region answers a redirect
        if code != "301":
            raise
        there = {"BucketRegion": error.response["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region")}
    region = there.get("BucketRegion", deployment.region)
    if place.near and region != deployment.region:
        yield _elsewhere(place, deployment, region or "another region")
        return
    if not place.holds_model:
        return
    client = account.client("s3", region=region)
    sizes = {
        row["Key"].removeprefix(folder): row["Size"]
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=folder)
        for row in page.get("Contents", ())
    }
    yield from _content(place, f"s3://{bucket}/{folder}", sizes)
    if _CONFIG in sizes:
        # listing and reading are two permissions; nodes need both, and so does whoever copies a model
        head = client.head_object(Bucket=bucket, Key=f"{folder}{_CONFIG}")
        yield from _key(place, account, region, head.get("SSEKMSKeyId"))


def _key(place: _Folder, account: Account, region: str, used: str | None) -> Iterator[Problem | Gap]:
    """Look at the key of the objects: the roles of their readers get it by the ARN that the file names."""
    if used is None or used == place.key_arn:
        return
    try:
        about = account.client("kms", region=region).describe_key(KeyId=used)["KeyMetadata"]
    except ClientError as error:
        yield explain(error).gap(f"the key `{used}` of {place.given}")
        return
    # S3's own key serves everybody in the account who may read the object
    if about["KeyManager"] == "CUSTOMER":
        yield Problem(
            path=f"{place.path}.kms_key_arn",
            says="the model is encrypted with a key that its readers may not use",
            given=f"`kms_key_arn: {place.key_arn}`"
            if place.key_arn
            else f"{place.given} without `kms_key_arn`",
            computed=f"`{_CONFIG}` has `{used}`",
            fix=f"set `{place.path}.kms_key_arn: {used}`, and let the key's policy admit roles of this account",
        )


def _content(folder: _Folder, place: str, sizes: dict[str, int]) -> Iterator[Problem]:
    fix = "copy the whole repository there, with `config.json`, tokenizer and every `*.safetensors`"
    if not any(sizes.values()):
        yield _problem(folder, "prefix", "the model folder is empty", f"`{place}`", fix=fix)
        return
    if _CONFIG not in sizes:
        yield _problem(
            folder,
            "prefix",
            "the model folder has no `config.json`",
            f"`{place}` with {len(sizes)} objects",
            fix="point `prefix` to the folder that holds it, without the name of the bucket",
        )
    if not any(name.endswith(_WEIGHTS) and size for name, size in sizes.items()):
        yield _problem(
            folder,
            "prefix",
            "the model folder has no weights in safetensors",
            f"`{place}` with {len(sizes)} objects",
            fix=fix,
        )


def _elsewhere(place: _Folder, deployment: Deployment, region: str) -> Problem:
    return _problem(
        place,
        "bucket",
        "the model bucket is in another region",
        place.given,
        computed=f"it is in `{region}`",
        limit=f"`{deployment.region}`: the S3 endpoint of the VPC reaches no other",
        fix="replicate the model into a bucket of the deployment's region, or name this one as "
        "`model.imported_from` to have it copied",
    )


def _problem(
    place: _Folder, key: str, says: str, given: str, *, fix: str, computed: str = "", limit: str = ""
) -> Problem:
    at = f"{place.path}.{key}" if place.path == "model.source" else f"{place.path}.uri"
    return Problem(path=at, says=says, given=given, computed=computed, limit=limit, fix=fix)


def _bucket_arns(deployment: Deployment) -> tuple[str, ...]:
    return tuple(f"arn:aws:s3:::{folder.bucket}" for folder in _folders(deployment))


CHECK = Check(
    id="PRE-DAT-001",
    title="given buckets are there, and hold the model that is served or imported, under a named key",
    calls=(
        Call(service="s3", operation="HeadBucket", on=_bucket_arns),
        Call(service="s3", operation="ListObjectsV2", on=_bucket_arns),
        Call(
            service="s3",
            operation="HeadObject",
            on=lambda deployment: tuple(
                f"arn:aws:s3:::{folder.bucket}/{folder.folder}{_CONFIG}" for folder in _folders(deployment)
            ),
        ),
        # which key it is shows only in the answer before
        Call(service="kms", operation="DescribeKey"),
    ),
    look=_look,
    applies=lambda deployment: any(_folders(deployment)),
)
