"""`/metrics` with vLLM's and LMCache's names, types, labels and buckets (vLLM 0.25.1, LMCache 0.5.3)."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dpd_simulator.config import EngineConfig
from dpd_simulator.sequence import EngineSequence

_TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)  # fmt: skip
_PER_TOKEN = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_LATENCY = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
_CACHE_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_LOOKUP_SECONDS = tuple(0.00001 * 2**power for power in range(20))
_SPEED = tuple(float(2**power) for power in (0, *range(3, 17)))
_NIXL_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)


def _powers(limit: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, 50, ... up to `limit`, as vLLM builds its token buckets."""
    values: list[float] = []
    base = 1
    while True:
        for factor in (1, 2, 5):
            if factor * base > limit:
                return tuple(values)
            values.append(float(factor * base))
        base *= 10


class EngineMetrics:
    """The metrics of one engine, in a registry of its own."""

    def __init__(self, config: EngineConfig) -> None:
        self.registry = CollectorRegistry()
        self._labels = {"model_name": config.served_model_names[0], "engine": "0"}
        tokens = _powers(config.max_model_len)

        self.running = self._gauge("num_requests_running", "Number of requests in model execution batches.")
        self.waiting = self._gauge("num_requests_waiting", "Number of requests waiting to be processed.")
        self.kv_usage = self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")
        waiting = Gauge(
            "vllm:num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            [*self._labels, "reason"],
            registry=self.registry,
        )
        self.waiting_by_reason = {
            reason: waiting.labels(**self._labels, reason=reason) for reason in ("capacity", "deferred")
        }
        self.preemptions = self._counter(
            "num_preemptions", "Cumulative number of preemption from the engine."
        )
        self.prefix_queries = self._counter("prefix_cache_queries", "Prefix cache queries, in tokens.")
        self.prefix_hits = self._counter("prefix_cache_hits", "Prefix cache hits, in cached tokens.")
        self.external_queries = self._counter(
            "external_prefix_cache_queries", "External prefix cache queries from KV connector, in tokens."
        )
        self.external_hits = self._counter(
            "external_prefix_cache_hits", "External prefix cache hits from KV connector, in tokens."
        )
        self.prompt_tokens = self._counter("prompt_tokens", "Number of prefill tokens processed.")
        sources = Counter(
            "vllm:prompt_tokens_by_source",
            "Number of prompt tokens by source.",
            [*self._labels, "source"],
            registry=self.registry,
        )
        self.prompt_tokens_by_source = {
            source: sources.labels(**self._labels, source=source)
            for source in ("local_compute", "local_cache_hit", "external_kv_transfer")
        }
        self.prompt_tokens_cached = self._counter(
            "prompt_tokens_cached", "Number of cached prompt tokens (local + external)."
        )
        self.generation_tokens = self._counter("generation_tokens", "Number of generation tokens processed.")
        success = Counter(
            "vllm:request_success",
            "Count of successfully processed requests.",
            [*self._labels, "finished_reason"],
            registry=self.registry,
        )
        self.request_success = {
            reason: success.labels(**self._labels, finished_reason=reason)
            for reason in ("stop", "length", "abort", "error", "repetition")
        }
        self.iteration_tokens = self._histogram(
            "iteration_tokens_total",
            "Histogram of number of tokens per engine_step.",
            (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
        )
        self.request_prompt_tokens = self._histogram(
            "request_prompt_tokens", "Number of prefill tokens processed.", tokens
        )
        self.request_generation_tokens = self._histogram(
            "request_generation_tokens", "Number of generation tokens processed.", tokens
        )
        self.request_prefill_computed = self._histogram(
            "request_prefill_kv_computed_tokens", "New KV tokens computed during prefill.", tokens
        )
        self.ttft = self._histogram("time_to_first_token_seconds", "Time to first token in seconds.", _TTFT)
        self.inter_token = self._histogram(
            "inter_token_latency_seconds", "Inter-token latency in seconds.", _PER_TOKEN
        )
        self.per_output_token = self._histogram(
            "request_time_per_output_token_seconds",
            "Time per output token in seconds per request.",
            _PER_TOKEN,
        )
        self.end_to_end = self._histogram(
            "e2e_request_latency_seconds", "Request latency in seconds.", _LATENCY
        )
        self.queue_time = self._histogram(
            "request_queue_time_seconds", "Time spent in WAITING phase for request.", _LATENCY
        )
        self.inference_time = self._histogram(
            "request_inference_time_seconds", "Time spent in RUNNING phase for request.", _LATENCY
        )
        self.prefill_time = self._histogram(
            "request_prefill_time_seconds", "Time spent in PREFILL phase for request.", _LATENCY
        )
        self.decode_time = self._histogram(
            "request_decode_time_seconds", "Time spent in DECODE phase for request.", _LATENCY
        )
        self.lmcache = None if config.lmcache is None else LMCacheMetrics(self.registry, config)
        self.nixl = None if config.nixl is None else NixlMetrics(self.registry, self._labels)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"vllm:{name}", text, list(self._labels), registry=self.registry).labels(**self._labels)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"vllm:{name}", text, list(self._labels), registry=self.registry).labels(
            **self._labels
        )

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(
            f"vllm:{name}", text, list(self._labels), registry=self.registry, buckets=buckets
        ).labels(**self._labels)

    def scheduled(self, sequence: EngineSequence, *, local_tokens: int, now_seconds: float) -> None:
        """A prompt was scheduled for the first time."""
        self.queue_time.observe(now_seconds - sequence.arrival_seconds)
        computed = sequence.prompt_tokens - sequence.cached_tokens
        self.prompt_tokens.inc(sequence.prompt_tokens)
        self.prompt_tokens_cached.inc(sequence.cached_tokens)
        self.prompt_tokens_by_source["local_compute"].inc(max(0, computed))
        self.prompt_tokens_by_source["local_cache_hit"].inc(local_tokens)
        self.prompt_tokens_by_source["external_kv_transfer"].inc(sequence.external_tokens)
        self.request_prefill_computed.observe(max(0, computed))

    def token(self, sequence: EngineSequence, *, now_seconds: float) -> None:
        """A sequence got an output token; called before its own times are updated."""
        self.generation_tokens.inc()
        if sequence.last_token_seconds is None:
            self.ttft.observe(now_seconds - sequence.arrival_seconds)
        else:
            self.inter_token.observe(now_seconds - sequence.last_token_seconds)

    def ended(self, sequence: EngineSequence, *, reason: str, now_seconds: float) -> None:
        """A sequence is over."""
        self.request_success[reason].inc()
        self.request_prompt_tokens.observe(sequence.prompt_tokens)
        tokens = len(sequence.output_ids)
        self.request_generation_tokens.observe(tokens)
        self.end_to_end.observe(now_seconds - sequence.arrival_seconds)
        if sequence.scheduled_seconds is None or sequence.first_token_seconds is None:
            return
        self.inference_time.observe(now_seconds - sequence.scheduled_seconds)
        self.prefill_time.observe(sequence.first_token_seconds - sequence.scheduled_seconds)
        self.decode_time.observe(now_seconds - sequence.first_token_seconds)
        if tokens > 1:
            self.per_output_token.observe((now_seconds - sequence.first_token_seconds) / (tokens - 1))

    def render(self) -> bytes:
        """Text for Prometheus."""
        return generate_latest(self.registry)


class LMCacheMetrics:
    """The in-process metrics of LMCache that have a meaning in prefill-decode mode."""

    def __init__(self, registry: CollectorRegistry, config: EngineConfig) -> None:
        self._registry = registry
        self._labels = {
            "model_name": config.model,
            "worker_id": "0",
            "role": "worker",
            "served_model_name": config.served_model_names[0],
        }
        self.retrieve_requests = self._counter("num_retrieve_requests", "Retrieve requests sent to lmcache")
        self.store_requests = self._counter("num_store_requests", "Store requests sent to lmcache")
        self.lookup_requests = self._counter("num_lookup_requests", "Lookup requests sent to lmcache")
        self.requested_tokens = self._counter("num_requested_tokens", "Tokens requested from lmcache")
        self.hit_tokens = self._counter("num_hit_tokens", "Tokens hit in lmcache")
        self.stored_tokens = self._counter("num_stored_tokens", "Tokens stored in lmcache")
        self.lookup_tokens = self._counter("num_lookup_tokens", "Tokens requested in lookup from lmcache")
        self.lookup_hits = self._counter("num_lookup_hits", "Tokens hit in lookup from lmcache")
        self.prompt_tokens = self._counter("num_prompt_tokens", "Prompt tokens in lmcache")
        self.vllm_hit_tokens = self._counter("num_vllm_hit_tokens", "Tokens hit in vllm")
        self.forced_unpins = self._counter("forced_unpin_count", "Forced unpins due to timeout")
        self.slow_by_time = self._counter("num_slow_retrieval_by_time", "Slow retrievals by time")
        self.slow_by_speed = self._counter("num_slow_retrieval_by_speed", "Slow retrievals by speed")
        self.retrieve_hit_rate = self._gauge("retrieve_hit_rate", "Hit rate of the last retrieve requests")
        self.lookup_hit_rate = self._gauge("lookup_hit_rate", "Hit rate of the last lookup requests")
        self.cache_usage = self._gauge("local_cache_usage", "Local cache usage (bytes) of lmcache")
        self.pinned = self._gauge("pinned_memory_objs_count", "Pinned memory objects")
        self.remote_ping_errors = self._counter(
            "remote_ping_errors", "Number of ping errors to remote backends"
        )
        self.time_to_retrieve = self._histogram(
            "time_to_retrieve", "Time to retrieve (seconds)", _CACHE_SECONDS
        )
        self.time_to_store = self._histogram("time_to_store", "Time to store (seconds)", _CACHE_SECONDS)
        self.time_to_lookup = self._histogram("time_to_lookup", "Time to lookup (seconds)", _LOOKUP_SECONDS)
        self.put_time = self._histogram(
            "store_put_time", "Time to put data to storage (seconds)", _LOOKUP_SECONDS
        )
        self.from_gpu = self._histogram(
            "store_from_gpu_time", "Time to move data from GPU (seconds)", _LOOKUP_SECONDS
        )
        self.to_gpu = self._histogram(
            "retrieve_to_gpu_time", "Time to move data to GPU (seconds)", _LOOKUP_SECONDS
        )
        self.retrieve_speed = self._histogram("retrieve_speed", "Retrieve speed (tokens per second)", _SPEED)
        self.store_speed = self._histogram("store_speed", "Store speed (tokens per second)", _SPEED)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"lmcache:{name}", text, list(self._labels), registry=self._registry).labels(
            **self._labels
        )

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"lmcache:{name}", text, list(self._labels), registry=self._registry).labels(
            **self._labels
        )

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(
            f"lmcache:{name}", text, list(self._labels), registry=self._registry, buckets=buckets
        ).labels(**self._labels)

    def looked_up(self, *, tokens: int, hits: int) -> None:
        """A lookup on the decoder."""
        self.lookup_requests.inc()
        self.lookup_tokens.inc(tokens)
        self.lookup_hits.inc(hits)
        self.lookup_hit_rate.set(hits / tokens if tokens else 0.0)
        self.time_to_lookup.observe(0.0)

    def retrieved(self, *, tokens: int, hits: int, seconds: float) -> None:
        """A retrieve on the decoder."""
        self.retrieve_requests.inc()
        self.requested_tokens.inc(tokens)
        self.hit_tokens.inc(hits)
        self.retrieve_hit_rate.set(hits / tokens if tokens else 0.0)
        self.time_to_retrieve.observe(seconds)
        self.to_gpu.observe(seconds)
        if seconds > 0:
            self.retrieve_speed.observe(hits / seconds)

    def stored(self, *, tokens: int, copy_seconds: float, put_seconds: float) -> None:
        """A store on the prefiller."""
        self.store_requests.inc()
        self.stored_tokens.inc(tokens)
        self.from_gpu.observe(copy_seconds)
        self.put_time.observe(put_seconds)
        self.time_to_store.observe(copy_seconds + put_seconds)
        if copy_seconds + put_seconds > 0:
            self.store_speed.observe(tokens / (copy_seconds + put_seconds))


class NixlMetrics:
    """The metrics that vLLM has with NixlConnector."""

    def __init__(self, registry: CollectorRegistry, labels: dict[str, str]) -> None:
        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"vllm:{name}", text, list(labels), registry=registry, buckets=buckets).labels(
                **labels
            )

        def counter(name: str, text: str) -> Counter:
            return Counter(f"vllm:{name}", text, list(labels), registry=registry).labels(**labels)

        self.transfer_time = histogram("nixl_xfer_time_seconds", "Transfer duration.", _NIXL_SECONDS)
        self.post_time = histogram("nixl_post_time_seconds", "Transfer post time.", _NIXL_SECONDS)
        self.bytes_transferred = histogram(
            "nixl_bytes_transferred",
            "Bytes transferred per transfer.",
            tuple(2.0**power for power in range(11, 35, 2)),
        )
        self.descriptors = histogram(
            "nixl_num_descriptors",
            "Descriptors per transfer.",
            (10, 20, 30, 50, 75, 100, 200, 400, 1000, 2000, 5000),
        )
        self.failed_transfers = counter("nixl_num_failed_transfers", "Failed transfers.")
        self.failed_notifications = counter("nixl_num_failed_notifications", "Failed notifications.")
        self.expired = counter("nixl_num_kv_expired_reqs", "Requests whose KV expired before it was read.")
