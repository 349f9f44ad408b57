"""Colocated against disaggregated on the same number of GPUs, with the real engines and the real router.

Three arrangements, one after the other, each behind the project's router:

- `colocated`: one worker a GPU with vLLM's own defaults,
- `colocated-tuned`: the same with a small token budget a step,
- `disaggregated`: one prefiller, one decoder, LMCache's hand-off over NIXL.

With one GPU only the colocated arrangements are measured, at half the users: two equal workers behind a router that
balances load serve half each. That is a model of two GPUs, not a measurement, and the results say so.

    python -m tools.evidence.isolation --out DIRECTORY --model DIRECTORY [--gpus 0,1] [--users 8,16,32,64] [--repetitions 3]
"""

import argparse
import asyncio
import itertools
import math
import os
import random
import statistics
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from hyperpod_dpd.serving.engine import engine_configuration
from hyperpod_dpd.serving.engine.values import Variant
from hyperpod_dpd.spec import Deployment, Role
from hyperpod_dpd.spec.load import load
from tools.evidence.engines import SIMULATOR, VLLM, EngineProcess
from tools.evidence.load import Outcome, body, clients, complete, prompt
from tools.evidence.record import Record
from tools.evidence.routers import books, rendered_flags, router, settled

REQUESTS_PER_USER: Final = 10
"""Requests of a run for each user: ramp-up and ramp-down must not be most of what is measured."""

SHORT_TOKENS, LONG_TOKENS, LONG_SHARE = 512, 8192, 0.3
"""Mixed traffic: most prompts stay below the threshold, the others are twice as long as it."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What the clients of one run ask for."""

    name: str
    users: int
    prompts: tuple[int, ...]
    """Tokens of each prompt, in the order of sending."""

    output_tokens: int = 256


@dataclass(frozen=True, kw_only=True)
class Arrangement:
    """How the GPUs are used."""

    name: str
    roles: tuple[tuple[Role, Variant], ...]
    """One worker a GPU."""

    @property
    def disaggregates(self) -> bool:
        """Whether prompts are handed off."""
        return any(role is Role.PREFILL for role, _ in self.roles)


def arrangements(gpus: int) -> tuple[Arrangement, ...]:
    """Return what can be measured on `gpus` GPUs."""
    colocated = Arrangement(name="colocated", roles=((Role.COLOCATED, Variant.BASELINE),) * gpus)
    tuned = Arrangement(name="colocated-tuned", roles=((Role.COLOCATED, Variant.TUNED),) * gpus)
    disaggregated = Arrangement(
        name="disaggregated", roles=((Role.PREFILL, Variant.BASELINE), (Role.DECODE, Variant.BASELINE))
    )
    return (disaggregated, colocated, tuned) if gpus == 2 else (colocated, tuned)


def fixed(users: int) -> Traffic:
    """Return the announcement's traffic: every prompt 4,096 tokens."""
    return Traffic(name="fixed", users=users, prompts=(4096,) * (REQUESTS_PER_USER * users))


def mixed(users: int, seed: str) -> Traffic:
    """Return short and long prompts in an order that `seed` decides."""
    choose = random.Random(seed)
    count = REQUESTS_PER_USER * users
    long = round(LONG_SHARE * count)
    prompts = [LONG_TOKENS] * long + [SHORT_TOKENS] * (count - long)
    choose.shuffle(prompts)
    return Traffic(name="mixed", users=users, prompts=tuple(prompts))


async def run(url: str, traffic: Traffic, seed: str) -> tuple[list[Outcome], float]:
    """Send `traffic` as a closed loop of its users; return outcomes and seconds from first to last."""
    numbered = iter(enumerate(traffic.prompts))
    outcomes: list[Outcome] = []
    loop = asyncio.get_running_loop()

    async def user(session: aiohttp.ClientSession) -> None:
        for index, tokens in numbered:
            request = body(prompt(f"{seed}-{index}", tokens), traffic.output_tokens)
            outcomes.append(await complete(session, url, request))

    async with clients(600) as session:
        begin = loop.time()
        await asyncio.gather(*(user(session) for _ in range(traffic.users)))
        return outcomes, loop.time() - begin


def distribution(values: Iterable[float]) -> dict[str, float]:
    """Return mean, median and 99th percentile in milliseconds."""
    ordered = sorted(values)
    return {
        "mean_ms": round(1e3 * statistics.fmean(ordered), 3),
        "p50_ms": round(1e3 * statistics.median(ordered), 3),
        "p99_ms": round(1e3 * ordered[math.ceil(0.99 * len(ordered)) - 1], 3),
    }


def figures(outcomes: list[Outcome], seconds: float, traffic: Traffic, gpus: int) -> dict[str, Any]:
    """Return the figures of one run; TPOT as the announcement defines it: after the first token, per token."""
    served = [outcome for outcome in outcomes if outcome.status == 200 and outcome.error is None]
    complete_answers = [o for o in served if o.completion_tokens == traffic.output_tokens and o.ttft_seconds]
    data: dict[str, Any] = {
        "requests": len(outcomes),
        "served": len(served),
        "complete": len(complete_answers),
        "errors": sorted({str(o.error) for o in outcomes if o.error})[:3],
        "seconds": round(seconds, 2),
        "cached_tokens": sum(o.cached_tokens or 0 for o in served),
        "output_tokens_per_second_per_gpu": round(
            traffic.output_tokens * len(complete_answers) / seconds / gpus, 1
        ),
    }
    groups = {"": complete_answers} | {
        f"_{tokens}": [o for o in complete_answers if o.prompt_tokens == tokens]
        for tokens in sorted(set(traffic.prompts))
        if len(set(traffic.prompts)) > 1
    }
    for suffix, group in groups.items():
        if group:
            data[f"ttft{suffix}"] = distribution(o.ttft_seconds or 0.0 for o in group)
            data[f"tpot{suffix}"] = distribution(
                (o.total_seconds - (o.ttft_seconds or 0.0)) / (traffic.output_tokens - 1) for o in group
            )
            data[f"e2e{suffix}"] = distribution(o.total_seconds for o in group)
    return data


class Comparison:
    """The arrangements, their engines and what is measured on them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.gpus: list[int] = options.gpus
        self.ports: list[int] = options.ports
        self.deployment: Deployment = load(options.deployment).deployment
        self.logs: Path = options.out / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.record = Record(options.out / "isolation.jsonl")

    def run(self) -> None:
        """Measure every arrangement."""
        self.record.setting(simulated=self.options.simulate)
        for arrangement in arrangements(len(self.gpus)):
            if arrangement.name in self.options.arrangements:
                self.arrangement(arrangement)

    def arrangement(self, arrangement: Arrangement) -> None:
        """Start the engines and the router of one arrangement, and send every traffic."""
        engines = list(self.engines(arrangement))
        with ExitStack() as stack:
            for engine in engines:
                stack.callback(engine.kill)
                engine.start()
            for engine in engines:
                ready = round(engine.wait_ready(400), 1)
                self.record.write(
                    "engine ready",
                    arrangement=arrangement.name,
                    engine=engine.name,
                    seconds=ready,
                    command=engine.command()[2:],
                )
            flags = self.router_flags(arrangement, engines)
            port, notification_port = self.ports[:2]
            url = stack.enter_context(router(self.logs, port, notification_port, *flags))
            self.record.write("router", arrangement=arrangement.name, flags=flags)
            self.measure(arrangement, url)

    def engines(self, arrangement: Arrangement) -> Iterator[EngineProcess]:
        """Yield one engine a GPU, not started."""
        for index, ((role, variant), gpu) in enumerate(zip(arrangement.roles, self.gpus, strict=True)):
            yield EngineProcess(
                name=f"{arrangement.name}-{role.value}-{index}",
                configuration=engine_configuration(self.deployment, role, variant=variant),
                model=self.options.model,
                port=self.ports[2 + index],
                gpus=(gpu,),
                notification_port=self.ports[1],
                scratch=Path(self.options.scratch) / f"gpu{gpu}-{role.value}",
                logs=self.logs,
                serve=SIMULATOR if self.options.simulate else VLLM,
            )

    def router_flags(self, arrangement: Arrangement, engines: list[EngineProcess]) -> list[str]:
        """Return the router's flags for the engines of one arrangement."""
        roles = [role for role, _ in arrangement.roles]
        return rendered_flags(
            self.deployment,
            prefillers=[e.url for e, role in zip(engines, roles, strict=True) if role is Role.PREFILL],
            decoders=[e.url for e, role in zip(engines, roles, strict=True) if role is not Role.PREFILL],
            tokenizer=self.options.model / "tokenizer.json",
        )

    def measure(self, arrangement: Arrangement, url: str) -> None:
        """Warm up, then send every traffic as often as asked."""
        gpus = len(self.gpus)
        asyncio.run(run(url, Traffic(name="warm", users=4, prompts=(4096,) * 8, output_tokens=16), "warm"))
        for repetition, users in itertools.product(range(self.options.repetitions), self.options.users):
            # one GPU stands for one of two
            share = users * gpus // 2
            seed = f"{self.options.seed}-{repetition}"
            for traffic in (fixed(share), mixed(share, seed)):
                if traffic.name not in self.options.traffic or (
                    traffic.name == "mixed" and users not in self.options.mixed_users
                ):
                    continue
                outcomes, seconds = asyncio.run(run(url, traffic, f"{seed}-{traffic.name}-{users}"))
                self.record.write(
                    "run",
                    arrangement=arrangement.name,
                    traffic=traffic.name,
                    users_on_two_gpus=users,
                    users=share,
                    gpus=gpus,
                    repetition=repetition,
                    **figures(outcomes, seconds, traffic, gpus),
                    router=books(settled(url)),
                )


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for results and logs")
    parser.add_argument(
        "--model", type=Path, required=True, help="stand-in with weights: tools/evidence/standin.py"
    )
    parser.add_argument("--scratch", default=f"/tmp/dpd-evidence-{os.getpid()}", help="scratch folder")
    parser.add_argument("--gpus", type=_numbers, default=[0, 1], help="one or two GPUs, comma separated")
    parser.add_argument("--users", type=_numbers, default=[8, 16, 32, 64], help="users on two GPUs")
    parser.add_argument(
        "--mixed-users", type=_numbers, default=[32], help="of these, with mixed traffic, too"
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--traffic", default="fixed,mixed")
    parser.add_argument("--arrangements", default="disaggregated,colocated,colocated-tuned")
    parser.add_argument(
        "--ports",
        type=_numbers,
        default=[8081, 7500, 8100, 8101],
        help="router, its notifications, one an engine",
    )
    parser.add_argument("--seed", default="2026-11-30")
    parser.add_argument(
        "--simulate", action="store_true", help="simulated engines: tests this script, proves nothing"
    )
    parser.add_argument("--deployment", type=Path, default=Path(__file__).with_name("two-gpus.yaml"))
    options = parser.parse_args()
    options.traffic = options.traffic.split(",")
    options.arrangements = options.arrangements.split(",")
    if len(options.gpus) not in (1, 2):
        parser.error(f"`--gpus` names {len(options.gpus)} GPUs. help: name one or two")
    if len(options.ports) < 2 + len(options.gpus):
        parser.error(f"`--ports` has {len(options.ports)} ports. help: name {2 + len(options.gpus)}")
    Comparison(options).run()


if __name__ == "__main__":
    main()
