"""The alerts. Each says in its docstring why it exists; `docs/runbooks/` says what to do.

No expression needs a label that only one way of scraping gives: `deployment` and `role` come with every job, and what
comes from the exporters of an add-on is summed up before it is compared.
"""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.derive import ServingFacts
from hyperpod_dpd.observability.rules.promql import Scope, role
from hyperpod_dpd.observability.rules.rule import Alert, Severity
from hyperpod_dpd.spec import Deployment, Role, Worker

KV_USAGE_LIMIT: Final = 0.9
"""Share of the KV cache above which vLLM soon preempts."""

MISS_LIMIT: Final = 0.1
"""Share of hand-offs that may miss: one lost pod among many is no misconfiguration."""

LEAK_LIMIT: Final = 0.1
"""Share of a decoder's PD buffer that may be lost before a restart is due."""

EFA_SHARE: Final = 0.1
"""Share of the least bytes that hand-offs need; below it they go another way. Overlapping windows cost less."""

LEAST_REQUESTS_PER_SECOND: Final = 0.01
"""Traffic below which the share of disaggregated requests means nothing: 36 requests an hour."""

_NO_DECODER: Final = "DpdNoDecoder"
_WORKERS_MISSING: Final = {role: f"Dpd{role.value.capitalize()}WorkersMissing" for role in Role}
ABOUT_MISSING_WORKERS: Final = (_NO_DECODER, *_WORKERS_MISSING.values())
"""Alerts that fire when the nodes of the workers are taken away on purpose, in any variant of a deployment."""

_ANSWERING = ("decode", "colocated")


def has_router(deployment: Deployment) -> bool:
    """Return whether the router's metrics can be read: the operator's own router exposes none."""
    return deployment.serving.backend == "self-managed"


def _handed_off(scope: Scope, deployment: Deployment) -> str:
    """Return the rate of hand-offs: the router's own count, or on the operator what prefillers have answered."""
    if has_router(deployment):
        return scope.total_rate("dpd_router_decisions_total", 'decision="disaggregated"')
    return scope.total_rate("vllm:request_success_total", role("prefill"))


def latency_alerts(scope: Scope, deployment: Deployment) -> Iterator[Alert]:
    """Yield the alerts about what users feel, per role."""
    slo = deployment.slo
    yield Alert(
        name="DpdTtftHigh",
        expression=f"{scope.series('dpd:ttft_seconds:p95')} > {slo.ttft_p95_seconds:g}",
        pending="10m",
        severity=Severity.WARNING,
        summary="p95 TTFT of {{ $labels.role }} workers is {{ $value | humanizeDuration }}, "
        f"the SLO is {slo.ttft_p95_seconds:g} s",
        description="Prompts wait for a prefiller, or a prefill takes longer than planned.",
    )
    yield Alert(
        name="DpdItlHigh",
        expression=f"{scope.series('dpd:itl_seconds:p95', role(*_ANSWERING))} > {slo.tpot_p95_seconds:g}",
        pending="10m",
        severity=Severity.WARNING,
        summary="p95 inter-token latency of {{ $labels.role }} workers is {{ $value | humanizeDuration }}, "
        f"the SLO is {slo.tpot_p95_seconds:g} s per token",
        description="Decoding is slowed down: prompts are prefilled on decoders, or too many sequences run at once.",
    )


def pressure_alerts(scope: Scope, facts: ServingFacts, *, disaggregates: bool) -> Iterator[Alert]:
    """Yield the alerts about workers that run full."""
    yield Alert(
        name="DpdKvCacheNearlyFull",
        expression=f"{scope.series('vllm:kv_cache_usage_perc')} > {KV_USAGE_LIMIT:g}",
        pending="5m",
        severity=Severity.WARNING,
        summary="KV cache of {{ $labels.role }} worker {{ $labels.instance }} is {{ $value | humanizePercentage }} full",
        description="The next sequences are preempted and computed again.",
    )
    yield Alert(
        name="DpdDecodePreemptions",
        expression=f"{scope.rate('vllm:num_preemptions_total', role(*_ANSWERING))} > 0",
        pending="5m",
        severity=Severity.WARNING,
        summary="{{ $labels.role }} worker {{ $labels.instance }} preempts {{ $value | humanize }} sequences a second",
        description="Each preempted sequence is computed again from its first token; for a handed-off one the KV cache "
        "that was sent is lost.",
    )
    if not disaggregates:
        return
    batch = facts.prefill.max_num_seqs * facts.prefill.replicas
    waiting = scope.series("dpd:requests_waiting:sum", role("prefill"))
    yield Alert(
        name="DpdPrefillQueueGrowing",
        # the router bounds what is in flight, so a queue that cannot grow further is as long as before, more or less
        expression=f"{waiting} > {batch} and {waiting} >= 0.8 * {waiting} offset 5m",
        pending="5m",
        severity=Severity.WARNING,
        summary=f"{{{{ $value }}}} prompts wait for prefillers that take {batch} at a time, and it does not get less",
        description="More prompts arrive than the prefillers compute; TTFT grows until clients give up.",
    )


def hand_off_alerts(scope: Scope, deployment: Deployment) -> Iterator[Alert]:
    """Yield the alerts about a hand-off that does not work although every answer is 200."""
    handed_off = _handed_off(scope, deployment)
    hits = scope.total_rate("vllm:external_prefix_cache_hits_total", role("decode"))
    missed = scope.total_rate("dpd_router_handoff_hits_total", 'result=~"miss|partial"')
    judged = scope.total_rate("dpd_router_handoff_hits_total", 'result=~"full|miss|partial"')
    # of decoders that cannot be read nobody knows what they find, and another alert speaks
    readable = scope.series("up", 'job="dpd-decode"')
    none_found = f"((({handed_off} > 0) unless ({hits} > 0)) * 0 + 1 and sum({readable}) > 0)"
    many_missed = f"{missed} / ({judged} > 0) > {MISS_LIMIT:g}"
    yield Alert(
        name="DpdKvNotReused",
        expression=f"{many_missed} or {none_found}" if has_router(deployment) else none_found,
        pending="2m",
        severity=Severity.CRITICAL,
        summary="decoders do not find the KV cache of {{ $value | humanizePercentage }} of the hand-offs",
        description="Prompts are prefilled twice, on the decoder without a word. Look for hash seeds or models that "
        "differ between roles, wrong roles, or a decoder whose buffer is full.",
    )
    if has_router(deployment):
        yield from _router(scope)
        if deployment.serving.transfer.type == "lmcache-pd":
            yield from _buffers(scope)
    if deployment.serving.transfer.type == "lmcache-pd":
        yield from _lmcache(scope)


def _router(scope: Scope) -> Iterator[Alert]:
    timeouts = f"sum(increase({scope.series('dpd_router_notif_timeouts_total', window='5m')}))"
    failed = f"sum(increase({scope.series('vllm:nixl_num_failed_transfers_total', window='5m')}))"
    yield Alert(
        name="DpdTransferStuck",
        expression=f"{timeouts} > 0 or {failed} > 0",
        pending="1m",
        severity=Severity.CRITICAL,
        summary="{{ $value | humanize }} hand-offs in 5 minutes never landed",
        description="The prefiller answered, the KV cache did not arrive in time. Look at the decoder's buffer, at the "
        "policies between the roles and at the notification port.",
    )
    yield Alert(
        name="DpdPairBroken",
        expression=f"{scope.series('dpd_router_pairs_broken')} > 0",
        pending="10m",
        severity=Severity.CRITICAL,
        summary="{{ $value }} pairs of prefiller and decoder exchange nothing",
        description="Every hand-off between them fails; prompts are decoded directly. After a restart of a decoder at "
        "its old address and port this never heals by itself.",
    )


def _buffers(scope: Scope) -> Iterator[Alert]:
    suspected = scope.series("dpd_router_suspected_chunks")
    reserved = scope.series("dpd_router_inflight_chunks", window="10m")
    owned = scope.series("dpd_router_handoffs_open", window="10m")
    room = scope.series("dpd_router_buffer_chunks")
    yield Alert(
        name="DpdPdBufferLeak",
        expression=f"{suspected} / {room} > {LEAK_LIMIT:g} or "
        f"(min_over_time({reserved}) / {room} > 0 and on (deployment) max_over_time({owned}) == 0)",
        pending="10m",
        severity=Severity.WARNING,
        summary="{{ $value | humanizePercentage }} of the PD buffer of decoder {{ $labels.decoder }} is lost until it restarts",
        description="Chunks that no request can free: hand-offs that were written and never read. A full buffer ends "
        "disaggregation although every answer is 200.",
    )
    yield Alert(
        name="DpdPdBufferLost",
        expression=f"{scope.series('dpd_router_buffer_leaked')} > 0",
        pending="1m",
        severity=Severity.CRITICAL,
        summary="the PD buffer of decoder {{ $labels.decoder }} takes nothing although nothing is in it",
        description="Earlier hand-offs were never freed, by whoever made them: a router that was killed, or a decoder that "
        "does not load what it reports. Only a restart of the decoder ends it.",
    )
    # soon, and over a window that outlives the hits: within a minute the buffer may be full, and nothing is reported
    reported = _rate_by_worker(scope, "vllm:external_prefix_cache_hits_total", role("decode"))
    loaded = _rate_by_worker(scope, "lmcache:num_hit_tokens_total", role("decode"))
    yield Alert(
        name="DpdKvReportedNotLoaded",
        expression=f"{reported} > 0 unless {loaded} > 0.1 * {reported}",
        pending="1m",
        severity=Severity.CRITICAL,
        summary="decoder {{ $labels.instance }} reports {{ $value | humanize }} cached tokens a second and loads none",
        description="vLLM counts the hit, LMCache never retrieves it: answers come from unwritten memory and the buffer "
        "fills up. Seen with vLLM's second model runner and full CUDA graphs.",
    )
    yield Alert(
        name="DpdPrefillerHung",
        expression=f"{scope.series('dpd_router_worker_hung')} > 0",
        pending="1m",
        severity=Severity.CRITICAL,
        summary="prefiller {{ $labels.worker }} takes requests and answers none",
        description="It waits without a limit for a decoder that is gone. Only a restart ends it.",
    )


def _lmcache(scope: Scope) -> Iterator[Alert]:
    """Yield the alerts about LMCache beside the hand-off.

    Its own `lmcache_is_healthy` and `put_failed_count` cannot be read: LMCache computes them when its process is asked
    (`Gauge.set_function`), and vLLM's endpoint reads the files of that process, in which they never get a value
    (prometheus_client 0.26; LMCache 0.4.3 and 0.5.3, `integration/base_service_factory.py`, `remote_backend.py`).
    """
    yield Alert(
        name="DpdLmcacheRemoteFailing",
        expression=_increase_by_worker(scope, "lmcache:remote_ping_errors_total") + " > 0",
        pending="0m",
        severity=Severity.WARNING,
        summary="the remote store of LMCache on {{ $labels.role }} worker {{ $labels.instance }} failed "
        "{{ $value | humanize }} checks in 15 minutes",
        description="The remote store of the KV cache refuses or does not answer; LMCache stores nothing meanwhile.",
    )
    # whoever left before the first token has stored nothing, and that is no fault
    finished = _rate_by_worker(
        scope, "vllm:request_success_total", role("prefill"), 'finished_reason=~"stop|length"'
    )
    stores = _rate_by_worker(scope, "lmcache:num_store_requests_total", role("prefill"))
    yield Alert(
        name="DpdLmcacheUnhealthy",
        expression=f"{finished} > 0 unless {stores} > 0",
        pending="2m",
        severity=Severity.CRITICAL,
        summary="prefiller {{ $labels.instance }} answers {{ $value | humanize }} requests a second and LMCache stores nothing",
        description="LMCache gave up on this worker, at its start or after a failed check, and the worker serves without "
        "it: nothing is handed off.",
    )


def _rate_by_worker(scope: Scope, metric: str, *matchers: str) -> str:
    return f"sum by (deployment, instance) ({scope.rate(metric, *matchers)})"


def _increase_by_worker(scope: Scope, metric: str) -> str:
    return f"sum by (deployment, role, instance) (increase({scope.series(metric, window='15m')}))"


def decision_alerts(scope: Scope, deployment: Deployment) -> Iterator[Alert]:
    """Yield the alert about a threshold that sends everything the same way, where a mix was expected."""
    threshold = deployment.routing.threshold_tokens
    if threshold in {"never", 0} or not has_router(deployment):
        return
    series = "dpd_router_decisions_total"
    every = scope.total_rate(series, window="1h")
    wanted = scope.total_rate(series, 'decision=~"disaggregated|fallback"', window="1h")
    sides = ["== 0"]
    if deployment.traffic.long_share < 1:
        sides.append("== 1")
    share = f"(({wanted} or vector(0)) / ({every} > {LEAST_REQUESTS_PER_SECOND:g}))"
    yield Alert(
        name="DpdDecisionsOneSided",
        expression=" or ".join(f"{share} {side}" for side in sides),
        pending="1h",
        severity=Severity.WARNING,
        summary=f"{{{{ $value | humanizePercentage }}}} of requests reach the threshold of {threshold} tokens",
        description="The threshold does not fit the prompts: either nothing is disaggregated, or everything.",
    )


def fabric_alerts(scope: Scope, deployment: Deployment, facts: ServingFacts) -> Iterator[Alert]:
    """Yield the alerts about the EFA."""
    own = _own_exporters(deployment)
    threshold = deployment.routing.threshold_tokens
    if threshold != "never":
        tokens = max(threshold, facts.chunk_tokens)
        least_bytes = tokens * facts.kv_bytes_per_token_per_rank * facts.tensor_parallel
        handed_off = _handed_off(scope, deployment)
        moved = " + ".join(_efa_rate(scope, f"node_amazonefa_{way}_bytes", own=own) for way in ("tx", "rx"))
        yield Alert(
            name="DpdEfaIdle",
            expression=f"({handed_off} > 0) unless (({moved}) > {handed_off} * {least_bytes * EFA_SHARE:.6g})",
            pending="2m",
            severity=Severity.CRITICAL,
            summary="{{ $value | humanize }} hand-offs a second and (almost) nothing crosses the EFA",
            description=f"A hand-off is at least {tokens} tokens or {least_bytes / 1e6:.0f} MB, and less than "
            f"{EFA_SHARE:.0%} of that was counted: NIXL fell back to TCP, or no EFA counters arrive.",
        )
    yield Alert(
        name="DpdEfaCountersMissing",
        expression=_unwatched(scope, _efa("node_amazonefa_tx_bytes", own=own), own=own),
        pending="10m",
        severity=Severity.WARNING,
        summary=f"nobody counts what crosses the EFA of {_where(own=own)}",
        description="Workers run there and no exporter shows EFA counters: errors and dropped packets are not seen, and "
        "silent TCP only while prompts are handed over.",
    )
    counters = ("rdma_read_wr_err", "rdma_write_wr_err", "rx_drops")
    sums = (f"increase({_efa(f'node_amazonefa_{counter}', own=own)}[10m]) > 0" for counter in counters)
    yield Alert(
        name="DpdEfaErrors",
        expression=" or ".join(sums),
        pending="0m",
        severity=Severity.WARNING,
        summary="{{ $value | humanize }} EFA errors in 10 minutes on device {{ $labels.device }}",
        description="RDMA requests fail or packets are dropped: transfers are repeated or end with an error.",
    )


def gpu_alerts(scope: Scope, deployment: Deployment) -> Iterator[Alert]:
    """Yield the alerts about GPUs that fail, and about those of which nobody would know."""
    own = _own_exporters(deployment)
    job = '{job="dpd-dcgm"}' if own else ""
    gpu = f"DCGM_FI_DEV_XID_ERRORS{job}"
    yield Alert(
        name="DpdGpuCountersMissing",
        # there from the start, whatever happens to a GPU
        expression=_unwatched(scope, f"DCGM_FI_DEV_GPU_TEMP{job}", own=own),
        pending="10m",
        severity=Severity.WARNING,
        summary=f"nobody looks at the GPUs of {_where(own=own)}",
        description="Workers run there and no exporter shows their GPUs: an Xid is not seen.",
    )
    yield Alert(
        name="DpdGpuXid",
        expression=f"{gpu} > 0 and (changes({gpu}[15m]) > 0 or ({gpu} unless {gpu} offset 15m))",
        pending="0m",
        severity=Severity.CRITICAL,
        summary="GPU {{ $labels.gpu }} of {{ $labels.Hostname }} reports Xid {{ $value }}",
        description="The driver saw an error of the GPU. HyperPod replaces the node for most of them.",
    )


def _own_exporters(deployment: Deployment) -> bool:
    return deployment.platform.exporters == "manifests"


def _efa(metric: str, *, own: bool) -> str:
    return f'{metric}{{job="dpd-efa"}}' if own else metric


def _unwatched(scope: Scope, metric: str, *, own: bool) -> str:
    """Return where workers can be read and `metric` is not there: node by node, or of the cluster with an add-on's."""
    workers = scope.series("up", 'job=~"dpd-(prefill|decode|colocated)"') + " == 1"
    if own:
        return f"group by (node) ({workers}) unless on (node) {metric}"
    return f"absent({metric}) and on () ({workers})"


def _where(*, own: bool) -> str:
    return "{{ $labels.node }}" if own else "the cluster"


def _efa_rate(scope: Scope, metric: str, *, own: bool) -> str:
    rate = f"rate({_efa(metric, own=own)}[5m])"
    if not own:
        # an add-on's labels are its own; the sum of the cluster is what can be said for sure
        return f"sum({rate})"
    # as long as the rate remembers a prefiller that is gone: its hand-offs are remembered, too
    prefillers = scope.series("up", 'job="dpd-prefill"', window="5m")
    nodes = f"group by (node) (max_over_time({prefillers}))"
    return f"sum({rate} * on (node) group_left () {nodes})"


def presence_alerts(
    scope: Scope, deployment: Deployment, facts: ServingFacts, *, disaggregates: bool
) -> Iterator[Alert]:
    """Yield the alerts about targets that are gone."""
    router = scope.series("up", 'job="dpd-router"')
    if has_router(deployment):
        yield _router_down(router)
    # where nothing at all is read, only the alert about the router speaks
    blind = f" unless on () absent({router})" if has_router(deployment) else ""
    if not disaggregates:
        colocated = facts.prefill.replicas + facts.decode.replicas
        yield _missing(scope, Role.COLOCATED, colocated, blind=blind)
        return
    prefillers = _least(deployment.serving.prefill, facts.prefill.replicas)
    decoders = _least(deployment.serving.decode, facts.decode.replicas)
    readable = scope.series("up", 'job="dpd-decode"')
    yield Alert(
        name=_NO_DECODER,
        expression=f"(sum({readable}) or vector(0)) == 0{blind}",
        pending="1m",
        severity=Severity.CRITICAL,
        summary=f"none of {decoders} decoders can be read",
        description="Every answer comes from a decoder: clients get 503.",
    )
    yield _missing(scope, Role.PREFILL, prefillers, blind=blind)
    if decoders > 1:
        yield _missing(scope, Role.DECODE, decoders, blind=blind, floor=0)


def _least(worker: Worker, replicas: int) -> int:
    """Return how many workers must be there whatever the load: autoscaling takes the others away on purpose."""
    return worker.scaling.minimum if worker.scaling else replicas


def _router_down(router: str) -> Alert:
    return Alert(
        name="DpdRouterDown",
        expression=f"{router} == 0 or absent({router})",
        pending="2m",
        severity=Severity.CRITICAL,
        summary="the router of {{ $labels.deployment }} cannot be read",
        description="Either it does not run, then nobody is served, or nothing is scraped, then no other alert can fire.",
    )


def _missing(scope: Scope, of: Role, replicas: int, *, blind: str, floor: int | None = None) -> Alert:
    """Return the alert about workers that are fewer than wanted; at `floor` another one speaks."""
    job = f'job="dpd-{of.value}"'
    present = f"(sum({scope.series('up', job)}) or vector(0))"
    above = f" and {present} > {floor}" if floor is not None else ""
    return Alert(
        name=_WORKERS_MISSING[of],
        expression=f"({present} < {replicas}{above}){blind}",
        pending="15m",
        severity=Severity.WARNING,
        summary=f"{{{{ $value }}}} of {replicas} {of.value} workers can be read",
        description="A worker is gone for longer than a rolling update takes for one; see its pod and its node.",
    )
