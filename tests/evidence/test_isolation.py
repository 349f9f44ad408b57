"""The comparison on GPUs, run with simulated engines: what it records, and how the planner is scored against it."""

import contextlib
import json
import random
import socket
from pathlib import Path

import pytest

from hyperpod_dpd.spec.load import load
from tests.support.evidence import run_simulated
from tools.evidence import isolation, standin
from tools.evidence.score import scores

_ROOT = Path(__file__).parents[2]


def _free_ports(count: int) -> list[int]:
    """Return free ports below those that the kernel gives to whoever connects: they stay free."""
    free: list[int] = []
    for port in random.SystemRandom().sample(range(20_000, 32_000), 10 * count):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free.append(port)
    return free[:count]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("isolation")
    standin.write(folder / "model")
    run_simulated(
        "isolation", "--gpus", "0", "--users", "4",
        "--mixed-users", "4", "--repetitions", "1", "--arrangements", "colocated",
        "--out", folder, "--scratch", folder / "scratch", "--model", folder / "model",
        "--ports", ",".join(map(str, _free_ports(3))),
    )  # fmt: skip
    return folder / "isolation.jsonl"


def test_every_request_is_answered_in_full_and_recorded(results: Path) -> None:
    runs = [json.loads(line) for line in results.read_text().splitlines()]
    runs = [run for run in runs if run["what"] == "run"]
    assert [run["traffic"] for run in runs] == ["fixed", "mixed"]
    for run in runs:
        # half of the four users: one GPU stands for one of two
        assert (run["users"], run["requests"], run["complete"], run["errors"]) == (2, 20, 20, [])
        assert run["tpot"]["p50_ms"] > 0
    assert {"ttft_512", "ttft_8192"} <= runs[1].keys()


def test_planner_is_scored_on_the_figures_of_the_run(results: Path) -> None:
    found = list(scores(load(_ROOT / "tools/evidence/two-gpus.yaml").deployment, results))
    assert {score.figure for score in found} == {"tpot mean ms", "ttft p50 ms", "e2e mean ms", "tokens/s/GPU"}
    assert all(score.measured > 0 and score.predicted > 0 for score in found)
    # the simulated engine is faster than an H200, and the score must say so
    tpot = next(score for score in found if score.figure == "tpot mean ms")
    assert tpot.error_percent > 100


def test_mixed_traffic_has_the_same_share_of_long_prompts_in_every_order() -> None:
    one, other = isolation.mixed(8, "a"), isolation.mixed(8, "b")
    assert sorted(one.prompts) == sorted(other.prompts)
    assert one.prompts != other.prompts
    assert one.prompts.count(isolation.LONG_TOKENS) == 24
