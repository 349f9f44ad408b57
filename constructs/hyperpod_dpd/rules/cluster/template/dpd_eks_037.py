"""DPD-EKS-037: the inference add-on writes certificates into a bucket that its role may write to."""

from collections.abc import Iterator

from hyperpod_dpd.rules.cluster.inference_addon import CONFIGURATION, configured, name_of
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at

_PREFIX = "hyperpod-tls-"


@template_rule(
    "DPD-EKS-037",
    severity=Severity.ERROR,
    title="the inference add-on's bucket for certificates is called `hyperpod-tls-…`",
    sources=(
        "SageMaker DG sagemaker-hyperpod-model-deployment-setup (AmazonSageMakerHyperPodInferenceAccess)",
    ),
)
def certificate_bucket_has_its_prefix(template: Template) -> Iterator[Problem]:
    """AWS's policy of the operator writes to such buckets only; without a certificate there is no load balancer."""
    for logical_id, value in configured(template, "tlsCertificateS3Bucket"):
        name = value if isinstance(value, str) else name_of(template, value, "BucketName")
        if name is None or not name.startswith(_PREFIX):
            yield Problem(
                path=at(logical_id, CONFIGURATION, "tlsCertificateS3Bucket"),
                says="the inference operator may not write to its bucket for certificates",
                given=f"`{name}`" if name else "no bucket with an explicit name",
                limit=f"`{_PREFIX}` at its beginning",
                fix="give the bucket such a name",
            )
