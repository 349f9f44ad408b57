"""Load on routers: this one, vLLM's and production-stack's, in one run, with the same workers and the same client.

Everything is pinned: the router under test to one core, workers and client to the other. Workers and client are small
C programs, because a worker in Python would be the limit. Two kinds of runs per router and number of streams:

- `paced`: workers emit one token per stream every tick, as an engine's steps do. Gives the added time to the first
  token and per output token (quantile through the router minus quantile without it) and CPU seconds per 1,000 tokens.
- `flat out`: workers emit 16 tokens per write as fast as the router takes them. Gives requests per second. The floor
  (client to worker without a router) has to be three times the best router, otherwise the run is void: then it is the
  client or the worker that was measured.

Rounds are interleaved over the routers and the median is printed, because a shared machine is noisy.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
SOURCES = HERE / "router_bench"
TOKENS = 256
TICK_MICROSECONDS = 20_000
BURST = 16
FLOOR_FACTOR = 3.0
ADDED_TTFT_GOAL_MS = 2.0
RUST_RATIO_GOAL = 0.7
ROUTER_CORE, LOAD_CORE = 0, 1
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
BODY = {
    "model": "m",
    "prompt": "Tell me something about flat latency under load, please.",
    "max_tokens": TOKENS,
    "stream": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A router that can be started.

    Attributes:
        name: in the tables.
        version: what was measured.
        command: arguments; `{port}` and `{worker0}`, `{worker1}`, `{worker2}`, `{extra0}`, `{extra1}` are filled in.
        python: whether it is a Python program.
    """

    name: str
    version: str
    command: tuple[str, ...]
    python: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured run."""

    requests_per_second: float
    tokens: int
    errors: int
    ttft_p50_ms: float
    ttft_p99_ms: float
    tpot_p50_ms: float
    tpot_p99_ms: float
    cpu_seconds_per_1000_tokens: float
    peak_memory_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of one run: streams begin over the ramp; what began after the warm-up counts."""

    ramp: float
    warmup: float
    seconds: float


def free_ports(count: int) -> list[int]:
    """Ports that are free now, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def compile_tools(folder: Path) -> tuple[Path, Path]:
    """Build the worker and the client."""
    compiler = shutil.which("cc")
    if compiler is None:
        sys.exit("error: no C compiler found. help: install `cc` (Debian: build-essential)")
    built = []
    for name in ("stub_worker", "stream_client"):
        target = folder / name
        subprocess.run([compiler, "-O2", "-o", str(target), str(SOURCES / f"{name}.c")], check=True)
        built.append(target)
    return built[0], built[1]


@contextlib.contextmanager
def started(command: Sequence[str], *, core: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process on one core until the block ends."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["taskset", "-c", str(core), *command],
            stdout=output,
            stderr=output,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "router")} if "dpd_router" in command else None,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_ready(port: int, process: subprocess.Popen[bytes], log: Path, *, seconds: float = 60.0) -> None:
    """Wait until a request is answered with 200."""
    body = json.dumps({**BODY, "stream": False}).encode()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"error: the process ended with status {process.returncode}. help: see `{log}`")
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/completions", data=body, headers={"Content-Type": "application/json"}
        )
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(request, timeout=5) as answer,
        ):
            if answer.status == 200:
                return
        time.sleep(0.2)
    sys.exit(f"error: nothing answered on port {port}. help: see `{log}`")


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    pids = [pid]
    for parent in pids:
        children = Path(f"/proc/{parent}/task/{parent}/children")
        with contextlib.suppress(OSError):
            pids += [int(child) for child in children.read_text().split()]
    return pids


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its descendants so far."""
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
    return total / CLOCK_TICKS


def peak_memory_mib(pid: int) -> float:
    """Peak resident memory of a process and its descendants."""
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{one}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    total += int(line.split()[1])
    return total / 1024


def load(client: Path, port: int, streams: int, *, times: Times, body: Path, pid: int | None) -> Run:
    """One run of the client; CPU time is measured over warm-up and run, and divided by the tokens of both."""
    command = [
        "taskset", "-c", str(LOAD_CORE), str(client), str(port), str(streams),
        str(times.ramp), str(times.warmup), str(times.seconds), str(body),
    ]  # fmt: skip
    before = cpu_seconds(pid) if pid is not None else 0.0
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    used = cpu_seconds(pid) - before if pid is not None else 0.0
    return Run(
        requests_per_second=result["requests"] / result["seconds"],
        tokens=result["tokens"],
        errors=result["errors"],
        ttft_p50_ms=result["ttft_p50_ms"],
        ttft_p99_ms=result["ttft_p99_ms"],
        tpot_p50_ms=result["tpot_p50_ms"],
        tpot_p99_ms=result["tpot_p99_ms"],
        cpu_seconds_per_1000_tokens=1000 * used / result["all_tokens"] if result["all_tokens"] else 0.0,
        peak_memory_mib=peak_memory_mib(pid) if pid is not None else 0.0,
    )


def median(runs: Sequence[Run]) -> Run:
    """Field by field."""
    values = {name: statistics.median(getattr(run, name) for run in runs) for name in Run.__slots__}
    return Run(**values | {"tokens": int(values["tokens"]), "errors": sum(run.errors for run in runs)})


class Bench:
    """Workers, routers and results."""

    def __init__(self, folder: Path, candidates: Sequence[Candidate], arguments: argparse.Namespace) -> None:
        self.folder = folder
        self.candidates = candidates
        self.streams: list[int] = arguments.streams
        self.rounds: int = arguments.rounds
        self.seconds: float = arguments.seconds
        self.worker, self.client = compile_tools(folder)
        self.body = folder / "body.json"
        self.body.write_text(json.dumps(BODY))
        self.runs: dict[tuple[str, str, int], list[Run]] = {}

    def measure(self) -> dict[tuple[str, str, int], Run]:
        """All runs; the key is kind, router and streams."""
        for kind, tick, burst in (("paced", TICK_MICROSECONDS, 1), ("flat out", 0, BURST)):
            ports = free_ports(3)
            command = [str(self.worker), str(TOKENS), str(tick), str(burst), *map(str, ports)]
            log = self.folder / "workers.log"
            with started(command, core=LOAD_CORE, log=log) as process:
                wait_ready(ports[-1], process, log)
                self._rounds(kind, ports)
        return {key: median(runs) for key, runs in self.runs.items()}

    def _rounds(self, kind: str, workers: list[int]) -> None:
        length = TOKENS * TICK_MICROSECONDS / 1e6
        times = {
            "paced": Times(ramp=length, warmup=length, seconds=max(self.seconds, 4 * length)),
            "flat out": Times(ramp=0.0, warmup=1.0, seconds=self.seconds),
        }[kind]
        for _ in range(self.rounds):
            for streams in self.streams:
                run = load(self.client, workers[0], streams, times=times, body=self.body, pid=None)
                self.runs.setdefault((kind, "floor", streams), []).append(run)
            for candidate in self.candidates:
                self._round(kind, candidate, workers, times)

    def _round(self, kind: str, candidate: Candidate, workers: list[int], times: Times) -> None:
        port, *extra = free_ports(3)
        values = {
            "port": str(port),
            **{f"worker{index}": f"http://127.0.0.1:{worker}" for index, worker in enumerate(workers)},
            **{f"extra{index}": str(value) for index, value in enumerate(extra)},
        }
        log = self.folder / f"{candidate.name}.log"
        command = [part.format(**values) for part in candidate.command]
        with started(command, core=ROUTER_CORE, log=log) as process:
            wait_ready(port, process, log)
            for streams in self.streams:
                run = load(
                    self.client,
                    port,
                    streams,
                    times=times,
                    body=self.body,
                    pid=process.pid,
                )
                print(f"# {kind}, {candidate.name}, {streams} streams: {run}", file=sys.stderr, flush=True)
                self.runs.setdefault((kind, candidate.name, streams), []).append(run)


def candidates(arguments: argparse.Namespace) -> list[Candidate]:
    """Routers that are installed."""
    found = [
        Candidate(
            name="dpd-router",
            version=_own_version(),
            command=(
                sys.executable, "-m", "dpd_router", "--host", "127.0.0.1", "--port", "{port}",
                "--notification-host", "127.0.0.1", "--notification-port", "{extra0}", "--prefillers", "{worker2}",
                "--decoders", "{worker0},{worker1}", "--decoder-buffer-chunks", "102", "--log-level", "warning",
            ),
            python=True,
        )
    ]  # fmt: skip
    if (rust := _existing(arguments.vllm_router)) is not None:
        found.append(
            Candidate(
                name="vllm-router",
                version=_package_version(rust, "vllm-router"),
                command=(
                    str(rust), "--worker-urls", "{worker0}", "{worker1}", "--policy", "round_robin", "--host",
                    "127.0.0.1", "--port", "{port}", "--prometheus-host", "127.0.0.1", "--prometheus-port",
                    "{extra0}", "--log-level", "error",
                ),
                python=False,
            )
        )  # fmt: skip
    if (stack := _existing(arguments.production_stack)) is not None:
        found.append(
            Candidate(
                name="production-stack",
                version=arguments.production_stack_version,
                command=(
                    str(stack), "--host", "127.0.0.1", "--port", "{port}", "--service-discovery", "static",
                    "--static-backends", "{worker0},{worker1}", "--static-models", "m,m", "--routing-logic",
                    "roundrobin", "--log-level", "error",
                ),
                python=True,
            )
        )  # fmt: skip
    return found


def _existing(path: str) -> Path | None:
    return Path(path) if path and Path(path).exists() else None


def _own_version() -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return f"commit {commit}" if commit else "unknown"


def _package_version(binary: Path, name: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({name!r}))"
    python = binary.parent / "python"
    return subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, check=False
    ).stdout.strip()


def report(
    medians: dict[tuple[str, str, int], Run], found: Sequence[Candidate], streams: Sequence[int]
) -> bool:
    """Print the tables; whether every run is valid."""
    print(
        f"\n## Paced: one token per stream every {TICK_MICROSECONDS / 1000:g} ms, {TOKENS} tokens per stream\n"
    )
    print(
        "| router | streams | added TTFT p50 / p99 ms | added TPOT p50 / p99 ms | CPU s per 1,000 tokens | MiB |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for count in streams:
        floor = medians["paced", "floor", count]
        print(
            f"| (floor, absolute) | {count} | {floor.ttft_p50_ms:.2f} / {floor.ttft_p99_ms:.2f} "
            f"| {floor.tpot_p50_ms:.3f} / {floor.tpot_p99_ms:.3f} | | |"
        )
        for candidate in found:
            run = medians["paced", candidate.name, count]
            print(
                f"| {candidate.name} | {count} "
                f"| {run.ttft_p50_ms - floor.ttft_p50_ms:.2f} / {run.ttft_p99_ms - floor.ttft_p99_ms:.2f} "
                f"| {run.tpot_p50_ms - floor.tpot_p50_ms:.3f} / {run.tpot_p99_ms - floor.tpot_p99_ms:.3f} "
                f"| {run.cpu_seconds_per_1000_tokens:.4f} | {run.peak_memory_mib:.0f} |"
            )
    print(f"\n## Flat out: {BURST} tokens per write, {TOKENS} tokens per stream\n")
    print("| router | streams | requests/s | CPU s per 1,000 tokens | MiB | errors |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    valid = True
    for count in streams:
        floor = medians["flat out", "floor", count]
        best = max(medians["flat out", candidate.name, count].requests_per_second for candidate in found)
        factor = floor.requests_per_second / best if best else 0.0
        holds = factor >= FLOOR_FACTOR
        valid &= holds
        print(
            f"| (floor: {factor:.1f} x best{'' if holds else ', VOID'}) | {count} | {floor.requests_per_second:.0f} | | | |"
        )
        for candidate in found:
            run = medians["flat out", candidate.name, count]
            print(
                f"| {candidate.name} | {count} | {run.requests_per_second:.0f} "
                f"| {run.cpu_seconds_per_1000_tokens:.4f} | {run.peak_memory_mib:.0f} | {run.errors} |"
            )
    _goals(medians, found, streams)
    return valid


def _goals(
    medians: dict[tuple[str, str, int], Run], found: Sequence[Candidate], streams: Sequence[int]
) -> None:
    print("\n## Ratios and goals\n")
    for count in streams:
        added = (
            medians["paced", "dpd-router", count].ttft_p50_ms - medians["paced", "floor", count].ttft_p50_ms
        )
        print(
            f"- {count} streams: added TTFT p50 {added:.2f} ms, goal {ADDED_TTFT_GOAL_MS:g}: {_met(added <= ADDED_TTFT_GOAL_MS)}"
        )
        own = medians["flat out", "dpd-router", count].requests_per_second
        for candidate in found[1:]:
            other = medians["flat out", candidate.name, count].requests_per_second
            goal = 1.0 if candidate.python else RUST_RATIO_GOAL
            ratio = own / other if other else float("inf")
            print(
                f"- {count} streams: throughput {ratio:.2f} x {candidate.name} ({own:.0f} / {other:.0f} requests/s), "
                f"goal {goal:g}: {_met(ratio >= goal)}"
            )


def _met(holds: bool) -> str:  # noqa: FBT001 - one word for one truth value
    return "met" if holds else "MISSED"


def main() -> int:
    """Measure and print; status 1 if a run is void."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="length of a flat-out run")
    parser.add_argument("--folder", type=Path, required=True, help="for binaries and logs")
    parser.add_argument("--vllm-router", default="", help="the `vllm-router` program of the PyPI package")
    parser.add_argument(
        "--production-stack", default="", help="the `vllm-router` program of production-stack"
    )
    parser.add_argument("--production-stack-version", default="unknown")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    found = candidates(arguments)
    for candidate in found:
        print(f"- {candidate.name}: {candidate.version}")
    bench = Bench(arguments.folder.resolve(), found, arguments)
    return 0 if report(bench.measure(), found, bench.streams) else 1


if __name__ == "__main__":
    sys.exit(main())
