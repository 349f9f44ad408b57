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
from hyperpod_dpd.rehearsal.engines import Gpu
from hyperpod_dpd.rehearsal.plan import RehearsalPlan
from hyperpod_dpd.rehearsal.pods import ContainerPlan
from hyperpod_dpd.rehearsal.real import RealEngines
from hyperpod_dpd.rehearsal.trouble import RefusedError
from tests.rehearsal.support import deployment, planned

H200 = Gpu(device="0", memory_gib=140.4)
H100 = Gpu(device="0", memory_gib=79.6)


@pytest.fixture
def plan(tmp_path: Path) -> RehearsalPlan:
    return planned(tmp_path, {})


@pytest.fixture
def real(tmp_path: Path) -> RealEngines:
    folder = tmp_path / "engines"
    folder.mkdir()
    return engines_on(folder, H200)


def engines_on(folder: Path, *gpus: Gpu) -> RealEngines:
    """Return what runs a prefiller and a decoder of the default deployment."""
    return RealEngines(folder, geometry=resolve(deployment()).geometry, ranks=8, workers=2, gpus=gpus)


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
        # two engines share a GPU with more memory than that of the manifest
        "--gpu-memory-utilization": ("0.86", "0.421"),
    }


@pytest.mark.parametrize(
    ("gpus", "share"),
    [
        pytest.param((H100,), 0.360, id="two beside each other, with two PD buffers"),
        pytest.param((H100, H100), 0.860, id="one on each"),
        pytest.param((H200, H200), 0.488, id="no more than on the GPU of the manifest"),
        pytest.param((H200, H100), 0.860, id="as on the smallest"),
    ],
)
def test_engines_on_one_gpu_leave_each_other_room(
    gpus: tuple[Gpu, ...], share: float, plan: RehearsalPlan, tmp_path: Path
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    real = engines_on(folder, *gpus)
    decode = container(plan, "decode")
    assert decode.worker is not None
    assert decode.worker.instance is not None
    words = real.command(decode.worker, decode.command, address="127.1.2.30")
    given = float(words[words.index("--gpu-memory-utilization") + 1])
    assert given == pytest.approx(share, abs=0.001)
    outside_gib = (1 - 0.86) * decode.worker.instance.gpu.hbm_gib
    smallest = min(gpu.memory_gib for gpu in gpus)
    assert 2 // len(gpus) * (given * smallest + outside_gib) <= smallest + 0.1


def test_engines_that_do_not_fit_on_the_gpu_are_refused_before_they_start(
    plan: RehearsalPlan, tmp_path: Path
) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    small = engines_on(folder, Gpu(device="0", memory_gib=40.0))
    worker = container(plan, "decode").worker
    assert worker is not None
    with pytest.raises(RefusedError) as error:
        small.variables(worker, address="127.1.2.30", names={}, place=0)
    (trouble,) = error.value.troubles
    assert "needs 19.4 GiB, and has 8.9 where 2 of them are on a GPU of 40.0" in trouble.says
    assert trouble.file == worker.node.file


def test_nixl_connector_uses_what_one_host_has(plan: RehearsalPlan, real: RealEngines) -> None:
    worker = container(plan, "decode").worker
    assert worker is not None
    given = '{"kv_connector":"NixlConnector","kv_connector_extra_config":{"backends":["LIBFABRIC"]}}'
    words = real.command(worker, ["vllm", "serve", "m", "--kv-transfer-config", given], address="127.1.2.30")
    assert words[-1] == given.replace("LIBFABRIC", "UCX")


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


def test_a_pod_has_the_gpu_of_the_one_that_it_replaces(plan: RehearsalPlan, tmp_path: Path) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    two = engines_on(folder, Gpu(device="GPU-a", memory_gib=140.4), Gpu(device="GPU-b", memory_gib=140.4))
    worker = container(plan, "decode").worker
    assert worker is not None
    devices = [
        two.variables(worker, address=address, names={}, place=place)["CUDA_VISIBLE_DEVICES"]
        for place, address in ((0, "127.1.2.30"), (1, "127.1.2.31"), (0, "127.1.2.32"))
    ]
    assert devices == ["GPU-a", "GPU-b", "GPU-a"]


def test_nothing_of_libfabric_is_left(plan: RehearsalPlan, real: RealEngines) -> None:
    worker = container(plan, "decode").worker
    assert worker is not None
    variables = real.variables(worker, address="127.1.2.30", names={}, place=0)
    libfabric = {name for name in worker.environment if name.startswith("FI_")}
    assert libfabric
    assert {variables[name] for name in libfabric} == {""}


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
    # transformers cuts special tokens out of every word that holds one
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    special = [settings[f"{name}_token"] for name in ("bos", "eos", "unk")]
    assert [tokenizer.token_to_id(each) for each in special] == [0, 1, 2]
    assert sorted(word for word in tokenizer.get_vocab() if any(each in word for each in special)) == special


def test_a_model_with_experts_has_no_stand_in(tmp_path: Path) -> None:
    folder = tmp_path / "mixtral"
    folder.mkdir()
    with pytest.raises(ValueError, match="there is no stand-in"):
        RealEngines(folder, geometry=model("mixtral-8x22b-instruct"), ranks=8, workers=2, gpus=(H200,))


def test_real_engines_are_used_only_where_everything_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert engines.gpus() == ()
    assert engines.interpreter_with_engines() is None
    listing(tmp_path, "0, GPU-x, 143771", "1, GPU-y, 81559", "2, GPU-z, [N/A]")
    assert [(gpu.device, round(gpu.memory_gib, 1)) for gpu in engines.gpus()] == [("0", 140.4), ("1", 79.6)]
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/bin/sh\nexit ${CODE:-0}\n")
    interpreter.chmod(0o755)
    (tmp_path / "vllm").write_text(f"#!{interpreter}\n")
    (tmp_path / "vllm").chmod(0o755)
    assert engines.interpreter_with_engines() == str(interpreter)
    monkeypatch.setenv("CODE", "1")  # one of the packages is not there
    assert engines.interpreter_with_engines() is None


@pytest.mark.parametrize(
    ("chosen", "devices"), [("1", ["1"]), ("GPU-y, 0", ["GPU-y", "0"]), ("", []), ("7", []), ("-1", [])]
)
def test_only_the_gpus_that_the_user_has_named_are_used(
    chosen: str, devices: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    listing(tmp_path, "0, GPU-x, 143771", "1, GPU-y, 81559")
    assert [gpu.device for gpu in engines.gpus()] == devices


def listing(folder: Path, *lines: str) -> None:
    """Write an `nvidia-smi` that lists GPUs with number, id and MiB."""
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    program.chmod(0o755)


@pytest.mark.parametrize("failure", [subprocess.TimeoutExpired("x", 1), PermissionError("no right")])
def test_a_driver_that_hangs_or_a_program_that_may_not_run_is_no_gpu(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("nvidia-smi", "vllm"):
        (tmp_path / name).write_text(f"#!{sys.executable}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(subprocess, "run", Mock(side_effect=failure))
    assert engines.gpus() == ()
    assert engines.interpreter_with_engines() is None
