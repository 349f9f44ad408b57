"""Planted problems of models, keys and file systems."""

from hyperpod_dpd.spec import FolderOrigin
from tests.preflight.aws import ACCOUNT_ID, Refusal
from tests.preflight.plant import KEY, Planted, but, hub, only_buckets

THEIR_KEY = f"arn:aws:kms:us-east-1:{ACCOUNT_ID}:key/11111111-1111-1111-1111-111111111111"


PLANTED = {
    "origin-absent": Planted(
        check="PRE-DAT-001",
        path="model.imported_from.uri",
        changes={"model__imported_from": FolderOrigin(type="s3", uri="s3://theirs/llama")},
        answers={("s3", "HeadBucket"): only_buckets()},
        says=("does not exist", "given `uri: s3://theirs/llama`"),
    ),
    "origin-without-weights": Planted(
        check="PRE-DAT-001",
        path="model.imported_from.uri",
        changes={"model__imported_from": FolderOrigin(type="s3", uri="s3://theirs/llama")},
        answers={
            ("s3", "HeadBucket"): {"BucketRegion": "eu-west-1"},
            ("s3", "ListObjectsV2"): {"Contents": [{"Key": "llama/config.json", "Size": 10}]},
        },
        says=("no weights in safetensors", "`s3://theirs/llama/` with 1 objects"),
    ),
    "model-bucket-absent": Planted(
        check="PRE-DAT-001",
        path="model.source.bucket",
        deployment="bucket",
        answers={("s3", "HeadBucket"): only_buckets()},
        says=("the model bucket does not exist", "given `bucket: weights`"),
    ),
    "model-bucket-elsewhere": Planted(
        check="PRE-DAT-001",
        path="model.source.bucket",
        deployment="bucket",
        answers={("s3", "HeadBucket"): {"BucketRegion": "eu-west-1"}},
        says=("it is in `eu-west-1`", "limit `us-east-1`"),
    ),
    "model-bucket-redirects": Planted(
        check="PRE-DAT-001",
        path="model.source.bucket",
        deployment="bucket",
        answers={
            ("s3", "HeadBucket"): Refusal(
                code="301", status=301, headers=(("x-amz-bucket-region", "eu-west-1"),)
            )
        },
        says=("it is in `eu-west-1`",),
    ),
    "model-bucket-empty": Planted(
        check="PRE-DAT-001",
        path="model.source.prefix",
        deployment="bucket",
        answers={("s3", "ListObjectsV2"): {"Contents": [{"Key": "llama/", "Size": 0}]}},
        says=("the model folder is empty", "given `s3://weights/llama/`"),
    ),
    "model-without-weights": Planted(
        check="PRE-DAT-001",
        path="model.source.prefix",
        deployment="bucket",
        answers={("s3", "ListObjectsV2"): {"Contents": [{"Key": "llama/config.json", "Size": 800}]}},
        says=("no weights in safetensors", "with 1 objects"),
    ),
    "model-in-a-subfolder": Planted(
        check="PRE-DAT-001",
        path="model.source.prefix",
        deployment="bucket",
        answers={
            ("s3", "ListObjectsV2"): {
                "Contents": [
                    {"Key": "llama/70b/config.json", "Size": 800},
                    {"Key": "llama/70b/a.safetensors", "Size": 9},
                ]
            }
        },
        says=("has no `config.json`", "point `prefix` to the folder"),
    ),
    "model-under-a-key-that-is-not-named": Planted(
        check="PRE-DAT-001",
        path="model.source.kms_key_arn",
        deployment="bucket",
        answers={("s3", "HeadObject"): {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KEY}},
        says=(
            "readers may not use",
            "given `bucket: weights` without `kms_key_arn`",
            f"`config.json` has `{KEY}`",
            f"set `model.source.kms_key_arn: {KEY}`",
        ),
    ),
    "model-under-another-key": Planted(
        check="PRE-DAT-001",
        path="model.imported_from.kms_key_arn",
        changes={
            "model__imported_from": FolderOrigin(type="s3", uri="s3://theirs/llama", kms_key_arn=THEIR_KEY)
        },
        answers={("s3", "HeadObject"): {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KEY}},
        says=(f"given `kms_key_arn: {THEIR_KEY}`", f"has `{KEY}`"),
    ),
    "file-system-absent": Planted(
        check="PRE-DAT-002",
        path="model.source.file_system_id",
        deployment="fsx",
        answers={("fsx", "DescribeFileSystems"): Refusal(code="FileSystemNotFound")},
        says=("no such file system", "`file_system_id: fs-0123456789abcdef0`"),
    ),
    "file-system-creating": Planted(
        check="PRE-DAT-002",
        path="model.source.file_system_id",
        deployment="fsx",
        answers=but(("fsx", "DescribeFileSystems"), Lifecycle="CREATING"),
        says=("not available", "computed `CREATING`", "limit `AVAILABLE` or `UPDATING`"),
    ),
    "file-system-mount-name": Planted(
        check="PRE-DAT-002",
        path="model.source.mount_name",
        deployment="fsx",
        answers=but(("fsx", "DescribeFileSystems"), LustreConfiguration={"MountName": "zzzzzzzz"}),
        says=("given `mount_name: abcdefgh`", "help: write `zzzzzzzz`"),
    ),
    "file-system-in-another-zone": Planted(
        check="PRE-DAT-002",
        path="model.source.file_system_id",
        deployment="fsx",
        answers=but(("ec2", "DescribeSubnets"), AvailabilityZoneId="use1-az2"),
        says=("given `gpu_zone_id: use1-az6`", "it is in `use1-az2`"),
    ),
    "archive-absent": Planted(
        check="PRE-DAT-003",
        path="cluster.dependencies_chart.s3_uri",
        deployment="closed",
        answers={("s3", "ListObjectsV2"): Refusal(code="NoSuchBucket", status=404)},
        says=("`s3_uri: s3://archives/dependencies.tar.gz`", "make dependencies-archive"),
    ),
    "archive-is-another": Planted(
        check="PRE-DAT-003",
        path="cluster.dependencies_chart.sha256",
        deployment="closed",
        answers={("s3", "HeadObject"): {"Metadata": {"sha256": "ee" * 32}}},
        says=(f"given `sha256: {'cd' * 32}`", f"computed `{'ee' * 32}`"),
    ),
    "tls-bucket-absent": Planted(
        check="PRE-DAT-004",
        path="platform.inference_operator.tls_bucket",
        deployment="closed",
        answers={("s3", "HeadBucket"): only_buckets()},
        says=("given `tls_bucket: hyperpod-tls-mine`",),
    ),
    "hub-gate-closed": Planted(
        check="PRE-DAT-005",
        path="model.source.token_secret",
        deployment="hub",
        web=hub(403),
        says=("the owner of the token has not been let in", "the Hub answers 403", "accept the licence"),
    ),
    "hub-token-refused": Planted(
        check="PRE-DAT-005",
        path="model.source.token_secret",
        deployment="hub",
        web=hub(401),
        says=("the Hub does not accept the token", "the token in `hub-token`"),
    ),
    "hub-without-token": Planted(
        check="PRE-DAT-005",
        path="model.source",
        deployment="hub",
        changes={"model__source__token_secret": None},
        web=hub(401),
        says=("the model is gated", "without `token_secret`"),
    ),
    "import-gate-closed": Planted(
        check="PRE-DAT-005",
        path="model.imported_from.token_secret",
        web=hub(403),
        says=("the owner of the token has not been let in", "huggingface"),
    ),
    "hub-revision-unknown": Planted(
        check="PRE-DAT-005",
        path="model.revision",
        deployment="hub",
        web=hub(404),
        says=("`meta-llama/Llama-3.3-70B-Instruct` at `6f6073b4", "answers 404"),
    ),
}
