"""LMCache's own loader reads every configuration file that a worker gets, and ignores nothing in it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_dpd.catalog.engine_words import lmcache_keys
from hyperpod_dpd.catalog.engines import engines
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.serving.engine import engine_configuration
from hyperpod_dpd.spec import Deployment, Role
from tests.support.deployments import ROOT, changed, ready, variations
from tests.support.launch import launch

VERSIONS = sorted({engine.lmcache for engine in engines()})


def python(version: str) -> Path:
    found = ROOT / ".engines" / f"lmcache-{version}" / "bin" / "python"
    assert found.exists(), f"no environment for LMCache {version}; `make setup` creates it"
    return found


def load(version: str, paths: list[Path]) -> list[dict[str, Any]]:
    finished = subprocess.run(
        [python(version), ROOT / "tools/engines/lmcache_load.py"],
        input=json.dumps([str(path) for path in paths]),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers: list[dict[str, Any]] = json.loads(finished.stdout)
    return answers


def with_version(deployment: Deployment, version: str) -> Deployment:
    return changed(deployment, serving__engine__lmcache=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_configuration_loads_and_every_key_is_known(version: str, tmp_path: Path) -> None:
    written: dict[Path, dict[str, Any]] = {}
    for name, deployment in variations().items():
        if deployment.serving.transfer.type != "lmcache-pd":
            continue
        for role in (Role.PREFILL, Role.DECODE):
            configuration = engine_configuration(with_version(deployment, version), role)
            text = launch(configuration, tmp_path / name / role.value).lmcache_yaml
            assert text is not None
            path = tmp_path / f"{name}-{role.value}.yaml"
            path.write_text(text, encoding="utf-8")
            written[path] = yaml.safe_load(text)
    for path, answer in zip(written, load(version, list(written)), strict=True):
        assert answer["error"] is None, path.name
        assert answer["warnings"] == [], path.name
        loaded = {key: answer["values"][key] for key in written[path]}
        assert loaded == written[path], path.name
        assert type(answer["values"]["pd_buffer_size"]) is int


@pytest.mark.parametrize("version", VERSIONS)
def test_the_loader_is_asked_the_way_that_hears_its_warnings(version: str, tmp_path: Path) -> None:
    path = tmp_path / "legacy.yaml"
    path.write_text("enable_nixl: true\nnixl_role: sender\n", encoding="utf-8")
    (answer,) = load(version, [path])
    assert [text.split(" (")[0] for text in answer["warnings"]] == [
        "Unknown configuration key: enable_nixl",
        "Unknown configuration key: nixl_role",
    ]


def test_the_older_loader_does_not_know_the_keys_of_the_newer_one(tmp_path: Path) -> None:
    text = engine_configuration(ready(), Role.PREFILL).lmcache_yaml
    assert text is not None
    path = tmp_path / "newer.yaml"
    path.write_text(text, encoding="utf-8")
    (answer,) = load("0.4.3", [path])
    assert {text.split(": ")[1].split(" ")[0] for text in answer["warnings"]} == {
        "pd_backend_mode",
        "pd_max_prefill_len",
        "pd_allocation_timeout_sec",
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_the_catalog_has_the_keys_of_the_released_package(version: str) -> None:
    finished = subprocess.run(
        [python(version), ROOT / "tools/engines/words.py", "lmcache"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert lmcache_keys(version) == frozenset(finished.stdout.split())


def test_every_engine_of_the_catalog_has_an_environment() -> None:
    for engine in engines():
        assert (ROOT / f"requirements/engines/lmcache-{engine.lmcache}.txt").exists()
        assert (ROOT / f"requirements/engines/vllm-{engine.vllm}.txt").exists()


def test_a_decoder_gets_one_port_per_rank(tmp_path: Path) -> None:
    deployment = ready()
    text = launch(engine_configuration(deployment, Role.DECODE), tmp_path).lmcache_yaml
    assert text is not None
    keys = yaml.safe_load(text)
    ports = resolve(deployment).decode_ports
    assert keys["pd_peer_init_port"] == list(ports.init(0)) == list(range(7300, 7308))
    assert keys["pd_peer_alloc_port"] == list(ports.alloc(0)) == list(range(7400, 7408))
