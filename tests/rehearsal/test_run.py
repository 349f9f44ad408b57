"""Small rehearsals: pods as processes, the real router between simulated engines."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import aiohttp
import pytest

from hyperpod_dpd.evidence.results import read_result
from hyperpod_dpd.planner.workload import FixedLengths
from hyperpod_dpd.rehearsal.faults import parse_fault
from hyperpod_dpd.rehearsal.metrics import scrape
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.plan import plan_rehearsal
from hyperpod_dpd.rehearsal.prompts import requests
from hyperpod_dpd.rehearsal.ready import until_all_ready, until_all_routed
from hyperpod_dpd.rehearsal.rehearsal import Rehearsal, rehearse_profiles
from hyperpod_dpd.rehearsal.report.benchmark import benchmark_results
from hyperpod_dpd.rehearsal.report.data import rehearsal_as_dict
from hyperpod_dpd.rehearsal.report.html import rehearsal_as_html
from hyperpod_dpd.rehearsal.report.tables import tables
from hyperpod_dpd.rehearsal.run import ProfileResult, rehearse
from hyperpod_dpd.rehearsal.traffic import Clients, Ending, Patience
from hyperpod_dpd.rehearsal.trouble import Kind, RefusedError
from hyperpod_dpd.rehearsal.view import View
from hyperpod_dpd.spec import Role
from tests.rehearsal.support import LIMIT_SECONDS, copied, deployment, local_cluster
from tests.support.deployments import ROOT

pytestmark = pytest.mark.slow

QUICK = Options(
    compression=20.0,
    users=(2, 4),
    output_tokens=16,
    monitors=False,
    proves=False,
)
"""A second of traffic; what is asserted does not depend on how fast this machine is."""

SHORT_DRAIN = {
    name: [("--quiet-seconds=15", "--quiet-seconds=1")] for name in ("prefill.yaml", "decode.yaml")
} | {
    "router.yaml": [
        (
            "preStop:\n              sleep:\n                seconds: 15",
            "preStop:\n              sleep:\n                seconds: 1",
        )
    ]
}
"""A cluster needs longer until everybody has heard that a pod is going."""


async def run(
    folder: Path, edits: Mapping[str, Sequence[tuple[str, str]]], options: Options = QUICK
) -> ProfileResult:
    plan = plan_rehearsal([copied(folder, edits)], deployment())
    async with asyncio.timeout(LIMIT_SECONDS):
        return await rehearse(
            plan, deployment(), profile="self-managed", folder=folder / "run", options=options
        )


def test_both_profiles_run_through_the_router_and_nothing_is_left(tmp_path: Path) -> None:
    views: list[View] = []
    folders = [(name, copied(tmp_path, {}, name)) for name in ("self-managed", "baseline")]
    rehearsal = rehearse_profiles(deployment(), folders, options=QUICK, show=views.append)
    dpd, baseline = rehearsal.results
    for result in rehearsal.results:
        assert [measured.users for measured in result.outcome.runs] == [2, 4]
        for measured in result.outcome.runs:
            assert measured.endings == {"answered": 50, "refused": 0, "failed": 0, "left": 0, "hung": 0}
            assert measured.predicted is not None
            assert measured.predicted.tpot_seconds is not None
        assert result.outcome.leftover.hand_offs == 0
        assert result.left_behind == ()
        assert {code for codes in result.exit_codes.values() for code in codes} == {0}
        assert all(not any(used) for used in result.outcome.leftover.chunks.values())
    assert dpd.outcome.runs[0].decisions == {"disaggregated": 50}
    assert baseline.outcome.runs[0].decisions == {"direct": 50}
    # how times compare is a matter of the machine; everything else must be right
    assert [each.says for each in rehearsal.troubles if "by the planner" not in each.says] == []
    assert {(view.profile, view.phase) for view in views} >= {
        ("self-managed", "starting pods"),
        ("baseline", "starting pods"),
    }
    _check_reports(rehearsal)


def _check_reports(rehearsal: Rehearsal) -> None:
    titles = [table.title for table in tables(rehearsal)]
    assert "self-managed against baseline, per cent" in titles
    assert all(len(row) == len(table.headers) for table in tables(rehearsal) for row in table.rows)
    page = rehearsal_as_html(rehearsal)
    assert page.count("<svg") == 3
    assert "self-managed against baseline" in page
    data = rehearsal_as_dict(rehearsal)
    assert [each["profile"] for each in data["profiles"]] == ["self-managed", "baseline"]
    assert data["profiles"][0]["runs"][0]["decisions"] == {"disaggregated": 50}
    results = {name: read_result(each.as_json()) for name, each in benchmark_results(rehearsal).items()}
    assert {name: each.system.gpus for name, each in results.items()} == {"self-managed": 16, "baseline": 16}
    first, second = (each.runs[0] for each in results.values())
    assert first.prompts_digest == second.prompts_digest
    assert {request.path for request in first.requests} == {"disaggregated"}
    assert {str(each.connection) for each in results.values()} == {
        "this project's router at localhost, port 8081, without TLS"
    }


@pytest.mark.parametrize(
    ("threshold", "says"),
    [
        (
            "never",
            "prompts of 4,096 tokens were `direct`, and `threshold_tokens: 4096` of the deployment wants `disagg",
        ),
        (
            "0",
            "prompts of 512 tokens were `disaggregated`, and `threshold_tokens: 4096` of the deployment wants `dir",
        ),
    ],
)
async def test_an_inverted_threshold_is_caught_by_what_the_router_does(
    threshold: str, says: str, tmp_path: Path
) -> None:
    edits = {"router.yaml": [("--threshold=4096", f"--threshold={threshold}")]}
    result = await run(tmp_path, edits, Options(compression=20.0, users=(), monitors=False, proves=False))
    (trouble,) = result.troubles
    assert trouble.kind is Kind.RUNNING
    assert says in trouble.says
    assert trouble.file is not None
    assert Path(trouble.file).name == "router.yaml"


async def test_a_router_that_refuses_its_arguments_is_shown_with_what_it_says(tmp_path: Path) -> None:
    edits = {"router.yaml": [("--max-requests=512", "--max-requests=many")]}
    with pytest.raises(RefusedError) as error:
        await run(tmp_path, edits, Options(monitors=False, proves=False))
    (trouble,) = error.value.troubles
    assert "Deployment `llama-3-3-70b-p5-system/router` is not ready" in trouble.says
    assert "--max-requests" in trouble.fix
    assert "is not a whole number" in trouble.fix


async def test_clients_that_leave_leave_nothing_behind(tmp_path: Path) -> None:
    plan = plan_rehearsal([copied(tmp_path, {})], deployment())
    cluster = local_cluster(plan, tmp_path / "run")
    source = requests("llama-3.3-70b-instruct", FixedLengths(input_tokens=4096, output_tokens=32), seed=1)
    async with asyncio.timeout(LIMIT_SECONDS), cluster, aiohttp.ClientSession() as session:
        await until_all_ready(cluster, LIMIT_SECONDS)
        await until_all_routed(cluster, LIMIT_SECONDS)
        clients = Clients(session, cluster.endpoint, patience=Patience(leaving_share=0.5))
        answers = await clients.closed_loop(tuple(islice(source, 12)), 6)
        # who leaves is drawn by their number, whoever comes first
        endings = Counter(answer.ending for answer in answers)
        assert endings == {Ending.ANSWERED: 7, Ending.LEFT: 5}
        (router,), (decoder,) = cluster.routers, cluster.with_role(Role.DECODE)
        still_open = 1.0
        while still_open:  # a gauge tells nobody when it changes
            await asyncio.sleep(0.1)
            samples = await scrape(session, router.router_url)
            still_open = 1.0 if samples is None else samples.sum("dpd_router_handoffs_open")
        async with session.get(f"{decoder.engine_url}/simulator/state") as answer:
            assert not any((await answer.json())["connector"]["used_chunks"])
    assert cluster.left_behind() == []


async def test_traffic_goes_on_until_a_decoder_that_restarts_answers_again(tmp_path: Path) -> None:
    options = Options(
        output_tokens=32,
        monitors=False,
        proves=False,
        faults=(parse_fault("decoder-restart-in-place@1s"),),
        fault_seconds=2.0,
        fault_users=6,
    )
    result = await run(tmp_path, {}, options)
    assert result.outcome.under_faults is not None
    endings = result.outcome.under_faults.endings
    assert endings["hung"] == 0
    assert endings["answered"] > 0
    assert "fault decoder-restart-in-place@1s" in result.events
    assert result.outcome.leftover.hand_offs == 0
    assert result.left_behind == ()
    assert [each for used in result.outcome.leftover.chunks.values() for each in used if each] == []
    assert result.troubles == ()


async def test_a_rolling_restart_replaces_every_pod_one_after_the_other(tmp_path: Path) -> None:
    options = Options(
        output_tokens=16,
        monitors=False,
        proves=False,
        faults=(parse_fault("rolling-restart@1s"),),
        fault_seconds=2.0,
        fault_users=2,
    )
    result = await run(tmp_path, SHORT_DRAIN, options)
    evicted = [event for event in result.events if event.endswith("evicted")]
    assert sorted(event.partition("-")[0] for event in evicted) == ["decode", "prefill", "router"]
    assert evicted[-1].startswith("router")
    assert result.outcome.under_faults is not None
    assert result.outcome.under_faults.endings["hung"] == 0
    assert result.outcome.under_faults.endings["failed"] == 0  # it drains: nobody is cut off
    assert result.outcome.leftover.hand_offs == 0
    assert result.troubles == ()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_rehearsal_leaves_no_process(number: signal.Signals, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [
            sys.executable, "-m", "hyperpod_dpd", "rehearse", str(ROOT / "deployments/llama-3.3-70b-p5.yaml"),
            "--manifests", str(ROOT / "manifests/rendered/llama-3-3-70b-p5"), "--profile", "self-managed",
            "--no-prometheus", "--users", "8",
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip
    assert process.stderr is not None
    with process, process.stderr as lines:
        assert any("long and short prompts" in line for line in lines)
        assert len(_processes_of(scratch)) >= 3
        process.send_signal(number)
        code = process.wait(LIMIT_SECONDS)
    deadline = time.monotonic() + LIMIT_SECONDS
    while _processes_of(scratch) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _processes_of(scratch) == []
    if number is signal.SIGKILL:
        assert code == -signal.SIGKILL
    else:
        assert code == 130
        assert list(scratch.iterdir()) == []


def _processes_of(scratch: Path) -> list[str]:
    """Return the processes whose environment leads into `scratch`, the rehearsal itself left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if b"DPD_REHEARSAL=" in environment and str(scratch).encode() in environment:
            found.append(folder.name)
    return found
