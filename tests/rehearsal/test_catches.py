"""What is wrong in manifests is said before anything starts, with the place where it is written."""

from pathlib import Path

import pytest

from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.plan import plan_rehearsal
from hyperpod_dpd.rehearsal.rehearsal import rehearse_profiles
from hyperpod_dpd.rehearsal.trouble import Kind, RefusedError
from tests.rehearsal.support import RENDERED, copied, deployment, planned

ROUTER_POD = """\
              app.kubernetes.io/component: router
      ports:
        - protocol: TCP
          port: 7500
"""
PREFILL_PODS = ROUTER_POD.replace("router", "prefill")


@pytest.mark.parametrize("profile", ["self-managed", "baseline", "baseline-tuned"])
def test_what_is_rendered_has_no_trouble(profile: str) -> None:
    plan = plan_rehearsal([RENDERED / profile], deployment())
    assert plan.troubles == ()
    assert all(len(placement.nodes) == placement.plan.replicas for placement in plan.placements)


CATCHES = {
    "a port list with half of the ports": (
        "decode.yaml",
        "name: DPD_TENSOR_PARALLEL\n              value: '8'",
        "name: DPD_TENSOR_PARALLEL\n              value: '4'",
        Kind.RULE,
        "`pd_peer_init_port` of decode worker `decode` has not one port per rank",
    ),
    "a router that counts other ports": (
        "router.yaml",
        "--init-port-base=7300",
        "--init-port-base=7308",
        Kind.RULE,
        "the router counts differently from decode worker `decode`",
    ),
    "a router that looks for a Service that does not exist": (
        "router.yaml",
        "--decode-service=decode",
        "--decode-service=decoder",
        Kind.BROKEN,
        "looks for workers behind Service `llama-3-3-70b-p5-workers/decoder`, which does not exist",
    ),
    "a router that looks in a namespace that does not exist": (
        "router.yaml",
        "--namespace=llama-3-3-70b-p5-workers",
        "--namespace=llama-3-3-70b-p5-worker",
        Kind.BROKEN,
        "which does not exist",
    ),
    "a prefiller that notifies a Service that does not exist": (
        "prefill.yaml",
        "pd_proxy_host: router.",
        "pd_proxy_host: dpd-router.",
        Kind.RULE,
        "no Service of that name leads to router `router`",
    ),
    "egress without the notification port": (
        "network-policies.yaml",
        ROUTER_POD,
        ROUTER_POD.replace("7500", "7501"),
        Kind.RULE,
        "closes notifications of prefill worker `prefill`",
    ),
    "ingress without the notification port": (
        "network-policies.yaml",
        PREFILL_PODS,
        PREFILL_PODS.replace("7500", "7501"),
        Kind.RULE,
        "closes notifications of prefill worker `prefill`",
    ),
    "a ConfigMap key renamed where LMCache reads it": (
        "decode.yaml",
        "  lmcache.yaml: |",
        "  lmcache-pd.yaml: |",
        Kind.BROKEN,
        "reads `/etc/dpd/lmcache.yaml`, and what is mounted at `/etc/dpd` holds",
    ),
    "a ConfigMap key renamed where the command reads it": (
        "prefill.yaml",
        "  start-worker.sh: |",
        "  start.sh: |",
        Kind.BROKEN,
        "reads `/etc/dpd/start-worker.sh`",
    ),
    "a decoder with shorter sequences than its prefiller": (
        "decode.yaml",
        "- --max-model-len\n            - '16384'",
        "- --max-model-len\n            - '8192'",
        Kind.RULE,
        "`--max-model-len` differs between the roles",
    ),
    "more EFA devices than a node has": (
        "prefill.yaml",
        "vpc.amazonaws.com/efa: 32",
        "vpc.amazonaws.com/efa: 64",
        Kind.PENDING,
        "0/4 nodes are available: 1 Insufficient vpc.amazonaws.com/efa, 3 node(s) didn't match",
    ),
    "a ConfigMap that does not exist": (
        "prefill.yaml",
        "configMap:\n            name: prefill",
        "configMap:\n            name: prefiller",
        Kind.PENDING,
        "cannot mount ConfigMap `prefiller`",
    ),
    "a probe of a port without that name": (
        "decode.yaml",
        "port: http\n            periodSeconds: 5",
        "port: web\n            periodSeconds: 5",
        Kind.BROKEN,
        "asks port `web`, which the container does not name: it has `http`",
    ),
    "a volume that the pod does not have": (
        "decode.yaml",
        "            - name: state\n              mountPath",
        "            - name: states\n              mountPath",
        Kind.REFUSED,
        "mounts volume `states`, which its pod does not have",
    ),
    "a selector that does not match its own pods": (
        "prefill.yaml",
        "matchLabels:\n      app.kubernetes.io/instance: llama-3-3-70b-p5\n      app.kubernetes.io/component: prefill\n  template:",
        "matchLabels:\n      app.kubernetes.io/instance: llama-3-3-70b-p5\n      app.kubernetes.io/component: prefiller\n  template:",
        Kind.REFUSED,
        "does not match the labels of its template",
    ),
    "fewer devices requested than the limit says": (
        "prefill.yaml",
        "nvidia.com/gpu: 8\n              vpc.amazonaws.com/efa: 32\n              memory: 1792Gi\n              ephemeral-storage: 50Gi\n            limits",
        "nvidia.com/gpu: 4\n              vpc.amazonaws.com/efa: 32\n              memory: 1792Gi\n              ephemeral-storage: 50Gi\n            limits",
        Kind.REFUSED,
        "requests 4 `nvidia.com/gpu` with a limit of 8",
    ),
    "a disruption budget that is no number": (
        "decode.yaml",
        "maxUnavailable: 1\n  unhealthy",
        "maxUnavailable: one\n  unhealthy",
        Kind.REFUSED,
        "`maxUnavailable` of PodDisruptionBudget `llama-3-3-70b-p5-workers/decode` is `one`",
    ),
    "a quantity that is none": (
        "decode.yaml",
        "cpu: 176",
        "cpu: 176 cores",
        Kind.REFUSED,
        "`cpu` of Deployment `llama-3-3-70b-p5-workers/decode` is no quantity: `176 cores`",
    ),
    "a router that may not watch EndpointSlices": (
        "router.yaml",
        "      - watch\n",
        "",
        Kind.BROKEN,
        "may not list and watch EndpointSlices",
    ),
}


@pytest.mark.parametrize("name", CATCHES)
def test_trouble_is_said_with_its_place_before_anything_starts(name: str, tmp_path: Path) -> None:
    file, old, new, kind, says = CATCHES[name]
    plan = planned(tmp_path, {file: [(old, new)]})
    found = [each for each in plan.troubles if each.kind is kind and says in each.says]
    assert found, [str(each) for each in plan.troubles]
    assert {Path(each.file or "").name for each in found} == {file}
    assert all(each.line and each.fix for each in found)


def test_a_replica_too_many_stays_pending(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"decode.yaml": [("replicas: 1\n", "replicas: 2\n")]})
    (trouble,) = plan.troubles
    assert trouble.kind is Kind.PENDING
    assert "pod 2 of 2 of Deployment `llama-3-3-70b-p5-workers/decode` has no node: 0/4 nodes" in trouble.says
    assert "Insufficient nvidia.com/gpu" in trouble.says


def test_roles_that_must_keep_apart_do_not_share_a_node(tmp_path: Path) -> None:
    moved = [("instance-group-name: prefill", "instance-group-name: decode")]
    plan = planned(tmp_path, {"prefill.yaml": [*moved, ("gpu: 8", "gpu: 0"), ("efa: 32", "efa: 0")]})
    pending = [each.says for each in plan.troubles if each.kind is Kind.PENDING]
    assert len(pending) == 1
    assert "1 node(s) didn't match pod anti-affinity rules" in pending[0]


def test_pods_that_the_operator_makes_are_not_rehearsed() -> None:
    plan = plan_rehearsal([RENDERED / "operator"], deployment())
    (trouble,) = plan.troubles
    assert trouble.kind is Kind.ELSEWHERE
    assert "made by the HyperPod inference operator" in trouble.says


@pytest.mark.parametrize(("file", "missing"), [("colocated.yaml", "engine"), ("router.yaml", "router")])
def test_a_profile_that_answers_nobody_is_refused_before_anything_starts(
    file: str, missing: str, tmp_path: Path
) -> None:
    folder = copied(tmp_path, {file: [("replicas: 1\n", "replicas: 0\n")]}, "baseline")
    with pytest.raises(RefusedError) as error:
        rehearse_profiles(deployment(), [("baseline", folder)], options=Options())
    (trouble,) = error.value.troubles
    assert trouble.says == f"`{folder}` has no {missing}, and no client would get an answer"
