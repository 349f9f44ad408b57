"""The benchmark job with the real genai-bench and the real router, and simulated workers in place of GPUs.

    make .engines/genai-bench-0.0.4/.installed
    .venv/bin/python -m tools.evidence.simulated_benchmark docs/evidence/benchmark

writes one result for disaggregated serving and one for colocated serving on as many GPUs. The workers take their step times from
the planner's model of the default deployment and run four times slower than that, so that this machine's own delays matter less.
The results show how the benchmark works and what the planner believes, and nothing about hardware.
"""

import asyncio
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from dpd_router.config import load as load_router
from dpd_router.pool import Worker
from dpd_router.router import Router
from dpd_simulator import EngineConfig, LMCacheConfig, SimulatedCluster
from dpd_simulator.clock import Clock
from dpd_simulator.step_times import StepTimes
from dpd_simulator.tokenizer import shared_vocabulary
from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.models import model
from hyperpod_dpd.evidence.benchmark.settings import Settings
from hyperpod_dpd.evidence.benchmark_plan import measured_system
from hyperpod_dpd.physics import GIB
from hyperpod_dpd.planner.step import step_model
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.spec.load import load

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".engines" / "genai-bench-0.0.4" / "bin" / "python"
DEPLOYMENT = ROOT / "deployments" / "llama-3.3-70b-p5.yaml"
MODEL = "llama-3.3-70b-instruct"
INSTANCE = "ml.p5.48xlarge"
SERVED_MODEL = "m"
START_SECONDS = 30
SLOWER = 4
"""Seconds that a simulated second takes in a recording."""


def write_tokenizer(folder: Path) -> Path:
    """Write the simulated engines' tokenizer as `AutoTokenizer` reads it."""
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(shared_vocabulary().tokenizer.to_str(), encoding="utf-8")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 16384}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def programs_only(folder: Path) -> Path:
    """Return a folder with what the benchmark's image has of this library."""
    package = folder / "hyperpod_dpd"
    package.mkdir(parents=True)
    (package / "evidence").symlink_to(ROOT / "constructs" / "hyperpod_dpd" / "evidence")
    return folder


@asynccontextmanager
async def endpoint(
    profile: Profile,
    *,
    tokenizer: Path,
    threshold: int,
    step_times: StepTimes | None = None,
    slower: float = 1.0,
) -> AsyncIterator[str]:
    """Run the router and simulated workers of `profile` until the block ends, and yield the endpoint."""
    disaggregates = profile is Profile.SELF_MANAGED
    lmcache = LMCacheConfig(buffer_bytes=8 * GIB) if disaggregates else None
    engine = EngineConfig(served_model_names=(SERVED_MODEL,), prefix_caching=not disaggregates)
    pair = 1 if disaggregates else 0
    async with SimulatedCluster(
        prefill=pair,
        decode=pair,
        colocated=0 if disaggregates else 2,
        engine=engine,
        lmcache=lmcache,
        step_times=step_times,
        clock=Clock(compression=1 / slower),
    ) as cluster:
        answering = cluster.decoders or cluster.colocated
        flags = {
            "--host": cluster.router_host,
            "--notification-host": cluster.router_host,
            "--decoders": ",".join(each.url for each in answering),
            "--tensor-parallel": "1",
            "--tokenizer": str(tokenizer / "tokenizer.json"),
            "--threshold": str(threshold) if disaggregates else "never",
        }
        if disaggregates:
            lm_cache = cluster.decoders[0].config.lmcache
            assert lm_cache is not None
            flags["--prefillers"] = cluster.prefillers[0].url
            flags["--decoder-buffer-chunks"] = str(lm_cache.total_chunks)
        router = Router(load_router([item for pair in flags.items() for item in pair], {}), {})
        async with _started(router, workers=2):
            yield f"http://{cluster.router_host}:{router.port}"


@asynccontextmanager
async def _started(router: Router, *, workers: int) -> AsyncIterator[None]:
    up = asyncio.Event()
    seen: set[str] = set()

    def count(worker: Worker) -> None:
        seen.add(worker.url)
        if len(seen) == workers:
            up.set()

    router.pool.on_up.append(count)
    await router.start()
    try:
        async with asyncio.timeout(START_SECONDS):
            await up.wait()
        yield
    finally:
        await router.stop()


async def run_job(settings: Settings, folder: Path) -> tuple[int, str]:
    """Run the job's program with `settings` as its pod does; return exit code and what it said."""
    (folder / "benchmark.json").write_text(settings.as_json(), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        str(PYTHON),
        "-m",
        "hyperpod_dpd.evidence.benchmark",
        str(folder / "benchmark.json"),
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "PYTHONPATH": str(programs_only(folder / "programs")),
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, said.decode()


def settings_for(
    profile: Profile, url: str, *, tokenizer: Path, results: Path, **changes: object
) -> Settings:
    """Return the settings of a small benchmark of `profile`, whose system says that it is simulated."""
    settings = Settings(
        url=url,
        model=SERVED_MODEL,
        tokenizer=str(tokenizer),
        region="us-east-1",
        input_tokens=4096,
        output_tokens=64,
        concurrencies=(4, 8),
        seeds=(1, 2, 3),
        requests_per_user=10,
        run_minutes=30,
        reads_router=True,
        api_keys_file=None,
        results=str(results),
        system=dataclasses.replace(
            measured_system(load(DEPLOYMENT).deployment, profile),
            engine=f"simulated workers, step times of the planner, {SLOWER} times slower",
            simulated=True,
        ),
    )
    return dataclasses.replace(settings, **changes)  # type: ignore[arg-type]


async def _record(profile: Profile, results: Path) -> int:
    times = step_model(model(MODEL), instance_type(INSTANCE).gpu, tensor_parallel=8)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tokenizer = write_tokenizer(folder / "tokenizer")
        async with endpoint(
            profile, tokenizer=tokenizer, threshold=4096, step_times=times, slower=SLOWER
        ) as url:
            code, said = await run_job(
                settings_for(profile, url, tokenizer=tokenizer, results=results), folder
            )
    print(said)
    return code


def main(arguments: Sequence[str]) -> int:
    (folder,) = arguments
    return max(
        asyncio.run(_record(profile, Path(folder))) for profile in (Profile.SELF_MANAGED, Profile.BASELINE)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
