"""DPD-DATA-010: the operator may write its certificates."""

import re
from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-DATA-010",
    severity=Severity.ERROR,
    title="the bucket for generated certificates is called `hyperpod-tls-…`",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-setup", "S3 user guide, bucket naming rules"),
)
def tls_bucket_is_writable(deployment: Deployment) -> Iterator[Problem]:
    """The operator's managed policy writes to buckets of this prefix only."""
    operator = deployment.platform.inference_operator
    if operator is None or operator.tls_bucket is None:
        return
    if not re.fullmatch(r"hyperpod-tls-[a-z0-9.-]{0,49}[a-z0-9]", operator.tls_bucket):
        yield Problem(
            path="platform.inference_operator.tls_bucket",
            says="the operator cannot write to this bucket",
            given=f"`tls_bucket: {operator.tls_bucket}`",
            limit="`hyperpod-tls-` and lower-case letters, digits, `-` and `.`, at most 63 characters",
            fix="choose such a bucket, or remove `tls_bucket` to have one made",
        )
