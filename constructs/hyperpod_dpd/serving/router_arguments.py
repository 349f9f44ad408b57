"""The router's command line. Pure Python: the router's own parser reads it in a test."""

import math
from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.derive import ServingFacts
from hyperpod_dpd.rules.kubernetes.dpd_k8s_009 import LONGEST_IDLE_SECONDS
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.spec import Deployment, Role, Routing

API_KEYS_DIRECTORY: Final = "/etc/dpd-api-keys"
"""Where the router finds the file with its clients' bearer keys."""

LARGEST_BODY_MIB: Final = 32
"""Largest request body, the router's own default; never more than what may be queued."""

DRAIN_MARGIN_SECONDS: Final = 20
"""Time by which the drain of an unfinished hand-off comes after the sender has given up on it."""

SHUTDOWN_MARGIN_SECONDS: Final = 120
"""Time after the last answer in which unfinished hand-offs are drained, so that no decoder keeps their chunks."""

DEREGISTRATION_SECONDS: Final = 15
"""Time in which a load balancer or kube-proxy still sends new connections to a pod that is to end."""

_KEEPALIVE_MARGIN_SECONDS: Final = 30

_PARSERS: Final = ("--reasoning-parser", "--tool-call-parser", "--enable-auto-tool-choice")


def router_arguments(
    deployment: Deployment, facts: ServingFacts, *, decoders: Component, disaggregates: bool
) -> tuple[str, ...]:
    """Return the arguments of the router.

    Args:
        deployment: the deployment.
        facts: what follows from it.
        decoders: component whose Service lists the workers that decode.
        disaggregates: False for the baseline: the same router, which hands nothing off.
    """
    routing = deployment.routing
    threshold = str(routing.threshold_tokens) if disaggregates else "never"
    pairs = [
        *_discovery(deployment, decoders, disaggregates=threshold != "never"),
        ("threshold", threshold),
        ("estimator", routing.estimator),
        ("affinity", routing.affinity),
        *(_hand_off(deployment, facts) if threshold != "never" else ()),
        *_limits(deployment, routing),
        *_options(deployment, routing),
    ]
    return tuple(f"--{name}={value}" for name, value in pairs)


def load_balancer_idle_seconds(deployment: Deployment) -> int:
    """Return how long a load balancer waits for the next byte, in seconds.

    An answer that is not streamed is silent until it is complete, and may have waited for its hand-off before.
    """
    wait = math.ceil(deployment.routing.notification_timeout_seconds)
    return min(deployment.serving.longest_generation_seconds + wait, LONGEST_IDLE_SECONDS)


def router_grace_seconds(deployment: Deployment) -> int:
    """Return how long a router that is to end may take, in seconds: its longest answer is finished, hand-offs drained."""
    longest = deployment.serving.longest_generation_seconds
    return longest + DEREGISTRATION_SECONDS + SHUTDOWN_MARGIN_SECONDS


def drain_grace_seconds(deployment: Deployment) -> int:
    """Return how long the router waits, in seconds, before it clears away a hand-off that was not heard of."""
    return math.ceil(deployment.serving.transfer.allocation_timeout_seconds) + DRAIN_MARGIN_SECONDS


def _discovery(
    deployment: Deployment, decoders: Component, *, disaggregates: bool
) -> Iterator[tuple[str, str]]:
    yield "port", str(names.ROUTER_PORT)
    yield "notification-port", str(names.NOTIFICATION_PORT)
    yield "discovery", "endpointslices"
    yield "namespace", names.workers_namespace(deployment)
    if disaggregates:
        yield "prefill-service", names.worker_service(Role.PREFILL)
    yield "decode-service", decoders.value
    yield "worker-port-name", names.WORKER_HTTP_PORT_NAME
    # during an update it is not alone, and must not hand over
    yield "router-service", names.router_service()
    yield "router-namespace", names.system_namespace(deployment)


def _hand_off(deployment: Deployment, facts: ServingFacts) -> Iterator[tuple[str, str]]:
    transfer = deployment.serving.transfer
    yield "transfer", transfer.type
    yield "notification-timeout-seconds", f"{deployment.routing.notification_timeout_seconds:g}"
    if transfer.type != "lmcache-pd":
        return
    yield "strategy", deployment.routing.strategy
    yield "tensor-parallel", str(facts.tensor_parallel)
    yield "chunk-tokens", str(facts.chunk_tokens)
    yield "decoder-buffer-chunks", str(facts.decode.pd_buffer.chunks)
    yield "init-port-base", str(facts.decode_ports.init_base)
    yield "alloc-port-base", str(facts.decode_ports.alloc_base)
    yield "port-epochs", str(facts.decode_ports.epochs)
    # nothing may still be written when the decoder is asked to throw the chunks away
    yield "drain-grace-seconds", str(drain_grace_seconds(deployment))


def _limits(deployment: Deployment, routing: Routing) -> Iterator[tuple[str, str]]:
    longest = deployment.serving.longest_generation_seconds
    # an answer that is not streamed is silent until it is complete
    yield "idle-timeout-seconds", str(longest)
    yield "shutdown-grace-seconds", str(longest)
    yield "max-requests", str(routing.max_concurrent_requests)
    yield "max-queued-bytes", str(routing.max_queued_mib << 20)
    yield "max-body-bytes", str(min(LARGEST_BODY_MIB, routing.max_queued_mib) << 20)


def _options(deployment: Deployment, routing: Routing) -> Iterator[tuple[str, str]]:
    if routing.load_balancer is not None:
        # the load balancer keeps idle connections; one that the router closes first costs a client a 502
        keepalive = load_balancer_idle_seconds(deployment) + _KEEPALIVE_MARGIN_SECONDS
        yield "keepalive-timeout-seconds", str(keepalive)
    workers = (deployment.serving.prefill, deployment.serving.decode)
    given = {argument.partition("=")[0] for worker in workers for argument in worker.extra_args}
    if given & set(_PARSERS):
        yield "workers-parse-chat", "true"
    if routing.api_keys_secret is not None:
        yield "api-keys-file", f"{API_KEYS_DIRECTORY}/{names.API_KEYS_KEY}"
    if routing.tracing_endpoint is not None:
        yield "otlp-endpoint", routing.tracing_endpoint
