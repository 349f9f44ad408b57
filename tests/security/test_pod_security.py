"""Every rendered pod against the Pod Security Standards, with the exceptions pinned one by one."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hyperpod_dpd.serving.profile import Profile
from tests.support.manifests import CASES, Manifest, containers, find, pods, rendering

RESTRICTED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}

BASELINE_CAPABILITIES = {
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
}


def violations(pod: Manifest) -> set[tuple[str, str]]:
    """Return the controls of level `restricted` (kubernetes.io, Pod Security Standards, v1.35) that `pod` violates.

    Each with the container that does, or `pod`.
    """
    found = {("pod", control) for control in pod_violations(pod["spec"])}
    for container in containers(pod):
        for control in container_violations(container, pod["spec"].get("securityContext", {})):
            found.add((container["name"], control))
    return found


def pod_violations(spec: Manifest) -> Iterator[str]:
    if any(spec.get(each) for each in ("hostNetwork", "hostPID", "hostIPC")):
        yield "host namespaces"
    security = spec.get("securityContext", {})
    if security.get("sysctls"):
        yield "sysctls"
    if security.get("windowsOptions", {}).get("hostProcess"):
        yield "host process"
    for volume in spec.get("volumes", ()):
        if "hostPath" in volume:
            yield "host path volumes"
        if not set(volume) - {"name"} <= RESTRICTED_VOLUMES:
            yield "volume types"


def container_violations(container: Manifest, pod_security: Manifest) -> Iterator[str]:
    security = container.get("securityContext", {})
    if security.get("privileged"):
        yield "privileged"
    if security.get("allowPrivilegeEscalation") is not False:
        yield "privilege escalation"
    if security.get("procMount", "Default") != "Default":
        yield "proc mount"
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield "host ports"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if container.get(probe, {}).get("httpGet", {}).get("host"):
            yield "host probes"
    if security.get("runAsNonRoot", pod_security.get("runAsNonRoot")) is not True:
        yield "running as non-root"
    if security.get("runAsUser", pod_security.get("runAsUser")) == 0:
        yield "non-root user"
    seccomp = security.get("seccompProfile", pod_security.get("seccompProfile", {}))
    if seccomp.get("type") not in {"RuntimeDefault", "Localhost"}:
        yield "seccomp"
    for each in (security, pod_security):
        if each.get("appArmorProfile", {}).get("type", "RuntimeDefault") == "Unconfined":
            yield "app armor"
        if each.get("seLinuxOptions"):
            yield "selinux"
    capabilities = security.get("capabilities", {})
    if not set(capabilities.get("add", ())) <= BASELINE_CAPABILITIES:
        yield "baseline capabilities"
    if "ALL" not in capabilities.get("drop", ()) or not set(capabilities.get("add", ())) <= {
        "NET_BIND_SERVICE"
    }:
        yield "capabilities"


ROOT_USER = {"running as non-root", "non-root user"}
"""IPC_LOCK is inert for another user (NVIDIA/nvcf#1354)."""

LOCKED_MEMORY = {"baseline capabilities", "capabilities"}
"""IPC_LOCK: EFA registers GPU memory, which locks it (dynamo#8146)."""

PRIVILEGED = {"privileged", "privilege escalation", "capabilities"}
"""The escape hatch, which a deployment has to ask for and acknowledge."""


def accepted(name: str, profile: Profile, container: str) -> set[str]:
    if container == "router":
        return set()
    if container == "model" or profile is not Profile.SELF_MANAGED:
        return ROOT_USER
    return ROOT_USER | (PRIVILEGED if name == "privileged" else LOCKED_MEMORY)


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_every_pod_is_restricted_except_for_what_is_pinned_here(name: str, profile: Profile) -> None:
    for pod in pods(rendering(name, profile).objects):
        expected = {
            (container["name"], control)
            for container in containers(pod)
            for control in accepted(name, profile, container["name"])
        }
        assert violations(pod) == expected


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_only_the_restricted_pods_are_in_the_restricted_namespace(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    for pod in pods(objects):
        namespace = find(objects, "Namespace", pod["metadata"]["namespace"])
        level = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        assert level == ("privileged" if violations(pod) else "restricted")
        assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/audit"] == "restricted"


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_no_pod_writes_to_its_image_or_holds_a_token_that_it_does_not_need(
    name: str, profile: Profile
) -> None:
    for pod in pods(rendering(name, profile).objects):
        assert pod["spec"]["automountServiceAccountToken"] is (pod["metadata"]["name"] == "router")
        assert pod["spec"]["enableServiceLinks"] is False
        for container in containers(pod):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_no_secret_is_in_a_rendered_file(name: str, profile: Profile) -> None:
    assert not [entry for entry in rendering(name, profile).objects if entry["kind"] == "Secret"]
    for pod in pods(rendering(name, profile).objects):
        for container in containers(pod):
            for entry in container.get("env", ()):
                secret = any(word in entry["name"] for word in ("TOKEN", "SECRET", "PASSWORD", "API_KEY"))
                assert not (secret and "value" in entry), entry["name"]


def on_container(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(pod: dict[str, Any]) -> None:
        pod["spec"]["containers"][0]["securityContext"].update(changes)

    return change


def on_pod(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda pod: pod["spec"].update(changes)


MUTANTS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "host network": (on_pod(hostNetwork=True), "host namespaces"),
    "host processes": (on_pod(hostPID=True), "host namespaces"),
    "host path": (
        on_pod(volumes=[{"name": "a", "hostPath": {"path": "/dev/infiniband"}}]),
        "host path volumes",
    ),
    "sysctl": (on_pod(securityContext={"sysctls": [{"name": "a", "value": "b"}]}), "sysctls"),
    "privileged": (on_container(privileged=True), "privileged"),
    "escalation": (on_container(allowPrivilegeEscalation=True), "privilege escalation"),
    "unmasked": (on_container(procMount="Unmasked"), "proc mount"),
    "root": (on_container(runAsUser=0), "non-root user"),
    "maybe root": (on_container(runAsNonRoot=False), "running as non-root"),
    "unconfined": (on_container(seccompProfile={"type": "Unconfined"}), "seccomp"),
    "capability": (
        on_container(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}),
        "baseline capabilities",
    ),
    "kept capabilities": (on_container(capabilities={}), "capabilities"),
    "app armor": (on_container(appArmorProfile={"type": "Unconfined"}), "app armor"),
    "selinux": (on_container(seLinuxOptions={"type": "spc_t"}), "selinux"),
    "host port": (lambda pod: pod["spec"]["containers"][0].update(ports=[{"hostPort": 80}]), "host ports"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_sees_every_violation(mutant: str) -> None:
    (router,) = [pod for pod in pods(rendering("p5").objects) if pod["metadata"]["name"] == "router"]
    changed = copy.deepcopy(dict(router))
    change, control = MUTANTS[mutant]
    change(changed)
    assert control in {found for _, found in violations(changed)}
