"""vLLM's own argument parser accepts every worker command, and understands it as it was meant."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hyperpod_dpd.catalog.engine_words import vllm_flags
from hyperpod_dpd.catalog.engines import engines
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.serving.engine import EngineConfiguration, Variant, engine_configuration
from hyperpod_dpd.spec import Role
from tests.support.deployments import ROOT, changed, variations

pytestmark = [pytest.mark.engines, pytest.mark.slow]

VERSIONS = sorted({engine.vllm for engine in engines()})


def run(version: str, script: str, *arguments: str, text: str = "") -> str:
    python = ROOT / ".engines" / f"vllm-{version}" / "bin" / "python"
    assert python.exists(), f"no environment for vLLM {version}; `make test-engines` creates it"
    finished = subprocess.run(
        [python, ROOT / "tools/engines" / script, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"},
    )
    return finished.stdout


def parse(version: str, commands: list[list[str]]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = json.loads(
        run(version, "vllm_parse.py", text=json.dumps(commands)).splitlines()[-1]
    )
    return answers


def configurations(version: str) -> dict[str, EngineConfiguration]:
    found = {}
    for name, declared in variations().items():
        deployment = changed(declared, serving__engine__vllm=version)
        for role in (Role.PREFILL, Role.DECODE):
            found[f"{name} {role.value}"] = engine_configuration(deployment, role)
        for variant in Variant:
            found[f"{name} {variant.value}"] = engine_configuration(
                deployment, Role.COLOCATED, variant=variant
            )
    return found


@cache
def parsed(version: str) -> list[tuple[str, EngineConfiguration, dict[str, Any]]]:
    commands = configurations(version)
    # a decoder's launcher appends the alias of its epoch
    lines = [
        [*found.arguments[2:], *(["dpd-epoch-3"] if found.role is Role.DECODE else [])]
        for found in commands.values()
    ]
    return [(*pair, answer) for pair, answer in zip(commands.items(), parse(version, lines), strict=True)]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_worker_command_is_accepted_as_it_was_meant(version: str) -> None:
    assert len(parsed(version)) == 4 * len(variations())
    for name, configuration, answer in parsed(version):
        assert configuration.arguments[:2] == ("vllm", "serve")
        assert answer["error"] is None, f"{name}: {answer['error']}"
        values = answer["values"]
        assert values["model_tag" if "model_tag" in values else "model"] is not None, name
        names = values["served_model_name"]
        assert names[1:] == (["dpd-epoch-3"] if configuration.role is Role.DECODE else []), name
        if configuration.kv_transfer_config is None:
            assert values["kv_transfer_config"] is None, name
            continue
        understood = values["kv_transfer_config"]
        assert {key: understood[key] for key in configuration.kv_transfer_config} == (
            configuration.kv_transfer_config
        ), name


@pytest.mark.parametrize("version", VERSIONS)
def test_the_numbers_arrive(version: str) -> None:
    answers = {name: answer["values"] for name, _, answer in parsed(version)}
    facts = resolve(variations()["p5"])
    prefill, decode = answers["p5 prefill"], answers["p5 decode"]
    for role, values in ((facts.prefill, prefill), (facts.decode, decode)):
        assert values["gpu_memory_utilization"] == role.gpu_memory_utilization
        assert values["max_num_seqs"] == role.max_num_seqs
        assert values["tensor_parallel_size"] == 8
        assert values["shutdown_timeout"] == 600
    assert (prefill["enforce_eager"], decode["enforce_eager"]) == (True, False)
    assert decode["enable_prompt_tokens_details"] is True
    assert decode["enable_prefix_caching"] is False
    assert answers["land decode"]["enable_prefix_caching"] is True
    assert answers["p5 tuned"]["max_num_batched_tokens"] == 512
    assert answers["p5 baseline"]["max_num_batched_tokens"] is None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_parser_refuses_what_the_rules_refuse(version: str) -> None:
    def connector(**extra: object) -> list[str]:
        return [
            "model",
            "--kv-transfer-config",
            json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both", **extra}),
        ]

    removed, wrong_policy, unknown_field = parse(
        version,
        [
            ["model", "--disable-log-requests"],
            connector(kv_load_failure_policy="ignore"),
            connector(kv_rnk=1),
        ],
    )
    assert "--disable-log-requests" in removed["error"]
    assert wrong_policy["error"] is not None
    assert unknown_field["error"] is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_catalog_has_the_flags_of_the_released_package(version: str, tmp_path: Path) -> None:
    flags = frozenset(line for line in run(version, "words.py", "vllm").split() if line.startswith("-"))
    assert vllm_flags(version) == flags
