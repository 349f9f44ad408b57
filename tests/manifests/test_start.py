"""A rendered decoder, started as its pod would start it: with the ConfigMap's files and the container's environment."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.manifests import deployments, environment, find, rendering


class StartedPod:
    """The directories of a pod, on this machine. The engine itself is replaced by `echo`."""

    def __init__(self, name: str, component: str, root: Path) -> None:
        objects = rendering(name).objects
        (self._container,) = find(objects, "Deployment", component)["spec"]["template"]["spec"]["containers"]
        self._root = root
        for mount in self._container["volumeMounts"]:
            self._local(mount["mountPath"]).mkdir(parents=True, exist_ok=True)
        for file, text in find(objects, "ConfigMap", component)["data"].items():
            (self._local("/etc/dpd") / file).write_text(text)

    def _local(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def _translate(self, text: str) -> str:
        mounts = sorted(
            (mount["mountPath"] for mount in self._container["volumeMounts"]), key=len, reverse=True
        )
        for mount in mounts:
            if text == mount or text.startswith(f"{mount}/"):
                return str(self._local(mount)) + text.removeprefix(mount)
        return text

    def start(self) -> list[str]:
        """Run the container's command once and return the engine's command line."""
        shell, script = self._container["command"]
        done = subprocess.run(
            [shell, self._translate(script), "echo", *self._container["args"]],
            env={
                "PATH": "/usr/bin:/bin",
                **{key: self._translate(value) for key, value in environment(self._container).items()},
            },
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    def lmcache(self) -> dict[str, Any]:
        """Return the configuration that LMCache reads after the start."""
        path = self._translate(environment(self._container)["LMCACHE_CONFIG_FILE"])
        loaded = yaml.safe_load(Path(path).read_text())
        assert isinstance(loaded, dict)
        return loaded


@pytest.mark.parametrize(("name", "ranks"), [("p5", 8), ("p5en", 8), ("p5-p5en", 8), ("half-nodes", 4)])
def test_a_started_decoder_listens_on_one_port_per_rank_and_on_others_after_a_restart(
    name: str, ranks: int, tmp_path: Path
) -> None:
    pod = StartedPod(name, "decode", tmp_path)
    transfer = deployments()[name].serving.transfer
    seen: set[int] = set()
    for start in range(transfer.port_epochs + 1):
        command = pod.start()
        assert command[-3:] == ["--served-model-name", "llama-3.3-70b-instruct", f"dpd-epoch-{start}"]
        lmcache = pod.lmcache()
        init, alloc = lmcache["pd_peer_init_port"], lmcache["pd_peer_alloc_port"]
        assert len(init) == len(alloc) == ranks
        assert not set(init) & set(alloc)
        assert all(1000 <= port <= 9999 for port in (*init, *alloc)), "a peer's id has no separator"
        assert lmcache["nixl_backends"] == ["LIBFABRIC"]
        assert type(lmcache["pd_buffer_size"]) is int
        if start < transfer.port_epochs:
            assert not seen & set(init), "a prefiller would take it for the decoder that is gone"
        else:
            assert set(init) <= seen, "after the last range comes the first again"
        seen |= set(init)


@pytest.mark.parametrize("name", ["p5", "nixl"])
def test_a_started_prefiller_reads_what_is_in_its_config_map(name: str, tmp_path: Path) -> None:
    pod = StartedPod(name, "prefill", tmp_path)
    command = pod.start()
    assert command[:2] == ["vllm", "serve"]
    assert command[-1] == "llama-3.3-70b-instruct", "only decoders announce an epoch"
    transfer = json.loads(command[command.index("--kv-transfer-config") + 1])
    assert transfer["kv_role"] == "kv_producer"
    if name == "p5":
        assert pod.lmcache()["pd_role"] == "sender"
