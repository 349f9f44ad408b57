"""The way of real engines from end to end, with programs that stand in for `vllm` and `nvidia-smi`.

The engine behind `vllm` is the simulator as it comes: it knows nothing of a rehearsal, takes the command line, the
environment and LMCache's file that a real engine gets, and refuses what vLLM and LMCache refuse.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hyperpod_dpd.rehearsal.engines import Gpu
from hyperpod_dpd.rehearsal.faults import parse_fault
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.plan import plan_rehearsal
from hyperpod_dpd.rehearsal.run import ProfileResult, rehearse
from tests.rehearsal.support import LIMIT_SECONDS, copied, deployment

pytestmark = pytest.mark.slow

_VLLM = """\
#!{python}
import os, sys, urllib.request
from aiohttp import web
from dpd_simulator.server import Server

def answers(host):
    try:
        return urllib.request.urlopen(f"http://{{host}}:8000/health", timeout=5).status == 200
    except OSError:
        return False

def given(flag):
    return sys.argv[sys.argv.index(flag) + 1]

with open({starts!r}, "a+") as starts:
    starts.seek(0)
    others = {{line.split()[0] for line in starts}} - {{given("--host")}}
    print(given("--host"), all(map(answers, others)), os.environ["CUDA_VISIBLE_DEVICES"], os.environ["OF_THE_MACHINE"], file=starts)

async def not_here(self, request):
    return web.json_response({{"detail": "Not Found"}}, status=404)

Server._state = Server._add_faults = Server._remove_faults = Server._die = not_here
from dpd_simulator.__main__ import main
sys.exit(main())
"""

_QUICK = {
    f"{role}.yaml": [
        (
            "periodSeconds: 10\n            timeoutSeconds: 5\n            failureThreshold: 87",
            "periodSeconds: 1\n            timeoutSeconds: 5\n            failureThreshold: 870",
        ),
    ]
    for role in ("prefill", "decode")
}
"""Start-up probes come as often as the manifests say with real engines."""


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install `vllm`, and return the file to which every start of it writes a line."""
    programs = tmp_path / "programs"
    programs.mkdir()
    file = tmp_path / "starts"
    program = programs / "vllm"
    program.write_text(_VLLM.format(python=sys.executable, starts=str(file)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("OF_THE_MACHINE", "libraries")
    return file


def run(folder: Path, options: Options) -> ProfileResult:
    async def limited() -> ProfileResult:
        plan = plan_rehearsal([copied(folder, _QUICK)], deployment())
        async with asyncio.timeout(LIMIT_SECONDS):
            return await rehearse(
                plan, deployment(), profile="self-managed", folder=folder / "run", options=options
            )

    return asyncio.run(limited())


ONE_GPU = Options(
    gpus=(Gpu(device="0", memory_gib=140.4),), users=(2,), output_tokens=8, monitors=False, proves=False
)


def test_one_rank_of_each_role_hands_over_on_one_gpu_and_is_proved(tmp_path: Path, starts: Path) -> None:
    result = run(tmp_path, replace(ONE_GPU, proves=True))
    assert result.troubles == ()
    (measured,) = result.outcome.runs
    assert measured.decisions == {"disaggregated": 50}
    assert measured.predicted is None
    assert result.outcome.proof is not None
    assert result.outcome.proof.proved
    assert result.outcome.leftover.hand_offs == 0
    assert result.left_behind == ()
    assert result.replaced[5] == "2 engines share a GPU: nothing is said about isolation"
    first, second = (line.split() for line in starts.read_text().splitlines())
    assert first[0] != second[0]
    # the second one starts when the first one answers
    assert [each[1:] for each in (first, second)] == [["True", "0", "libraries"]] * 2


def test_a_restarted_engine_is_waited_for(tmp_path: Path, starts: Path) -> None:
    faults = (parse_fault("decoder-restart-in-place@1s"),)
    result = run(tmp_path, replace(ONE_GPU, faults=faults, fault_seconds=2.0, fault_users=2))
    assert result.troubles == ()
    assert result.outcome.under_faults is not None
    assert result.outcome.under_faults.endings["hung"] == 0
    assert result.outcome.leftover.hand_offs == 0
    assert len(starts.read_text().splitlines()) == 3
