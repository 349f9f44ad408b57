"""For every alert: series in which it fires, with its summary, and the nearest ones in which it must not.

Series are written as `promtool` reads them: `0+60x40` starts at 0 and grows by 60 for 40 samples, `_` is no sample.
"""

from collections.abc import Mapping
from dataclasses import dataclass

NAME = "llama-3-3-70b-p5"


def series(metric: str, **labels: str) -> str:
    """Return a series of the deployment under test."""
    return bare(metric, deployment=NAME, **labels)


def bare(metric: str, **labels: str) -> str:
    """Return a series without the labels of a deployment."""
    return metric + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


DECODE = {"job": "dpd-decode", "role": "decode", "instance": "10.0.0.2:8000"}
PREFILL = {"job": "dpd-prefill", "role": "prefill", "instance": "10.0.0.1:8000", "node": "node-1"}
COLOCATED = {"job": "dpd-colocated", "role": "colocated", "instance": "10.0.0.3:8000"}

UP_ROUTER = series("up", job="dpd-router")
UP_PREFILL = series("up", **PREFILL)
UP_DECODE = series("up", **DECODE)
DISAGGREGATED = series("dpd_router_decisions_total", decision="disaggregated", reason="threshold")
DIRECT = series("dpd_router_decisions_total", decision="direct", reason="below_threshold")
EXTERNAL_HITS = series("vllm:external_prefix_cache_hits_total", **DECODE)
LMCACHE_HITS = series("lmcache:num_hit_tokens_total", **DECODE)
PREFILLED = series("vllm:request_success_total", **PREFILL, finished_reason="length")
STORES = series("lmcache:num_store_requests_total", **PREFILL)
FULL = series("dpd_router_handoff_hits_total", result="full")
MISS = series("dpd_router_handoff_hits_total", result="miss")
TX = bare("node_amazonefa_tx_bytes", device="rdmap0", node="node-1", job="dpd-efa")
RX = bare("node_amazonefa_rx_bytes", device="rdmap0", node="node-1", job="dpd-efa")
TEMPERATURE = bare("DCGM_FI_DEV_GPU_TEMP", gpu="3", node="node-1", job="dpd-dcgm")
XID = {"gpu": "3", "Hostname": "node-1", "job": "dpd-dcgm"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One alert."""

    alert: str
    fires: Mapping[str, str]
    silent: Mapping[str, str]
    summary: str
    labels: Mapping[str, str]
    """Labels of the alert besides `alertname`, `severity` and `deployment`."""
    at: str = "20m"
    interval: str = "30s"
    variant: str = "default"
    """Which rules: of the default deployment, or of one of the others in `test_alerts.py`."""


def histogram(metric: str, limit: str, fast: str, total: str, **labels: str) -> dict[str, str]:
    """Return buckets of which `limit` grows by `fast` and the last by `total` per sample."""
    name = f"{metric}_bucket"
    return {
        series(name, **labels, le=limit): f"0+{fast}x500",
        series(name, **labels, le="+Inf"): f"0+{total}x500",
        series(f"{metric}_count", **labels): f"0+{total}x500",
    }


def _budget(metric: str, bucket: str, share_of_misses: int, **labels: str) -> dict[str, str]:
    return histogram(metric, bucket, str(100 - share_of_misses), "100", **labels)


TTFT, TPOT = "dpd_router_ttft_seconds", "vllm:request_time_per_output_token_seconds"


def _ttft(misses: int) -> dict[str, str]:
    """Return requests of which all that do not miss stay below 2.5 s; 3 s is a fifth of the way to 5 s."""
    made = _budget(TTFT, "2.5", misses, decision="direct")
    return {**made, series(f"{TTFT}_bucket", decision="direct", le="5.0"): f"0+{100 - misses}x500"}


CASES = (
    Case(
        alert="DpdTtftBudgetBurningFast",
        fires=_ttft(80),
        silent=_ttft(25),
        summary="80% of requests miss 3 s to the first token; the budget is 5%",
        labels={},
        interval="1m",
    ),
    Case(
        alert="DpdTtftBudgetBurningSlowly",
        fires=_ttft(20),
        silent=_ttft(4),
        summary="20% of requests missed 3 s to the first token for hours; the budget is 5%",
        labels={},
        at="4h",
        interval="1m",
    ),
    Case(
        alert="DpdTpotBudgetBurningFast",
        fires=_budget(TPOT, "0.05", 40, **DECODE),
        silent={**_budget(TPOT, "0.05", 29, **DECODE), **_budget(TPOT, "0.05", 90, **PREFILL)},
        summary="40% of requests miss 0.05 s per output token; the budget is 5%",
        labels={},
        interval="1m",
    ),
    Case(
        alert="DpdTpotBudgetBurningSlowly",
        fires=_budget(TPOT, "0.05", 20, **DECODE),
        silent=_budget(TPOT, "0.05", 5, **DECODE),
        summary="20% of requests missed 0.05 s per output token for hours; the budget is 5%",
        labels={},
        at="4h",
        interval="1m",
    ),
    Case(
        alert="DpdRouterDown",
        fires={UP_ROUTER: "1x10 0x40"},
        silent={UP_ROUTER: "1x10 0x2 1x40"},
        summary=f"the router of {NAME} cannot be read",
        labels={"job": "dpd-router"},
    ),
    Case(
        alert="DpdNoDecoder",
        fires={UP_ROUTER: "1x50", UP_DECODE: "1x10 _x40"},
        silent={UP_ROUTER: "1x10 _x40", UP_DECODE: "1x10 _x40"},
        summary="none of 1 decoders can be read",
        labels={},
    ),
    Case(
        alert="DpdPrefillWorkersMissing",
        fires={UP_ROUTER: "1x99", UP_PREFILL: "1x10 0x80"},
        silent={UP_ROUTER: "1x99", UP_PREFILL: "1x10 0x20 1x60"},
        summary="0 of 1 prefill workers can be read",
        labels={},
        at="30m",
    ),
    Case(
        alert="DpdDecodeWorkersMissing",
        fires={UP_ROUTER: "1x99", UP_DECODE: "1x99"},
        silent={UP_ROUTER: "1x99", UP_DECODE: "0x99"},
        summary="1 of 2 decode workers can be read",
        labels={},
        at="30m",
        variant="two decoders",
    ),
    Case(
        alert="DpdDecodeWorkersMissing",
        fires={UP_ROUTER: "1x99", UP_DECODE: "1x99"},
        # three are declared, and autoscaling may leave two
        silent={UP_ROUTER: "1x99", UP_DECODE: "1x99", UP_DECODE.replace("10.0.0.2", "10.0.0.8"): "1x99"},
        summary="1 of 2 decode workers can be read",
        labels={},
        at="30m",
        variant="scaled",
    ),
    Case(
        alert="DpdColocatedWorkersMissing",
        fires={UP_ROUTER: "1x99", series("up", **COLOCATED): "1x99"},
        silent={
            UP_ROUTER: "1x99",
            series("up", **COLOCATED): "1x99",
            series("up", **{**COLOCATED, "instance": "b"}): "1x99",
        },
        summary="1 of 2 colocated workers can be read",
        labels={},
        at="30m",
        variant="baseline",
    ),
    Case(
        alert="DpdTtftHigh",
        fires=histogram("vllm:time_to_first_token_seconds", "5.0", "100", "100", **PREFILL),
        silent=histogram("vllm:time_to_first_token_seconds", "2.5", "96", "100", **PREFILL),
        summary="p95 TTFT of prefill workers is 4.75s, the SLO is 3 s",
        labels={"role": "prefill"},
    ),
    Case(
        alert="DpdItlHigh",
        fires=histogram("vllm:inter_token_latency_seconds", "0.1", "100", "100", **DECODE),
        silent={
            **histogram("vllm:inter_token_latency_seconds", "0.05", "100", "100", **DECODE),
            **histogram("vllm:inter_token_latency_seconds", "5.0", "100", "100", **PREFILL),
        },
        summary="p95 inter-token latency of decode workers is 95ms, the SLO is 0.05 s per token",
        labels={"role": "decode"},
    ),
    Case(
        alert="DpdKvCacheNearlyFull",
        fires={series("vllm:kv_cache_usage_perc", **DECODE): "0.95x50"},
        silent={series("vllm:kv_cache_usage_perc", **DECODE): "0.95x8 0.9x50"},
        summary="KV cache of decode worker 10.0.0.2:8000 is 95% full",
        labels=DECODE,
    ),
    Case(
        alert="DpdDecodePreemptions",
        fires={series("vllm:num_preemptions_total", **DECODE): "0+30x50"},
        silent={
            series("vllm:num_preemptions_total", **DECODE): "7x50",
            series("vllm:num_preemptions_total", **PREFILL): "0+30x50",
        },
        summary="decode worker 10.0.0.2:8000 preempts 1 sequences a second",
        labels=DECODE,
    ),
    Case(
        alert="DpdPrefillQueueGrowing",
        fires={series("vllm:num_requests_waiting", **PREFILL): "0+2x50"},
        silent={series("vllm:num_requests_waiting", **PREFILL): "100-2x50"},
        summary="80 prompts wait for prefillers that take 16 at a time, and it does not get less",
        labels={"role": "prefill"},
    ),
    Case(
        alert="DpdKvNotReused",
        fires={DISAGGREGATED: "0+30x50", EXTERNAL_HITS: "0x50", FULL: "0+15x50", MISS: "0+15x50"},
        silent={DISAGGREGATED: "0+30x50", EXTERNAL_HITS: "0+100x50", FULL: "0+30x50", MISS: "0+1x50"},
        summary="decoders do not find the KV cache of 50% of the hand-offs",
        labels={},
    ),
    Case(
        alert="DpdKvNotReused",
        fires={DISAGGREGATED: "0+30x50", EXTERNAL_HITS: "9x50", UP_DECODE: "1x50"},
        silent={DISAGGREGATED: "9x50", EXTERNAL_HITS: "9x50", UP_DECODE: "1x50"},
        summary="decoders do not find the KV cache of 100% of the hand-offs",
        labels={},
    ),
    Case(
        alert="DpdKvNotReused",
        fires={DISAGGREGATED: "0+30x50", UP_DECODE: "1x50"},
        # what decoders found that cannot be read, nobody knows
        silent={DISAGGREGATED: "0+30x50", UP_DECODE: "0x50"},
        summary="decoders do not find the KV cache of 100% of the hand-offs",
        labels={},
    ),
    Case(
        alert="DpdTransferStuck",
        fires={series("dpd_router_notif_timeouts_total", job="dpd-router"): "0x30 0+1x20"},
        silent={series("dpd_router_notif_timeouts_total", job="dpd-router"): "3x50"},
        summary="9 hand-offs in 5 minutes never landed",
        labels={},
    ),
    Case(
        alert="DpdTransferStuck",
        fires={series("vllm:nixl_num_failed_transfers_total", **DECODE): "0x30 0+1x20"},
        silent={series("vllm:nixl_num_failed_transfers_total", **DECODE): "0x10 2x50"},
        summary="9 hand-offs in 5 minutes never landed",
        labels={},
    ),
    Case(
        alert="DpdPairBroken",
        fires={series("dpd_router_pairs_broken", job="dpd-router"): "2x50"},
        silent={series("dpd_router_pairs_broken", job="dpd-router"): "2x15 0x50"},
        summary="2 pairs of prefiller and decoder exchange nothing",
        labels={"job": "dpd-router"},
    ),
    Case(
        alert="DpdPdBufferLeak",
        fires={
            series("dpd_router_suspected_chunks", decoder="d"): "0+4x50",
            series("dpd_router_buffer_chunks", decoder="d"): "819x50",
        },
        silent={
            series("dpd_router_suspected_chunks", decoder="d"): "80x50",
            series("dpd_router_buffer_chunks", decoder="d"): "819x50",
        },
        at="25m",
        summary="24.42% of the PD buffer of decoder d is lost until it restarts",
        labels={"decoder": "d"},
    ),
    Case(
        alert="DpdPdBufferLeak",
        fires={
            series("dpd_router_inflight_chunks", decoder="d"): "16x60",
            series("dpd_router_buffer_chunks", decoder="d"): "64x60",
            series("dpd_router_handoffs_open"): "0x60",
        },
        silent={
            series("dpd_router_inflight_chunks", decoder="d"): "16x60",
            series("dpd_router_buffer_chunks", decoder="d"): "64x60",
            series("dpd_router_handoffs_open"): "1x60",
        },
        at="25m",
        summary="25% of the PD buffer of decoder d is lost until it restarts",
        labels={"decoder": "d"},
    ),
    Case(
        alert="DpdPdBufferLost",
        fires={series("dpd_router_buffer_leaked", decoder="d"): "0x30 1x20"},
        silent={series("dpd_router_buffer_leaked", decoder="d"): "0x30 1x1 0x20"},
        summary="the PD buffer of decoder d takes nothing although nothing is in it",
        labels={"decoder": "d"},
    ),
    Case(
        alert="DpdKvReportedNotLoaded",
        fires={EXTERNAL_HITS: "0+120000x50", LMCACHE_HITS: "0x50"},
        silent={EXTERNAL_HITS: "0+120000x50", LMCACHE_HITS: "0+120000x50"},
        summary="decoder 10.0.0.2:8000 reports 4k cached tokens a second and loads none",
        labels={"instance": "10.0.0.2:8000"},
    ),
    Case(
        alert="DpdPrefillerHung",
        fires={series("dpd_router_worker_hung", worker="10.0.0.1:8000"): "0x10 1x40"},
        silent={series("dpd_router_worker_hung", worker="10.0.0.1:8000"): "0x10 1x1 0x40"},
        summary="prefiller 10.0.0.1:8000 takes requests and answers none",
        labels={"worker": "10.0.0.1:8000"},
    ),
    Case(
        alert="DpdLmcacheRemoteFailing",
        # eight ranks are one worker
        fires={
            series("lmcache:remote_ping_errors_total", **PREFILL, worker_id="0"): "0x20 0+1x30",
            series("lmcache:remote_ping_errors_total", **PREFILL, worker_id="1"): "0x20 0+1x30",
        },
        silent={series("lmcache:remote_ping_errors_total", **PREFILL, worker_id="0"): "5x50"},
        summary="the remote store of LMCache on prefill worker 10.0.0.1:8000 failed 38 checks in 15 minutes",
        labels={"role": "prefill", "instance": "10.0.0.1:8000"},
    ),
    Case(
        alert="DpdLmcacheUnhealthy",
        fires={PREFILLED: "0+30x50", STORES: "0+30x10 300x40"},
        # after a restart both begin again; the second prefiller has nothing to do
        silent={
            PREFILLED: "0+30x20 0+30x30",
            STORES: "0+30x20 0+30x30",
            PREFILLED.replace("10.0.0.1", "10.0.0.9"): "7x50",
            STORES.replace("10.0.0.1", "10.0.0.9"): "7x50",
        },
        summary="prefiller 10.0.0.1:8000 answers 1 requests a second and LMCache stores nothing",
        labels={"instance": "10.0.0.1:8000"},
    ),
    Case(
        alert="DpdLmcacheUnhealthy",
        fires={PREFILLED: "0+30x50", LMCACHE_HITS: "0+30x50"},
        silent={PREFILLED.replace("length", "abort"): "0+30x50", STORES: "0x50"},
        summary="prefiller 10.0.0.1:8000 answers 1 requests a second and LMCache stores nothing",
        labels={"instance": "10.0.0.1:8000"},
    ),
    Case(
        alert="DpdDecisionsOneSided",
        fires={DIRECT: "0+30x400"},
        silent={DIRECT: "0+30x400", DISAGGREGATED: "0+1x400"},
        summary="0% of requests reach the threshold of 4096 tokens",
        labels={},
        at="2h",
    ),
    Case(
        alert="DpdDecisionsOneSided",
        fires={DISAGGREGATED: "0+30x400"},
        silent={DISAGGREGATED: "0+30x400", DIRECT: "0+1x400"},
        summary="100% of requests reach the threshold of 4096 tokens",
        labels={},
        at="2h",
        variant="mixed traffic",
    ),
    Case(
        alert="DpdEfaIdle",
        fires={DISAGGREGATED: "0+30x50", TX: "0+1000x50", RX: "0+1000x50"},
        # a hand-off is at least 4,096 tokens of 327,680 bytes: 1.34 GB
        silent={DISAGGREGATED: "0+30x50", TX: "0+40000000000x50", RX: "0+1000x50"},
        summary="1 hand-offs a second and (almost) nothing crosses the EFA",
        labels={},
    ),
    Case(
        alert="DpdEfaIdle",
        fires={
            DISAGGREGATED: "0+30x50",
            UP_PREFILL: "1x50",
            TX: "0+1000x50",
            RX: "0+1000x50",
            # another node's traffic must not hide it
            TX.replace("node-1", "node-9"): "0+40000000000x50",
        },
        silent={DISAGGREGATED: "0+30x50", UP_PREFILL: "1x50", TX: "0+40000000000x50", RX: "0+1000x50"},
        summary="1 hand-offs a second and (almost) nothing crosses the EFA",
        labels={},
        variant="own exporters",
    ),
    Case(
        alert="DpdEfaCountersMissing",
        fires={UP_PREFILL: "1x50", TX: "0x5"},
        silent={UP_PREFILL: "1x50", TX: "0x50"},
        summary="nobody counts what crosses the EFA of the cluster",
        labels={},
    ),
    Case(
        alert="DpdEfaCountersMissing",
        # another node's exporter says nothing about this one
        fires={UP_PREFILL: "1x50", TX.replace("node-1", "node-9"): "0x50"},
        silent={UP_PREFILL: "1x50", TX: "0x50"},
        summary="nobody counts what crosses the EFA of node-1",
        labels={"node": "node-1"},
        variant="own exporters",
    ),
    Case(
        alert="DpdGpuCountersMissing",
        fires={UP_DECODE: "1x50", TEMPERATURE: "40x5"},
        # without workers nobody needs to know
        silent={UP_DECODE: "0x50"},
        summary="nobody looks at the GPUs of the cluster",
        labels={},
    ),
    Case(
        alert="DpdGpuCountersMissing",
        fires={UP_PREFILL: "1x50", series("up", job="dpd-dcgm", node="node-1"): "0x50"},
        silent={UP_PREFILL: "1x50", TEMPERATURE: "40x50"},
        summary="nobody looks at the GPUs of node-1",
        labels={"node": "node-1"},
        variant="own exporters",
    ),
    Case(
        alert="DpdEfaErrors",
        fires={bare("node_amazonefa_rdma_write_wr_err", device="rdmap0"): "0+1x50"},
        silent={bare("node_amazonefa_rdma_write_wr_err", device="rdmap0"): "4x50"},
        summary="20 EFA errors in 10 minutes on device rdmap0",
        labels={"device": "rdmap0"},
    ),
    Case(
        alert="DpdGpuXid",
        fires={bare("DCGM_FI_DEV_XID_ERRORS", **XID): "0x30 79x20"},
        silent={bare("DCGM_FI_DEV_XID_ERRORS", **XID): "79x50"},
        summary="GPU 3 of node-1 reports Xid 79",
        labels=XID,
    ),
    Case(
        alert="DpdGpuXid",
        fires={bare("DCGM_FI_DEV_XID_ERRORS", **XID): "_x30 79x20"},
        silent={bare("DCGM_FI_DEV_XID_ERRORS", **XID): "0x50"},
        summary="GPU 3 of node-1 reports Xid 79",
        labels=XID,
        variant="own exporters",
    ),
)

OPERATOR_CASES = (
    Case(
        alert="DpdKvNotReused",
        fires={PREFILLED: "0+30x50", EXTERNAL_HITS: "0x50", UP_DECODE: "1x50"},
        silent={PREFILLED: "0+30x50", EXTERNAL_HITS: "0+1000x50"},
        summary="decoders do not find the KV cache of 100% of the hand-offs",
        labels={},
        variant="operator",
    ),
    Case(
        alert="DpdEfaIdle",
        fires={PREFILLED: "0+30x50", TX: "0+1000x50", RX: "0+1000x50"},
        silent={PREFILLED: "0+30x50", TX: "0+40000000000x50", RX: "0+1000x50"},
        summary="1 hand-offs a second and (almost) nothing crosses the EFA",
        labels={},
        variant="operator",
    ),
    Case(
        alert="DpdNoDecoder",
        fires={UP_DECODE: "1x10 _x40"},
        silent={UP_DECODE: "1x50"},
        summary="none of 1 decoders can be read",
        labels={},
        variant="operator",
    ),
    Case(
        alert="DpdTtftBudgetBurningFast",
        fires={
            **_budget("vllm:time_to_first_token_seconds", "2.5", 100, **PREFILL),
            series("vllm:time_to_first_token_seconds_bucket", **PREFILL, le="5.0"): "0x500",
        },
        silent={
            **_budget("vllm:time_to_first_token_seconds", "2.5", 0, **PREFILL),
            series("vllm:time_to_first_token_seconds_bucket", **PREFILL, le="5.0"): "0+100x500",
        },
        summary="100% of requests miss 3 s to the first token; the budget is 5%",
        labels={},
        interval="1m",
        variant="operator",
    ),
)
"""What differs on the operator backend, whose router cannot be read."""

HEALTHY: Mapping[str, str] = {
    UP_ROUTER: "1x200",
    UP_PREFILL: "1x200",
    UP_DECODE: "1x200",
    DISAGGREGATED: "0+30x200",
    DIRECT: "0+30x200",
    EXTERNAL_HITS: "0+122880x200",
    LMCACHE_HITS: "0+122880x200",
    FULL: "0+30x200",
    MISS: "0x200",
    TX: "0+40265318400x200",
    RX: "0+1000000x200",
    series("dpd_router_notif_timeouts_total"): "0x200",
    series("dpd_router_pairs_broken"): "0x200",
    series("dpd_router_suspected_chunks", decoder="d"): "0x200",
    series("dpd_router_inflight_chunks", decoder="d"): "32x200",
    series("dpd_router_buffer_chunks", decoder="d"): "819x200",
    series("dpd_router_handoffs_open"): "2x200",
    series("dpd_router_worker_hung", worker="p"): "0x200",
    PREFILLED: "0+30x200",
    STORES: "0+30x200",
    series("lmcache:remote_ping_errors_total", **DECODE): "0x200",
    series("vllm:kv_cache_usage_perc", **DECODE): "0.6x200",
    series("vllm:num_preemptions_total", **DECODE): "0x200",
    series("vllm:num_requests_waiting", **PREFILL): "0 3 1 4 1 5 9 2 6 5 3 5x190",
    bare("DCGM_FI_DEV_XID_ERRORS", **XID): "0x200",
    TEMPERATURE: "40x200",
    bare("node_amazonefa_rdma_write_wr_err", device="rdmap0"): "0x200",
    **histogram("vllm:time_to_first_token_seconds", "1.0", "100", "100", **PREFILL),
    **histogram("vllm:inter_token_latency_seconds", "0.05", "100", "100", **DECODE),
    **_ttft(0),
    **_budget(TPOT, "0.05", 0, **DECODE),
}
"""An hour of a deployment in which nothing is wrong."""
