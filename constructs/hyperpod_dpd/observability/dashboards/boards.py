"""What the dashboards show."""

from typing import Final

from hyperpod_dpd.observability.dashboards.model import Board, Panel, Query, Section, Unit

_D: Final = 'deployment="$deployment"'
_ANSWERING: Final = 'role=~"decode|colocated"'


def _quantile(share: float, metric: str, by: str, *matchers: str) -> str:
    labels = ",".join((_D, *matchers))
    return f"histogram_quantile({share:g}, sum by (le, {by}) (rate({metric}_bucket{{{labels}}}[$__rate_interval])))"


def _rate(metric: str, by: str, *matchers: str, scoped: bool = True) -> str:
    labels = ",".join(((_D,) if scoped else ()) + matchers)
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def _gauge(metric: str, *matchers: str, scoped: bool = True) -> str:
    return metric + "{" + ",".join(((_D,) if scoped else ()) + matchers) + "}"


def _quantiles(metric: str, by: str, *matchers: str) -> tuple[Query, ...]:
    return tuple(
        Query(expression=_quantile(share, metric, by, *matchers), legend=f"p{share * 100:g} {{{{{by}}}}}")
        for share in (0.5, 0.95)
    )


def _stat(title: str, description: str, unit: Unit, expression: str) -> Panel:
    return Panel(
        title=title,
        description=description,
        unit=unit,
        queries=(Query(expression=expression, legend=title),),
        kind="stat",
        width=6,
    )


_NOW: Final = Section(
    title="Now",
    panels=(
        _stat(
            "TTFT p95",
            "Time to the first token at the router, all requests, 95th percentile.",
            Unit.SECONDS,
            f"histogram_quantile(0.95, sum by (le) (rate(dpd_router_ttft_seconds_bucket{{{_D}}}[5m])))",
        ),
        _stat(
            "TPOT p95",
            "Time per output token of a whole answer, 95th percentile, decoders and colocated workers.",
            Unit.SECONDS,
            "histogram_quantile(0.95, sum by (le) "
            f"(rate(vllm:request_time_per_output_token_seconds_bucket{{{_D},{_ANSWERING}}}[5m])))",
        ),
        _stat(
            "Disaggregated",
            "Share of generation requests whose prompt was prefilled elsewhere and handed over.",
            Unit.SHARE,
            f'sum(rate(dpd_router_decisions_total{{{_D},decision="disaggregated"}}[5m])) '
            f"/ sum(rate(dpd_router_decisions_total{{{_D}}}[5m]))",
        ),
        _stat(
            "Workers that can be read",
            "Targets of all roles that answered the last scrape.",
            Unit.COUNT,
            f'sum(up{{{_D},job=~"dpd-(prefill|decode|colocated)"}})',
        ),
    ),
)

_LATENCY: Final = Section(
    title="What users feel",
    panels=(
        Panel(
            title="TTFT by decision",
            description="From a request's arrival at the router to the first byte of its answer.",
            unit=Unit.SECONDS,
            queries=_quantiles("dpd_router_ttft_seconds", "decision"),
        ),
        Panel(
            title="Inter-token latency and TPOT",
            description="Gap between two tokens, and its mean per answer. Disaggregation exists to keep both flat.",
            unit=Unit.SECONDS,
            queries=(
                *_quantiles("vllm:inter_token_latency_seconds", "role", _ANSWERING),
                Query(
                    expression=_quantile(
                        0.95, "vllm:request_time_per_output_token_seconds", "role", _ANSWERING
                    ),
                    legend="TPOT p95 {{role}}",
                ),
            ),
        ),
        Panel(
            title="End-to-end latency",
            description="Whole request at the worker, queue included. A prefiller's ends with its one token.",
            unit=Unit.SECONDS,
            queries=_quantiles("vllm:e2e_request_latency_seconds", "role"),
        ),
        Panel(
            title="SLO misses",
            description="Share of requests over the limit in the last hour; the budget is 5 %.",
            unit=Unit.SHARE,
            queries=(
                Query(expression=_gauge("dpd:ttft_slo_misses:ratio_rate1h"), legend="TTFT"),
                Query(expression=_gauge("dpd:tpot_slo_misses:ratio_rate1h"), legend="TPOT"),
            ),
        ),
        Panel(
            title="Answers by status",
            description="Requests that the router has answered, by HTTP status.",
            unit=Unit.PER_SECOND,
            queries=(Query(expression=_rate("dpd_router_requests_total", "status"), legend="{{status}}"),),
            stacked=True,
        ),
        Panel(
            title="Refused by the router",
            description="Requests that never reached a worker: over a limit, malformed, or nobody there to answer.",
            unit=Unit.PER_SECOND,
            queries=(Query(expression=_rate("dpd_router_rejected_total", "code"), legend="{{code}}"),),
            stacked=True,
        ),
    ),
)

_TRAFFIC: Final = Section(
    title="Throughput and decisions",
    panels=(
        Panel(
            title="Tokens generated",
            description="Output tokens of all workers of a role. A prefiller makes one per hand-off.",
            unit=Unit.TOKENS_PER_SECOND,
            queries=(Query(expression=_gauge("dpd:generation_tokens:rate5m"), legend="{{role}}"),),
        ),
        Panel(
            title="Prompt tokens by source",
            description="Where the KV cache of prompts on decoders comes from. Local computation there is what a "
            "hand-off saves.",
            unit=Unit.TOKENS_PER_SECOND,
            queries=(
                Query(
                    expression=_rate("vllm:prompt_tokens_by_source_total", "source", _ANSWERING),
                    legend="{{source}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            title="Decisions",
            description="Generation requests by decision. A fallback wanted to be disaggregated and was decoded "
            "directly.",
            unit=Unit.PER_SECOND,
            queries=(Query(expression=_gauge("dpd:decisions:rate5m"), legend="{{decision}}"),),
            stacked=True,
        ),
        Panel(
            title="Why not disaggregated",
            description="Direct and fallback decisions by reason.",
            unit=Unit.PER_SECOND,
            queries=(
                Query(
                    expression=_rate(
                        "dpd_router_decisions_total", "decision, reason", 'decision!="disaggregated"'
                    ),
                    legend="{{decision}}: {{reason}}",
                ),
            ),
        ),
        Panel(
            title="Prompt length",
            description="Tokens of prompts as the router counts or estimates them; compare with the threshold.",
            unit=Unit.COUNT,
            queries=tuple(
                Query(
                    expression=f"histogram_quantile({share}, sum by (le) "
                    f"(rate(dpd_router_prompt_tokens_bucket{{{_D}}}[$__rate_interval])))",
                    legend=f"p{share * 100:g} tokens",
                )
                for share in (0.5, 0.95)
            ),
        ),
        Panel(
            title="Queue per role",
            description="Requests that wait for a place in a batch, and those in one.",
            unit=Unit.COUNT,
            queries=(
                Query(expression=_gauge("dpd:requests_waiting:sum"), legend="waiting {{role}}"),
                Query(expression=_gauge("dpd:requests_running:sum"), legend="running {{role}}"),
            ),
        ),
    ),
)

_HAND_OFF: Final = Section(
    title="Hand-off",
    panels=(
        Panel(
            title="KV wait",
            description="From the prefiller's answer to the last notification that the cache has landed.",
            unit=Unit.SECONDS,
            queries=tuple(
                Query(
                    expression=f"histogram_quantile({share}, sum by (le) "
                    f"(rate(dpd_router_kv_wait_seconds_bucket{{{_D}}}[$__rate_interval])))",
                    legend=f"p{share * 100:g}",
                )
                for share in (0.5, 0.95)
            ),
        ),
        Panel(
            title="KV transfer over EFA",
            description="Bytes that the EFA devices of the cluster send and receive, data and RDMA.",
            unit=Unit.BYTES_PER_SECOND,
            queries=(
                Query(expression="sum(rate(node_amazonefa_tx_bytes[$__rate_interval]))", legend="sent"),
                Query(expression="sum(rate(node_amazonefa_rx_bytes[$__rate_interval]))", legend="received"),
            ),
        ),
        Panel(
            title="Hits at the decoder",
            description="Hand-offs by what the decoder says of cached tokens. Everything but `full` is prefilled twice.",
            unit=Unit.PER_SECOND,
            queries=(Query(expression=_gauge("dpd:handoff_hits:rate5m"), legend="{{result}}"),),
            stacked=True,
        ),
        Panel(
            title="Failed hand-offs",
            description="Hand-offs that did not serve their request, by reason, and those that never landed.",
            unit=Unit.PER_SECOND,
            queries=(
                Query(expression=_rate("dpd_router_handoff_failures_total", "reason"), legend="{{reason}}"),
                Query(
                    expression=f"sum(rate(dpd_router_notif_timeouts_total{{{_D}}}[$__rate_interval]))",
                    legend="no notification in time",
                ),
            ),
        ),
        Panel(
            title="PD buffer of the decoders",
            description="Share of a decoder's buffer that is reserved, and that is probably leaked until it restarts.",
            unit=Unit.SHARE,
            queries=tuple(
                Query(
                    expression=f"{_gauge(metric)} / {_gauge('dpd_router_buffer_chunks')}",
                    legend=f"{word} {{{{decoder}}}}",
                )
                for word, metric in (
                    ("reserved", "dpd_router_inflight_chunks"),
                    ("lost", "dpd_router_suspected_chunks"),
                )
            ),
        ),
        Panel(
            title="Hand-offs that the router owns",
            description="Open hand-offs, their ends, and pairs of workers that exchange nothing.",
            unit=Unit.COUNT,
            queries=(
                Query(expression=_gauge("dpd_router_handoffs_open"), legend="open"),
                Query(expression=_gauge("dpd_router_pairs_broken"), legend="broken pairs"),
                Query(
                    expression=f"sum by (result) (increase(dpd_router_drains_total{{{_D}}}[5m]))",
                    legend="drained in 5 minutes: {{result}}",
                ),
            ),
        ),
    ),
)

_ENGINE: Final = Section(
    title="Engines",
    panels=(
        Panel(
            title="KV cache in use",
            description="Share of vLLM's KV cache blocks that hold something.",
            unit=Unit.SHARE,
            queries=(Query(expression=_gauge("vllm:kv_cache_usage_perc"), legend="{{role}} {{instance}}"),),
        ),
        Panel(
            title="Batch",
            description="Sequences in a step: what a worker computes at once.",
            unit=Unit.COUNT,
            queries=(Query(expression=_gauge("vllm:num_requests_running"), legend="{{role}} {{instance}}"),),
        ),
        Panel(
            title="Waiting requests",
            description="Requests that are not in a step yet.",
            unit=Unit.COUNT,
            queries=(Query(expression=_gauge("vllm:num_requests_waiting"), legend="{{role}} {{instance}}"),),
        ),
        Panel(
            title="Preemptions",
            description="Sequences that lost their cache and start over.",
            unit=Unit.PER_SECOND,
            queries=(
                Query(
                    expression=_rate("vllm:num_preemptions_total", "role, instance"),
                    legend="{{role}} {{instance}}",
                ),
            ),
        ),
        Panel(
            title="Phases of a request",
            description="95th percentile of the time in the queue, in prefill and in decoding.",
            unit=Unit.SECONDS,
            queries=tuple(
                Query(
                    expression=_quantile(0.95, f"vllm:request_{phase}_time_seconds", "role"),
                    legend=f"{phase} {{{{role}}}}",
                )
                for phase in ("queue", "prefill", "decode")
            ),
        ),
        Panel(
            title="Ends of requests",
            description="Requests by the reason for which they ended.",
            unit=Unit.PER_SECOND,
            queries=(
                Query(
                    expression=_rate("vllm:request_success_total", "role, finished_reason"),
                    legend="{{role}} {{finished_reason}}",
                ),
            ),
            stacked=True,
        ),
    ),
)

_CACHES: Final = Section(
    title="Caches",
    panels=(
        Panel(
            title="Cache hits",
            description="Share of queried tokens that vLLM's own prefix cache and the KV connector had.",
            unit=Unit.SHARE,
            queries=tuple(
                Query(
                    expression=f"{_rate(f'vllm:{prefix}_hits_total', 'role')} / {_rate(f'vllm:{prefix}_queries_total', 'role')}",
                    legend=f"{word} {{{{role}}}}",
                )
                for word, prefix in (
                    ("own", "prefix_cache"),
                    ("handed over", "external_prefix_cache"),
                )
            ),
        ),
        Panel(
            title="Reported and loaded",
            description="Tokens that vLLM reports as handed over, and that LMCache really loaded (per rank). Where only the "
            "first grows, answers come from unwritten memory.",
            unit=Unit.TOKENS_PER_SECOND,
            queries=(
                Query(
                    expression=_rate("vllm:external_prefix_cache_hits_total", "instance", 'role="decode"'),
                    legend="reported {{instance}}",
                ),
                Query(
                    expression=_rate("lmcache:num_hit_tokens_total", "instance", 'role="decode"'),
                    legend="loaded {{instance}}",
                ),
            ),
        ),
        Panel(
            title="LMCache store and retrieve",
            description="95th percentile: copy and send on prefillers, load on decoders.",
            unit=Unit.SECONDS,
            queries=(
                Query(expression=_quantile(0.95, "lmcache:time_to_store", "role"), legend="store {{role}}"),
                Query(expression=_quantile(0.95, "lmcache:store_put_time", "role"), legend="send {{role}}"),
                Query(
                    expression=_quantile(0.95, "lmcache:time_to_retrieve", "role"),
                    legend="retrieve {{role}}",
                ),
            ),
        ),
    ),
)

_GPU: Final = Section(
    title="GPUs of the cluster",
    panels=(
        Panel(
            title="Tensor cores",
            description="Share of time in which the tensor pipe was busy, mean of a node.",
            unit=Unit.SHARE,
            queries=(
                Query(
                    expression="avg by (Hostname) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)",
                    legend="{{Hostname}}",
                ),
            ),
        ),
        Panel(
            title="Memory bandwidth",
            description="Share of time in which HBM moved data, mean of a node. Decoding lives off it.",
            unit=Unit.SHARE,
            queries=(
                Query(expression="avg by (Hostname) (DCGM_FI_PROF_DRAM_ACTIVE)", legend="{{Hostname}}"),
            ),
        ),
        Panel(
            title="Memory in use",
            description="HBM of the fullest GPU of a node.",
            unit=Unit.MEBIBYTES,
            queries=(Query(expression="max by (Hostname) (DCGM_FI_DEV_FB_USED)", legend="{{Hostname}}"),),
        ),
        Panel(
            title="Utilization",
            description="Share of time in which any kernel ran, mean of a node.",
            unit=Unit.PERCENT,
            queries=(Query(expression="avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL)", legend="{{Hostname}}"),),
        ),
        Panel(
            title="Temperature",
            description="Hottest GPU of a node.",
            unit=Unit.CELSIUS,
            queries=(Query(expression="max by (Hostname) (DCGM_FI_DEV_GPU_TEMP)", legend="{{Hostname}}"),),
        ),
        Panel(
            title="Last Xid",
            description="Number of the last error of the driver, 0 for none.",
            unit=Unit.COUNT,
            queries=(
                Query(
                    expression="max by (Hostname, gpu) (DCGM_FI_DEV_XID_ERRORS) > 0",
                    legend="{{Hostname}} GPU {{gpu}}",
                ),
            ),
        ),
    ),
)


def _efa(title: str, description: str, unit: Unit, *counters: tuple[str, str]) -> Panel:
    return Panel(
        title=title,
        description=description,
        unit=unit,
        queries=tuple(
            Query(
                expression=f"sum by (instance) (rate(node_amazonefa_{counter}[$__rate_interval]))",
                legend=f"{word} {{{{instance}}}}",
            )
            for word, counter in counters
        ),
    )


_DEVICES: Final = Section(
    title="EFA devices, all of a node",
    panels=(
        _efa(
            "Bytes",
            "Everything that the devices send and receive.",
            Unit.BYTES_PER_SECOND,
            ("sent", "tx_bytes"),
            ("received", "rx_bytes"),
        ),
        _efa(
            "RDMA bytes",
            "RDMA only. May stay at 0 on some devices although data moves: judge by all bytes.",
            Unit.BYTES_PER_SECOND,
            ("written", "rdma_write_bytes"),
            ("taken", "rdma_write_recv_bytes"),
            ("read", "rdma_read_bytes"),
        ),
        _efa(
            "Packets",
            "Packets that the devices send and receive.",
            Unit.PACKETS_PER_SECOND,
            ("sent", "tx_pkts"),
            ("received", "rx_pkts"),
        ),
        _efa(
            "Errors",
            "Failed RDMA requests and dropped packets. Anything but 0 needs a reason.",
            Unit.PER_SECOND,
            ("write failed", "rdma_write_wr_err"),
            ("read failed", "rdma_read_wr_err"),
            ("dropped", "rx_drops"),
        ),
        Panel(
            title="Hand-offs and bytes",
            description="Disaggregated requests a second, beside gigabytes a second over EFA: the one without the other is "
            "silent TCP.",
            unit=Unit.COUNT,
            queries=(
                Query(
                    expression=f'sum(rate(dpd_router_decisions_total{{{_D},decision="disaggregated"}}[$__rate_interval]))',
                    legend="hand-offs per second",
                ),
                Query(
                    expression="sum(rate(node_amazonefa_tx_bytes[$__rate_interval])) / 1e9",
                    legend="gigabytes per second",
                ),
            ),
        ),
        Panel(
            title="Notifications",
            description="KV notifications at the router by kind. Late and unknown ones belong to hand-offs that were given "
            "up.",
            unit=Unit.PER_SECOND,
            queries=(Query(expression=_rate("dpd_router_notifications_total", "kind"), legend="{{kind}}"),),
        ),
    ),
)

_NIXL: Final = Section(
    title="NIXL (transfer `nixl` only; LMCache has no metrics of its transfers)",
    panels=(
        Panel(
            title="Transfer time",
            description="Time of one pull of a decoder.",
            unit=Unit.SECONDS,
            queries=_quantiles("vllm:nixl_xfer_time_seconds", "role"),
        ),
        Panel(
            title="Bytes transferred",
            description="Bytes that decoders pull.",
            unit=Unit.BYTES_PER_SECOND,
            queries=(
                Query(expression=_rate("vllm:nixl_bytes_transferred_sum", "instance"), legend="{{instance}}"),
            ),
        ),
        Panel(
            title="Failures",
            description="Failed transfers and notifications, and caches that nobody came for.",
            unit=Unit.PER_SECOND,
            queries=tuple(
                Query(
                    expression=_rate(f"vllm:nixl_{metric}_total", "instance"),
                    legend=f"{word} {{{{instance}}}}",
                )
                for word, metric in (
                    ("transfer", "num_failed_transfers"),
                    ("notification", "num_failed_notifications"),
                    ("expired", "num_kv_expired_reqs"),
                )
            ),
        ),
    ),
)

BOARDS: Final = (
    Board(
        uid="dpd-overview",
        title="DPD overview",
        description="Latency, throughput, decisions and the hand-off of one deployment.",
        sections=(_NOW, _LATENCY, _TRAFFIC, _HAND_OFF),
    ),
    Board(
        uid="dpd-workers",
        title="DPD workers",
        description="Engines, caches and GPUs.",
        sections=(_ENGINE, _CACHES, _GPU),
    ),
    Board(
        uid="dpd-fabric",
        title="DPD fabric",
        description="EFA devices and NIXL.",
        sections=(_DEVICES, _NIXL),
    ),
)
"""Every dashboard."""
