"""The command line and environment of `vllm serve`, and LMCache's YAML, as a rendered worker manifest has them."""

import argparse
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

import yaml

from dpd_simulator.clock import Clock
from dpd_simulator.config import KV_BYTES_PER_TOKEN_PER_RANK, EngineConfig, LMCacheConfig, NixlConfig, Role
from dpd_simulator.step_times import ConstantStepTimes, StepTimes, TabulatedStepTimes

_logger = logging.getLogger(__name__)

_KV_TRANSFER_FIELDS = {
    "kv_connector",
    "kv_role",
    "engine_id",
    "kv_buffer_device",
    "kv_port",
    "kv_connector_extra_config",
    "kv_connector_module_path",
    "enable_permute_local_kv",
    "kv_load_failure_policy",
}
_SUFFIXES = {"k": 10**3, "m": 10**6, "K": 2**10, "M": 2**20}
_LMCACHE_ENVIRONMENT = "LMCACHE_"
_NOT_LMCACHE_KEYS = {"LMCACHE_CONFIG_FILE", "LMCACHE_TRACK_USAGE"}


class StartupError(Exception):
    """vLLM or LMCache would refuse to start; the message says what and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """Everything that a process needs.

    Attributes:
        config: the engine.
        bind_host: address to listen on.
        names: host names of the deployment and the loopback addresses that stand for them.
        step_times: durations of steps.
        clock: time.
    """

    config: EngineConfig
    bind_host: str
    names: Mapping[str, str]
    step_times: StepTimes
    clock: Clock

    def resolve(self, name: str) -> str:
        """Address of a host name."""
        return self.names.get(name, name)


class _Parser(argparse.ArgumentParser):
    """Refuses what it does not know, with exit status 2, as vLLM does."""

    def error(self, message: str) -> NoReturn:
        raise StartupError(message)


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Startup:
    """Read a worker's command line and environment.

    Raises:
        StartupError: the real engine would not start with them.
    """
    command = [_dashed(argument) for argument in arguments if argument not in ("vllm", "serve")]
    parsed = _parser().parse_args(command)
    transfer = _transfer_config(parsed.kv_transfer_config)
    role = Role(parsed.role) if parsed.role else _role_of(transfer)
    model = parsed.model or parsed.model_tag
    if not model:
        raise StartupError("the following arguments are required: model")
    base = {
        "role": role,
        "model": model,
        "served_model_names": tuple(parsed.served_model_name or [model]),
        "http_port": parsed.port,
        "tensor_parallel_size": parsed.tensor_parallel_size,
        "max_model_len": parsed.max_model_len,
        "max_num_seqs": parsed.max_num_seqs,
        "max_num_batched_tokens": parsed.max_num_batched_tokens,
        "block_size_tokens": parsed.block_size,
        "kv_cache_tokens": parsed.kv_cache_tokens,
        "prefix_caching": parsed.enable_prefix_caching,
        "prompt_tokens_details": parsed.enable_prompt_tokens_details,
        "automatic_tool_choice": parsed.enable_auto_tool_choice,
        "answers_wait_for_next_step": parsed.answers_wait_for_next_step,
        "seed": parsed.seed,
        "execute_model_timeout_seconds": float(environment.get("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", "300")),
    }
    try:
        config = EngineConfig(
            **base,
            lmcache=_lmcache(parsed, transfer, role, environment),
            nixl=_nixl(transfer, environment),
        )
    except (IndexError, ValueError) as error:
        raise StartupError(str(error)) from error
    return Startup(
        config=config,
        bind_host=parsed.bind_address or (parsed.host if parsed.host != "0.0.0.0" else "127.0.0.1"),  # noqa: S104
        names=_names(parsed.names),
        step_times=_step_times(parsed.step_times),
        clock=Clock(compression=parsed.compression),
    )


def _dashed(argument: str) -> str:
    """Dashes for underscores: vLLM takes both."""
    if not argument.startswith("--"):
        return argument
    name, separator, value = argument.partition("=")
    return name.replace("_", "-") + separator + value


def _parser() -> _Parser:
    parser = _Parser(
        prog="dpd-simulator",
        description="A simulated `vllm serve`: takes the arguments, environment and LMCache YAML of a worker.",
        allow_abbrev=False,
    )
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 - vLLM's spelling; see `--bind-address`
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--max-model-len", type=_human_int, default=131_072)
    parser.add_argument("--max-num-seqs", type=int, default=1024)
    parser.add_argument("--max-num-batched-tokens", type=_human_int, default=8_192)
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--enable-prompt-tokens-details", action="store_true")
    parser.add_argument("--enable-auto-tool-choice", action="store_true")
    parser.add_argument("--kv-transfer-config", type=_json_object)
    _accept_the_others(parser)
    simulator = parser.add_argument_group("simulator", "arguments that only the simulated engine has")
    simulator.add_argument("--role", choices=[role.value for role in Role], help="default: from `kv_role`")
    simulator.add_argument("--bind-address", help="address to listen on instead of `--host`")
    simulator.add_argument(
        "--names", type=Path, help="JSON object: host names and the addresses that stand for them"
    )
    simulator.add_argument("--step-times", type=Path, help="JSON file of tables of step times")
    simulator.add_argument("--compression", type=float, default=1.0, help="simulated seconds per real second")
    simulator.add_argument("--kv-cache-tokens", type=_human_int, default=1_048_576)
    simulator.add_argument(
        "--kv-bytes-per-token-per-rank", type=int, help="default: from the model's config.json, else 40,960"
    )
    simulator.add_argument("--lmcache-version", default="0.5.3")
    simulator.add_argument(
        "--answers-wait-for-next-step",
        action="store_true",
        help="first tokens and KV bytes leave when the next step has ended, as behind a busy eager prefiller",
    )
    return parser


def _accept_the_others(parser: _Parser) -> None:
    """Everything else that vLLM has: accepted, without effect on what can be seen from outside."""
    text = resources.files("dpd_simulator").joinpath("vllm_arguments.json").read_text(encoding="utf-8")
    for kind, names in json.loads(text)["arguments"].items():
        for name in names:
            if name in parser._option_string_actions:  # noqa: SLF001 - argparse has no other way to ask
                continue
            if kind == "switch":
                parser.add_argument(name, action="store_true")
            else:
                parser.add_argument(name, nargs={"many": "*", "optional": "?"}.get(kind))


def _human_int(text: str) -> int:
    """A number as vLLM reads it: `8k` is 8,000 and `16K` is 16,384."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmKM])?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"invalid integer `{text}`")
    number, suffix = match.groups()
    return int(float(number) * _SUFFIXES[suffix]) if suffix else int(number)


def _json_object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return value


def _transfer_config(value: dict[str, Any] | None) -> dict[str, Any]:
    if value is None:
        return {}
    if unknown := sorted(set(value) - _KV_TRANSFER_FIELDS):
        raise StartupError(f"`--kv-transfer-config` has unexpected fields: {', '.join(unknown)}")
    if value.get("kv_role") not in ("kv_producer", "kv_consumer", "kv_both"):
        raise StartupError(
            f"`kv_role` must be kv_producer, kv_consumer or kv_both, given {value.get('kv_role')!r}"
        )
    if value.get("kv_connector") not in ("LMCacheConnectorV1", "NixlConnector"):
        raise StartupError(f"the connector {value.get('kv_connector')!r} is not simulated")
    return value


def _role_of(transfer: Mapping[str, Any]) -> Role:
    roles = {"kv_producer": Role.PREFILL, "kv_consumer": Role.DECODE}
    return roles.get(str(transfer.get("kv_role")), Role.COLOCATED)


def _nixl(transfer: Mapping[str, Any], environment: Mapping[str, str]) -> NixlConfig | None:
    if transfer.get("kv_connector") != "NixlConnector":
        return None
    extra = transfer.get("kv_connector_extra_config") or {}
    return NixlConfig(
        side_channel_port=int(environment.get("VLLM_NIXL_SIDE_CHANNEL_PORT", "5600")),
        lease_seconds=float(extra.get("kv_lease_duration", 30)),
        recompute_on_failure=transfer.get("kv_load_failure_policy", "fail") == "recompute",
    )


def _lmcache(
    parsed: argparse.Namespace, transfer: Mapping[str, Any], role: Role, environment: Mapping[str, str]
) -> LMCacheConfig | None:
    if transfer.get("kv_connector") != "LMCacheConnectorV1":
        return None
    settings = _lmcache_settings(environment)
    if not settings.get("enable_pd"):
        _logger.warning("LMCache runs without `enable_pd`: no hand-off happens")
        return None
    for name in ("pd_role", "pd_buffer_size", "pd_buffer_device"):
        if settings.get(name) is None:
            raise StartupError(f"LMCache: `{name}` must be set when `enable_pd` is true")
    _check_lmcache_role(settings, role)
    if settings.get("transfer_channel") != "nixl":
        raise StartupError(
            f"LMCache: `transfer_channel` must be nixl, given {settings.get('transfer_channel')!r}"
        )
    for name, simulated in (("pd_backend_mode", "async"), ("pd_bidirectional", False)):
        if settings.get(name, simulated) != simulated:
            raise StartupError(f"LMCache: `{name}: {settings[name]}` is not simulated")
    extra = transfer.get("kv_connector_extra_config") or {}
    kv_bytes = parsed.kv_bytes_per_token_per_rank or _kv_bytes(
        parsed.model or parsed.model_tag, parsed.tensor_parallel_size
    )
    config = LMCacheConfig(
        version=parsed.lmcache_version,
        buffer_bytes=_whole_number(settings, "pd_buffer_size"),
        kv_bytes_per_token_per_rank=kv_bytes,
        chunk_size_tokens=int(settings.get("chunk_size", 256)),
        init_ports=_ports(settings.get("pd_peer_init_port")),
        alloc_ports=_ports(settings.get("pd_peer_alloc_port")),
        proxy_host=str(settings.get("pd_proxy_host", "")),
        proxy_port=int(settings.get("pd_proxy_port") or 0),
        allocation_timeout_seconds=float(settings.get("pd_allocation_timeout_sec", "inf")),
        skip_last_n_tokens=int(extra.get("skip_last_n_tokens", 0)),
        hash_seed=environment.get("PYTHONHASHSEED"),
    )
    _check_lmcache_buffer(config, settings)
    if config.hash_seed is None:
        _logger.error("P/D Disaggregation detected but PYTHONHASHSEED not set")
    return config


def _check_lmcache_buffer(config: LMCacheConfig, settings: Mapping[str, Any]) -> None:
    if config.total_chunks < 1:
        raise StartupError(f"LMCache: pd_buffer_size ({config.buffer_bytes}) is smaller than a single chunk")
    longest = int(settings.get("pd_max_prefill_len", 0))
    capacity = config.total_chunks * config.chunk_size_tokens
    if not config.inline and capacity < longest:
        raise StartupError(
            f"LMCache: buffer too small: capacity_tokens={capacity} < pd_max_prefill_len={longest}"
        )


def _check_lmcache_role(settings: Mapping[str, Any], role: Role) -> None:
    wanted = {Role.PREFILL: "sender", Role.DECODE: "receiver"}.get(role)
    if wanted is None:
        raise StartupError("LMCache: prefill-decode mode needs `kv_role` kv_producer or kv_consumer")
    if settings["pd_role"] != wanted:
        raise StartupError(
            f"LMCache: `pd_role` is {settings['pd_role']!r} on an engine that acts as {wanted}"
        )
    needed = {
        "sender": ("pd_proxy_host", "pd_proxy_port"),
        "receiver": ("pd_peer_host", "pd_peer_init_port", "pd_peer_alloc_port"),
    }
    for name in needed[wanted]:
        if settings.get(name) in (None, ""):
            raise StartupError(f"LMCache: a {wanted} needs `{name}`")


def _lmcache_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """The YAML file, overridden by `LMCACHE_*` variables."""
    settings: dict[str, Any] = {}
    if path := environment.get("LMCACHE_CONFIG_FILE"):
        try:
            settings = dict(yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {})
        except (OSError, yaml.YAMLError) as error:
            raise StartupError(f"LMCache: cannot read `{path}`: {error}") from error
    for name, text in environment.items():
        if name.startswith(_LMCACHE_ENVIRONMENT) and name not in _NOT_LMCACHE_KEYS:
            key = name.removeprefix(_LMCACHE_ENVIRONMENT).lower()
            settings[key] = text.split(",") if "," in text else yaml.safe_load(text)
    return settings


def _whole_number(settings: Mapping[str, Any], name: str) -> int:
    value = settings[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise StartupError(f"LMCache: `{name}` must be an integer, given {value!r}")
    return value


def _ports(value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(int(port) for port in value) if isinstance(value, list) else (int(value),)


def _kv_bytes(model: str, tensor_parallel_size: int) -> int:
    """KV cache bytes per token and rank from the model's `config.json`."""
    path = Path(model) / "config.json"
    if not path.is_file():
        return KV_BYTES_PER_TOKEN_PER_RANK
    shape = json.loads(path.read_text(encoding="utf-8"))
    heads = int(shape["num_attention_heads"])
    kv_heads = int(shape.get("num_key_value_heads", heads))
    head_dim = int(shape.get("head_dim") or shape["hidden_size"] // heads)
    return 2 * int(shape["num_hidden_layers"]) * max(1, kv_heads // tensor_parallel_size) * head_dim * 2


def _names(path: Path | None) -> Mapping[str, str]:
    if path is None:
        return {}
    names = json.loads(path.read_text(encoding="utf-8"))
    return {str(name): str(address) for name, address in names.items()}


def _step_times(path: Path | None) -> StepTimes:
    try:
        return ConstantStepTimes() if path is None else TabulatedStepTimes.from_json(path)
    except (OSError, ValueError) as error:
        raise StartupError(str(error)) from error
