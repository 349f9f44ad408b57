"""DPD-SRV-419: the operator's settings go together."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import self_managed
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-419",
    severity=Severity.ERROR,
    title="the operator's caches have what they store in, its pods share a zone, and TLS has one source",
    sources=(
        "aws/sagemaker-hyperpod-cli charts/inference-operator (l2CacheSpec, topologySpec, tlsConfig)",
        "SageMaker DG on managed tiered KV cache",
    ),
)
def operator_settings_go_together(deployment: Deployment) -> Iterator[Problem]:
    """The schema of the custom resource has no rule across fields: it takes all of these, and the pods fail."""
    if self_managed(deployment):
        return
    yield from _second_cache(deployment)
    operator = deployment.serving.operator
    if not operator.topology.same_zone:
        yield Problem(
            path="serving.operator.topology.same_zone",
            says="EFA does not leave its zone, so the roles could not exchange KV cache",
            given="`same_zone: false`",
            fix="remove it",
        )
    if operator.certificate is not None and operator.certificate_output_s3_uri is not None:
        yield Problem(
            path="serving.operator.certificate_output_s3_uri",
            says="a certificate of yours and a place for the operator's own exclude each other",
            given="`certificate` and `certificate_output_s3_uri`",
            fix="remove one of them",
        )
    if operator.max_queued_requests_per_pod is not None and operator.max_concurrent_requests_per_pod is None:
        yield Problem(
            path="serving.operator.max_queued_requests_per_pod",
            says="nothing is queued without a limit of concurrent requests",
            given=f"`max_queued_requests_per_pod: {operator.max_queued_requests_per_pod}`",
            fix="set `max_concurrent_requests_per_pod`, too",
        )


def _second_cache(deployment: Deployment) -> Iterator[Problem]:
    cache = deployment.serving.operator.second_cache
    if cache is None:
        return
    if cache.backend == "redis" and cache.url is None:
        yield Problem(
            path="serving.operator.second_cache.url",
            says="the second cache has no server",
            given="`backend: redis` without `url`",
            fix="give the address of the redis server",
        )
    if cache.backend == "tieredstorage" and not deployment.hyperpod.tiered_storage_memory_percent:
        yield Problem(
            path="serving.operator.second_cache.backend",
            says="the cluster keeps no memory for tiered storage",
            given="`backend: tieredstorage` without `hyperpod.tiered_storage_memory_percent`",
            fix="set `hyperpod.tiered_storage_memory_percent`",
        )
