"""DPD-SRV-410: the operator backend takes nothing that it would ignore."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.catalog.operator import REFERENCE
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.settings import changed, setting, shown
from hyperpod_dpd.rules.serving.subjects import self_managed
from hyperpod_dpd.spec import Deployment, S3Source

NOT_SAID: Final = {
    "serving.prefill.environment": "the operator has no environment for prefill workers alone",
    "serving.decode.environment": "the operator has no environment for decode workers alone",
    "serving.longest_generation_seconds": "the operator decides how long a pod may take to end",
    "serving.transfer.decode_pd_buffer_gib": "the operator has one PD buffer size for both roles",
    "serving.transfer.init_port_base": "the operator chooses the ports of the hand-off",
    "serving.transfer.alloc_port_base": "the operator chooses the ports of the hand-off",
    "serving.transfer.port_epochs": "the operator chooses the ports of the hand-off",
    "serving.transfer.allocation_timeout_seconds": "the operator writes LMCache's configuration, without a time-out",
    "serving.huge_pages_mib": "the operator adds EFA and huge pages itself",
    "serving.shared_memory_gib": "the operator sizes the pods' shared memory",
    "serving.security.workers": "the operator decides the privilege of its pods",
    "routing.strategy": "the operator has a router of its own, which hands over in one way",
    "routing.affinity": "the operator's router chooses workers by `routing.policy`",
    "routing.notification_timeout_seconds": "the operator has a router of its own, which waits for no notification",
    "routing.max_concurrent_requests": "the operator's router does not count requests; its pods do",
    "routing.max_queued_mib": "the operator's router does not count requests; its pods do",
    "routing.api_keys_secret": "the operator's endpoint knows IAM, not keys",
    "routing.load_balancer": "the operator builds the load balancer; `serving.operator` describes it",
    "routing.client_namespaces": "the operator's router lives in a namespace whose policies are AWS's",
    "routing.cpu": "the operator sizes its router",
    "routing.memory_gib": "the operator sizes its router",
    "routing.tracing_endpoint": "the operator's router writes no traces",
}
"""Settings that the custom resource has no field for, with the reason."""


@deployment_rule(
    "DPD-SRV-410",
    severity=Severity.ERROR,
    title="on the operator backend no setting is given that its custom resource cannot say",
    sources=(
        "aws/sagemaker-hyperpod-cli charts/inference-operator (pdSpec has no env and no image per role)",
        "SageMaker DG sagemaker-hyperpod-model-deployment-dpd",
    ),
    facts=("R10",),
)
def operator_ignores_nothing(deployment: Deployment) -> Iterator[Problem]:
    """What `InferenceEndpointConfig` cannot say would silently not exist."""
    if self_managed(deployment):
        return
    for path, reason in NOT_SAID.items():
        if changed(deployment, path) and not _says_the_same(deployment, path):
            yield _refused(deployment, path, reason)
    if deployment.serving.transfer.chunk_tokens != REFERENCE.chunk_tokens:
        yield _refused(
            deployment,
            "serving.transfer.chunk_tokens",
            "the operator writes LMCache's configuration, with chunks of LMCache's own size",
        )
    if deployment.routing.threshold_tokens == "never":
        yield _refused(
            deployment,
            "routing.threshold_tokens",
            "the operator disaggregates from some length on, or always",
        )
    source = deployment.model.source
    if isinstance(source, S3Source) and source.delivery != "stream":
        yield _refused(
            deployment,
            "model.source.delivery",
            "the operator delivers weights in its own way, which is no copy first",
        )


def _says_the_same(deployment: Deployment, path: str) -> bool:
    """A buffer of the decoder's own is one for both when it is as large."""
    transfer = deployment.serving.transfer
    return path.endswith("decode_pd_buffer_gib") and setting(deployment, path) == transfer.pd_buffer_gib


def _refused(deployment: Deployment, path: str, reason: str) -> Problem:
    return Problem(
        path=path, says=reason, given=shown(deployment, path), fix="remove it, or use `backend: self-managed`"
    )
