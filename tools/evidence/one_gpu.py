"""Prefiller and decoder on one GPU, the rendered configuration and the real router between them.

Shows that the hand-off is complete, that nothing leaks over hundreds of requests with clients that leave, that a decoder
that restarts at its address is found again without a human, and what both strategies cost the first token. Shows
nothing about isolation (the roles share the GPU), EFA or all-reduces.

    python -m tools.evidence.one_gpu --out DIRECTORY [--requests 300] [--strategies continue,land]
"""

import argparse
import asyncio
import itertools
import os
import random
import statistics
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from hyperpod_dpd.serving.engine import engine_configuration
from hyperpod_dpd.serving.names import NOTIFICATION_PORT
from hyperpod_dpd.spec import Deployment, Role
from hyperpod_dpd.spec.load import load
from tools.evidence import standin
from tools.evidence.engines import LOOPBACK, SIMULATOR, VLLM, EngineProcess
from tools.evidence.load import Outcome, body, clients, complete, identical, prompt, sequential
from tools.evidence.record import Record
from tools.evidence.routers import books, router, settled

PREFILL_PORT, DECODE_PORT, ROUTER_PORT, DIRECT_PORT = 8100, 8200, 8081, 8082
CHUNKS_PER_GIB = 102
"""256-token chunks of the stand-in (40,960 bytes a token) in a 1 GiB buffer."""
CONCURRENCY = 4


Strategy = Literal["continue", "land"]


def deployment(path: Path, strategy: Strategy, *, same_kernels: bool) -> Deployment:
    """Return the evidence deployment with the router's strategy set, on request without CUDA graphs in the decoder."""
    read = load(path).deployment
    serving = read.serving
    if same_kernels:
        # the prefiller is eager: answers can only be equal to the last bit when both roles run the same kernels
        serving = replace(serving, decode=replace(serving.decode, enforce_eager=True))
    return replace(read, serving=serving, routing=replace(read.routing, strategy=strategy))


async def handoffs(url: str, count: int, seed: str, *, disconnects: float) -> list[Outcome]:
    """Send `count` long prompts, `CONCURRENCY` at a time; a share of the clients leaves at some stage."""
    gate = asyncio.Semaphore(CONCURRENCY)
    choose = random.Random(seed)
    plans = [
        (choose.randrange(1024, 4097), choose.random() < disconnects, choose.choice(("prefill", "stream")))
        for _ in range(count)
    ]

    async def one(index: int) -> Outcome:
        tokens, leaves, stage = plans[index]
        request = body(prompt(f"{seed}-{index}", tokens), 16)
        async with gate:
            return await complete(
                session,
                url,
                request,
                leave_after_seconds=choose.uniform(0.01, 0.15) if leaves and stage == "prefill" else None,
                leave_after_chunks=2 if leaves and stage == "stream" else None,
            )

    async with clients(180) as session:
        return await asyncio.gather(*(one(index) for index in range(count)))


def milliseconds(values: list[float]) -> dict[str, float | int]:
    """Return count, median, 90th percentile and maximum in milliseconds."""
    ordered = sorted(values)
    return {
        "n": len(ordered),
        "p50_ms": round(1e3 * statistics.median(ordered), 2),
        "p90_ms": round(1e3 * ordered[int(0.9 * (len(ordered) - 1))], 2),
        "max_ms": round(1e3 * ordered[-1], 2),
    }


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the figures of a batch of requests."""
    served = [
        outcome
        for outcome in outcomes
        if not outcome.left and outcome.error is None and outcome.status == 200
    ]
    ttft = [outcome.ttft_seconds for outcome in served if outcome.ttft_seconds is not None]
    return {
        "requests": len(outcomes),
        "served": len(served),
        "left": sum(outcome.left for outcome in outcomes),
        "errors": [outcome.error for outcome in outcomes if outcome.error][:5],
        "failed": sum(bool(outcome.error) or outcome.status not in (0, 200) for outcome in outcomes),
        "ttft": milliseconds(ttft) if ttft else None,
        "wrong_length": sum(outcome.completion_tokens not in (None, 16) for outcome in served),
    }


class Bench:
    """Both engines and what is measured on them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.out: Path = options.out
        self.logs = self.out / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.log = Record(self.out / "results.jsonl")
        self.scratch = Path(options.scratch)
        self.model = options.model or self.scratch / "model"
        if not self.model.exists():
            standin.write(self.model)

    def engine(self, role: Role, strategy: Strategy) -> EngineProcess:
        """Return the engine of `role`, not started."""
        name = role.value
        decode = role is Role.DECODE
        return EngineProcess(
            name=f"{name}-{strategy}",
            configuration=engine_configuration(
                deployment(self.options.deployment, strategy, same_kernels=self.options.kernels == "same"),
                role,
            ),
            model=self.model,
            port=DECODE_PORT if decode else PREFILL_PORT,
            gpus=(self.options.decode_gpu if decode else self.options.prefill_gpu,),
            scratch=self.scratch / name,
            logs=self.logs,
            serve=SIMULATOR if self.options.simulate else VLLM,
        )

    def router_flags(self, strategy: str) -> list[str]:
        """Return the router's flags for two local engines."""
        return [
            "--prefillers", f"http://{LOOPBACK}:{PREFILL_PORT}", "--decoders", f"http://{LOOPBACK}:{DECODE_PORT}",
            "--strategy", strategy, "--threshold", "1024", "--tensor-parallel", "1",
            "--decoder-buffer-chunks", str(CHUNKS_PER_GIB), "--tokenizer", str(self.model / "tokenizer.json"),
        ]  # fmt: skip

    def run(self) -> None:
        """Run everything; engines are ended whatever happens."""
        self.log.setting(simulated=self.options.simulate)
        strategies: list[Strategy] = self.options.strategies.split(",")
        prefill = self.engine(Role.PREFILL, strategies[0])
        decode = self.engine(Role.DECODE, strategies[0])
        try:
            decode.start()
            if self.options.prefill_gpu != self.options.decode_gpu:
                prefill.start()
            self.log.write("decoder ready", seconds=round(decode.wait_ready(400), 1))
            if prefill.process is None:
                # on one GPU one after the other: two engines that measure free memory at once disturb each other
                prefill.start()
            self.log.write("prefiller ready", seconds=round(prefill.wait_ready(400), 1))
            for number, strategy in enumerate(strategies):
                if number:
                    starts = decode.starts
                    decode.kill()
                    decode = self.engine(Role.DECODE, strategy)
                    decode.starts = starts
                    decode.start()
                    self.log.write(
                        "decoder ready", strategy=strategy, seconds=round(decode.wait_ready(300), 1)
                    )
                self.strategy(strategy, decode)
        finally:
            prefill.kill()
            decode.kill()

    def strategy(self, strategy: str, decode: EngineProcess) -> None:
        """Measure one strategy."""
        half = self.options.requests // 2
        with router(self.logs, ROUTER_PORT, NOTIFICATION_PORT, *self.router_flags(strategy)) as url:
            self.compare(strategy, url)
            if strategy in self.options.without_restart.split(","):
                whole = asyncio.run(handoffs(url, self.options.requests, f"{strategy}-a", disconnects=0.2))
                self.log.write("all", strategy=strategy, **summary(whole), books=books(settled(url)))
                return
            before = asyncio.run(handoffs(url, half, f"{strategy}-a", disconnects=0.2))
            self.log.write("first half", strategy=strategy, **summary(before), books=books(settled(url)))
            decode.kill()
            decode.start()
            down = asyncio.run(handoffs(url, 4, f"{strategy}-down", disconnects=0))
            self.log.write("decoder down", strategy=strategy, statuses=[outcome.status for outcome in down])
            self.log.write("decoder restarted", strategy=strategy, seconds=round(decode.wait_ready(300), 1))
            _await_decoder(url)
            after = asyncio.run(handoffs(url, self.options.requests - half, f"{strategy}-b", disconnects=0.2))
            self.log.write("second half", strategy=strategy, **summary(after), books=books(settled(url)))

    def compare(self, strategy: str, url: str) -> None:
        """Compare answers and first tokens with the same engine asked directly."""
        flags = ["--threshold", "never", "--decoders", f"http://{LOOPBACK}:{DECODE_PORT}"]
        with router(self.logs, DIRECT_PORT, 7501, *flags) as direct:
            asyncio.run(sequential(url, [body(prompt(f"warm{index}", 2048), 8) for index in range(3)]))
            asyncio.run(sequential(direct, [body(prompt(f"warm-d{index}", 2048), 8) for index in range(3)]))
            for tokens in (1024, 4096):
                count = self.options.comparisons
                sent = [
                    body(prompt(f"{strategy}-cmp-{tokens}-{index}", tokens), 32) for index in range(count)
                ]
                routed = asyncio.run(sequential(url, sent))
                # a salt of its own, so that the prefix cache of strategy `land` cannot serve the second asking
                asked = asyncio.run(sequential(direct, [{**one, "cache_salt": "direct"} for one in sent]))
                # `land` computes the last block of 16 again on top of the prefix cache, and a step of 16 tokens rounds
                # otherwise than one of 4,096: its equal is a direct request whose prefix is in the cache, too
                cached = asyncio.run(sequential(direct, [{**one, "cache_salt": "direct"} for one in sent]))
                # how often the engine agrees with itself: the ceiling of what the comparison can show
                again = asyncio.run(sequential(direct, [{**one, "cache_salt": "again"} for one in sent]))
                self.log.write(
                    "same prompts, routed and direct",
                    strategy=strategy,
                    kernels=self.options.kernels,
                    prompt_tokens=tokens,
                    identical=identical(routed, asked),
                    identical_to_prefix_cached=identical(routed, cached),
                    identical_direct_twice=identical(asked, again),
                    prefix_cached_tokens=sorted({outcome.cached_tokens or 0 for outcome in cached}),
                    common_words=_common_words(routed, asked),
                    different_answers=len({outcome.text for outcome in asked}),
                    of=len(sent),
                    cached_tokens=sorted({outcome.cached_tokens or 0 for outcome in routed}),
                    usage=sorted({(o.prompt_tokens or 0, o.completion_tokens or 0) for o in routed}),
                    ttft_routed=milliseconds([o.ttft_seconds for o in routed if o.ttft_seconds]),
                    ttft_direct=milliseconds([o.ttft_seconds for o in asked if o.ttft_seconds]),
                    tpot_routed=milliseconds([gap for o in routed for gap in o.gaps_seconds[1:]]),
                    tpot_direct=milliseconds([gap for o in asked for gap in o.gaps_seconds[1:]]),
                    errors=[o.error for o in (*routed, *asked) if o.error][:3],
                )
            self.chat(strategy, url, direct)

    def chat(self, strategy: str, url: str, direct: str) -> None:
        """Compare chat answers, with a stop string among the parameters."""
        requests = [
            {
                "model": "standin",
                "messages": [
                    {"role": "user", "content": " ".join(f"t{t}" for t in prompt(f"chat{index}", 1500))}
                ],
                "max_tokens": 32,
                "temperature": 0,
                "ignore_eos": True,
            }
            for index in range(10)
        ]
        routed = asyncio.run(sequential(url, requests, "/v1/chat/completions"))
        salted = [{**request, "cache_salt": "direct"} for request in requests]
        asked = asyncio.run(sequential(direct, salted, "/v1/chat/completions"))
        cached = asyncio.run(sequential(direct, salted, "/v1/chat/completions"))
        self.log.write(
            "same chats, routed and direct",
            strategy=strategy,
            kernels=self.options.kernels,
            identical=identical(routed, asked),
            identical_to_prefix_cached=identical(routed, cached),
            common_words=_common_words(routed, asked),
            common_words_prefix_cached=_common_words(routed, cached),
            of=len(requests),
            finish=sorted({str(o.finish_reason) for o in routed}),
            usage=[(o.prompt_tokens or 0, o.completion_tokens or 0) for o in routed],
            usage_direct=[(o.prompt_tokens or 0, o.completion_tokens or 0) for o in asked],
            errors=[o.error for o in (*routed, *asked) if o.error][:3],
        )


def _common_words(one: list[Outcome], other: list[Outcome]) -> list[int]:
    """Return, per pair, after how many tokens the answers part."""
    return [
        sum(
            1
            for _ in itertools.takewhile(
                lambda pair: pair[0] == pair[1], zip(a.text.split(), b.text.split(), strict=False)
            )
        )
        for a, b in zip(one, other, strict=True)
    ]


def _await_decoder(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/ready", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError("the router did not take the restarted decoder back")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for results and logs")
    parser.add_argument("--scratch", default=f"/tmp/dpd-evidence-{os.getpid()}", help="scratch folder")
    parser.add_argument(
        "--model", type=Path, help="folder of the stand-in with weights, see tools/evidence/standin.py"
    )
    parser.add_argument("--requests", type=int, default=300, help="hand-offs per strategy")
    parser.add_argument("--strategies", default="continue,land", help="strategies, comma separated")
    parser.add_argument(
        "--simulate", action="store_true", help="simulated engines: tests this script, proves nothing"
    )
    parser.add_argument("--comparisons", type=int, default=15, help="answers compared per prompt length")
    parser.add_argument(
        "--without-restart", default="", help="strategies whose decoder is not restarted midway"
    )
    parser.add_argument(
        "--kernels",
        choices=("rendered", "same"),
        default="rendered",
        help="`same`: the decoder runs without CUDA graphs, as the prefiller does",
    )
    parser.add_argument("--prefill-gpu", type=int, default=0)
    parser.add_argument("--decode-gpu", type=int, default=0)
    parser.add_argument("--deployment", type=Path, default=Path(__file__).with_name("one-gpu.yaml"))
    Bench(parser.parse_args()).run()


if __name__ == "__main__":
    main()
