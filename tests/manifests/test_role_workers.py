"""The workers of one role, in somebody's own chart."""

import cdk8s
import cdk8s_plus_27 as kplus
import pytest

from hyperpod_dpd import Role, RoleWorkers
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import render
from hyperpod_dpd.spec import Scaling
from tests.support.deployments import changed, ready

SCALED = changed(
    ready(),
    platform__autoscaling=True,
    serving__decode__scaling=Scaling(minimum=1, maximum=2),
)


@pytest.mark.parametrize("role", [Role.PREFILL, Role.DECODE])
def test_a_role_in_a_chart_of_ones_own_is_what_the_profile_has(role: Role) -> None:
    app = cdk8s.App()
    chart = cdk8s.Chart(app, "mine", namespace="mine", disable_resource_name_hashes=True)
    kplus.ConfigMap(chart, "contact", data={"on-call": "ml-platform@example.com"})
    workers = RoleWorkers(chart, "workers", deployment=SCALED, role=role)
    contact, *objects = chart.to_json()
    assert contact["kind"] == "ConfigMap"
    (file,) = [each for each in render(SCALED, Profile.SELF_MANAGED).files if each.name == role.value]
    assert objects == list(file.objects)
    assert {each["metadata"]["namespace"] for each in objects} == {workers.namespace}
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == workers.service_account
    assert deployment["spec"]["progressDeadlineSeconds"] == workers.progress_deadline_seconds
    assert [each["metadata"]["name"] for each in objects if each["kind"] == "Service"] == [workers.service]
    assert any(each["kind"] == "ScaledObject" for each in objects) == (role is Role.DECODE)


def test_colocated_workers_are_no_role_of_their_own() -> None:
    chart = cdk8s.Chart(cdk8s.App(), "mine")
    with pytest.raises(ValueError, match=r"given `role: colocated`, limit `prefill` or `decode`\. help: "):
        RoleWorkers(chart, "workers", deployment=ready(), role=Role.COLOCATED)
