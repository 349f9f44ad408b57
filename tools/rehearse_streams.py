"""A thousand streams at once through the router: how many tokens pass, and what the router adds to each.

The pods are those of the rendered manifests with room for so many: one decoder that takes 1,024 sequences, a router that
takes 1,024 requests. Time is dilated, so that two cores can carry what a GPU would emit: the engines' clock runs slower than
the real one, and what is measured is real. The same clients ask the decoder itself first; the difference is the router.

    python -m tools.rehearse_streams [--streams 1000] [--tokens 64] [--compression 0.5] [--json PATH]
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import aiohttp

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.planner.workload import FixedLengths
from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.plan import plan_rehearsal
from hyperpod_dpd.rehearsal.prompts import requests
from hyperpod_dpd.rehearsal.ready import until_all_ready, until_all_routed
from hyperpod_dpd.rehearsal.traffic import Answer, Clients, Ending
from hyperpod_dpd.serving.render import write_profiles
from hyperpod_dpd.spec import Deployment, Role
from hyperpod_dpd.spec.load import load

ROOT = Path(__file__).resolve().parents[1]
PROMPT_TOKENS = 16
ROOM = 1024
READY_SECONDS = 120.0


def deployment(path: Path) -> Deployment:
    """Return the deployment with room for a thousand requests."""
    read = load(path).deployment
    return replace(
        read,
        serving=replace(read.serving, decode=replace(read.serving.decode, max_num_seqs=ROOM)),
        routing=replace(read.routing, max_concurrent_requests=ROOM),
    )


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of `values`."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def summary(answers: Sequence[Answer], compression: float, cpu_seconds: float) -> dict[str, Any]:
    """Return what clients saw, in real seconds."""
    answered = [each for each in answers if each.ending is Ending.ANSWERED]
    begin, end = min(each.issued for each in answered), max(each.finished for each in answered)
    seconds = (end - begin) / compression
    # streams are all there from the last first token to the first last one
    together = (
        min(each.finished for each in answered) - max(each.first_token for each in answered)
    ) / compression
    return {
        "streams": len(answers),
        "answered": len(answered),
        "seconds": round(seconds, 1),
        "seconds_with_all_streams": round(together, 1),
        "tokens_per_second": round(sum(each.output_tokens for each in answered) / seconds),
        "cpu_seconds": round(cpu_seconds, 1),
        **{
            f"{name}_p{round(share * 100)}_ms": round(
                quantile([getattr(each, name) for each in answered], share) / compression * 1e3, 2
            )
            for name in ("ttft", "tpot")
            for share in (0.5, 0.99)
        },
    }


async def measure(options: argparse.Namespace, described: Deployment, folder: Path) -> dict[str, Any]:
    """Run the streams without and with the router."""
    rendered = folder / "rendered"
    write_profiles(described, rendered)
    plan = plan_rehearsal([rendered / described.name / "self-managed"], described)
    cluster = LocalCluster(
        plan,
        folder=folder / "run",
        geometry=resolve(described).geometry,
        compression=options.compression,
    )
    lengths = FixedLengths(input_tokens=PROMPT_TOKENS, output_tokens=options.tokens)
    found: dict[str, Any] = {}
    async with (
        cluster,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        await until_all_ready(cluster, READY_SECONDS)
        await until_all_routed(cluster, READY_SECONDS)
        (decoder,) = cluster.with_role(Role.DECODE)
        for name, url in (("decoder", lambda: decoder.engine_url), ("router", cluster.endpoint)):
            sent = tuple(
                islice(requests("llama-3.3-70b-instruct", lengths, seed=len(found)), options.streams)
            )
            clients = Clients(session, url, compression=options.compression)
            before = processor_seconds(cluster)
            answers = await clients.closed_loop(sent, options.streams)
            found[name] = summary(answers, options.compression, processor_seconds(cluster) - before)
    return found


def processor_seconds(cluster: LocalCluster) -> float:
    """Return the CPU time of this process and of the pods' processes so far."""
    pods = [int(line.partition(":")[0]) for line in cluster.left_behind()]
    return sum(map(_cpu_seconds, (os.getpid(), *pods)))


def _cpu_seconds(pid: int) -> float:
    # what follows the name in brackets: state, …, utime and stime as the 12th and 13th
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Parse the command line, measure, and print what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--deployment", type=Path, default=ROOT / "deployments/llama-3.3-70b-p5.yaml")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--compression", type=float, default=0.5, help="below 1: time is dilated")
    parser.add_argument("--json", type=Path, help="also write the results here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dpd-streams-") as folder:
        found = asyncio.run(measure(options, deployment(options.deployment), Path(folder)))
    added = {
        key: round(found["router"][key] - found["decoder"][key], 2)
        for key in found["router"]
        if key.endswith("_ms")
    }
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "compression": options.compression,
        **found,
        "added_by_the_router": added,
    }
    text = json.dumps(result, indent=2)
    print(text)
    if options.json is not None:
        options.json.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
