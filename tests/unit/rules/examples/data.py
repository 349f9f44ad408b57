"""Cases of the rules about data."""

from typing import Any

from tests.unit.rules.example import Bad, Example


def _one(kind: str, policy: object = None, replace: object = None, **given: Any) -> dict[str, Any]:
    resource: dict[str, Any] = {"Type": kind, "Properties": given}
    if policy:
        resource["DeletionPolicy"] = policy
    if replace:
        resource["UpdateReplacePolicy"] = replace
    return {"Resources": {"It": resource}}


_LOCKED = {
    "PublicAccessBlockConfiguration": {
        "BlockPublicAcls": True,
        "BlockPublicPolicy": True,
        "IgnorePublicAcls": True,
        "RestrictPublicBuckets": True,
    },
    "BucketEncryption": {"ServerSideEncryptionConfiguration": [{}]},
    "VersioningConfiguration": {"Status": "Enabled"},
}


_WITHOUT_TLS = {"Bool": {"aws:SecureTransport": "false"}}


def _bucket(*, effect: str = "Deny", condition: object = _WITHOUT_TLS, **changes: Any) -> dict[str, Any]:
    given = {key: value for key, value in {**_LOCKED, **changes}.items() if value is not None}
    statement = {"Effect": effect, "Action": "s3:*", "Principal": {"AWS": "*"}, "Condition": condition}
    policy = {"Bucket": {"Ref": "It"}, "PolicyDocument": {"Statement": [statement]}}
    template = _one("AWS::S3::Bucket", **given)
    template["Resources"]["Policy"] = {"Type": "AWS::S3::BucketPolicy", "Properties": policy}
    return template


def _key(
    *principals: object, effect: str = "Allow", condition: object = None, rotates: bool = True
) -> dict[str, Any]:
    statements = [
        {
            "Effect": effect,
            "Action": "kms:*",
            "Resource": "*",
            "Principal": principal,
            **({"Condition": condition} if condition else {}),
        }
        for principal in principals
    ]
    return _one("AWS::KMS::Key", EnableKeyRotation=rotates, KeyPolicy={"Statement": statements})


_ROOT = {"AWS": "arn:aws:iam::111122223333:root"}
_AT = "Resources.It.Properties"
_EXISTING = {"file_system_id": "fs-0123456789abcdef0", "dns_name": "fs.example", "mount_name": "abcd"}
_SECRET = "arn:aws:secretsmanager"
_KMS = "arn:aws:kms"
_MIRRORED = {"mirror_public_images": True}
_BY_DIGEST = "registry.example/image@sha256:" + "a" * 64

EXAMPLES = (
    Example(
        rule="DPD-DATA-001",
        good=({}, {"removal": {"delete_data_on_destroy": True, "confirm": "llama-3-3-70b-p5"}}),
        bad=(
            Bad(
                case={"removal": {"delete_data_on_destroy": True}},
                at="removal.delete_data_on_destroy",
                mentions=("no `confirm`", "`confirm: llama-3-3-70b-p5`"),
            ),
            Bad(
                case={"removal": {"delete_data_on_destroy": True, "confirm": "yes"}},
                at="removal.confirm",
                mentions=("`confirm: yes`",),
            ),
            Bad(case={"removal": {"confirm": "llama-3-3-70b-p5"}}, at="removal.confirm"),
        ),
    ),
    Example(
        rule="DPD-DATA-003",
        good=(
            _one("AWS::S3::Bucket", "Retain", "Retain"),
            _one("AWS::SageMaker::Cluster", "RetainExceptOnCreate", "Retain"),
            _one("AWS::EC2::Subnet"),
        ),
        bad=(
            Bad(
                case=_one("AWS::S3::Bucket", "Delete", "Retain"),
                at="Resources.It.DeletionPolicy",
                mentions=("Delete",),
            ),
            Bad(
                case=_one("AWS::KMS::Key", "Retain"),
                at="Resources.It.UpdateReplacePolicy",
                mentions=("AWS::KMS::Key",),
            ),
            Bad(
                case=_one("AWS::SageMaker::Cluster"),
                at="Resources.It.DeletionPolicy",
                besides=("Resources.It.UpdateReplacePolicy",),
            ),
            Bad(
                case=_one("AWS::ECR::Repository", "Retain", "Retain", EmptyOnDelete=True),
                at=_AT,
                mentions=("EmptyOnDelete",),
            ),
        ),
    ),
    Example(
        rule="DPD-DATA-004",
        good=(_bucket(),),
        bad=(
            Bad(case=_bucket(PublicAccessBlockConfiguration=None), at=_AT, mentions=("public access",)),
            Bad(case=_bucket(PublicAccessBlockConfiguration={"BlockPublicAcls": True}), at=_AT),
            Bad(case=_bucket(BucketEncryption=None), at=_AT, mentions=("encryption",)),
            Bad(
                case=_bucket(VersioningConfiguration={"Status": "Suspended"}),
                at=_AT,
                mentions=("versioning",),
            ),
            Bad(case=_bucket(VersioningConfiguration=None), at=_AT, mentions=("versioning",)),
            Bad(case=_bucket(effect="Allow"), at=_AT, mentions=("TLS",)),
            # it denies something, but not requests without TLS
            Bad(case=_bucket(condition=None), at=_AT, mentions=("TLS",)),
            Bad(case=_bucket(condition={"Bool": {"aws:SecureTransport": "true"}}), at=_AT, mentions=("TLS",)),
        ),
    ),
    Example(
        rule="DPD-DATA-005",
        good=(
            _key(_ROOT),
            _key(_ROOT["AWS"]),
            _key("*", condition={"StringEquals": {"kms:CallerAccount": "111122223333"}}),
            _key("*", effect="Deny"),
            _one("AWS::KMS::Key", EnableKeyRotation=True),
        ),
        bad=(
            Bad(case=_key("*"), at=f"{_AT}.KeyPolicy"),
            Bad(case=_key({"AWS": ["*"]}), at=f"{_AT}.KeyPolicy"),
            Bad(case=_key(_ROOT, "*"), at=f"{_AT}.KeyPolicy"),
            Bad(case=_key(_ROOT, rotates=False), at=f"{_AT}.EnableKeyRotation", mentions=("False",)),
        ),
    ),
    Example(
        rule="DPD-DATA-006",
        good=(_one("AWS::Logs::LogGroup", RetentionInDays=90),),
        bad=(Bad(case=_one("AWS::Logs::LogGroup"), at=f"{_AT}.RetentionInDays"),),
    ),
    Example(
        rule="DPD-DATA-007",
        good=(
            _one("AWS::SNS::Topic", KmsMasterKeyId={"Ref": "Key"}),
            _one("AWS::SQS::Queue", SqsManagedSseEnabled=True),
        ),
        bad=(
            Bad(case=_one("AWS::SNS::Topic"), at=f"{_AT}.KmsMasterKeyId", mentions=("AWS::SNS::Topic",)),
            Bad(case=_one("AWS::SQS::Queue"), at=f"{_AT}.KmsMasterKeyId"),
        ),
    ),
    Example(
        rule="DPD-DATA-008",
        good=(_one("AWS::FSx::FileSystem", KmsKeyId="k"), _one("AWS::APS::Workspace", KmsKeyArn="k")),
        bad=(
            Bad(case=_one("AWS::FSx::FileSystem"), at=f"{_AT}.KmsKeyId"),
            Bad(case=_one("AWS::APS::Workspace"), at=f"{_AT}.KmsKeyArn"),
        ),
    ),
    Example(
        rule="DPD-DATA-009",
        good=({}, {"network.flow_log_retention_days": 1, "platform.log_retention_days": 3653}),
        bad=(
            Bad(
                case={"network.flow_log_retention_days": 100},
                at="network.flow_log_retention_days",
                mentions=("100 days", "set 120"),
            ),
            Bad(
                case={"platform.log_retention_days": 9999},
                at="platform.log_retention_days",
                mentions=("set 3653",),
            ),
        ),
    ),
    Example(
        rule="DPD-DATA-010",
        good=(
            {"platform.inference_operator.tls_bucket": "hyperpod-tls-llama"},
            {"platform.inference_operator": None},
        ),
        bad=(
            Bad(
                case={"platform.inference_operator.tls_bucket": "my-certificates"},
                at="platform.inference_operator.tls_bucket",
                mentions=("my-certificates", "hyperpod-tls-"),
            ),
            Bad(
                case={"platform.inference_operator.tls_bucket": "hyperpod-tls-" + "x" * 51},
                at="platform.inference_operator.tls_bucket",
                mentions=("63",),
            ),
        ),
    ),
    Example(
        rule="DPD-DATA-011",
        good=(
            _one(
                "AWS::ECR::Repository",
                ImageTagMutability="IMMUTABLE",
                ImageScanningConfiguration={"ScanOnPush": True},
            ),
        ),
        bad=(
            Bad(
                case=_one("AWS::ECR::Repository", ImageScanningConfiguration={"ScanOnPush": True}),
                at=f"{_AT}.ImageTagMutability",
                mentions=("MUTABLE",),
            ),
            Bad(
                case=_one("AWS::ECR::Repository", ImageTagMutability="IMMUTABLE"),
                at=f"{_AT}.ImageScanningConfiguration",
            ),
        ),
    ),
    Example(
        rule="DPD-DATA-012",
        good=(
            {"model.source": {"type": "fsx"}},
            {"model.source": {"type": "fsx", "storage_gib": 4800}},
            # an existing one has the size that it has
            {"model.source": {"type": "fsx", **_EXISTING, "storage_gib": 3600}},
        ),
        bad=(
            Bad(
                case={"model.source": {"type": "fsx", "storage_gib": 1}},
                at="model.source.storage_gib",
                mentions=("`storage_gib: 1`", "a multiple of 2400", "set `storage_gib: 1200`"),
            ),
            Bad(
                case={"model.source": {"type": "fsx", "storage_gib": 3600}},
                at="model.source.storage_gib",
                mentions=("set `storage_gib: 4800`",),
            ),
            Bad(
                case={"model.source": {"type": "fsx", "storage_gib": 1201}},
                at="model.source.storage_gib",
                mentions=("set `storage_gib: 2400`",),
            ),
        ),
    ),
    Example(
        rule="DPD-DATA-013",
        good=(
            # nothing to import
            {"model.source": {"type": "huggingface"}},
            {"model.imported_from": {"type": "s3", "uri": "s3://mine/llama"}},
            {
                "model.imported_from": {"type": "s3", "uri": "s3://mine/llama"},
                "model.source": {"type": "fsx"},
            },
            {
                "model.imported_from": {"type": "huggingface"},
                "model.source": {"type": "s3", "bucket": "mine"},
            },
        ),
        bad=(
            Bad(
                case={"model.imported_from": {"type": "s3", "uri": "s3://mine"}},
                at="model.imported_from.uri",
                mentions=("`uri: s3://mine`", "`s3://mine/…`"),
            ),
            Bad(
                case={"model.imported_from": {"type": "s3", "uri": "s3://mine/"}},
                at="model.imported_from.uri",
            ),
            Bad(
                case={
                    "model.imported_from": {"type": "s3", "uri": "s3://mine/llama/"},
                    "model.source": {"type": "s3", "bucket": "mine", "prefix": "llama"},
                },
                at="model.imported_from.uri",
                mentions=("imported into itself",),
            ),
            Bad(
                case={
                    "model.imported_from": {"type": "huggingface"},
                    "model.source": {"type": "huggingface"},
                },
                at="model.imported_from",
                mentions=("`source.type: huggingface`",),
            ),
            Bad(
                case={
                    "model.imported_from": {"type": "huggingface"},
                    "model.source": {"type": "fsx", **_EXISTING},
                },
                at="model.imported_from",
                mentions=("without `file_system_id`",),
            ),
        ),
    ),
    Example(
        rule="DPD-DATA-014",
        good=(
            {"routing.api_keys_secret": "dpd/keys"},
            {
                "account": "111122223333",
                "routing.api_keys_secret": f"{_SECRET}:us-east-1:111122223333:secret:keys",
            },
        ),
        bad=(
            Bad(
                case={"routing.api_keys_secret": f"{_SECRET}:eu-west-1:111122223333:secret:keys"},
                at="routing.api_keys_secret",
                mentions=(
                    "it is in `eu-west-1`",
                    "`us-east-1`",
                    "replicate-secret-to-regions --region eu-west-1",
                ),
            ),
            Bad(
                case={
                    "model.imported_from": {
                        "type": "huggingface",
                        "token_secret": f"{_SECRET}:eu-west-1:111122223333:secret:token",
                    }
                },
                at="model.imported_from.token_secret",
            ),
            Bad(
                case={
                    "account": "444455556666",
                    "routing.api_keys_secret": f"{_SECRET}:us-east-1:111122223333:secret:keys",
                },
                at="routing.api_keys_secret",
                mentions=("another account", "`444455556666`"),
            ),
        ),
    ),
    Example(
        rule="DPD-DATA-018",
        good=(
            {"model.source.kms_key_arn": f"{_KMS}:us-east-1:111122223333:key/1"},
            {"hyperpod.instance_groups.0.volumes_kms_key_arn": f"{_KMS}:us-east-1:111122223333:key/mrk-1"},
            {
                "model.imported_from": {
                    "type": "s3",
                    "uri": "s3://theirs/llama",
                    "kms_key_arn": f"{_KMS}:eu-west-1:111122223333:key/1",
                }
            },
        ),
        bad=(
            Bad(
                case={"model.source.kms_key_arn": f"{_KMS}:eu-west-1:111122223333:key/1"},
                at="model.source.kms_key_arn",
                mentions=("it is in `eu-west-1`", "`us-east-1`", "multi-Region"),
            ),
            Bad(
                case={
                    "hyperpod.instance_groups.1.volumes_kms_key_arn": f"{_KMS}:eu-west-1:111122223333:key/1"
                },
                at="hyperpod.instance_groups[1].volumes_kms_key_arn",
            ),
        ),
    ),
    Example(
        rule="DPD-DATA-015",
        good=(
            {"platform.images.router": _BY_DIGEST},
            {
                "platform.images": {
                    "source": "given",
                    "worker": _BY_DIGEST,
                    "router": _BY_DIGEST,
                    "proof": _BY_DIGEST,
                    "benchmark": _BY_DIGEST,
                }
            },
            # the operator's engine is a public image, and the operator has a router of its own
            {
                "serving.backend": "operator",
                "platform.images": {"source": "given", "proof": _BY_DIGEST, "benchmark": _BY_DIGEST},
            },
        ),
        bad=(
            Bad(
                case={"platform.images.router": "registry.example/router:1.2"},
                at="platform.images.router",
                mentions=(
                    "`router: registry.example/router:1.2`",
                    "imagetools inspect registry.example/router:1.2",
                ),
            ),
            Bad(
                case={"platform.images.benchmark": "registry.example/benchmark"},
                at="platform.images.benchmark",
            ),
            Bad(
                case={
                    "platform.images": {
                        "source": "given",
                        "worker": _BY_DIGEST,
                        "proof": _BY_DIGEST,
                        "benchmark": _BY_DIGEST,
                    }
                },
                at="platform.images.router",
                mentions=("`source: given` without `router`",),
            ),
        ),
    ),
    Example(
        rule="DPD-DATA-016",
        good=(
            # a deployment that makes its bucket has a secret of its own
            {},
            {"model.imported_from": {"type": "s3", "uri": "s3://mine/llama"}},
            {"model.repository": "mine/copy-of-llama", "model.imported_from": {"type": "huggingface"}},
            {"model.source": {"type": "huggingface", "token_secret": "mine/token"}},
        ),
        bad=(
            Bad(
                case={"model.imported_from": {"type": "huggingface"}},
                at="model.imported_from.token_secret",
                mentions=(
                    "`llama-3.3-70b-instruct` without `token_secret`",
                    "`hyperpod-dpd/llama-3-3-70b-p5/huggingface`",
                ),
            ),
            Bad(case={"model.source": {"type": "huggingface"}}, at="model.source.token_secret"),
        ),
    ),
    Example(
        rule="DPD-DATA-017",
        good=(
            {"platform.images": _MIRRORED},
            {"serving.engine.image": "registry.example/vllm"},
            {"serving.engine.image": "registry.example:5000/vllm:1", "platform.images": _MIRRORED},
            {"serving.engine.image": _BY_DIGEST, "platform.images": _MIRRORED},
            {
                "serving.engine.image": "111122223333.dkr.ecr.us-east-1.amazonaws.com/vllm",
                "platform.images": _MIRRORED,
            },
        ),
        bad=(
            Bad(
                case={"serving.engine.image": "registry.example:5000/vllm", "platform.images": _MIRRORED},
                at="serving.engine.image",
                mentions=("`image: registry.example:5000/vllm`",),
            ),
        ),
    ),
)
