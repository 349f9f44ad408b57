"""Start the real engines as the rendered configuration says, with what one host cannot have replaced and listed."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from hyperpod_dpd.serving.engine import EngineConfiguration
from hyperpod_dpd.serving.names import NOTIFICATION_PORT

LOOPBACK = "127.0.0.1"

REPLACED = (
    "`--port`, `--host`: loopback",
    "model path and `--load-format`: a stand-in with random weights",
    "`nixl_backends`: UCX, because one host has no EFA; FI_* variables are dropped with it",
    "`pd_proxy_host`, `pd_peer_host`: loopback",
    "state and configuration directories: a scratch folder",
)
"""What differs from the rendered command line, for the report."""

RANKS_ON_ONE_GPU = (
    "`--worker-cls`, `--distributed-executor-backend`: every rank computes on the same GPU",
    "`--disable-custom-all-reduce`, VLLM_DISABLE_PYNCCL, VLLM_ALLREDUCE_USE_SYMM_MEM: sums go through gloo and the CPU",
    "`--enforce-eager`: what goes through the CPU cannot be part of a CUDA graph",
    "`--kv-cache-memory-bytes`: ranks that measure free memory at once disturb each other",
)
"""What differs on top of `REPLACED` where the ranks of an engine share a GPU."""

_RANKS_ON_ONE_GPU_FLAGS = (
    "--worker-cls", "tools.evidence.shared_gpu_worker.SharedGpuWorker", "--distributed-executor-backend", "mp",
    "--disable-custom-all-reduce", "--enforce-eager", "--kv-cache-memory-bytes", str(12 * 2**30),
)  # fmt: skip
_RANKS_ON_ONE_GPU_VARIABLES = {
    "VLLM_DISABLE_PYNCCL": "1",
    "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
    "GLOO_SOCKET_IFNAME": "lo",
}

VLLM = ("python3", "-m", "vllm.entrypoints.cli.main", "serve")
SIMULATOR = ("python3", "-m", "dpd_simulator")

_TAKES_VALUE = {"--load-format", "--host", "--port"}


@dataclass(kw_only=True)
class EngineProcess:
    """One engine: how it is started, and its process while it runs."""

    name: str
    configuration: EngineConfiguration
    model: Path
    port: int
    gpus: tuple[int, ...]
    """One a rank; the same for all of them, or different ones."""

    scratch: Path
    logs: Path
    host: str = LOOPBACK
    notification_port: int = NOTIFICATION_PORT
    serve: tuple[str, ...] = VLLM
    starts: int = 0
    process: subprocess.Popen[str] | None = None
    log: TextIO | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Address of the engine."""
        return f"http://{self.host}:{self.port}"

    @property
    def ranks_share_a_gpu(self) -> bool:
        """Whether all ranks are on one GPU, which no deployment does."""
        return len(set(self.gpus)) < len(self.gpus)

    @property
    def log_path(self) -> Path:
        """What the running process writes."""
        return self.logs / f"{self.name}-{self.starts}.log"

    def command(self) -> list[str]:
        """Return the rendered command with the replacements of `REPLACED`."""
        configuration = self.configuration
        shell, script = configuration.command
        arguments = list(configuration.arguments)
        kept: list[str] = []
        skip = False
        for argument in arguments[3:]:
            if skip:
                skip = False
            elif argument in _TAKES_VALUE:
                skip = True
            else:
                kept.append(argument)
        local = ["--host", self.host, "--port", str(self.port)]
        serve = [*self.serve, str(self.model)]
        shared = _RANKS_ON_ONE_GPU_FLAGS if self.ranks_share_a_gpu else ()
        # the start script appends its alias, so that the served name must stay last
        return [shell, self._local(script), *serve, *local, *shared, *kept]

    def environment(self) -> dict[str, str]:
        """Return the rendered environment with the replacements of `REPLACED`."""
        environment = dict(os.environ)
        for variable in self.configuration.environment:
            if variable.name.startswith("FI_") or variable.value is None:
                continue
            environment[variable.name] = self._local(variable.value)
        environment |= {
            "UCX_TLS": "all",
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, dict.fromkeys(self.gpus))),
            "HOME": str(self.scratch),
            "NCCL_SOCKET_IFNAME": "lo",
        }
        return environment | _RANKS_ON_ONE_GPU_VARIABLES if self.ranks_share_a_gpu else environment

    def _local(self, value: str) -> str:
        for directory in ("/etc/dpd", "/var/lib/dpd", "/var/cache/dpd", "/tmp/prometheus"):
            value = value.replace(directory, str(self.scratch / Path(directory).relative_to("/")))
        return value

    def _addresses(self) -> dict[str, str | int]:
        """Return the keys of LMCache's configuration that name a host or a port of another process."""
        return {
            "pd_proxy_host": self.host,
            "pd_proxy_port": self.notification_port,
            "pd_peer_host": self.host,
        }

    def start(self) -> None:
        """Write the configuration files and start the engine in its own process group."""
        etc = self.scratch / "etc/dpd"
        for directory in (etc, self.scratch / "var/lib/dpd", self.scratch / "var/cache/dpd"):
            directory.mkdir(parents=True, exist_ok=True)
        for file in self.configuration.files:
            text = file.text.replace("LIBFABRIC", "UCX")
            for key, value in self._addresses().items():
                text = re.sub(rf"^{key}: .*$", f"{key}: {value}", text, flags=re.MULTILINE)
            (etc / file.name).write_text(text)
        self.starts += 1
        self.log = self.log_path.open("w")
        command = self.command()
        self.log.write(shlex.join(command) + "\n")
        self.log.flush()
        self.process = subprocess.Popen(
            command,
            env=self.environment(),
            stdout=self.log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def wait_ready(self, timeout_seconds: float) -> float:
        """Wait until `/health` answers and return the seconds it took.

        Raises:
            RuntimeError: the engine ended, or did not answer in time.
        """
        assert self.process is not None
        begin = time.monotonic()
        while time.monotonic() - begin < timeout_seconds:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}: {self._tail()}")
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                    if answer.status == 200:
                        return time.monotonic() - begin
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        raise RuntimeError(f"{self.name} not ready after {timeout_seconds} s: {self._tail()}")

    def kill(self) -> None:
        """End the engine and everything it started at once, as a node failure would."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None
        if self.log:
            self.log.close()

    def _tail(self) -> str:
        return self.log_path.read_text(errors="replace")[-3000:]
