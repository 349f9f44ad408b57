"""The parts of a rehearsal, one by one."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.planner.workload import FixedLengths
from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.container import PodView, environment_of, expanded
from hyperpod_dpd.rehearsal.faults import FaultError, parse_fault
from hyperpod_dpd.rehearsal.inject import inject
from hyperpod_dpd.rehearsal.leftover import left_over
from hyperpod_dpd.rehearsal.metrics import parse
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.plan import RehearsalPlan, plan_rehearsal
from hyperpod_dpd.rehearsal.pods import read_pods
from hyperpod_dpd.rehearsal.process import LocalProcess, left_behind
from hyperpod_dpd.rehearsal.prompts import requests
from hyperpod_dpd.rehearsal.rehearsal import rehearse_profiles
from hyperpod_dpd.rehearsal.run import _Rehearsal
from hyperpod_dpd.rehearsal.simulated import SimulatedEngines
from hyperpod_dpd.rehearsal.trouble import RefusedError
from tests.rehearsal.support import RENDERED, copied, deployment, planned

LIMIT_SECONDS = 120
"""Against hanging; nothing here is about times."""


# Kubernetes' rules ----------------------------------------------------------------------------------------------------


def test_references_are_written_out_as_the_kubelet_does() -> None:
    known = {"A": "1", "B": "2"}
    assert expanded("$(A)-$(B)", known) == "1-2"
    assert expanded("$(C) and $A", known) == "$(C) and $A"
    assert expanded("$$(A)", known) == "$(A)"


def test_paths_below_a_mount_lead_into_the_pods_folder_and_nothing_else_does(tmp_path: Path) -> None:
    plan = planned(tmp_path, {})
    decode = next(each.plan for each in plan.placements if each.plan.name == "decode")
    (container,) = decode.containers
    view = PodView(folder=tmp_path, address="127.9.9.9", fields={})
    config, temporary = view.volume("config"), view.volume("tmp")
    assert view.local("/etc/dpd/start-worker.sh", container) == f"{config}/start-worker.sh"
    assert view.local("--file=/tmp/a:/etc/dpd", container) == f"--file={temporary}/a:{config}"
    assert view.local("/etc/dpdx /srv/tmp /tmpfs", container) == "/etc/dpdx /srv/tmp /tmpfs"
    assert view.local("http://127.0.0.1:8000 1127.0.0.1", container) == "http://127.9.9.9:8000 1127.0.0.1"


def test_the_environment_is_that_of_the_manifest_with_fields_of_the_pod(tmp_path: Path) -> None:
    fields = "        - name: POD\n              valueFrom:\n                fieldRef:\n                  fieldPath: status.podIP\n"
    use = "            - name: URL\n              value: http://$(POD):1/$(NOBODY)\n"
    edit = ("          env:\n", f"          env:\n    {fields}{use}")
    plan = planned(tmp_path, {"decode.yaml": [edit]})
    assert plan.troubles == ()
    decode = next(each.plan for each in plan.placements if each.plan.name == "decode")
    view = PodView(folder=tmp_path, address="127.9.9.9", fields={"status.podIP": "127.9.9.9"})
    environment = environment_of(decode.containers[0], view)
    assert environment["URL"] == "http://127.9.9.9:1/$(NOBODY)"
    assert environment["PYTHONHASHSEED"] == "0"
    assert environment["DPD_LMCACHE_TEMPLATE"] == str(view.volume("config") / "lmcache.yaml")


def test_a_secret_that_external_secrets_makes_can_be_mounted(tmp_path: Path) -> None:
    external = """
---
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: keys, namespace: llama-3-3-70b-p5-system}
spec: {target: {name: router-keys}, data: [{secretKey: keys, remoteRef: {key: k}}]}
"""
    mount = "      volumes:\n        - name: keys\n          secret:\n            secretName: router-keys\n"
    edit = ("      volumes:\n        - name: tmp\n", f"{mount}        - name: tmp\n")
    without = planned(tmp_path / "without", {"router.yaml": [edit]})
    assert [each.says for each in without.troubles if "Secret `router-keys`" in each.says]
    folder = tmp_path / "with"
    plan = planned(
        folder,
        {"router.yaml": [edit, ("---\napiVersion: policy/v1", f"{external}---\napiVersion: policy/v1")]},
    )
    assert plan.troubles == ()
    router = next(each for each in read_pods(plan.manifests).plans if each.name == "router")
    assert list(router.files["keys"]) == ["keys"]


# Faults, metrics, prompts ---------------------------------------------------------------------------------------------


def test_faults_are_read_with_values_and_times() -> None:
    lost = parse_fault("notify-loss=5%@30s")
    assert (lost.kind.name, lost.value, lost.at_seconds, str(lost)) == (
        "notify-loss", 0.05, 30.0, "notify-loss=5%@30s",
    )  # fmt: skip
    assert parse_fault("client-disconnects").at_seconds == 0
    assert parse_fault("prefill-slow=2.5").value == 2.5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("decoder-explodes", "`decoder-explodes` is no fault. help: write one of `decoder-crash`"),
        ("decoder-crash=3", "takes no value"),
        ("notify-loss=5", "takes a share such as `=5%`"),
        ("notify-loss=0%", "a share lies above 0"),
        ("notify-loss=101%", "a share lies above 0"),
        ("prefill-slow=0.5", "a factor lies between"),
        ("prefill-slow=1.2.3", "not a number"),
        ("notify-loss=5%@-1s", "is no fault"),
        ("", "is no fault"),
    ],
)
def test_a_fault_that_is_none_is_refused(text: str, says: str) -> None:
    with pytest.raises(FaultError, match=r"help|lies|takes") as error:
        parse_fault(text)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("profile", "fault", "says"),
    [
        ("baseline", "decoder-crash@1s", "has no decode worker that `decoder-crash@1s` could hit"),
        ("baseline", "decoder-restart-in-place", "has no decode worker"),
        ("baseline", "notify-loss", "has no prefill worker"),
        ("baseline", "prefill-slow", "has no prefill worker"),
        ("self-managed", "router-restart@45s", "`router-restart@45s` begins when 45 s of traffic are over"),
        ("self-managed", "decoder-crash@1000000000s", "begins when 45 s of traffic are over"),
    ],
)
def test_a_fault_that_hits_nobody_is_refused_before_anything_starts(
    profile: str, fault: str, says: str
) -> None:
    options = Options(faults=(parse_fault(fault),))
    with pytest.raises(RefusedError) as error:
        rehearse_profiles(deployment(), [(profile, RENDERED / profile)], options=options)
    (trouble,) = error.value.troubles
    assert says in trouble.says


@pytest.mark.parametrize("share", ["maxUnavailable: 0", "minAvailable: 1", "minAvailable: 50%"])
def test_a_rolling_restart_that_a_budget_never_allows_is_refused(share: str, tmp_path: Path) -> None:
    folder = copied(tmp_path, {"decode.yaml": [("maxUnavailable: 1\n  unhealthy", f"{share}\n  unhealthy")]})
    options = Options(faults=(parse_fault("rolling-restart"),))
    with pytest.raises(RefusedError) as error:
        rehearse_profiles(deployment(), [("self-managed", folder)], options=options)
    (trouble,) = error.value.troubles
    assert "lets none of its 1 pods go, and `rolling-restart@10s` would wait for ever" in trouble.says
    assert Path(trouble.file or "").name == "decode.yaml"


def test_what_is_left_over_is_a_trouble_unless_the_fault_takes_the_books_with_it() -> None:
    node = plan_rehearsal([RENDERED / "self-managed"], deployment()).placements[0].plan.owner.node
    crash, restart = parse_fault("decoder-crash"), parse_fault("router-restart")
    clean = {"decode-1": [0, 0]}
    assert left_over(node, hand_offs=0, chunks=clean, faults=()) == []
    (silent,) = left_over(node, hand_offs=None, chunks=clean, faults=())
    assert "no router said" in silent.says
    (owned,) = left_over(node, hand_offs=3, chunks=clean, faults=(restart,))
    assert owned.says.startswith("3 hand-offs were still open")
    leaked = {"decode-1": [0, 16], "decode-2": [0, 0]}
    (lost,) = left_over(node, hand_offs=0, chunks=leaked, faults=(crash,))
    assert lost.says.endswith("`decode-1` 16")
    assert lost.file == node.file
    assert left_over(node, hand_offs=0, chunks=leaked, faults=(crash, restart)) == []


def test_a_run_ends_with_what_it_left_over_and_with_a_proof_that_was_not_made() -> None:
    plan = plan_rehearsal([RENDERED / "self-managed"], deployment())
    ended = _Rehearsal(Mock(), plan, deployment(), Options(monitors=False), Mock())
    ended.chunks_left, ended.hand_offs_left = {"decode-1": [2]}, 0
    left, unproved = ended.troubles()
    assert "`decode-1` 2" in left.says
    assert unproved.says == "the proof was not made: no router was ready at the end"
    assert Path(unproved.file or "").name == "router.yaml"


def test_counters_are_told_apart_by_labels_and_start_again_with_their_process() -> None:
    before = parse('a_total{x="1",y="2"} 5\na_total{x="2",y="2"} 1\nb 3\n')
    after = parse('a_total{x="1",y="2"} 7\na_total{x="2",y="2"} 0.5\nb 4\n')
    grown = after.since(before)
    assert grown.sum("a_total", y="2") == 2.5
    assert grown.by("a_total", "x") == {"1": 2.0, "2": 0.5}


def test_prompts_are_never_alike_and_the_same_for_the_same_seed() -> None:
    lengths = FixedLengths(input_tokens=64, output_tokens=4)
    first, second = (
        [next(source).body for _ in range(20)]
        for source in (requests("m", lengths, seed=7) for _ in range(2))
    )
    assert first == second
    assert len(set(first)) == 20


# Processes ------------------------------------------------------------------------------------------------------------


async def test_a_process_ends_with_everything_that_it_started(tmp_path: Path) -> None:
    # of this run alone: another one on this machine may be at the same test
    mark = f"test-group-{os.getpid()}"
    environment = {"PATH": os.environ["PATH"], "DPD_REHEARSAL": mark}
    process = await LocalProcess.start(
        ["sh", "-c", "sleep 600 & sleep 600 & echo started; wait"],
        environment=environment,
        log=tmp_path / "log",
    )
    async with asyncio.timeout(LIMIT_SECONDS):
        while "started" not in process.tail():  # noqa: ASYNC110 -- a file tells nobody
            await asyncio.sleep(0.01)
        assert len(left_behind(mark)) == 3
        await process.stop(5)
    assert left_behind(mark) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels have no /proc")
async def test_a_process_that_replaces_its_program_is_found_all_the_same(tmp_path: Path) -> None:
    mark = f"test-replaced-{os.getpid()}"
    again = tmp_path / "again"
    again.write_text(f"#!/bin/sh\nexec {again}\n")
    again.chmod(0o755)
    process = await LocalProcess.start(
        [str(again)],
        environment={"PATH": os.environ["PATH"], "DPD_REHEARSAL": mark},
        log=tmp_path / "log",
    )
    async with asyncio.timeout(LIMIT_SECONDS):
        while not left_behind(mark):  # noqa: ASYNC110 -- a process that begins tells nobody
            await asyncio.sleep(0.01)
        # without a second look, one in seven was missed
        assert [len(left_behind(mark)) for _ in range(50)] == [1] * 50
        process.kill()
        await process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels know no parent-death signal")
async def test_what_a_process_has_started_ends_as_well_when_the_rehearsal_is_killed(tmp_path: Path) -> None:
    mark = f"test-killed-{os.getpid()}"
    code = (
        "import asyncio, os, pathlib\n"
        "from hyperpod_dpd.rehearsal.guard import guarded\n"
        "from hyperpod_dpd.rehearsal.process import LocalProcess\n"
        "async def main():\n"
        f"  async with guarded({mark!r}):\n"
        f"    environment = {{'PATH': os.environ['PATH'], 'DPD_REHEARSAL': {mark!r}}}\n"
        "    command = ['sh', '-c', 'setsid sleep 600 & echo started; wait']\n"
        f"    process = await LocalProcess.start(command, environment=environment, log=pathlib.Path({str(tmp_path / 'log')!r}))\n"
        "    while 'started' not in process.tail():\n"
        "        await asyncio.sleep(0.01)\n"
        "    print('started', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    async with asyncio.timeout(LIMIT_SECONDS):
        await parent.stdout.readline()
        parent.send_signal(signal.SIGKILL)
        await parent.wait()
        while left_behind(mark):  # noqa: ASYNC110 -- a process that ends tells only its parent
            await asyncio.sleep(0.01)


async def test_a_program_that_does_not_exist_says_so(tmp_path: Path) -> None:
    process = await LocalProcess.start(
        ["no-such-program"], environment={"PATH": "/usr/bin"}, log=tmp_path / "log"
    )
    async with asyncio.timeout(LIMIT_SECONDS):
        assert await process.wait() == 127
    assert "no-such-program: No such file or directory" in process.tail()


# A cluster without engines --------------------------------------------------------------------------------------------


SHELL = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shell, namespace: here}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: shell}}
  template:
    metadata: {labels: {app: shell}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
        - name: shell
          image: none
          command: [sh, -c]
          args: ['SCRIPT']
          PROBE
          volumeMounts: [{name: state, mountPath: /state}]
      volumes: [{name: state, emptyDir: {}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: shell, namespace: here}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: shell}}}
"""


def shell_plan(folder: Path, script: str, replicas: int, probe: str) -> RehearsalPlan:
    """Return the plan of a Deployment whose container is a shell script; nothing listens."""
    folder.mkdir()
    text = SHELL.replace("SCRIPT", script).replace("REPLICAS", str(replicas)).replace("PROBE", probe)
    (folder / "deployment.yaml").write_text(text, encoding="utf-8")
    plan = plan_rehearsal([folder], deployment())
    assert plan.troubles == ()
    return plan


@asynccontextmanager
async def shell_cluster(
    folder: Path, script: str, replicas: int = 1, probe: str = ""
) -> AsyncIterator[LocalCluster]:
    """Run it until the block ends, and see that nothing is left of it."""
    plan = shell_plan(folder, script, replicas, probe)
    cluster = LocalCluster(plan, folder=folder / "run", geometry=resolve(deployment()).geometry)
    async with asyncio.timeout(LIMIT_SECONDS), cluster:
        yield cluster
    assert cluster.left_behind() == []


async def test_a_container_that_ends_is_started_again_in_the_same_pod(tmp_path: Path) -> None:
    script = "echo x >>/state/starts; test $(wc -l </state/starts) -ge 2 && exec sleep 600"
    async with shell_cluster(tmp_path / "c", script) as cluster:
        (pod,) = cluster.alive
        while pod.restarts < 1 or not pod.ready:  # noqa: ASYNC110 -- the pod's own events are the cluster's
            await asyncio.sleep(0.01)
        assert pod.containers[0].exit_codes == [1]
    assert [code for code in pod.containers[0].exit_codes if code > 0] == [1]


async def test_a_pod_that_never_gets_ready_is_said_with_its_log(tmp_path: Path) -> None:
    probe = "readinessProbe: {httpGet: {path: /health, port: 8000}}"
    async with shell_cluster(tmp_path / "c", "echo no such flag >&2; exit 2", probe=probe) as cluster:
        (pod,) = cluster.alive
        while pod.restarts < 2:  # noqa: ASYNC110 -- the pod's own events are the cluster's
            await asyncio.sleep(0.01)
        with pytest.raises(RefusedError) as error:
            await cluster.ready(0.1)
    (trouble,) = error.value.troubles
    assert "exit statuses 2, 2" in trouble.says
    assert "| no such flag" in trouble.fix


async def test_an_eviction_waits_until_the_budget_allows_it(tmp_path: Path) -> None:
    async with shell_cluster(tmp_path / "c", "exec sleep 600", replicas=2) as cluster:
        await cluster.ready(LIMIT_SECONDS)
        first, second = cluster.alive
        first.terminating = True  # one is unavailable, and the budget allows no second
        eviction = asyncio.create_task(cluster.evict(second))
        done, _ = await asyncio.wait([eviction], timeout=0.3)
        assert not done
        first.terminating = False
        cluster.changed()
        fresh = await eviction
        await cluster.until_ready(fresh)
        assert fresh.address not in (first.address, second.address)
        assert second.gone


async def test_pods_that_would_disturb_each_other_start_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedEngines, "one_by_one", True)
    plan = planned(tmp_path / "manifests", {})
    cluster = LocalCluster(plan, folder=tmp_path / "run", geometry=resolve(deployment()).geometry)
    async with asyncio.timeout(LIMIT_SECONDS), cluster:
        first, second, _ = cluster.alive
        while not first.ready:
            assert not any(each.running for each in second.containers)
            assert not all(pod.ready for pod in cluster.alive)
            await cluster.next_change()
        await cluster.ready(LIMIT_SECONDS)
        assert second.ready
    assert cluster.left_behind() == []


async def test_a_fault_waits_for_somebody_to_hit(tmp_path: Path) -> None:
    plan = planned(tmp_path / "manifests", {})
    cluster = LocalCluster(plan, folder=tmp_path / "run", geometry=resolve(deployment()).geometry)
    async with asyncio.timeout(LIMIT_SECONDS), cluster:
        (decoder,) = cluster.of("decode")
        await decoder.lose()
        crash = asyncio.create_task(inject(parse_fault("decoder-restart-in-place@0s"), cluster))
        slow = asyncio.create_task(inject(parse_fault("prefill-slow@0s"), cluster))
        await slow  # and it waits until the prefiller can be told
        assert not crash.done()
        cluster.replace(decoder)
        await crash
    assert cluster.left_behind() == []


async def test_a_lost_pod_comes_back_with_another_address(tmp_path: Path) -> None:
    async with shell_cluster(tmp_path / "c", "exec sleep 600") as cluster:
        await cluster.ready(LIMIT_SECONDS)
        (lost,) = cluster.alive
        fresh = await cluster.lose(lost, replaced_after_seconds=0)
        await cluster.ready(LIMIT_SECONDS)
        assert cluster.alive == [fresh]
        assert fresh.address != lost.address
        assert lost.restarts == 0
