"""The file that a benchmark leaves: every request of every run, and what was measured.

Standard library only: the benchmark's image has nothing of this library but `evidence`.
"""

import json
import math
import types
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

FORMAT: Final = "hyperpod-dpd-benchmark"
VERSION: Final = 2
"""Version of the format. A file of a version that is not known is refused: its fields may mean something else."""

_WITHOUT_CONNECTION: Final = 1
"""Version whose files do not say how the requests reached the workers, and are otherwise the same."""

DISAGGREGATED: Final = "disaggregated"
DIRECT: Final = "direct"
FALLBACK: Final = "fallback"
UNKNOWN: Final = "unknown"
PATHS: Final = (DISAGGREGATED, DIRECT, FALLBACK, UNKNOWN)
"""How a request was served. `unknown`: the router does not say; AWS's does not."""

PLAIN: Final = "none"
VERIFIED: Final = "verified"
UNVERIFIED: Final = "unverified"

OWN_ROUTER: Final = "dpd-router"
AWS_ROUTER: Final = "aws"

_ROUTERS: Final = {OWN_ROUTER: "this project's router", AWS_ROUTER: "AWS's router"}
_TLS: Final = {
    PLAIN: "without TLS",
    VERIFIED: "TLS, certificate verified",
    UNVERIFIED: "TLS, certificate not verified",
}

_MOST: Final = 1e12
"""No time in seconds, count or price is above."""

_FOREIGN: Final = ".error"
"""Field with the words of a server, in which there may be anything."""

_T = TypeVar("_T")


class UnreadableResultError(ValueError):
    """A text is no result of a benchmark, or one that this version does not understand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Workers of one role."""

    role: str
    """`prefill`, `decode` or `colocated`."""
    count: int
    gpus_per_worker: int
    instance_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What was measured."""

    deployment: str
    profile: str
    """Rendering that was deployed: `self-managed`, `operator`, or a baseline's."""
    model: str
    engine: str
    """Engine of the catalog: image, vLLM, LMCache and NIXL together."""
    workers: tuple[Workers, ...]
    usd_per_hour: float | None
    """Price of the GPUs that the workers use; None: no price is known."""
    price: str
    """What is known about the price: kind and date."""
    simulated: bool
    """True: the workers took their step times from the planner's model, and no GPU was involved."""

    @property
    def gpus(self) -> int:
        """GPUs of all workers."""
        return sum(each.count * each.gpus_per_worker for each in self.workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What was sent."""

    tool: str
    """Load generator and its version."""
    endpoint: str
    input_tokens: int
    """Tokens of a prompt by the tokenizer of the load generator, without a chat template."""
    output_tokens: int
    ignore_eos: bool
    """Whether an answer goes on until `output_tokens` whatever the model says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How the requests reached the workers."""

    router: str
    """What they were sent to: `dpd-router`, this project's, or `aws`, the operator's."""
    host: str
    """Its name or address, as the load generator used it."""
    port: int
    tls: str
    """What was spoken: `none`, `verified`, or `unverified`, where the certificate was not believed and taken all the same."""
    doubt: str | None
    """Why the certificate was not believed."""

    def __str__(self) -> str:
        doubt = f" ({self.doubt})" if self.doubt else ""
        return f"{_ROUTERS[self.router]} at {self.host}, port {self.port}, {_TLS[self.tls]}{doubt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as its client saw it. Times are seconds since the run began."""

    path: str
    start_seconds: float
    ttft_seconds: float | None
    """Time to the first token; None: there was none."""
    e2e_seconds: float | None
    """Time to the end of the answer; None: it had not ended when the run was, or never did."""
    prompt_tokens: int | None
    """As the server counts them, chat template included."""
    output_tokens: int | None
    cached_tokens: int | None
    """Prompt tokens that the answering worker took from its cache; None: it does not say."""
    error: str | None
    """What went wrong; None also where the request was cut off with the run."""

    @property
    def ended(self) -> bool:
        """Whether the answer is complete."""
        return self.error is None and self.e2e_seconds is not None

    @property
    def end_seconds(self) -> float:
        """When the answer was complete; infinity where it was not."""
        return math.inf if self.e2e_seconds is None else self.start_seconds + self.e2e_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Requests of one concurrency and one seed."""

    concurrency: int
    seed: int
    prompts_digest: str
    """SHA-256 of the prompts, in the order in which they were made."""
    requests: tuple[Request, ...]
    router: dict[str, float]
    """What the router's own counters grew by, by name and labels; empty where they cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult:
    """All runs against one system."""

    made_at: str
    """UTC, ISO 8601."""
    system: System
    traffic: Traffic
    runs: tuple[Run, ...]
    connection: Connection | None = None
    """How all of them were made; None: the file does not say, as none did before."""

    def as_json(self) -> str:
        """Return the text of the file."""
        runs = [{**asdict(run), "requests": [asdict(each) for each in run.requests]} for run in self.runs]
        head = {"format": FORMAT, "version": VERSION, **asdict(self), "runs": []}
        text = json.dumps(head, indent=1, allow_nan=False)
        # a request on a line of its own: thousands of them, and a diff of two files stays readable
        shown = ",\n".join(_run_text(run) for run in runs)
        return text.replace('"runs": []', f'"runs": [\n{shown}\n ]') + "\n"


def _run_text(run: dict[str, Any]) -> str:
    requests = ",\n".join("   " + json.dumps(each, allow_nan=False) for each in run["requests"])
    head = json.dumps({**run, "requests": []}, allow_nan=False)
    return "  " + head.replace('"requests": []', f'"requests": [\n{requests}\n  ]')


def read_result(text: str) -> BenchmarkResult:
    """Return the result that `text` holds.

    Raises:
        UnreadableResultError: it is something else, of another version, or says what cannot be.
    """
    try:
        data = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise UnreadableResultError(f"no JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UnreadableResultError(f"not the result of a benchmark: `format` is not `{FORMAT}`")
    version = data.get("version")
    if version not in (_WITHOUT_CONNECTION, VERSION) or isinstance(version, bool):
        raise UnreadableResultError(
            f"version {version!r} of the format; this release reads {_WITHOUT_CONNECTION} and {VERSION}. "
            "help: compare with the release that wrote it"
        )
    known = {name: value for name, value in data.items() if name not in ("format", "version")}
    if version == _WITHOUT_CONNECTION:
        if "connection" in known:
            raise UnreadableResultError(f"`connection` is not known in version {version}")
        known["connection"] = None
    result = read_as(BenchmarkResult, known)
    _refuse_nonsense(result)
    return result


def read_as(kind: type[_T], data: Any) -> _T:
    """Return what JSON said as a value of the dataclass `kind`: nothing missing, nothing unknown, no other type.

    Raises:
        UnreadableResultError: it is something else; the message names the place.
    """
    found: _T = _read(kind, data, "")
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"`{name}` is no number of JSON")


def _read(kind: Any, data: Any, path: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        if data is None and type(None) in get_args(kind):
            return None
        (kind,) = (each for each in get_args(kind) if each is not type(None))
        return _read(kind, data, path)
    if origin is tuple:
        if not isinstance(data, list):
            raise _wrong(path, data, "a list")
        return tuple(_read(get_args(kind)[0], each, f"{path}[{number}]") for number, each in enumerate(data))
    if origin is dict:
        if not isinstance(data, dict):
            raise _wrong(path, data, "an object")
        return {name: _read(get_args(kind)[1], each, f"{path}.{name}") for name, each in data.items()}
    if is_dataclass(kind):
        return _read_object(kind, data, path)
    # a whole number is a number; true is neither
    fits = isinstance(data, (int, float) if kind is float else kind)
    if not fits or (isinstance(data, bool) and kind is not bool):
        raise _wrong(path, data, kind.__name__)
    if isinstance(data, int) and abs(data) >= _MOST:
        raise UnreadableResultError(f"`{path}` is beyond sense: a number of {len(str(abs(data)))} digits")
    if isinstance(data, str) and not data.isprintable() and not path.endswith(_FOREIGN):
        # it is shown on a terminal, which would obey
        raise UnreadableResultError(f"`{path}` holds characters that cannot be printed: {data[:60]!a}")
    return data


def _read_object(kind: Any, data: Any, path: str) -> Any:
    if not isinstance(data, dict):
        raise _wrong(path, data, "an object")
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    below = f"{path}." if path else ""
    if missing := [name for name in names if name not in data]:
        raise UnreadableResultError(f"`{below}{missing[0]}` is missing")
    if unknown := [name for name in data if name not in names]:
        raise UnreadableResultError(f"`{below}{unknown[0]}` is not known")
    return kind(**{name: _read(hints[name], data[name], below + name) for name in names})


def _wrong(path: str, data: Any, wanted: str) -> UnreadableResultError:
    return UnreadableResultError(f"`{path}` is `{str(data)[:60]}`, wanted {wanted}")


def _refuse_nonsense(result: BenchmarkResult) -> None:
    if not result.runs:
        raise UnreadableResultError("`runs` is empty: nothing was measured")
    system, traffic = result.system, result.traffic
    if not system.workers or any(each.count < 1 or each.gpus_per_worker < 1 for each in system.workers):
        raise UnreadableResultError("`system.workers` has no GPU")
    if system.usd_per_hour is not None and not 0 < system.usd_per_hour < _MOST:
        raise UnreadableResultError(
            f"`system.usd_per_hour` is `{system.usd_per_hour}`, wanted a price or null"
        )
    if traffic.input_tokens < 1 or traffic.output_tokens < 1:
        raise UnreadableResultError("`traffic` has no tokens")
    if result.connection is not None:
        _refuse_connection(result.connection)
    seen = set()
    for number, run in enumerate(result.runs):
        path = f"runs[{number}]"
        if (run.concurrency, run.seed) in seen:
            raise UnreadableResultError(
                f"`{path}` repeats concurrency {run.concurrency} with seed {run.seed}"
            )
        seen.add((run.concurrency, run.seed))
        if run.concurrency < 1 or not run.requests:
            raise UnreadableResultError(f"`{path}` has no requests or no concurrency")
        for each, request in enumerate(run.requests):
            _refuse_request(f"{path}.requests[{each}]", request)


def _refuse_connection(connection: Connection) -> None:
    for name, value, known in (("router", connection.router, _ROUTERS), ("tls", connection.tls, _TLS)):
        if value not in known:
            raise UnreadableResultError(f"`connection.{name}` is `{value}`, wanted one of {', '.join(known)}")
    if not 0 < connection.port < 2**16:
        raise UnreadableResultError(f"`connection.port` is `{connection.port}`, wanted a port")


def _refuse_request(path: str, request: Request) -> None:
    if request.path not in PATHS:
        raise UnreadableResultError(f"`{path}.path` is `{request.path}`, wanted one of {', '.join(PATHS)}")
    numbers = (
        request.start_seconds,
        request.ttft_seconds,
        request.e2e_seconds,
        request.prompt_tokens,
        request.output_tokens,
        request.cached_tokens,
    )
    if any(number is not None and not (0 <= number < _MOST) for number in numbers):
        raise UnreadableResultError(f"`{path}` has a time or a count below zero or beyond sense")
    if request.ended and (request.ttft_seconds is None or not request.output_tokens):
        raise UnreadableResultError(f"`{path}` has ended without a first token")
    if request.ended and (request.ttft_seconds or 0) > (request.e2e_seconds or 0):
        raise UnreadableResultError(f"`{path}` ended before its first token")
