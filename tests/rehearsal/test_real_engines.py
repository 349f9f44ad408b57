"""What one machine with GPUs cannot have is replaced in a real engine's command and files, and nothing else."""

import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from tokenizers import Tokenizer

from hyperpod_dpd.catalog.models import model
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.rehearsal import engines
from hyperpod_dpd.rehearsal.plan import RehearsalPlan
from hyperpod_dpd.rehearsal.pods import ContainerPlan
from hyperpod_dpd.rehearsal.real import RealEngines
from tests.rehearsal.support import deployment, planned


@pytest.fixture
def plan(tmp_path: Path) -> RehearsalPlan:
    return planned(tmp_path, {})


@pytest.fixture
def real(tmp_path: Path) -> RealEngines:
    folder = tmp_path / "engines"
    folder.mkdir()
    return RealEngines(folder, geometry=resolve(deployment()).geometry, ranks=8, workers=2, gpus=1)


def container(plan: RehearsalPlan, name: str) -> ContainerPlan:
    (found,) = next(each.plan for each in plan.placements if each.plan.name == name).containers
    return found


def test_only_what_one_gpu_cannot_have_is_another_in_the_command(
    plan: RehearsalPlan, real: RealEngines
) -> None:
    decode = container(plan, "decode")
    assert decode.worker is not None
    words = real.command(decode.worker, decode.command, address="127.1.2.30")
    assert len(words) == len(decode.command)
    changed = {
        decode.command[index - 1]: (old, new)
        for index, (old, new) in enumerate(zip(decode.command, words, strict=True))
        if old != new
    }
    model_path = words[words.index("serve") + 1]
    assert changed.pop("serve")[1] == model_path
    assert changed == {
        "--load-format": ("runai_streamer", "dummy"),
        "--host": ("0.0.0.0", "127.1.2.30"),
        "--tensor-parallel-size": ("8", "1"),
        "--gpu-memory-utilization": ("0.86", "0.430"),  # two engines share the GPU
    }


def test_the_router_counts_one_rank_as_well(plan: RehearsalPlan, real: RealEngines) -> None:
    router = container(plan, "router")
    assert router.router is not None
    words = real.router_command(router.router, router.command)
    assert set(words) - set(router.command) == {"--tensor-parallel=1"}


def test_lmcache_finds_the_router_at_its_address_and_uses_what_one_host_has(
    plan: RehearsalPlan, real: RealEngines
) -> None:
    prefill = next(each.plan for each in plan.placements if each.plan.name == "prefill")
    given = prefill.files["config"]["lmcache.yaml"]
    names = {"router.llama-3-3-70b-p5-system.svc.cluster.local": "127.1.2.5", "router": "127.1.2.5"}
    text = real.text(given, address="127.1.2.30", names=names)
    changed = [line for line in text.splitlines() if line not in given.splitlines()]
    assert changed == ["- UCX", "pd_proxy_host: 127.1.2.5"]
    decode = next(each.plan for each in plan.placements if each.plan.name == "decode")
    received = real.text(decode.files["config"]["lmcache.yaml"], address="127.1.2.30", names=names)
    assert "pd_peer_host: 127.1.2.30" in received.splitlines()


def test_engines_are_dealt_out_over_the_gpus(plan: RehearsalPlan, tmp_path: Path) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    two = RealEngines(folder, geometry=resolve(deployment()).geometry, ranks=8, workers=2, gpus=2)
    worker = container(plan, "decode").worker
    assert worker is not None
    devices = [
        two.variables(worker, address=address, names={})["CUDA_VISIBLE_DEVICES"]
        for address in ("127.1.2.30", "127.1.2.31", "127.1.2.30")
    ]
    assert devices == ["0", "1", "0"]


def test_the_stand_in_has_the_shape_of_one_rank_and_a_tokenizer(real: RealEngines, tmp_path: Path) -> None:
    folder = tmp_path / "engines/model"
    config = json.loads((folder / "config.json").read_text())
    shape = {
        key: config[key]
        for key in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")
    }
    assert shape == {
        "hidden_size": 8192,
        "intermediate_size": 28672 // 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
    }
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("t400 t15000").ids == [400, 15000]


def test_a_model_with_experts_has_no_stand_in(tmp_path: Path) -> None:
    folder = tmp_path / "mixtral"
    folder.mkdir()
    with pytest.raises(ValueError, match="there is no stand-in"):
        RealEngines(folder, geometry=model("mixtral-8x22b-instruct"), ranks=8, workers=2, gpus=1)


def test_real_engines_are_used_only_where_everything_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert engines.gpus() == 0
    assert engines.interpreter_with_engines() is None
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: x)'\necho 'GPU 1: NVIDIA H200 (UUID: y)'\n")
    smi.chmod(0o755)
    assert engines.gpus() == 2
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/bin/sh\nexit ${CODE:-0}\n")
    interpreter.chmod(0o755)
    (tmp_path / "vllm").write_text(f"#!{interpreter}\n")
    (tmp_path / "vllm").chmod(0o755)
    assert engines.interpreter_with_engines() == str(interpreter)
    monkeypatch.setenv("CODE", "1")  # one of the packages is not there
    assert engines.interpreter_with_engines() is None


@pytest.mark.parametrize("failure", [subprocess.TimeoutExpired("x", 1), PermissionError("no right")])
def test_a_driver_that_hangs_or_a_program_that_may_not_run_is_no_gpu(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("nvidia-smi", "vllm"):
        (tmp_path / name).write_text(f"#!{sys.executable}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(subprocess, "run", Mock(side_effect=failure))
    assert engines.gpus() == 0
    assert engines.interpreter_with_engines() is None
