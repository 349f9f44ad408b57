"""Real engines: `vllm serve` with LMCache and NIXL on the GPUs of this machine, for a model without weights."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hyperpod_dpd.catalog.calibration import MEMORY
from hyperpod_dpd.catalog.models import ModelGeometry
from hyperpod_dpd.lint.model import Router, Worker
from hyperpod_dpd.physics import GIB, kv_bytes_per_token_per_rank, reserve_bytes, weights_bytes_per_rank
from hyperpod_dpd.planner.predict import one_rank_of
from hyperpod_dpd.rehearsal.engines import Gpu
from hyperpod_dpd.rehearsal.standin import write_standin
from hyperpod_dpd.rehearsal.trouble import Kind, RefusedError, trouble

_ELSEWHERE: Final = "FI_"
"""Variables of libfabric, which would send the transfer over an EFA that is not here."""


class RealEngines:
    """One rank of each worker, dealt out over the GPUs."""

    simulated = False
    probe_speed = 1.0
    """Weights are made and kernels compiled as on a node."""

    def __init__(
        self, folder: Path, *, geometry: ModelGeometry, ranks: int, workers: int, gpus: Sequence[Gpu]
    ) -> None:
        """Write the stand-in of the model.

        Args:
            folder: an empty folder.
            geometry: the model.
            ranks: tensor-parallel ranks of a worker; one of them runs here.
            workers: engines that are to run.
            gpus: GPUs of this machine, at least one.

        Raises:
            ValueError: there is no stand-in for the model.
            UnshardableError: it cannot be divided over the ranks.
        """
        self.programs = folder / "bin"
        self.programs.mkdir()
        router = self.programs / "dpd-router"
        router.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-m", "dpd_router"])} "$@"\n')
        router.chmod(0o755)
        self.image = dict(os.environ)
        self._model = folder / "model"
        self._rank = one_rank_of(geometry, ranks)
        write_standin(self._model, self._rank)
        self._gpus = gpus
        self._sharing = -(-workers // len(gpus))

    @property
    def one_by_one(self) -> bool:
        """An engine that measures free memory while another one allocates gets neither right."""
        return self._sharing > 1

    @property
    def replaced(self) -> tuple[str, ...]:
        """What one machine cannot have."""
        shared = f"{self._sharing} engines share a GPU: nothing is said about isolation"
        return (
            "engines: `vllm serve` of one rank; `--tensor-parallel-size`, `--tensor-parallel`, lists of ports are 1 long",
            "model: dummy weights with the shape of one rank of the real one; `--load-format dummy`",
            "transfer: UCX, because one host has no EFA; nothing is said about EFA or all-reduces",
            "`--gpu-memory-utilization`: what the manifest's GPU would give, as far as the engines here have room for it",
            "`--host`, `pd_peer_host`: the pod's address; `pd_proxy_host` and other names of Services: theirs",
            *((shared,) if self._sharing > 1 else ()),
        )

    def variables(
        self, worker: Worker, *, address: str, names: Mapping[str, str], place: int
    ) -> dict[str, str]:
        """See `Engines`."""
        del names
        self._refuse_unless_it_fits(worker)
        return {
            **{name: "" for name in worker.environment if name.startswith(_ELSEWHERE)},
            "CUDA_VISIBLE_DEVICES": self._gpus[place % len(self._gpus)].device,
            "DPD_TENSOR_PARALLEL": "1",
            "NCCL_SOCKET_IFNAME": "lo",
            "UCX_TLS": "all",
            "VLLM_HOST_IP": address,
        }

    def command(self, worker: Worker, words: Sequence[str], *, address: str) -> list[str]:
        """See `Engines`."""
        values = {
            "--host": address,
            "--load-format": "dummy",
            "--tensor-parallel-size": "1",
            "--gpu-memory-utilization": f"{self._share_gib(worker) / self._smallest_gib:.3f}",
        }
        found = [word.replace('"LIBFABRIC"', '"UCX"') for word in _with_values(words, values)]
        if "serve" in found:
            # the model is the word after it
            found[found.index("serve") + 1] = str(self._model)
        return found

    @property
    def _smallest_gib(self) -> float:
        return min(gpu.memory_gib for gpu in self._gpus)

    def _share_gib(self, worker: Worker) -> float:
        """Return vLLM's share: as much as on the manifest's GPU, or what is left beside the other engines here.

        What an engine has outside of its share there, a PD buffer above all, it has here as well.
        """
        here = self._smallest_gib
        there = here if worker.instance is None else worker.instance.gpu.hbm_gib
        share = worker.gpu_memory_utilization or MEMORY.usual_utilization
        return min(share * there, here / self._sharing - (1 - share) * there)

    def _refuse_unless_it_fits(self, worker: Worker) -> None:
        has = self._share_gib(worker)
        needs = (
            weights_bytes_per_rank(self._rank, "bf16", 1)
            + reserve_bytes(1)
            + (worker.max_model_len_tokens or 0) * kv_bytes_per_token_per_rank(self._rank, worker.kv_cache, 1)
        ) / GIB
        says = None
        if worker.weights != "bf16":
            says = f"the stand-in has weights of 16 bits, and those of {worker} are `{worker.weights}`"
        elif has < needs:
            says = (
                f"one rank of {worker} needs {needs:.1f} GiB, and has {max(has, 0):.1f} where {self._sharing} of them are "
                f"on a GPU of {self._smallest_gib:.1f}"
            )
        if says is not None:
            raise RefusedError(
                (trouble(Kind.ELSEWHERE, worker.node, says, "rehearse with simulated engines: `--simulate`"),)
            )

    def router_command(self, router: Router, words: Sequence[str]) -> list[str]:
        """See `Engines`."""
        del router
        return _with_values(words, {"--tensor-parallel": "1"})

    def text(self, text: str, *, address: str, names: Mapping[str, str]) -> str:
        """See `Engines`."""
        for name in sorted(names, key=len, reverse=True):
            # a short name alone may be any word
            if "." in name:
                text = text.replace(name, names[name])
        return text.replace("- LIBFABRIC", "- UCX").replace(
            "pd_peer_host: 0.0.0.0", f"pd_peer_host: {address}"
        )


def _with_values(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return a command line with the values of some flags replaced, whether written with `=` or as the next word."""
    found: list[str] = []
    flag = ""
    for word in words:
        name, equals, _ = word.partition("=")
        if flag in values:
            found.append(values[flag])
            flag = ""
        elif equals and name in values:
            found.append(f"{name}={values[name]}")
        else:
            found.append(word)
            flag = word
    return found
