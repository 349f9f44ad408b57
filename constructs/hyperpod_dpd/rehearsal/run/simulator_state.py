"""What simulated engines tell of themselves; real ones do not."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp

from hyperpod_dpd.rehearsal.cluster import LocalCluster


async def chunks_in_use(cluster: LocalCluster) -> Mapping[str, Sequence[int]]:
    """Return the chunks in use in the PD buffer of each pod that has one, by rank."""
    return {
        name: state["connector"].get("used_chunks", ()) for name, state in (await _states(cluster)).items()
    }


async def lost_seconds(cluster: LocalCluster) -> float:
    """Return the simulated seconds by which the slowest engine fell behind its clock."""
    return max((float(state["lost_seconds"]) for state in (await _states(cluster)).values()), default=0.0)


async def _states(cluster: LocalCluster) -> dict[str, dict[str, Any]]:
    states: dict[str, dict[str, Any]] = {}
    if not cluster.engines.simulated:
        return states
    for pod in cluster.workers:
        # one that is just going answers no more
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with cluster.http.get(f"{pod.engine_url}/simulator/state") as answer:
                states[pod.name] = await answer.json()
    return states
