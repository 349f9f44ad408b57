"""DPD-DATA-004: buckets are private, encrypted, versioned, and TLS only."""

from collections.abc import Iterator, Mapping
from typing import Any

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, items, properties, resources, target

_BLOCKS = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")


@template_rule(
    "DPD-DATA-004",
    severity=Severity.ERROR,
    title="buckets block public access, are encrypted and versioned, and refuse requests without TLS",
    sources=(
        "cdk-nag AwsSolutions-S2 and S10",
        "checkov CKV_AWS_19, 21, 53-56",
        "cfn-guard s3_bucket_ssl_requests_only",
    ),
)
def buckets_are_locked(template: Template) -> Iterator[Problem]:
    """A lifecycle script that somebody can change runs as root on every GPU node."""
    tls_only = {
        target(properties(policy).get("Bucket"))
        for _, policy in resources(template, "AWS::S3::BucketPolicy")
        if any(_denies_plain_text(statement) for statement in _statements(policy))
    }
    for logical_id, bucket in resources(template, "AWS::S3::Bucket"):
        for lock in _open_locks(properties(bucket), tls_only=logical_id in tls_only):
            yield Problem(
                path=at(logical_id, "Properties"),
                says=f"bucket `{logical_id}` is not locked",
                given=f"no {lock}",
                fix="build buckets with `storage.PrivateBucket`",
            )


def _open_locks(bucket: Mapping[str, Any], *, tls_only: bool) -> Iterator[str]:
    blocked = bucket.get("PublicAccessBlockConfiguration") or {}
    if not all(blocked.get(block) is True for block in _BLOCKS):
        yield "full block of public access"
    if not bucket.get("BucketEncryption"):
        yield "encryption"
    if (bucket.get("VersioningConfiguration") or {}).get("Status") != "Enabled":
        yield "versioning"
    if not tls_only:
        yield "policy that denies requests without TLS"


def _statements(policy: Mapping[str, Any]) -> list[Any]:
    return items((properties(policy).get("PolicyDocument") or {}).get("Statement"))


def _denies_plain_text(statement: Mapping[str, Any]) -> bool:
    condition = (statement.get("Condition") or {}).get("Bool") or {}
    return statement.get("Effect") == "Deny" and str(condition.get("aws:SecureTransport")).lower() == "false"
