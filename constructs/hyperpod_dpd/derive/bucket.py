"""Names of the buckets that a deployment creates."""

from hyperpod_dpd.derive.shortened import shortened

_MAX_NAME = 63
_ACCOUNT_DIGITS = 12
_ATTEMPT_DIGITS = 8

LIFECYCLE_PREFIX = "sagemaker-"
"""Prefix of the bucket with the lifecycle scripts: HyperPod's managed policy reads only such buckets."""

RESULTS_PREFIX = "hyperpod-dpd-results-"
"""Prefix of the bucket with the results of benchmarks."""

TLS_PREFIX = "hyperpod-tls-"
"""What AWS's policy of the operator expects the name of the certificate bucket to start with."""


def bucket_name(
    prefix: str, deployment: str, *, account: str, region: str, attempt: str | None = None
) -> str:
    """Return a name that starts with `prefix` and is the deployment's own in every account and region.

    A deployment's name may be longer than what is left of S3's 63 characters; it is then cut and told apart by eight
    digits of its hash. `account` may be a token of CDK; an account has twelve digits either way. `attempt` stands for
    eight characters, a token too, that tell one creation of the stack from the next.
    """
    suffix_length = _ACCOUNT_DIGITS + len(f"--{region}") + (_ATTEMPT_DIGITS + 1 if attempt else 0)
    room = _MAX_NAME - len(prefix) - suffix_length
    return "-".join(
        [f"{prefix}{shortened(deployment, room)}", account, region, *([attempt] if attempt else [])]
    )
