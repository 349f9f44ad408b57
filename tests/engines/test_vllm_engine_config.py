"""vLLM builds its engine configuration from the worker commands, and refuses what the rules refuse."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hyperpod_dpd.catalog.engines import engines
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.rules import check
from hyperpod_dpd.serving.engine import Variant, engine_configuration
from hyperpod_dpd.spec import Deployment, Role
from tests.support.deployments import ROOT, changed, variations

pytestmark = [pytest.mark.engines, pytest.mark.slow]

VERSIONS = sorted({engine.vllm for engine in engines()})

CHOSEN = ("p5", "half-nodes", "land", "nixl", "tuned")
"""Variations that differ in what vLLM checks; without FP8, which 0.19's CPU build cannot keep in its KV cache."""


def bad() -> dict[str, tuple[str, Deployment]]:
    """Deployments that a rule refuses, with what vLLM says about them."""
    p5 = variations()["p5"]
    return {
        "DPD-SRV-209": ("max_model_len", changed(p5, serving__max_model_len_tokens=131073)),
        "DPD-SRV-210": (
            "max_num_batched_tokens",
            changed(p5, serving__decode__extra_args=("--no-enable-chunked-prefill",)),
        ),
    }


def command(
    deployment: Deployment, role: Role, model: Path, variant: Variant = Variant.BASELINE
) -> list[str]:
    """The command of a worker, for a model folder that has no weights and no tokenizer."""
    arguments = list(engine_configuration(deployment, role, variant=variant).arguments[2:])
    arguments[0] = str(model)
    if "--load-format" in arguments:
        place = arguments.index("--load-format")
        del arguments[place : place + 2]
    return ["--skip-tokenizer-init", *arguments]


def write_model(folder: Path, deployment: Deployment) -> Path:
    geometry = resolve(deployment).geometry
    folder.mkdir(exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": geometry.hidden_size,
        "num_hidden_layers": geometry.layers,
        "num_attention_heads": geometry.attention_heads,
        "num_key_value_heads": geometry.kv_heads,
        "head_dim": geometry.head_dim,
        "intermediate_size": geometry.intermediate_size,
        "vocab_size": geometry.vocabulary_size,
        "max_position_embeddings": geometry.max_position_tokens,
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@cache
def built(version: str, folder: Path) -> dict[str, dict[str, Any]]:
    model = write_model(folder / "model", variations()["p5"])
    commands = {}
    for name in CHOSEN:
        deployment = changed(variations()[name], serving__engine__vllm=version)
        for role in (Role.PREFILL, Role.DECODE):
            commands[f"{name} {role.value}"] = command(deployment, role, model)
    for variant in Variant:
        commands[variant.value] = command(variations()["p5"], Role.COLOCATED, model, variant)
    for rule, (_, deployment) in bad().items():
        commands[rule] = command(deployment, Role.DECODE, model)
    odd = command(variations()["p5"], Role.DECODE, model)
    odd[odd.index("--tensor-parallel-size") + 1] = "6"
    commands["DPD-SRV-002"] = odd
    python = ROOT / ".engines" / f"vllm-{version}" / "bin" / "python"
    assert python.exists(), f"no environment for vLLM {version}; `make test-engines` creates it"
    finished = subprocess.run(
        [python, ROOT / "tools/engines/vllm_build.py"],
        input=json.dumps(list(commands.values())),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"},
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return dict(zip(commands, json.loads(finished.stdout.splitlines()[-1]), strict=True))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {version: tmp_path_factory.mktemp(version) for version in VERSIONS}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_worker_gives_an_engine_configuration(version: str, folders: dict[str, Path]) -> None:
    answers = built(version, folders[version])
    for name in CHOSEN:
        deployment = variations()[name]
        facts = resolve(deployment)
        for role in (Role.PREFILL, Role.DECODE):
            answer = answers[f"{name} {role.value}"]
            assert answer["error"] is None, f"{name} {role.value}: {answer['error']}"
            place, values = facts.role(role), answer["values"]
            nixl = deployment.serving.transfer.type == "nixl"
            assert values["connector"] == ("NixlConnector" if nixl else "LMCacheConnectorV1")
            assert values["tensor_parallel"] == facts.tensor_parallel
            assert values["max_model_len"] == facts.max_model_len_tokens
            assert values["max_num_seqs"] == place.max_num_seqs
            assert values["max_num_batched_tokens"] == place.max_num_batched_tokens
            assert values["prefix_caching"] == place.prefix_caching
            assert values["dtype"] == "torch.bfloat16"


@pytest.mark.parametrize("version", VERSIONS)
def test_vllm_counts_the_same_kv_bytes_as_physics(version: str, folders: dict[str, Path]) -> None:
    answers = built(version, folders[version])
    for name in ("p5", "half-nodes"):
        facts = resolve(variations()[name])
        values = answers[f"{name} decode"]["values"]
        per_token = 2 * values["layers"] * values["kv_heads_per_rank"] * values["head_size"] * 2
        assert per_token == facts.kv_bytes_per_token_per_rank


@pytest.mark.parametrize("version", VERSIONS)
def test_the_comparison_starts_without_a_connector(version: str, folders: dict[str, Path]) -> None:
    answers = built(version, folders[version])
    for variant in Variant:
        assert answers[variant.value]["error"] is None
        assert answers[variant.value]["values"]["connector"] is None
    assert answers["tuned"]["values"]["max_num_batched_tokens"] == 512


@pytest.mark.parametrize("version", VERSIONS)
def test_vllm_refuses_what_the_rules_refuse(version: str, folders: dict[str, Path]) -> None:
    answers = built(version, folders[version])
    for rule, (says, deployment) in bad().items():
        assert says in (answers[rule]["error"] or ""), rule
        assert rule in {finding.rule for finding in check(deployment).errors}
    assert "attention heads (64) must be divisible" in answers["DPD-SRV-002"]["error"]
    odd = changed(variations()["p5"], serving__tensor_parallel=6)
    assert "DPD-SRV-002" in {finding.rule for finding in check(odd).errors}
