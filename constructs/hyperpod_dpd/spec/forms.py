"""Forms of text that names something outside: a bucket, an image, a namespace, an address.

A wrong one is found here, with its line, and not by AWS or Kubernetes in the middle of a deployment.
"""

from typing import Annotated, Any, Final

from pydantic_core import core_schema

WORDS: Final[dict[str, str]] = {}
"""What a text should be, by the pattern that it has to match."""


class _Form:
    """Makes a text match a pattern. Pydantic's own `Field` takes five times as long to become a schema."""

    def __init__(self, words: str, pattern: str) -> None:
        self.pattern = f"^(?:{pattern})$"
        WORDS[self.pattern] = words

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.str_schema(pattern=self.pattern)


_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_FILE = "[.]?[A-Za-z0-9_][A-Za-z0-9_.=@+-]*"
_ACCOUNT = "[a-z0-9-]+:[0-9]{12}"

BUCKET: Final = "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
FILE_SYSTEM: Final = "fs-[0-9a-f]{8,17}"
HOST: Final = "[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
MOUNT_NAME: Final = "[a-zA-Z0-9_-]{1,8}"
IMAGE_BY_DIGEST: Final = "[a-z0-9][a-z0-9.:/_-]*@sha256:[0-9a-f]{64}"
CERTIFICATE: Final = f"arn:aws[a-z-]*:acm:{_ACCOUNT}:certificate/[0-9a-f-]+"

BucketName = Annotated[str, _Form("the name of an S3 bucket, such as `my-models`", BUCKET)]
KeyPrefix = Annotated[
    str, _Form("a key prefix without a leading `/`, such as `models/llama`", f"(?:{_FILE}(?:/{_FILE})*/?)?")
]
S3Folder = Annotated[
    str,
    _Form(
        "the address of a folder in S3, such as `s3://my-models/llama`",
        f"s3://{BUCKET}(?:/(?:{_FILE}(?:/{_FILE})*/?)?)?",
    ),
]
SecretName = Annotated[
    str,
    _Form(
        "the name or ARN of a secret in Secrets Manager, such as `dpd/api-keys`",
        f"(?:arn:aws[a-z-]*:secretsmanager:{_ACCOUNT}:secret:)?[A-Za-z0-9/_+=.@-]{{1,512}}",
    ),
]
FileSystemId = Annotated[str, _Form("the id of a file system, such as `fs-0123456789abcdef0`", FILE_SYSTEM)]
VpcId = Annotated[str, _Form("the id of a VPC, such as `vpc-0123456789abcdef0`", "vpc-[0-9a-f]{8,17}")]
SubnetId = Annotated[
    str, _Form("the id of a subnet, such as `subnet-0123456789abcdef0`", "subnet-[0-9a-f]{8,17}")
]
HostName = Annotated[str, _Form("a DNS name in lower case", HOST)]
MountName = Annotated[str, _Form("a mount name: 1 to 8 letters, digits, `_` or `-`", MOUNT_NAME)]
AbsolutePath = Annotated[
    str, _Form("an absolute path without `..`, such as `/models/llama`", f"/|(?:/{_FILE})+/?")
]
NamespaceName = Annotated[
    str, _Form("the name of a namespace: 1 to 63 lower-case letters, digits or hyphens", _LABEL)
]
Label = Annotated[
    str, _Form("a name of 1 to 63 lower-case letters, digits or hyphens, no hyphen first or last", _LABEL)
]
ObjectName = Annotated[
    str, _Form("the name of a Kubernetes object: lower-case letters, digits, hyphens or dots", _SUBDOMAIN)
]
ApiGroup = Annotated[str, _Form("an API group, such as `monitoring.coreos.com`", rf"{_LABEL}(?:\.{_LABEL})+")]
Repository = Annotated[
    str,
    _Form(
        "`organisation/repository` as the Hugging Face Hub writes it",
        "[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}",
    ),
]
ServedName = Annotated[
    str,
    _Form(
        "letters, digits, `.`, `_`, `/`, `:` or `-`, a letter or digit first", "[A-Za-z0-9][A-Za-z0-9._/:-]*"
    ),
]
Image = Annotated[
    str,
    _Form(
        "an image reference, such as `registry.example/worker:1` or one by digest",
        "[a-z0-9][a-z0-9._:-]*(?:/[a-z0-9._-]+)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    ),
]
EnvironmentName = Annotated[
    str, _Form("the name of a variable: letters, digits and `_`, no digit first", "[A-Za-z_][A-Za-z0-9_]*")
]
EmailAddress = Annotated[str, _Form("an e-mail address", r"[!-?A-~]+@[!-?A-~]+\.[!-?A-~]+")]
Url = Annotated[
    str,
    _Form(
        "a URL, such as `http://collector.traces.svc:4318`",
        r"(?:https?|grpc)://[A-Za-z0-9.-]+(?::[0-9]+)?(?:/[!-~]*)?",
    ),
]
KmsKeyArn = Annotated[
    str, _Form("the ARN of a KMS key, not of an alias", f"arn:aws[a-z-]*:kms:{_ACCOUNT}:key/[A-Za-z0-9-]+")
]
LabelName = Annotated[
    str,
    _Form(
        "the name of a Kubernetes label, such as `release` or `example.com/team`",
        rf"(?:{_SUBDOMAIN}/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{{0,61}}[A-Za-z0-9])?",
    ),
]
LabelValue = Annotated[
    str,
    _Form(
        "the value of a Kubernetes label: up to 63 letters, digits, `-`, `_` or `.`, a letter or digit first and last",
        "(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?",
    ),
]
PolicyName = Annotated[
    str, _Form("the name of a managed policy of the account, with its path", "[A-Za-z0-9+=,.@_/-]{1,128}")
]
BootstrapQualifier = Annotated[
    str, _Form("the qualifier of a CDK bootstrap: 1 to 10 letters and digits", "[A-Za-z0-9]{1,10}")
]
CertificateArn = Annotated[str, _Form("the ARN of a certificate in ACM", CERTIFICATE)]
WebAclArn = Annotated[
    str,
    _Form(
        "the ARN of a regional web ACL of AWS WAF",
        f"arn:aws[a-z-]*:wafv2:{_ACCOUNT}:regional/webacl/[A-Za-z0-9_-]+/[0-9a-f-]+",
    ),
]
TopicArn = Annotated[
    str, _Form("the ARN of an SNS topic", f"arn:aws[a-z-]*:sns:{_ACCOUNT}:[A-Za-z0-9_-]{{1,256}}")
]
Version = Annotated[str, _Form("a version such as `0.25.1`", r"[0-9]+(?:\.[0-9]+){1,3}")]
RelativePath = Annotated[
    str,
    _Form("a path without a leading `/` and without `..`, such as `v1/completions`", f"{_FILE}(?:/{_FILE})*"),
]
ZoneName = Annotated[
    str, _Form("the name of a zone, such as `us-east-1a`", "[a-z]{2}(?:-[a-z]+)+-[0-9][a-z]")
]
CacheUrl = Annotated[
    str, _Form("the address of a cache, such as `redis://cache.kv.svc:6379`", r"rediss?://[!-~]+")
]
