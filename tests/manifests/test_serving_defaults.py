"""Defaults that public failures ask for, in the rendered pods."""

import pytest

from dpd_router.metrics import Metrics
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import render
from tests.support.deployments import changed, ready
from tests.support.manifests import CASES, find, pods, rendering


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_no_pod_is_told_about_services_by_variables(name: str, profile: Profile) -> None:
    """A Service called `vllm` would give every pod `VLLM_PORT=tcp://…`, which vLLM reads."""
    for pod in pods(rendering(name, profile).objects):
        assert pod["spec"]["enableServiceLinks"] is False, pod["metadata"]["name"]


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_workers_may_lock_memory_and_nothing_else(role: str) -> None:
    worker = find(rendering("p5", Profile.SELF_MANAGED).objects, "Deployment", role)
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    context = container["securityContext"]
    assert context["capabilities"] == {"add": ["IPC_LOCK"], "drop": ["ALL"]}
    assert context.get("privileged", False) is False
    assert context["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_every_privilege_is_an_acknowledged_choice(role: str) -> None:
    privileged = changed(ready(), serving__security__workers="privileged")
    worker = find(render(privileged, Profile.SELF_MANAGED).objects, "Deployment", role)
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["privileged"] is True


def test_metrics_of_the_router_have_a_prefix_of_their_own() -> None:
    """Several routers export names with vLLM's prefix, which would be added to the workers'."""
    names = [family.name for family in Metrics().registry.collect()]
    own = [name for name in names if not name.startswith(("process_", "python_gc_"))]
    assert len(own) > 10
    assert [name for name in own if not name.startswith("dpd_router_")] == []
