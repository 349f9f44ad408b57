"""The hand-off between two engines of two tensor-parallel ranks each, with the rendered configuration and the real router.

Shows that every rank stores and retrieves its part, that every rank notifies, what becomes of a hand-off of which one
rank's notification is lost, and that a prefiller that is killed and restarted under load is used again. On four GPUs each
rank has its own. On two, both engines share them, rank by rank; on one, all four ranks are on it, and their sums go
through the CPU: the same ports, notifications and books, but the times say nothing.

    python -m tools.evidence.tensor_parallel --out DIRECTORY --model DIRECTORY [--prefill-gpus 0,1] [--decode-gpus 2,3]
    python -m tools.evidence.tensor_parallel --out DIRECTORY --model DIRECTORY --prefill-gpus 0,0 --decode-gpus 0,0
"""

import argparse
import asyncio
import itertools
import os
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import aiohttp

from hyperpod_dpd.serving.engine import engine_configuration
from hyperpod_dpd.serving.names import NOTIFICATION_PORT
from hyperpod_dpd.spec import Deployment, Role
from hyperpod_dpd.spec.load import load
from tools.evidence.engines import LOOPBACK, RANKS_ON_ONE_GPU, SIMULATOR, VLLM, EngineProcess
from tools.evidence.isolation import Traffic, figures, mixed, run
from tools.evidence.load import Outcome, body, clients, complete, identical, prompt, sequential
from tools.evidence.notification_relay import NotificationRelay
from tools.evidence.ranks import recorded
from tools.evidence.record import Record
from tools.evidence.routers import books, rendered_flags, router, scrape, settled

ROUTER_PORT, DIRECT_PORT, PREFILL_PORT, DECODE_PORT, RELAY_PORT = 8081, 8082, 8100, 8200, 7600
_UNUSED_PORT: Final = 7501
"""Of the router that hands nothing off: nobody notifies it."""

SHARED_GPU_SHARE: Final = 0.36
"""Of a GPU's memory for each engine where both have a rank on it: PD buffers and CUDA graphs come on top."""

COMPARISONS: Final = 8
"""Prompts whose answers are compared with those of the decoder alone."""

READY_SECONDS: Final = 400.0
_USED_AGAIN_SECONDS: Final = 60.0


def deployment(path: Path, *, shared: bool) -> Deployment:
    """Return the deployment; engines that share their GPUs get less of the memory."""
    read = load(path).deployment
    if not shared:
        return read
    serving = read.serving
    prefill = replace(serving.prefill, gpu_memory_utilization=SHARED_GPU_SHARE)
    decode = replace(serving.decode, gpu_memory_utilization=SHARED_GPU_SHARE)
    return replace(read, serving=replace(serving, prefill=prefill, decode=decode))


def short_answers(seed: str, count: int, tokens: int) -> list[dict[str, Any]]:
    """Return `count` requests with different prompts of `tokens` tokens."""
    return [body(prompt(f"{seed}-{index}", tokens), 16) for index in range(count)]


async def under_load(url: str, traffic: Traffic, seed: str, meanwhile: asyncio.Task[None]) -> list[Outcome]:
    """Let the users of `traffic` ask over and over until `meanwhile` has ended; what is open then is answered."""
    outcomes: list[Outcome] = []
    numbered = enumerate(itertools.cycle(traffic.prompts))

    async def user(session: aiohttp.ClientSession) -> None:
        while not meanwhile.done():
            index, tokens = next(numbered)
            request = body(prompt(f"{seed}-{index}", tokens), traffic.output_tokens)
            outcomes.append(await complete(session, url, request))

    async with clients(600) as session:
        await asyncio.gather(meanwhile, *(user(session) for _ in range(traffic.users)))
    return outcomes


def answers(outcomes: list[Outcome]) -> dict[str, Any]:
    """Return how many requests were answered, and with what they failed."""
    return {
        "requests": len(outcomes),
        "served": sum(outcome.status == 200 and outcome.error is None for outcome in outcomes),
        "errors": sorted({str(outcome.error) for outcome in outcomes if outcome.error})[:5],
    }


class AcrossRanks:
    """Both engines, the relay between prefiller and router, and what is shown with them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.logs: Path = options.out / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.record = Record(options.out / "tensor-parallel.jsonl")
        self.shared = bool(set(options.prefill_gpus) & set(options.decode_gpus))
        self.deployment = deployment(options.deployment, shared=self.shared)
        self.prefill = self.engine(Role.PREFILL, PREFILL_PORT, options.prefill_gpus)
        self.decode = self.engine(Role.DECODE, DECODE_PORT, options.decode_gpus)

    def engine(self, role: Role, port: int, gpus: tuple[int, ...]) -> EngineProcess:
        """Return the engine of `role`, not started; it notifies the relay."""
        return EngineProcess(
            name=role.value,
            configuration=engine_configuration(self.deployment, role),
            model=self.options.model,
            port=port,
            gpus=gpus,
            scratch=Path(self.options.scratch) / role.value,
            logs=self.logs,
            host=self.options.host,
            notification_port=RELAY_PORT,
            serve=SIMULATOR if self.options.simulate else VLLM,
        )

    def run(self) -> None:
        """Show everything; engines are ended whatever happens."""
        self.record.setting(simulated=self.options.simulate)
        self.record.write(
            "GPUs",
            prefill=self.options.prefill_gpus,
            decode=self.options.decode_gpus,
            shared=self.shared,
            replaced=RANKS_ON_ONE_GPU if self.prefill.ranks_share_a_gpu else (),
        )
        host = self.options.host
        with ExitStack() as stack:
            stack.callback(self.prefill.kill)
            stack.callback(self.decode.kill)
            self._start()
            flags = rendered_flags(
                self.deployment,
                prefillers=[self.prefill.url],
                decoders=[self.decode.url],
                tokenizer=self.options.model / "tokenizer.json",
            )
            relay = NotificationRelay(f"tcp://{host}:{RELAY_PORT}", f"tcp://{host}:{NOTIFICATION_PORT}")
            stack.enter_context(relay.running())
            url = stack.enter_context(router(self.logs, ROUTER_PORT, NOTIFICATION_PORT, *flags, host=host))
            self.record.write("router", flags=flags)
            self.answers(url)
            self.every_rank(url, relay)
            self.lost_notification(url, relay)
            self.restart(url)
            self.record.write("notifications", handoffs_by_notifications=relay.per_handoff())

    def _start(self) -> None:
        # engines that measure free memory at once disturb each other; those that share GPUs start one after the other
        at_once = not self.shared or self.prefill.ranks_share_a_gpu
        self.decode.start()
        if at_once:
            self.prefill.start()
        self._ready(self.decode)
        if not at_once:
            self.prefill.start()
        self._ready(self.prefill)

    def _ready(self, engine: EngineProcess) -> None:
        self.record.write(
            "engine ready",
            engine=engine.name,
            starts=engine.starts,
            seconds=round(engine.wait_ready(READY_SECONDS), 1),
            command=engine.command()[2:],
        )

    def answers(self, url: str) -> None:
        """Compare answers to prompts that were handed off with those of the decoder that computes them itself."""
        sent = short_answers("compared", COMPARISONS, self._threshold)
        routed = asyncio.run(sequential(url, sent))
        flags = ["--threshold", "never", "--decoders", self.decode.url]
        with router(self.logs, DIRECT_PORT, _UNUSED_PORT, *flags, host=self.options.host) as direct:
            # a salt of its own, so that no cache serves the second asking
            asked = asyncio.run(sequential(direct, [{**one, "cache_salt": "direct"} for one in sent]))
            again = asyncio.run(sequential(direct, [{**one, "cache_salt": "again"} for one in sent]))
        self.record.write(
            "same prompts, routed and direct",
            **answers(routed),
            identical=identical(routed, asked),
            identical_direct_twice=identical(asked, again),
            different_answers=len({outcome.text for outcome in asked}),
            cached_tokens=sorted({outcome.cached_tokens or 0 for outcome in routed}),
        )

    def every_rank(self, url: str, relay: NotificationRelay) -> None:
        """Send mixed traffic: each long prompt is stored, notified and retrieved by every rank."""
        outcomes = asyncio.run(sequential(url, short_answers("warm", 4, self._threshold)))
        self.record.write("warm", **answers(outcomes), router=books(settled(url)))
        self.mixed(url, "every rank")
        self.record.write("ranks", handoffs_by_notifications=relay.per_handoff(), **self._transfers())

    def mixed(self, url: str, what: str) -> None:
        """Send the mixed traffic once and record its figures."""
        traffic = mixed(self.options.users, what)
        outcomes, seconds = asyncio.run(run(url, traffic, what))
        gpus = len({*self.options.prefill_gpus, *self.options.decode_gpus})
        self.record.write(
            "mixed traffic",
            part=what,
            users=traffic.users,
            **figures(outcomes, seconds, traffic, gpus),
            router=books(settled(url)),
        )

    def lost_notification(self, url: str, relay: NotificationRelay) -> None:
        """Lose one rank's notification of some hand-offs; the same number of requests after them is handed off again."""
        losses, tokens = self.options.losses, self._threshold
        relay.lose(losses)
        lost = asyncio.run(sequential(url, short_answers("lost", losses, tokens)))
        self.record.write("one rank's notification lost", **answers(lost), router=books(settled(url)))
        after = asyncio.run(sequential(url, short_answers("after-lost", self.options.after, tokens)))
        self.record.write(
            "after the losses",
            lost=len(relay.lost),
            **answers(after),
            router=books(settled(url)),
            **self._transfers(),
        )

    def restart(self, url: str) -> None:
        """Kill the prefiller under load and start it again; the load goes on until the router uses it."""

        async def kill_and_start() -> None:
            await asyncio.sleep(self.options.load_seconds)
            before = self._transfers()
            self.record.write("prefiller killed", router=books(scrape(url)), **before)
            self.prefill.kill()
            self.prefill.start()
            await asyncio.to_thread(self._ready, self.prefill)
            waited = await asyncio.to_thread(_used_again, url, self.prefill)
            self.record.write("router uses the prefiller again", after_seconds=round(waited, 1))
            await asyncio.sleep(self.options.load_seconds)

        async def load() -> list[Outcome]:
            traffic = mixed(self.options.users, "restart")
            return await under_load(url, traffic, "restart", asyncio.create_task(kill_and_start()))

        outcomes = asyncio.run(load())
        self.record.write("restart under load", **answers(outcomes), router=books(settled(url)))
        self.mixed(url, "after the restart")
        self.record.write("ranks after the restart", **self._transfers())

    @property
    def _threshold(self) -> int:
        threshold = self.deployment.routing.threshold_tokens
        assert isinstance(threshold, int)
        return threshold

    def _transfers(self) -> dict[str, Any]:
        """Return what the ranks of the running engines moved so far."""
        return {
            "stored": recorded(self.prefill.log_path, "Stored"),
            "retrieved": recorded(self.decode.log_path, "Retrieved"),
        }


def _used_again(url: str, prefill: EngineProcess) -> float:
    """Wait until the router gives the restarted prefiller requests; return the seconds that it took.

    Raises:
        RuntimeError: it did not within a minute.
    """
    series = f'dpd_router_worker_up{{role="prefill",worker="{prefill.url.removeprefix("http://")}"}}'
    begin = time.monotonic()
    while time.monotonic() - begin < _USED_AGAIN_SECONDS:
        if scrape(url)[series]:
            return time.monotonic() - begin
        time.sleep(0.2)
    raise RuntimeError("the router did not take the restarted prefiller back")


def _gpus(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for results and logs")
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        help="stand-in of two ranks with weights: tools/evidence/standin.py",
    )
    parser.add_argument("--scratch", default=f"/tmp/dpd-evidence-{os.getpid()}", help="scratch folder")
    parser.add_argument("--prefill-gpus", type=_gpus, default=(0, 1), help="one a rank, comma separated")
    parser.add_argument("--decode-gpus", type=_gpus, default=(2, 3), help="the same of the decoder")
    parser.add_argument("--users", type=int, default=32, help="users of the mixed traffic")
    parser.add_argument("--losses", type=int, default=2, help="hand-offs that lose a notification")
    parser.add_argument("--after", type=int, default=40, help="hand-offs after the losses")
    parser.add_argument(
        "--load-seconds", type=float, default=15.0, help="load before the kill and after the restart"
    )
    parser.add_argument("--host", default=LOOPBACK, help="loopback address of engines, relay and router")
    parser.add_argument(
        "--simulate", action="store_true", help="simulated engines: tests this script, proves nothing"
    )
    parser.add_argument(
        "--deployment",
        type=Path,
        default=Path(__file__).with_name("tensor-parallel.yaml"),
        help="tensor-parallel-narrow.yaml for the narrow stand-in",
    )
    options = parser.parse_args()
    ranks = load(options.deployment).deployment.serving.tensor_parallel
    for name in ("prefill_gpus", "decode_gpus"):
        flag, gpus = f"--{name.replace('_', '-')}", getattr(options, name)
        if len(gpus) != ranks:
            parser.error(f"`{flag}` names {len(gpus)} GPUs for {ranks} ranks. help: name {ranks}")
        if len(set(gpus)) not in (1, ranks):
            parser.error(f"`{flag}` puts some ranks on one GPU. help: put all there, or none")
    AcrossRanks(options).run()


if __name__ == "__main__":
    main()
