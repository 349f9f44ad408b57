"""What an engine is started with."""

from dataclasses import dataclass
from enum import StrEnum

# One rank of Llama 3.3 70B at tensor parallel 8: 2 x 80 layers x 1 KV head x 128 x 2 bytes.
KV_BYTES_PER_TOKEN_PER_RANK = 40_960
GIB = 1024**3


class Role(StrEnum):
    """What an engine does in a deployment."""

    PREFILL = "prefill"
    DECODE = "decode"
    COLOCATED = "colocated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LMCacheConfig:
    """LMCache's prefill-decode settings of one engine, one port per tensor-parallel rank.

    Attributes:
        version: LMCache's version. Below 0.4.5 the sender writes inside the forward pass; from 0.4.5 on in the
            background, and the receiver reserves per request and times out.
        buffer_bytes: `pd_buffer_size`, per rank.
        kv_bytes_per_token_per_rank: KV cache bytes of one token in one rank.
        chunk_size_tokens: tokens per chunk.
        init_ports: `pd_peer_init_port` (receiver).
        alloc_ports: `pd_peer_alloc_port` (receiver).
        proxy_host: `pd_proxy_host` (sender): where notifications go.
        proxy_port: `pd_proxy_port` (sender).
        allocation_timeout_seconds: `pd_allocation_timeout_sec`; LMCache's default is infinite.
        skip_last_n_tokens: of the decoder's lookup.
        hash_seed: `PYTHONHASHSEED`; None gives every process other chunk hashes.
    """

    version: str = "0.5.3"
    buffer_bytes: int = GIB
    kv_bytes_per_token_per_rank: int = KV_BYTES_PER_TOKEN_PER_RANK
    chunk_size_tokens: int = 256
    init_ports: tuple[int, ...] = (7300,)
    alloc_ports: tuple[int, ...] = (7400,)
    proxy_host: str = "127.0.0.1"
    proxy_port: int = 7500
    allocation_timeout_seconds: float = 10.0
    skip_last_n_tokens: int = 1
    hash_seed: str | None = "0"

    @property
    def inline(self) -> bool:
        """Whether the sender writes inside the forward pass (before 0.4.5)."""
        major, minor, patch, *_ = (int(part) for part in [*self.version.split("."), "0", "0"][:3])
        return (major, minor, patch) < (0, 4, 5)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of one chunk in one rank."""
        return self.chunk_size_tokens * self.kv_bytes_per_token_per_rank

    @property
    def total_chunks(self) -> int:
        """Chunks that the buffer of one rank holds."""
        return self.buffer_bytes // self.chunk_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NixlConfig:
    """NixlConnector's settings of one engine.

    Attributes:
        side_channel_port: `VLLM_NIXL_SIDE_CHANNEL_PORT`.
        lease_seconds: how long a finished prefill's blocks wait to be pulled (`kv_lease_duration`).
        recompute_on_failure: `kv_load_failure_policy` is `recompute`; else a failed pull fails the request.
    """

    side_channel_port: int = 5600
    lease_seconds: float = 30.0
    recompute_on_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """A vLLM engine.

    Attributes:
        role: prefill, decode or colocated.
        model: path of the model; part of every chunk key.
        served_model_names: names in `/v1/models`; further ones are aliases.
        http_port: port of the API.
        tensor_parallel_size: ranks; each has its own PD buffer and sends its own notification.
        max_model_len: tokens of prompt and output.
        max_num_seqs: sequences per step.
        max_num_batched_tokens: tokens per step; longer prompts are prefilled in parts.
        block_size_tokens: tokens per KV cache block.
        kv_cache_tokens: tokens that the KV cache holds.
        prefix_caching: vLLM's own prefix cache.
        prompt_tokens_details: `--enable-prompt-tokens-details`: answers say how many prompt tokens were cached.
        automatic_tool_choice: `--enable-auto-tool-choice`.
        lmcache: hand-off through LMCache.
        nixl: hand-off through NixlConnector.
        execute_model_timeout_seconds: a forward pass that takes longer kills the engine
            (`VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS`).
        answers_wait_for_next_step: first tokens and KV bytes leave when the next step has ended, if one follows at
            once: an eager prefiller that launches a step does nothing else (docs/evidence/h200-two-gpus.md).
        seed: of the engine's own generator, which unseeded requests share.
    """

    role: Role = Role.COLOCATED
    model: str = "/models/simulated"
    served_model_names: tuple[str, ...] = ("m",)
    http_port: int = 8000
    tensor_parallel_size: int = 1
    max_model_len: int = 16_384
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8_192
    block_size_tokens: int = 16
    kv_cache_tokens: int = 1_048_576
    prefix_caching: bool = False
    prompt_tokens_details: bool = True
    automatic_tool_choice: bool = False
    lmcache: LMCacheConfig | None = None
    nixl: NixlConfig | None = None
    execute_model_timeout_seconds: float = 300.0
    answers_wait_for_next_step: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.lmcache is not None and self.nixl is not None:
            raise ValueError("an engine has one KV connector, given `lmcache` and `nixl`")
        if self.lmcache is not None and self.role is Role.DECODE:
            for name, ports in (("init", self.lmcache.init_ports), ("alloc", self.lmcache.alloc_ports)):
                if len(ports) < self.tensor_parallel_size:
                    raise IndexError(
                        f"`pd_peer_{name}_port` has {len(ports)} entries for {self.tensor_parallel_size} ranks"
                    )
