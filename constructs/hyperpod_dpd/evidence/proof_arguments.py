"""What the proof program is told about a deployment. No CDK: `dpd proof` reads it, too."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.derive.operator_endpoint import routing_url
from hyperpod_dpd.evidence.proof.target import CHAT, COMPLETIONS
from hyperpod_dpd.observability.jobs import EFA_PORT, efa_counters_are_in_workspace, exporters_namespace
from hyperpod_dpd.observability.scraping import OPERATOR_ROLE_LABEL
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.serving.router_arguments import (
    API_KEYS_DIRECTORY,
    drain_grace_seconds,
    router_grace_seconds,
)
from hyperpod_dpd.spec import Deployment

REQUEST_SECONDS: Final = 90
TIMEOUT_SECONDS: Final = 300
"""Longest proof: prompts, and waiting for counters that come late."""

_DRAIN_MARGIN_SECONDS: Final = 15


def proof_arguments(deployment: Deployment) -> tuple[str, ...]:
    """Return the command line of the proof of `deployment` on its cluster.

    Raises:
        UnresolvedError: something that the deployment names does not exist or does not go together.
    """
    pairs = [
        *target_arguments(deployment),
        *_places(deployment),
        *_cluster_counters(deployment),
    ]
    return (*(f"--{name}={value}" for name, value in pairs), *switches(deployment), "--event")


def switches(deployment: Deployment) -> tuple[str, ...]:
    """Return the switches that the proof of `deployment` needs wherever it runs from: AWS's router shows no metrics."""
    return ("--no-router-metrics",) if _is_operated(deployment) else ()


def target_arguments(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """Yield what the proof has to know about `deployment`, wherever it runs from."""
    facts = resolve(deployment)
    model = deployment.model
    operated = _is_operated(deployment)
    own = f"http://{names.router_host(deployment)}:{names.ROUTER_PORT}"
    yield "url", routing_url(deployment) if operated else own
    yield "model", model.served_name or model.name
    yield "threshold", str(deployment.routing.threshold_tokens)
    yield "path", _path(deployment) if operated else COMPLETIONS
    transfer = "lmcache-pd" if operated else deployment.serving.transfer.type
    yield "transfer", transfer
    yield "tensor-parallel", str(facts.tensor_parallel)
    yield "max-model-len", str(facts.max_model_len_tokens)
    yield "kv-bytes-per-token", str(facts.kv_bytes_per_token_per_rank * facts.tensor_parallel)
    if transfer == "lmcache-pd":
        yield "chunk-tokens", str(facts.chunk_tokens)
        yield "buffer-chunks", str(facts.decode.pd_buffer.chunks)
        yield "drain-seconds", str(drain_grace_seconds(deployment) + _DRAIN_MARGIN_SECONDS)
    if not operated:
        yield "company-seconds", str(router_grace_seconds(deployment))
    yield "request-seconds", str(REQUEST_SECONDS)
    yield "timeout-seconds", str(TIMEOUT_SECONDS)


def _path(deployment: Deployment) -> str:
    """Return the path that the operator's router serves; of any other the proof knows no answer."""
    path = "/" + deployment.serving.operator.invocation_path.lstrip("/")
    return COMPLETIONS if path == COMPLETIONS else CHAT


def _places(deployment: Deployment) -> Iterator[tuple[str, str]]:
    yield "workers-namespace", names.workers_namespace(deployment)
    for component in (Component.PREFILL, Component.DECODE):
        labels = (
            {OPERATOR_ROLE_LABEL: component.value}
            if _is_operated(deployment)
            else names.selector(deployment, component)
        )
        yield f"{component.value}-selector", _selector(labels)
    yield "worker-port", str(names.WORKER_HTTP_PORT)
    if _is_operated(deployment):
        yield "log-container", f"{Component.DECODE.value}-"
    elif deployment.platform.network_policies == "enforced":
        yield "forbidden-port", str(resolve(deployment).decode_ports.init_base)
    if deployment.routing.api_keys_secret is not None and not _is_operated(deployment):
        yield "api-key-file", f"{API_KEYS_DIRECTORY}/{names.API_KEYS_KEY}"


def _cluster_counters(deployment: Deployment) -> Iterator[tuple[str, str]]:
    if deployment.platform.exporters == "manifests":
        yield "exporters-namespace", exporters_namespace(deployment)
        yield "exporters-selector", _selector(names.selector(deployment, Component.EFA_EXPORTER))
        yield "exporters-port", str(EFA_PORT)
    if efa_counters_are_in_workspace(deployment):
        yield "efa-query-url", Binding.AMP_WORKSPACE_URL.placeholder
        yield "efa-query-region", deployment.region


def _is_operated(deployment: Deployment) -> bool:
    return deployment.serving.backend == "operator"


def _selector(labels: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())
