"""Simulated engines: the programs that stand in for those of the images, with the planner's step times."""

import dataclasses
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from hyperpod_dpd.catalog.engines import version_tuple
from hyperpod_dpd.catalog.models import ModelGeometry
from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.lint.model import Router, Worker
from hyperpod_dpd.physics import (
    UnshardableError,
    kv_bytes_per_token_per_rank,
    memory_fit,
    refuse_unless_shardable,
    weights_bytes_per_rank,
)
from hyperpod_dpd.planner.step import StepModel, step_model
from hyperpod_dpd.rehearsal.packages import refuse_without_packages
from hyperpod_dpd.rehearsal.process import SETTINGS
from hyperpod_dpd.rehearsal.trouble import Kind, RefusedError, trouble
from hyperpod_dpd.rules.serving.dpd_srv_512 import ASYNCHRONOUS_SINCE
from hyperpod_dpd.spec import Role
from hyperpod_dpd.spec.value import record

_PROGRAMS: Final = {
    "dpd-router": ("-m", "dpd_router"),
    "python3": (),
    "vllm": ("-m", "hyperpod_dpd.rehearsal.engine"),
}
"""What the programs of the images are on this machine: this interpreter with these arguments."""

_DERIVED: Final = frozenset({"hand_off", "transfer", "_linear"})
"""Fields of the step times that every process reads from the catalog."""


@record
class SimulatedWorker:
    """What a simulated engine needs beside its rendered command line."""

    times: StepModel
    kv_tokens: int
    """Tokens of KV cache that fit beside the weights."""

    kv_bytes_per_token: int
    """Of one rank."""

    lmcache_version: str
    answers_wait_for_next_step: bool
    """As the planner takes it from measurements: an eager prefiller whose transfers run beside its steps."""


def simulated(worker: Worker, geometry: ModelGeometry) -> SimulatedWorker:
    """Return how the engine of `worker` behaves, from its manifest and the catalog.

    Args:
        worker: an engine of the manifests.
        geometry: its model, where the manifests name one that the catalog does not know.

    Raises:
        RefusedError: instance type, ranks or memory are not what an engine can run with.
    """
    geometry = worker.geometry or geometry
    ranks = worker.tensor_parallel
    if worker.instance is None or not ranks:
        raise _refused(worker, "instance type or `--tensor-parallel-size` cannot be read")
    try:
        refuse_unless_shardable(geometry, ranks)
    except UnshardableError as error:
        raise _refused(worker, str(error).partition(" help:")[0]) from None
    share = worker.gpu_memory_utilization
    if share is None:
        raise _refused(worker, "`--gpu-memory-utilization` is no share")
    kv_bytes = kv_bytes_per_token_per_rank(geometry, worker.kv_cache, ranks)
    memory = memory_fit(
        worker.instance.gpu,
        weights_bytes=weights_bytes_per_rank(geometry, worker.weights, ranks),
        kv_bytes_per_token=kv_bytes,
        sequence_tokens=worker.max_model_len_tokens or 1,
        tensor_parallel=ranks,
        gpu_memory_utilization=share,
    )
    return SimulatedWorker(
        times=step_model(
            geometry,
            worker.instance.gpu,
            tensor_parallel=ranks,
            weights=worker.weights,
            kv_cache=worker.kv_cache,
            line_rate_bytes_per_second=worker.instance.efa_bytes_per_second_per_gpu,
            graph_tokens=_graph_tokens(worker),
        ),
        kv_tokens=memory.kv_tokens,
        kv_bytes_per_token=kv_bytes,
        lmcache_version=worker.engine.lmcache,
        answers_wait_for_next_step=worker.role is Role.PREFILL
        and worker.through_lmcache
        and worker.engine.lmcache_version >= version_tuple(ASYNCHRONOUS_SINCE)
        and _eager(worker),
    )


def _eager(worker: Worker) -> bool:
    return worker.arguments.last("--enforce-eager") is not None


def _graph_tokens(worker: Worker) -> int:
    arguments, default = worker.arguments, VLLM_DEFAULTS
    return default.graph_tokens(
        max_num_seqs=arguments.number("--max-num-seqs") or default.max_num_seqs,
        max_num_batched_tokens=arguments.number("--max-num-batched-tokens") or default.max_num_batched_tokens,
        eager=_eager(worker),
    )


def _refused(worker: Worker, why: str) -> RefusedError:
    return RefusedError(
        (
            trouble(
                Kind.ELSEWHERE,
                worker.node,
                f"the step times of {worker} are not known: {why}",
                "`dpd plan FILE` says what the catalog knows",
            ),
        )
    )


class SimulatedEngines:
    """Programs that stand in for those of the images, in a folder that goes first in `PATH`."""

    simulated = True
    probe_speed = 10.0
    """Nobody wants to watch a startup probe's 10 seconds."""

    one_by_one = False
    image: Mapping[str, str] = MappingProxyType({})

    replaced = (
        "engines: simulated, with the step times of the planner for the instance type of the manifests; no GPU, no weights",
    )
    """What stands for what."""

    def __init__(self, folder: Path, *, geometry: ModelGeometry, compression: float) -> None:
        """Write the programs into `folder`.

        Args:
            folder: an empty folder.
            geometry: model of engines whose manifests name none of the catalog.
            compression: simulated seconds in a real one.

        Raises:
            RefusedError: the router or the simulator is not installed.
        """
        refuse_without_packages()
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name, arguments in _PROGRAMS.items():
            script = self.programs / name
            script.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *arguments])} "$@"\n')
            script.chmod(0o755)
        self._settings = folder / "engines"
        self._settings.mkdir()
        self._geometry = geometry
        self._compression = compression

    def variables(
        self, worker: Worker, *, address: str, names: Mapping[str, str], place: int
    ) -> dict[str, str]:
        """Write what the simulated engine of `worker` needs, and return the variables that lead it there.

        Raises:
            RefusedError: the catalog cannot say how it behaves.
        """
        del place
        engine = simulated(worker, self._geometry)
        table = self._settings / f"{address}-names.json"
        table.write_text(json.dumps(dict(names)), encoding="utf-8")
        arguments = {
            "--bind-address": address,
            "--names": str(table),
            "--compression": f"{self._compression:g}",
            "--kv-cache-tokens": str(engine.kv_tokens),
            "--kv-bytes-per-token-per-rank": str(engine.kv_bytes_per_token),
            "--lmcache-version": engine.lmcache_version,
        }
        file = self._settings / f"{address}.json"
        file.write_text(
            json.dumps(
                {
                    "arguments": [
                        *(word for pair in arguments.items() for word in pair),
                        *(["--answers-wait-for-next-step"] if engine.answers_wait_for_next_step else []),
                    ],
                    "step_model": _fields(engine.times),
                }
            ),
            encoding="utf-8",
        )
        return {SETTINGS: str(file)}

    def command(self, worker: Worker, words: Sequence[str], *, address: str) -> list[str]:
        """Return `words`: a simulated engine takes a rendered command line."""
        del worker, address
        return list(words)

    def router_command(self, router: Router, words: Sequence[str]) -> list[str]:
        """Return `words`: the router is the real one."""
        del router
        return list(words)

    def text(self, text: str, *, address: str, names: Mapping[str, str]) -> str:
        """Return `text`: a simulated engine resolves names itself."""
        del address, names
        return text


def _fields(times: StepModel) -> dict[str, Any]:
    return {
        field.name: getattr(times, field.name)
        for field in dataclasses.fields(times)
        if field.name not in _DERIVED
    }
