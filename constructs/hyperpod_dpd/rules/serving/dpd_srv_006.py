"""DPD-SRV-006: KV cache crosses EFA over LIBFABRIC."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-006",
    severity=Severity.ERROR,
    title="NIXL's backend is LIBFABRIC, named on both roles",
    sources=(
        "vllm-project/vllm issue 41814 (two p5 on HyperPod)",
        "ai-dynamo/nixl issues 99, 909, 1021, 1983",
        "ai-dynamo/dynamo issue 4185",
    ),
    facts=("V1", "E17"),
)
def backend_is_libfabric(deployment: Deployment) -> Iterator[Problem]:
    """UCX has no RDMA on EFA: the handshake fails, or the cache crosses at 0.3 to 3 GB/s and nobody says so."""
    backend = deployment.serving.transfer.backend
    if backend != "LIBFABRIC":
        yield Problem(
            path="serving.transfer.backend",
            says="this backend does not use EFA",
            given=f"`backend: {backend}`",
            computed="some 1 GB/s instead of 50 GB/s per GPU: moving the cache costs more than computing it again",
            fix="remove `backend` or set `backend: LIBFABRIC`",
        )
