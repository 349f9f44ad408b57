"""Pods of a cluster: restarts, readiness, evictions, losses. Most have a shell in the place of an engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.plan import RehearsalPlan, plan_rehearsal
from hyperpod_dpd.rehearsal.ready import until_all_ready
from hyperpod_dpd.rehearsal.simulated import SimulatedEngines
from hyperpod_dpd.rehearsal.trouble import RefusedError
from tests.rehearsal.support import LIMIT_SECONDS, deployment, local_cluster, planned

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
    cluster = local_cluster(plan, folder / "run")
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
            await until_all_ready(cluster, 0.1)
    (trouble,) = error.value.troubles
    assert "exit statuses 2, 2" in trouble.says
    assert "| no such flag" in trouble.fix


async def test_an_eviction_waits_until_the_budget_allows_it(tmp_path: Path) -> None:
    async with shell_cluster(tmp_path / "c", "exec sleep 600", replicas=2) as cluster:
        await until_all_ready(cluster, LIMIT_SECONDS)
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
    cluster = local_cluster(plan, tmp_path / "run")
    async with asyncio.timeout(LIMIT_SECONDS), cluster:
        first, second, _ = cluster.alive
        while not first.ready:
            assert not any(each.running for each in second.containers)
            assert not all(pod.ready for pod in cluster.alive)
            await cluster.next_change()
        await until_all_ready(cluster, LIMIT_SECONDS)
        assert second.ready
    assert cluster.left_behind() == []


async def test_a_lost_pod_comes_back_with_another_address(tmp_path: Path) -> None:
    async with shell_cluster(tmp_path / "c", "exec sleep 600") as cluster:
        await until_all_ready(cluster, LIMIT_SECONDS)
        (lost,) = cluster.alive
        fresh = await cluster.lose(lost, replaced_after_seconds=0)
        await until_all_ready(cluster, LIMIT_SECONDS)
        assert cluster.alive == [fresh]
        assert fresh.address != lost.address
        assert lost.restarts == 0
