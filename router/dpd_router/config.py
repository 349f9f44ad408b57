"""Settings: flags and environment, validated together, every problem reported at once."""

import argparse
import dataclasses
import enum
import ipaddress
import math
import os
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_type_hints

from dpd_router._version import __version__

ENVIRONMENT_PREFIX: Final = "DPD_ROUTER_"
LOWEST_FOUR_DIGIT_PORT: Final = 1000
HIGHEST_FOUR_DIGIT_PORT: Final = 9999


class ConfigError(Exception):
    """The settings contradict themselves or cannot be read.

    Attributes:
        problems: one message per problem, all of them.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Transfer(enum.StrEnum):
    """How the KV cache goes from prefiller to decoder."""

    LMCACHE_PD = "lmcache-pd"
    NIXL = "nixl"


class Strategy(enum.StrEnum):
    """How a decoder takes over a hand-off of transfer `lmcache-pd`."""

    CONTINUE = "continue"
    LAND = "land"


class Estimator(enum.StrEnum):
    """How the number of prompt tokens is found for the threshold."""

    CHARACTERS = "characters"
    TOKENS = "tokens"


class Affinity(enum.StrEnum):
    """What keeps related requests on one decoder."""

    NONE = "none"
    SESSION = "session"
    PREFIX = "prefix"


class DiscoveryKind(enum.StrEnum):
    """Where the workers' addresses come from."""

    STATIC = "static"
    ENDPOINT_SLICES = "endpointslices"


# 300 hand-offs each ran on real engines without a leak and with complete hits (docs/evidence/h200-handoff-strategies.md).
# At 4,096 tokens `continue` takes 146 ms to the first token, `land` 209 ms and direct decoding 132 ms, so `land` is for
# those who want it to hand over tools, structured output, logprobs and penalties too.
DEFAULT_STRATEGY: Final = Strategy.CONTINUE

_E = TypeVar("_E", bound=enum.StrEnum)


def _whole(text: str, *, least: int, most: int | None = None) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ValueError("is not a whole number") from None
    if value < least or (most is not None and value > most):
        limit = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ValueError(f"must be {limit}")
    return value


def _count(text: str) -> int:
    return _whole(text, least=1)


def _count_or_zero(text: str) -> int:
    return _whole(text, least=0)


def _port(text: str) -> int:
    return _whole(text, least=1, most=65535)


def _port_or_zero(text: str) -> int:
    return _whole(text, least=0, most=65535)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("is not a number") from None
    if not math.isfinite(value):
        raise ValueError("must be finite")
    return value


def _seconds(text: str) -> float:
    value = _number(text)
    if value <= 0:
        raise ValueError("must be above 0 seconds")
    return value


def _seconds_or_zero(text: str) -> float:
    value = _number(text)
    if value < 0:
        raise ValueError("must not be negative")
    return value


def _factor(text: str) -> float:
    value = _number(text)
    if value < 1:
        raise ValueError("must be at least 1")
    return value


def _flag(text: str) -> bool:
    match text.strip().lower():
        case "true" | "1" | "yes" | "on":
            return True
        case "false" | "0" | "no" | "off":
            return False
    raise ValueError("must be `true` or `false`")


def _threshold(text: str) -> int | None:
    return None if text == "never" else _whole(text, least=0)


def _text(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _path(text: str) -> Path:
    return Path(_text(text))


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _addresses(text: str) -> tuple[str, ...]:
    try:
        return tuple(str(ipaddress.ip_address(item)) for item in _items(text))
    except ValueError as error:
        raise ValueError("must be IP addresses") from error


def _place(url: str) -> urllib.parse.SplitResult | None:
    """Return the parts of a URL that names a server; None where it names none."""
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port  # raises where it is none
    except ValueError:
        return None
    named = parts.scheme in {"http", "https"} and parts.hostname and "@" not in parts.netloc
    return parts if named else None


def _server(text: str) -> str:
    if text and _place(text) is None:
        raise ValueError("must look like `http://host:port`")
    return text


def _urls(text: str) -> tuple[str, ...]:
    urls = tuple(item.rstrip("/") for item in _items(text))
    for url in urls:
        place = _place(url)
        if place is None or place.port is None or url != f"http://{place.netloc}":
            raise ValueError(f"`{url}` must look like `http://host:port`")
    if len(set(urls)) != len(urls):
        raise ValueError("names a worker twice")
    return urls


def _paths(text: str) -> tuple[str, ...]:
    paths = _items(text)
    for path in paths:
        if not path.startswith("/") or "?" in path or path != path.rstrip("/"):
            raise ValueError(f"`{path}` must be an absolute path without a query or a trailing `/`")
    return paths


def _choice(kind: type[_E]) -> Callable[[str], _E]:
    def parse(text: str) -> _E:
        try:
            return kind(text)
        except ValueError:
            raise ValueError("must be one of " + ", ".join(f"`{member}`" for member in kind)) from None

    return parse


@dataclasses.dataclass(frozen=True, slots=True)
class _Option:
    parse: Callable[[str], object]
    text: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Sockets that the router opens."""

    host: Annotated[str, _Option(_text, "address of the HTTP server")] = "0.0.0.0"  # noqa: S104 -- a pod listens on its own address
    port: Annotated[int, _Option(_port_or_zero, "port of the HTTP server; 0 takes a free one")] = 8081
    notification_host: Annotated[str, _Option(_text, "address of the KV notification socket")] = "0.0.0.0"  # noqa: S104 -- a pod listens on its own address
    notification_port: Annotated[
        int,
        _Option(
            _port_or_zero, "port of the KV notification socket (ZeroMQ PULL, msgpack); 0 takes a free one"
        ),
    ] = 7500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Which requests are disaggregated and how."""

    transfer: Annotated[
        Transfer, _Option(_choice(Transfer), "how the KV cache travels: `lmcache-pd` or `nixl`")
    ] = Transfer.LMCACHE_PD
    strategy: Annotated[
        Strategy, _Option(_choice(Strategy), "take-over of an `lmcache-pd` hand-off: `continue` or `land`")
    ] = DEFAULT_STRATEGY
    threshold: Annotated[
        int | None,
        _Option(
            _threshold,
            "prompt tokens from which a request is disaggregated (>=); 0 means always, `never` means never",
        ),
    ] = 4096
    estimator: Annotated[
        Estimator,
        _Option(
            _choice(Estimator),
            "`characters`: characters / 4; `tokens`: the real tokenizer within a band around the threshold",
        ),
    ] = Estimator.TOKENS
    estimator_band: Annotated[
        float,
        _Option(
            _factor, "factor below and above the threshold within which `tokens` asks the real tokenizer"
        ),
    ] = 4.0
    tokenizer: Annotated[
        Path | None,
        _Option(_path, "a `tokenizer.json` to tokenize in this process; otherwise a worker's `/tokenize`"),
    ] = None
    affinity: Annotated[
        Affinity,
        _Option(_choice(Affinity), "what keeps requests on one decoder: `none`, `session` or `prefix`"),
    ] = Affinity.NONE
    session_header: Annotated[str, _Option(_text, "header that names the session for `session`")] = (
        "x-session-id"
    )
    affinity_prefix_bytes: Annotated[int, _Option(_count, "bytes of the prompt that `prefix` looks at")] = (
        2048
    )
    continue_seeded: Annotated[
        bool,
        _Option(
            _flag,
            "let `continue` take sampled requests with a `seed`, although the decoder's generator starts one token late",
        ),
    ] = False
    workers_parse_chat: Annotated[
        bool,
        _Option(
            _flag,
            "workers run a reasoning or tool parser, so that chat cannot be continued from text and is decoded directly",
        ),
    ] = False
    passthrough_paths: Annotated[
        tuple[str, ...], _Option(_paths, "further POST paths that go straight to a decoder")
    ] = ("/v1/responses", "/v1/embeddings")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """The decoders' PD buffers and the ports of their receivers."""

    tensor_parallel: Annotated[int, _Option(_count, "tensor-parallel ranks of every worker")] = 1
    chunk_tokens: Annotated[int, _Option(_count, "LMCache's `chunk_size`")] = 256
    decoder_buffer_chunks: Annotated[
        int,
        _Option(
            _count_or_zero, "chunks that fit in one rank's PD buffer of a decoder; required for `lmcache-pd`"
        ),
    ] = 0
    init_port_base: Annotated[int, _Option(_port, "first `pd_peer_init_port` of epoch 0")] = 7300
    alloc_port_base: Annotated[int, _Option(_port, "first `pd_peer_alloc_port` of epoch 0")] = 7400
    port_epochs: Annotated[
        int,
        _Option(
            _count,
            "number of port ranges k: a decoder's ports are base + tensor_parallel x (epoch mod k) + rank",
        ),
    ] = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long the router waits, in seconds."""

    connect_timeout_seconds: Annotated[float, _Option(_seconds, "TCP connection to a worker")] = 2.0
    tokenize_timeout_seconds: Annotated[float, _Option(_seconds, "answer of a worker's `/tokenize`")] = 10.0
    buffer_wait_seconds: Annotated[
        float, _Option(_seconds_or_zero, "wait for room in a decoder's buffer before decoding directly")
    ] = 1.0
    prefill_timeout_seconds: Annotated[float, _Option(_seconds, "answer of a prefill")] = 60.0
    notification_timeout_seconds: Annotated[
        float, _Option(_seconds, "all notifications of a hand-off, counted from the prefill's answer")
    ] = 12.0
    idle_timeout_seconds: Annotated[float, _Option(_seconds, "silence of a decoder within an answer")] = 300.0
    drain_grace_seconds: Annotated[
        float,
        _Option(
            _seconds_or_zero,
            "wait for a late notification before an unfinished hand-off is drained; not below the workers' `pd_allocation_timeout_sec`, so that nothing is still being written",
        ),
    ] = 30.0
    drain_timeout_seconds: Annotated[float, _Option(_seconds, "answer of one drain")] = 60.0
    drain_attempts: Annotated[int, _Option(_count, "drains of one hand-off before it is written off")] = 3
    shutdown_grace_seconds: Annotated[
        float,
        _Option(_seconds, "requests in flight may finish after SIGTERM; then they are ended and drained"),
    ] = 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HealthPolicy:
    """When a worker, or a pair of workers, is used."""

    health_interval_seconds: Annotated[float, _Option(_seconds, "time between two checks of a worker")] = 2.0
    health_timeout_seconds: Annotated[float, _Option(_seconds, "answer of one check")] = 2.0
    unhealthy_after: Annotated[int, _Option(_count, "failed checks in a row that take a worker out")] = 2
    healthy_after: Annotated[int, _Option(_count, "good checks in a row that bring a worker back")] = 2
    late_grace_seconds: Annotated[
        float,
        _Option(
            _seconds_or_zero,
            "where no decoder is up, those whose checks are only late get requests for so long after their last sign of life; 0 means never",
        ),
    ] = 30.0
    hung_after: Annotated[int, _Option(_count, "prefill timeouts in a row that make a prefiller `hung`")] = 2
    hung_retry_seconds: Annotated[
        float,
        _Option(_seconds, "time until a hung prefiller that was not seen to restart gets one trial request"),
    ] = 300.0
    pair_broken_after: Annotated[
        int, _Option(_count, "failed hand-offs in a row that break a pair of prefiller and decoder")
    ] = 3
    pair_retry_seconds: Annotated[
        float, _Option(_seconds, "time until a broken pair gets one trial hand-off")
    ] = 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """What the router takes in at one time."""

    max_requests: Annotated[
        int, _Option(_count, "requests that are served at one time; more are answered with 429")
    ] = 1024
    max_queued_bytes: Annotated[
        int, _Option(_count, "bytes of request bodies in flight; more are answered with 429")
    ] = 512 * 1024 * 1024
    max_body_bytes: Annotated[
        int, _Option(_count, "bytes of one request body; more are answered with 413")
    ] = 32 * 1024 * 1024
    body_timeout_seconds: Annotated[
        float, _Option(_seconds, "time in which a request's body must have come; later is answered with 408")
    ] = 60.0
    keepalive_timeout_seconds: Annotated[
        float,
        _Option(
            _seconds,
            "silence after which a client's connection is closed between requests or within a request's head; above the idle timeout of a load balancer in front",
        ),
    ] = 75.0
    stall_seconds: Annotated[
        float,
        _Option(
            _seconds,
            "time after which a client that takes nothing of what it is sent, or is gone silently, has left",
        ),
    ] = 60.0
    retry_after_seconds: Annotated[int, _Option(_count, "`Retry-After` of 429 and 503")] = 1
    api_keys_file: Annotated[
        Path | None,
        _Option(
            _path,
            "file with one bearer key per line; read again when it changes; without it no key is asked for",
        ),
    ] = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryPolicy:
    """Where workers are found."""

    discovery: Annotated[
        DiscoveryKind, _Option(_choice(DiscoveryKind), "`static` lists or Kubernetes `endpointslices`")
    ] = DiscoveryKind.STATIC
    prefillers: Annotated[
        tuple[str, ...], _Option(_urls, "prefill workers, `http://host:port`, comma separated")
    ] = ()
    decoders: Annotated[
        tuple[str, ...], _Option(_urls, "decode workers, `http://host:port`, comma separated")
    ] = ()
    namespace: Annotated[str, _Option(str, "namespace of the two Services")] = ""
    prefill_service: Annotated[str, _Option(str, "Service of the prefill workers")] = ""
    decode_service: Annotated[str, _Option(str, "Service of the decode workers")] = ""
    worker_port_name: Annotated[str, _Option(_text, "name of the workers' HTTP port in the Services")] = (
        "http"
    )
    api_server: Annotated[
        str, _Option(_server, "URL of the API server; empty: the pod's `KUBERNETES_SERVICE_HOST` and `_PORT`")
    ] = ""
    service_account_directory: Annotated[Path, _Option(_path, "directory with `token` and `ca.crt`")] = Path(
        "/var/run/secrets/kubernetes.io/serviceaccount"
    )
    router_service: Annotated[
        str,
        _Option(
            str,
            "Service of the routers: while it lists another one, everything is decoded directly, "
            "so that an update can start the next router before it ends this one; empty: this one is alone",
        ),
    ] = ""
    router_namespace: Annotated[
        str, _Option(str, "namespace of `--router-service`; empty: that of the workers' Services")
    ] = ""
    own_addresses: Annotated[
        tuple[str, ...], _Option(_addresses, "this router's addresses (`status.podIPs`), comma separated")
    ] = ()
    resync_seconds: Annotated[
        float, _Option(_seconds, "time between two full lists of the EndpointSlices")
    ] = 300.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """Logs and traces."""

    log_level: Annotated[str, _Option(_text, "`debug`, `info`, `warning` or `error`")] = "info"
    otlp_endpoint: Annotated[
        str,
        _Option(
            _server, "OTLP/HTTP endpoint of the traces, e.g. `http://collector:4318`; needs the extra `otel`"
        ),
    ] = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that is configurable, in groups."""

    listen: Listen = Listen()
    routing: Routing = Routing()
    buffers: Buffers = Buffers()
    timeouts: Timeouts = Timeouts()
    health: HealthPolicy = HealthPolicy()
    admission: AdmissionPolicy = AdmissionPolicy()
    discovery: DiscoveryPolicy = DiscoveryPolicy()
    telemetry: Telemetry = Telemetry()

    def port_range(self, base: int) -> range:
        """Return every port of one kind that a decoder may use, over all epochs."""
        return range(base, base + self.buffers.tensor_parallel * self.buffers.port_epochs)

    @property
    def disaggregates(self) -> bool:
        """Whether any request can be disaggregated at all."""
        return self.routing.threshold is not None


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    name: str
    default: object
    option: _Option

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper()


def _groups() -> Iterator[tuple[str, type, list[_Field]]]:
    for group in dataclasses.fields(Settings):
        assert isinstance(group.type, type)
        hints = get_type_hints(group.type, include_extras=True)
        yield (
            group.name,
            group.type,
            [
                _Field(field.name, field.default, hints[field.name].__metadata__[0])
                for field in dataclasses.fields(group.type)
            ],
        )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value) or "none"
    return "none" if value is None or value == "" else str(value)


def build_parser() -> argparse.ArgumentParser:
    """Return the command-line parser; values stay text until `load` reads them all together."""
    parser = argparse.ArgumentParser(
        prog="dpd-router",
        description="Route OpenAI requests to disaggregated prefill and decode workers.",
        epilog=f"Every flag can also be set as {ENVIRONMENT_PREFIX}<FLAG IN UPPER CASE>; a flag wins over the environment.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    for name, group, fields in _groups():
        section = parser.add_argument_group(name, (group.__doc__ or "").strip())
        for field in fields:
            text = f"{field.option.text} (default: {_shown(field.default)})".replace("%", "%%")
            section.add_argument(field.flag, dest=field.name, default=None, metavar="VALUE", help=text)
    return parser


def load(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Settings:
    """Read settings from command-line arguments and the environment.

    Raises:
        ConfigError: with every problem at once.
    """
    environment = os.environ if environment is None else environment
    given, unknown = build_parser().parse_known_args(arguments)
    problems = [f"unknown argument `{argument}`. help: see `dpd-router --help`" for argument in unknown]
    groups: dict[str, Any] = {}
    variables = set()
    for name, group, fields in _groups():
        values: dict[str, object] = {}
        for field in fields:
            variables.add(field.variable)
            text, source = getattr(given, field.name), field.flag
            if text is None:
                text, source = environment.get(field.variable), field.variable
            if text is None:
                continue
            try:
                values[field.name] = field.option.parse(text)
            except ValueError as error:
                problems.append(f"`{source}` {error}; given `{text}`. help: {field.option.text}")
        groups[name] = group(**values)
    problems += [
        f"unknown variable `{name}`. help: see `dpd-router --help`; a Service of this name sets some unless "
        "`enableServiceLinks` is false"
        for name in sorted(environment)
        if name.startswith(ENVIRONMENT_PREFIX) and name not in variables
    ]
    settings = Settings(**groups)
    problems += _contradictions(settings)
    if problems:
        raise ConfigError(problems)
    return settings


def _contradictions(settings: Settings) -> Iterator[str]:
    yield from _discovery_contradictions(settings.discovery, disaggregates=settings.disaggregates)
    if settings.disaggregates and settings.routing.transfer is Transfer.LMCACHE_PD:
        yield from _buffer_contradictions(settings)
    tokenizer = settings.routing.tokenizer
    if tokenizer is not None and not tokenizer.is_file():
        yield f"`--tokenizer` names no file; given `{tokenizer}`. help: mount the model's `tokenizer.json`"
    keys = settings.admission.api_keys_file
    if keys is not None and not keys.is_file():
        yield f"`--api-keys-file` names no file; given `{keys}`. help: mount the secret before the router starts"
    if settings.admission.max_body_bytes > settings.admission.max_queued_bytes:
        yield (
            f"`--max-body-bytes` {settings.admission.max_body_bytes} is above `--max-queued-bytes` "
            f"{settings.admission.max_queued_bytes}. help: one body must fit into the queue"
        )
    if settings.telemetry.log_level not in {"debug", "info", "warning", "error"}:
        yield (
            f"`--log-level` is unknown; given `{settings.telemetry.log_level}`. "
            "help: one of `debug`, `info`, `warning`, `error`"
        )


def _discovery_contradictions(policy: DiscoveryPolicy, *, disaggregates: bool) -> Iterator[str]:
    if policy.discovery is DiscoveryKind.STATIC:
        if not policy.decoders:
            yield "`--decoders` is empty. help: name at least one decode worker, or use `--discovery endpointslices`"
        if disaggregates and not policy.prefillers:
            yield "`--prefillers` is empty. help: name at least one prefill worker, or set `--threshold never`"
        if policy.router_service:
            yield "`--router-service` needs `--discovery endpointslices`. help: leave it out, or watch Services"
        if shared := sorted(set(policy.prefillers) & set(policy.decoders)):
            yield f"`{'`, `'.join(shared)}` is both prefiller and decoder. help: a worker has one role"
        return
    for name in ("namespace", "decode_service", *(("prefill_service",) if disaggregates else ())):
        if not getattr(policy, name):
            yield f"`--{name.replace('_', '-')}` is empty. help: `--discovery endpointslices` needs it"
    if policy.router_service and not policy.own_addresses:
        yield (
            "`--own-addresses` is empty. help: `--router-service` lists this router too; "
            "give `status.podIPs` of the downward API"
        )


def _buffer_contradictions(settings: Settings) -> Iterator[str]:
    buffers = settings.buffers
    if buffers.decoder_buffer_chunks < 1:
        yield (
            "`--decoder-buffer-chunks` is 0. help: give floor(`pd_buffer_size` / bytes of one chunk of one rank); "
            "without it the router cannot reserve room (set `--threshold never` to disaggregate nothing)"
        )
    ranges = {
        "--init-port-base": settings.port_range(buffers.init_port_base),
        "--alloc-port-base": settings.port_range(buffers.alloc_port_base),
    }
    for flag, ports in ranges.items():
        if ports.start < LOWEST_FOUR_DIGIT_PORT or ports.stop - 1 > HIGHEST_FOUR_DIGIT_PORT:
            yield (
                f"`{flag}` gives ports {ports.start}..{ports.stop - 1}, outside of "
                f"{LOWEST_FOUR_DIGIT_PORT}..{HIGHEST_FOUR_DIGIT_PORT}. help: a peer's id is its host and port "
                "without a separator, so that ports must have four digits"
            )
    init, alloc = ranges.values()
    if init.start < alloc.stop and alloc.start < init.stop:
        yield (
            f"init ports {init.start}..{init.stop - 1} and alloc ports {alloc.start}..{alloc.stop - 1} overlap: "
            f"tensor_parallel {buffers.tensor_parallel} x port_epochs {buffers.port_epochs} = {len(init)} ports each. "
            "help: lower `--port-epochs` or move a base"
        )
