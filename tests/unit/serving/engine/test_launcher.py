"""The script that starts an engine."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.serving.engine import Variant, engine_configuration
from hyperpod_dpd.spec import Role
from tests.support.deployments import changed, ready, variations
from tests.support.launch import launch


def test_every_restart_of_a_decoder_takes_the_next_ports_and_says_so(tmp_path: Path) -> None:
    deployment = changed(ready(), serving__transfer__port_epochs=3)
    ports = resolve(deployment).decode_ports
    configuration = engine_configuration(deployment, Role.DECODE)
    for start in range(5):
        launched = launch(configuration, tmp_path)
        assert launched.code == 0, launched.errors
        keys = yaml.safe_load(launched.lmcache_yaml or "")
        assert keys["pd_peer_init_port"] == list(ports.init(start))
        assert keys["pd_peer_alloc_port"] == list(ports.alloc(start))
        assert launched.arguments == (*configuration.arguments, f"dpd-epoch-{start}")
        assert launched.arguments[-3:-1] == ("--served-model-name", "llama-3.3-70b-instruct")


def test_ports_stay_inside_the_ranges_that_policies_open(tmp_path: Path) -> None:
    configuration = engine_configuration(ready(), Role.DECODE)
    opened = {name: configuration.port(name) for name in ("kv-init", "kv-alloc")}
    used: dict[str, set[int]] = {name: set() for name in opened}
    for _ in range(9):
        keys = yaml.safe_load(launch(configuration, tmp_path).lmcache_yaml or "")
        used["kv-init"] |= set(keys["pd_peer_init_port"])
        used["kv-alloc"] |= set(keys["pd_peer_alloc_port"])
    for name, ports in opened.items():
        assert used[name] == set(range(ports.first, ports.last + 1))


def test_a_start_that_fails_has_used_its_ports(tmp_path: Path) -> None:
    configuration = engine_configuration(ready(), Role.DECODE)
    assert launch(configuration, tmp_path, command=("false",)).code == 1
    assert launch(configuration, tmp_path).arguments[-1] == "dpd-epoch-1"


def test_everything_else_of_the_configuration_is_kept(tmp_path: Path) -> None:
    configuration = engine_configuration(ready(), Role.DECODE)
    text = launch(configuration, tmp_path).lmcache_yaml
    assert text is not None
    assert text.startswith(configuration.lmcache_yaml or "-")


@pytest.mark.parametrize("held", ["", "two", "-1", "1 2"])
def test_a_counter_that_is_not_a_number_is_said_and_nothing_starts(held: str, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "starts").write_text(held, encoding="utf-8")
    launched = launch(engine_configuration(ready(), Role.DECODE), tmp_path)
    assert launched.code == 1
    assert launched.arguments == ()
    assert "not a number of starts. help: delete the pod" in launched.errors


def test_metrics_of_the_process_before_are_thrown_away(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics"
    metrics.mkdir()
    (metrics / "counter_12.db").write_text("old", encoding="utf-8")
    launch(engine_configuration(ready(), Role.PREFILL), tmp_path)
    assert metrics.is_dir()
    assert list(metrics.iterdir()) == []


def test_a_prefiller_runs_its_command_as_it_is(tmp_path: Path) -> None:
    configuration = engine_configuration(ready(), Role.PREFILL)
    launched = launch(configuration, tmp_path)
    assert launched.arguments == configuration.arguments
    assert launched.lmcache_yaml == configuration.lmcache_yaml
    assert not (tmp_path / "state" / "starts").exists()


def test_the_exit_code_is_the_engines(tmp_path: Path) -> None:
    for role in (Role.PREFILL, Role.DECODE):
        configuration = engine_configuration(ready(), role)
        assert launch(configuration, tmp_path, command=("sh", "-c", "exit 7")).code == 7


def test_the_engine_replaces_the_script_so_that_signals_reach_it(tmp_path: Path) -> None:
    configuration = engine_configuration(ready(), Role.DECODE)
    launched = launch(configuration, tmp_path, command=("sh", "-c", "ps -o args= -p $PPID | head -c 40"))
    assert "start-worker" not in " ".join(launched.arguments)


def test_workers_without_epochs_count_nothing(tmp_path: Path) -> None:
    nixl = engine_configuration(variations()["nixl"], Role.DECODE)
    colocated = engine_configuration(ready(), Role.COLOCATED, variant=Variant.TUNED)
    for name, configuration in (("nixl", nixl), ("colocated", colocated)):
        launched = launch(configuration, tmp_path / name)
        assert launched.code == 0
        assert launched.arguments == configuration.arguments
        assert not (tmp_path / name / "state" / "starts").exists()


def test_the_script_is_what_a_shell_checker_lets_through(tmp_path: Path) -> None:
    script = next(
        file for file in engine_configuration(ready(), Role.DECODE).files if file.name.endswith(".sh")
    )
    path = tmp_path / script.name
    path.write_text(script.text, encoding="utf-8")
    checked = subprocess.run(
        [Path(sys.executable).with_name("shellcheck"), "--shell=sh", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
