"""Real engines: `vllm serve` with LMCache and NIXL on the GPUs of this machine, for a model without weights."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hyperpod_dpd.catalog.models import ModelGeometry
from hyperpod_dpd.lint.model import Router, Worker
from hyperpod_dpd.planner.predict import one_rank_of
from hyperpod_dpd.rehearsal.standin import write_standin

_DROPPED: Final = ("FI_PROVIDER", "FI_EFA_USE_DEVICE_RDMA")
"""Variables that would send the transfer over an EFA that is not here."""


class RealEngines:
    """One rank of each worker, dealt out over the GPUs."""

    simulated = False
    probe_speed = 1.0
    """Weights are made and kernels compiled as on a node."""

    replaced = (
        "engines: `vllm serve` of one rank; `--tensor-parallel-size`, `--tensor-parallel` and the lists of ports are 1 long",
        "model: dummy weights with the shape of one rank of the real one; `--load-format dummy`",
        "`nixl_backends`: UCX, because one host has no EFA; nothing is said about EFA or all-reduces",
        "`--gpu-memory-utilization`: divided by the engines that share a GPU; `--host`, `pd_peer_host`: the pod's address",
        "`pd_proxy_host` and other names of Services: their loopback addresses",
    )
    """What one machine cannot have."""

    def __init__(self, folder: Path, *, geometry: ModelGeometry, ranks: int, workers: int, gpus: int) -> None:
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
        self._model = folder / "model"
        write_standin(self._model, one_rank_of(geometry, ranks))
        self._gpus = gpus
        self._sharing = -(-workers // gpus)
        self._placed: dict[str, int] = {}

    def variables(self, worker: Worker, *, address: str, names: Mapping[str, str]) -> dict[str, str]:
        """See `Engines`."""
        del worker, names
        gpu = self._placed.setdefault(address, len(self._placed) % self._gpus)
        return {
            **dict.fromkeys(_DROPPED, ""),
            "CUDA_VISIBLE_DEVICES": str(gpu),
            "DPD_TENSOR_PARALLEL": "1",
            "NCCL_SOCKET_IFNAME": "lo",
            "UCX_TLS": "all",
            "VLLM_HOST_IP": address,
        }

    def command(self, worker: Worker, words: Sequence[str], *, address: str) -> list[str]:
        """See `Engines`."""
        share = (worker.gpu_memory_utilization or 0.9) / self._sharing
        values = {
            "--host": address,
            "--load-format": "dummy",
            "--tensor-parallel-size": "1",
            "--gpu-memory-utilization": f"{share:.3f}",
        }
        found = _with_values(words, values)
        if "serve" in found:
            # the model is the word after it
            found[found.index("serve") + 1] = str(self._model)
        return found

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
