"""What is proven: where it is, and what it was deployed as."""

from dataclasses import dataclass
from typing import Final, Literal

COMPLETIONS: Final = "/v1/completions"
CHAT: Final = "/v1/chat/completions"

Transfer = Literal["lmcache-pd", "nixl"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One deployment, as its clients and its metrics' readers see it. URLs have no trailing slash.

    Attributes:
        url: base URL of the endpoint.
        model: name under which the model is served.
        prefillers: base URLs of the prefill workers; their `/metrics` are read.
        decoders: base URLs of the decode workers.
        without_address: pods of workers that had no address yet.
        threshold_tokens: prompt tokens from which the router disaggregates; 0: always, None: never.
        path: `COMPLETIONS` or `CHAT`.
        router_metrics: whether `<url>/metrics` is this project's router. AWS's router shows none: the workers' counters
            and logs are the evidence then.
        trusts_any_certificate: whether the endpoint's certificate is taken as it is; otherwise it has to be valid.
        api_key: bearer key of the endpoint.
        transfer: how the KV cache travels.
        tensor_parallel: ranks of every worker; each sends a notification of its own.
        chunk_tokens: tokens per chunk of LMCache; nothing shorter is handed over.
        max_model_len_tokens: longest prompt with its answer.
        buffer_chunks: chunks in one rank's PD buffer of a decoder; None: not known.
        kv_bytes_per_token: bytes of one token's KV cache in all ranks; None: EFA counters must only move.
        efa_exporters: base URLs whose `/metrics` count the prefillers' EFA traffic; what is named here must be readable.
        efa_exporters_missing: why not all of the exporters that were deployed can be named; empty where all can, or none
            were deployed.
        efa_query_url: base URL of a Prometheus that counts the cluster's EFA traffic, for exporters that cannot be
            reached, such as HyperPod's own.
        efa_query_region: region with which requests to that Prometheus are signed; None: unsigned.
        expects_efa: whether the KV cache must cross the EFA. False where there is none, as in a rehearsal.
        forbidden: `host:port` to which no connection may be possible from here; None: not tried.
        company_seconds: how long another router may take to end before the proof begins; beside it nothing is handed
            over.
        timeout_seconds: the verdict is there by then, counted from that beginning.
        request_seconds: longest time for one answer.
        drain_seconds: how long the router takes to clear away a hand-off whose notification did not come; what its
            clearing finds tells a lost notification from a failed transfer.
        statistics_seconds: how long a worker may take to show what it did: LMCache 0.4.3
            and 0.5.3 write their counters every 10 s (`log_interval` in v1/cache_engine.py).
    """

    url: str
    model: str
    prefillers: tuple[str, ...]
    decoders: tuple[str, ...]
    threshold_tokens: int | None
    without_address: tuple[str, ...] = ()
    path: str = COMPLETIONS
    router_metrics: bool = True
    trusts_any_certificate: bool = False
    api_key: str | None = None
    transfer: Transfer = "lmcache-pd"
    tensor_parallel: int = 1
    chunk_tokens: int = 256
    max_model_len_tokens: int = 16_384
    buffer_chunks: int | None = None
    kv_bytes_per_token: int | None = None
    efa_exporters: tuple[str, ...] = ()
    efa_exporters_missing: str = ""
    efa_query_url: str | None = None
    efa_query_region: str | None = None
    expects_efa: bool = True
    forbidden: str | None = None
    company_seconds: float = 0.0
    timeout_seconds: float = 240.0
    request_seconds: float = 90.0
    drain_seconds: float = 60.0
    statistics_seconds: float = 25.0

    @property
    def long_prompts(self) -> int:
        """Prompts that are sent at the same time, so that a router that spreads load uses every worker."""
        return max(1, len(self.prefillers), len(self.decoders))
