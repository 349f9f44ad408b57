"""Prometheus metrics of the router."""

import time
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from dpd_router._version import __version__

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TOKENS: Final = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)


class Metrics:
    """Every metric, in a registry of its own so that tests and processes do not share one."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        self.build = Info("dpd_router_build", "Version and configuration of this router", registry=registry)
        self.requests = Counter(
            "dpd_router_requests", "Requests answered", ["path", "status"], registry=registry
        )
        self.decisions = Counter(
            "dpd_router_decisions",
            "Generation requests by decision (disaggregated, direct, fallback) and its reason",
            ["decision", "reason"],
            registry=registry,
        )
        self.prompt_tokens = Histogram(
            "dpd_router_prompt_tokens",
            "Prompt tokens of generation requests, counted or estimated",
            buckets=_TOKENS,
            registry=registry,
        )
        self.ttft = Histogram(
            "dpd_router_ttft_seconds",
            "Time from a request's arrival to the first byte of its answer's body",
            ["decision"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.prefill = Histogram(
            "dpd_router_prefill_seconds",
            "Time of one prefill at a prefiller",
            buckets=_SECONDS,
            registry=registry,
        )
        self.kv_wait = Histogram(
            "dpd_router_kv_wait_seconds",
            "Time from a prefill's answer to its last KV notification",
            buckets=_SECONDS,
            registry=registry,
        )
        self.tokenize = Histogram(
            "dpd_router_tokenize_seconds",
            "Time to tokenize a prompt",
            ["where"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.tokenizer_agrees = Gauge(
            "dpd_router_tokenizer_agrees",
            "1 for a worker that gives the same ids as `--tokenizer`; the file is used only while all that are up do",
            ["role", "worker"],
            registry=registry,
        )
        self.inflight = Gauge("dpd_router_inflight_requests", "Requests in flight", registry=registry)
        self.queued_bytes = Gauge(
            "dpd_router_queued_bytes", "Bytes of request bodies in flight", registry=registry
        )
        self.rejected = Counter(
            "dpd_router_rejected", "Requests that the router refused itself", ["code"], registry=registry
        )
        self.handoffs = Counter(
            "dpd_router_handoffs",
            "Hand-offs by final state (consumed, drained, lost, released)",
            ["state"],
            registry=registry,
        )
        self.handoffs_open = Gauge(
            "dpd_router_handoffs_open", "Hand-offs that the router owns", registry=registry
        )
        self.handoff_failures = Counter(
            "dpd_router_handoff_failures",
            "Hand-offs that did not serve their request, by reason",
            ["reason"],
            registry=registry,
        )
        self.hits = Counter(
            "dpd_router_handoff_hits",
            "Hand-offs by what the decoder reports of cached tokens (full, partial, miss, unreported, unchecked)",
            ["result"],
            registry=registry,
        )
        for result in ("full", "partial", "miss", "unreported", "unchecked"):
            self.hits.labels(result)  # a rate needs the zero before the first miss
        self.inflight_chunks = Gauge(
            "dpd_router_inflight_chunks",
            "Chunks per rank that the router has reserved in a decoder's buffer",
            ["decoder"],
            registry=registry,
        )
        self.suspected_chunks = Gauge(
            "dpd_router_suspected_chunks",
            "Chunks per rank that are probably leaked in a decoder's buffer until it restarts",
            ["decoder"],
            registry=registry,
        )
        self.buffer_leaked = Gauge(
            "dpd_router_buffer_leaked",
            "1 for a decoder whose buffer takes nothing although it should be nearly empty: restart it",
            ["decoder"],
            registry=registry,
        )
        self.capacity_chunks = Gauge(
            "dpd_router_buffer_chunks",
            "Chunks per rank that fit in a decoder's buffer",
            ["decoder"],
            registry=registry,
        )
        self.drains = Counter(
            "dpd_router_drains",
            "Drains of hand-offs by result (hit, empty, failed; late: of a transfer that came after an empty one)",
            ["result"],
            registry=registry,
        )
        self.notifications = Counter(
            "dpd_router_notifications",
            "KV notifications by kind (expected, duplicate, late, unknown, malformed)",
            ["kind"],
            registry=registry,
        )
        self.notification_timeouts = Counter(
            "dpd_router_notif_timeouts",
            "Hand-offs whose notifications did not all come in time",
            registry=registry,
        )
        self.upstream_errors = Counter(
            "dpd_router_upstream_errors",
            "Errors of workers by role and kind",
            ["role", "kind"],
            registry=registry,
        )
        self.worker_up = Gauge(
            "dpd_router_worker_up", "1 for a worker that gets requests", ["role", "worker"], registry=registry
        )
        self.worker_late = Gauge(
            "dpd_router_worker_late",
            "1 for a worker that did not answer its last health check in time",
            ["role", "worker"],
            registry=registry,
        )
        self.late_checks = Counter(
            "dpd_router_late_checks",
            "Health checks that were not answered in time, by what came of requests meanwhile (alive: answers, silent: nothing)",
            ["role", "result"],
            registry=registry,
        )
        self.last_resort = Counter(
            "dpd_router_last_resort",
            "Requests given to a decoder that is late because none is up",
            registry=registry,
        )
        self.worker_hung = Gauge(
            "dpd_router_worker_hung",
            "1 for a prefiller that stopped answering",
            ["worker"],
            registry=registry,
        )
        self.worker_restarts = Counter(
            "dpd_router_worker_restarts", "Restarts of workers that were noticed", ["role"], registry=registry
        )
        self.worker_requests = Gauge(
            "dpd_router_worker_requests",
            "Requests in flight at a worker",
            ["role", "worker"],
            registry=registry,
        )
        self.worker_epoch = Gauge(
            "dpd_router_worker_port_epoch",
            "Port epoch that a decoder announces",
            ["worker"],
            registry=registry,
        )
        self.pairs_broken = Gauge(
            "dpd_router_pairs_broken",
            "Pairs of prefiller and decoder that get no hand-offs",
            registry=registry,
        )
        self.client_disconnects = Counter(
            "dpd_router_client_disconnects", "Clients that left before their answer's end", registry=registry
        )
        self.evicted_connections = Counter(
            "dpd_router_evicted_connections",
            "Connections of clients whose requests had not come whole that were closed because there were too many",
            registry=registry,
        )
        self.other_routers = Gauge(
            "dpd_router_other_routers",
            "Routers besides this one that `--router-service` lists: while there is one, everything is decoded directly",
            registry=registry,
        )
        self.retries = Counter(
            "dpd_router_retries",
            "Requests sent to another worker before the first byte",
            ["role"],
            registry=registry,
        )
        self.key_reloads = Counter(
            "dpd_router_key_reloads", "Reads of the API key file by result", ["result"], registry=registry
        )
        self.discovery_events = Counter(
            "dpd_router_discovery_events",
            "Lists and watch events of the API server",
            ["kind"],
            registry=registry,
        )

    def describe(self, **labels: str) -> None:
        """Set the labels of the build information."""
        self.build.info({"version": __version__, **labels})

    def answered(self, decision: str, arrived_at: float) -> None:
        """Record that the first byte of an answer's body goes to the client now."""
        self.ttft.labels(decision).observe(time.perf_counter() - arrived_at)

    def render(self) -> bytes:
        """Return the exposition text."""
        return generate_latest(self.registry)

    def forget_worker(self, role: str, worker: str) -> None:
        """Drop the series of a worker that is gone."""
        for gauge, labels in (
            (self.worker_up, (role, worker)),
            (self.worker_late, (role, worker)),
            (self.tokenizer_agrees, (role, worker)),
            (self.worker_requests, (role, worker)),
            (self.worker_hung, (worker,)),
            (self.worker_epoch, (worker,)),
            (self.inflight_chunks, (worker,)),
            (self.suspected_chunks, (worker,)),
            (self.buffer_leaked, (worker,)),
            (self.capacity_chunks, (worker,)),
        ):
            _remove(gauge, labels)


def _remove(gauge: Gauge, labels: tuple[str, ...]) -> None:
    try:
        gauge.remove(*labels)
    except KeyError:  # the series was never written
        return
