"""What the schemas do not check: nulls, dropped fields, capability names, quantities, enumerations."""

import re
from typing import Any

import cdk8s
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperpod_dpd.serving.objects import api_object
from hyperpod_dpd.serving.profile import Profile
from tests.support.manifests import CASES, OPERATOR_CASES, containers, of_kind, pods, rendering, walk

QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")

# capabilities(7), Linux 6.1, without the prefix that the kernel's header has and Kubernetes does not want
CAPABILITIES = {"ALL", "IPC_LOCK"}

ENUMERATIONS = {
    "imagePullPolicy": {"Always", "IfNotPresent", "Never"},
    "protocol": {"TCP", "UDP", "SCTP"},
    "policyTypes": {"Ingress", "Egress"},
    "pathType": {"Prefix", "Exact", "ImplementationSpecific"},
    "operator": {"In", "NotIn", "Exists", "DoesNotExist", "Equal"},
    "effect": {"NoSchedule", "PreferNoSchedule", "NoExecute"},
    "failurePolicy": {"Fail", "Ignore"},
    "validationActions": {"Deny", "Warn", "Audit"},
    "reason": {"Forbidden", "Invalid", "Unauthorized", "RequestEntityTooLarge"},
    "operations": {"CREATE", "UPDATE", "DELETE", "CONNECT", "*"},
    "medium": {"Memory", "HugePages", "HugePages-2Mi", "HugePages-1Gi", ""},
    "unhealthyPodEvictionPolicy": {"AlwaysAllow", "IfHealthyBudget"},
    "accessModes": {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"},
    "persistentVolumeReclaimPolicy": {"Retain", "Delete"},
    "volumeMode": {"Filesystem", "Block"},
    "verbs": {"get", "list", "watch"},
}

JSON = st.recursive(
    st.booleans() | st.integers(-(2**31), 2**31) | st.text("abcXYZ-/. ", max_size=8),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text("abcXYZ-/.~", min_size=1), below, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(("name", "profile"), [*CASES, *OPERATOR_CASES])
def test_nothing_is_null_or_empty_by_accident(name: str, profile: Profile) -> None:
    allowed_empty = re.compile(
        r"\.(podSelector|emptyDir)$|\.storageClassName$|\.apiGroups?(\[0\])?$|\.value$"
    )
    for entry in rendering(name, profile).objects:
        for path, value in walk(entry):
            assert value is not None, f"{entry['kind']}{path}"
            assert value not in ({}, [], "") or allowed_empty.search(path), f"{entry['kind']}{path} is empty"


@settings(max_examples=40, deadline=None)
@given(spec=st.dictionaries(st.text("abcXYZ-/.~", min_size=1), JSON, max_size=4))
def test_api_objects_pass_every_field_through(spec: dict[str, Any]) -> None:
    chart = cdk8s.Chart(cdk8s.App(), "chart")
    api_object(chart, "it", api_version="v1", kind="Thing", name="thing", labels={}, spec=spec)
    (entry,) = chart.to_json()
    assert entry.get("spec", {}) == spec


def test_a_value_that_would_vanish_is_refused() -> None:
    chart = cdk8s.Chart(cdk8s.App(), "chart")
    with pytest.raises(ValueError, match=r"`Thing` `thing` has no value at `/spec/limits/nvidia.com/gpu`"):
        api_object(
            chart,
            "it",
            api_version="v1",
            kind="Thing",
            name="thing",
            labels={},
            spec={"limits": {"nvidia.com/gpu": None}},
        )


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_capabilities_have_kubernetes_names(name: str, profile: Profile) -> None:
    for pod in pods(rendering(name, profile).objects):
        for container in containers(pod):
            for names in container["securityContext"].get("capabilities", {}).values():
                assert set(names) <= CAPABILITIES
    assert "CAP_" not in "".join(rendering(name, profile).texts().values())


@pytest.mark.parametrize(("name", "profile"), [*CASES, *OPERATOR_CASES])
def test_quantities_are_quantities(name: str, profile: Profile) -> None:
    found = 0
    for entry in rendering(name, profile).objects:
        for path, value in walk(entry):
            if re.search(r"\.resources\.(limits|requests)$", path):
                for amount in value.values():
                    assert QUANTITY.fullmatch(str(amount)), f"{path}: {amount}"
                    found += 1
            if path.endswith((".sizeLimit", ".storage")):
                assert QUANTITY.fullmatch(str(value)), f"{path}: {value}"
    assert found >= (4 if profile.backend == "operator" else 8)


@pytest.mark.parametrize(("name", "profile"), [*CASES, *OPERATOR_CASES])
def test_enumerations_have_values_that_exist(name: str, profile: Profile) -> None:
    for entry in rendering(name, profile).objects:
        for path, value in walk(entry):
            allowed = ENUMERATIONS.get(path.rpartition(".")[2])
            if allowed is not None:
                given_values = value if isinstance(value, list) else [value]
                assert set(given_values) <= allowed, f"{entry['kind']}{path}: {value}"


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_devices_huge_pages_and_memory_are_requested_as_they_are_limited(name: str, profile: Profile) -> None:
    for entry in of_kind(rendering(name, profile).objects, "Deployment"):
        for container in entry["spec"]["template"]["spec"]["containers"]:
            limits, requests = container["resources"]["limits"], container["resources"]["requests"]
            assert {key: requests[key] for key in limits} == limits
            assert set(requests) - set(limits) <= {"cpu"}
