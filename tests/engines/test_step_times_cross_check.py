"""Our step times beside those of public kernel tables, in an environment of their own; the differences are printed."""

import json
import subprocess
from itertools import product
from typing import Any

import pytest

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.models import model
from hyperpod_dpd.planner.step import step_model
from tests.support.deployments import ROOT

SYSTEMS = {"h100_sxm": "ml.p5.48xlarge", "h200_sxm": "ml.p5en.48xlarge"}
PROMPT, CONTEXT, BATCHES = 4096, 4224, (16, 32, 64)
QUESTIONS: list[dict[str, Any]] = [
    {
        "system": system,
        "weights": weights,
        "tensor_parallel": ranks,
        "prompt": PROMPT,
        "batches": BATCHES,
        "context": CONTEXT,
    }
    for system, weights, ranks in product(SYSTEMS, ("bf16", "fp8"), (4, 8))
]


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    python = ROOT / ".engines" / "aiconfigurator-0.12.0" / "bin" / "python"
    assert python.exists(), "no environment for aiconfigurator-core; `make test-engines` creates it"
    finished = subprocess.run(
        [python, ROOT / "tools/engines/aiconfigurator_steps.py"],
        input=json.dumps(QUESTIONS),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(finished.stdout)
    return found


@pytest.mark.engines
def test_step_times_are_within_a_quarter_of_aiconfigurators(answers: list[dict[str, Any]]) -> None:
    errors = {}
    for question, answer in zip(QUESTIONS, answers, strict=True):
        times = step_model(
            model("llama-3.1-70b-instruct"),
            instance_type(SYSTEMS[question["system"]]).gpu,
            tensor_parallel=question["tensor_parallel"],
            weights=question["weights"],
        )
        name = f"{question['system']} {question['weights']} TP{question['tensor_parallel']}"
        errors[f"{name} prefill"] = times.prefill_seconds(PROMPT) * 1e3 / answer["prefill_ms"] - 1
        for batch in BATCHES:
            ours = times.decode_step_seconds(batch, CONTEXT) * 1e3
            errors[f"{name} decode {batch}"] = ours / answer["decode_ms"][str(batch)] - 1
    for name, error in errors.items():
        print(f"{name:<32} {error:+.1%}")
    assert max(abs(error) for error in errors.values()) < 0.25
