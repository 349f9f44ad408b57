"""The admission policy of the workers' namespace, evaluated over every rendered pod and over mutants."""

import copy
import json
from collections.abc import Callable
from typing import Any

import cel
import pytest

from hyperpod_dpd.serving.bindings import bind, read_values
from hyperpod_dpd.serving.profile import Profile
from tests.support.manifests import BOUND, CASES, Manifest, find, pods, rendering

Pod = dict[str, Any]


def bound(entry: Manifest) -> dict[str, Any]:
    """Return `entry` as it reaches the cluster."""
    loaded = json.loads(bind(json.dumps(entry), read_values(BOUND)))
    assert isinstance(loaded, dict)
    return loaded


def refusals(policy: Manifest, pod: Manifest) -> list[str]:
    """Return the messages of every validation that `pod` fails.

    An expression that cannot be evaluated raises: the API server would refuse the pod for the wrong reason.
    """
    context: dict[str, Any] = {"object": pod}
    context["variables"] = {
        each["name"]: cel.evaluate(each["expression"], context) for each in policy["spec"]["variables"]
    }
    return [
        each["message"]
        for each in policy["spec"]["validations"]
        if cel.evaluate(each["expression"], context) is not True
    ]


def policy_of(name: str, profile: Profile = Profile.SELF_MANAGED) -> dict[str, Any]:
    return bound(find(rendering(name, profile).objects, "ValidatingAdmissionPolicy"))


def worker(name: str = "p5") -> Pod:
    """Return a decoder as EKS Pod Identity's webhook leaves it."""
    (found,) = [bound(pod) for pod in pods(rendering(name).objects) if pod["metadata"]["name"] == "decode"]
    found["spec"]["volumes"].append(
        {
            "name": "eks-pod-identity-token",
            "projected": {
                "sources": [
                    {
                        "serviceAccountToken": {
                            "audience": "pods.eks.amazonaws.com",
                            "expirationSeconds": 86400,
                            "path": "eks-pod-identity-token",
                        }
                    }
                ]
            },
        }
    )
    return found


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_every_rendered_worker_is_admitted(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    policy = policy_of(name, profile)
    held = find(objects, "ValidatingAdmissionPolicyBinding")["spec"]["matchResources"]["namespaceSelector"]
    (namespace,) = held["matchLabels"].values()
    workers = [bound(pod) for pod in pods(objects) if pod["metadata"]["namespace"] == namespace]
    assert workers
    for pod in workers:
        assert refusals(policy, pod) == [], pod["metadata"]["name"]


def test_a_worker_with_pod_identitys_volume_is_admitted() -> None:
    assert refusals(policy_of("p5"), worker()) == []


def test_the_policy_refuses_rather_than_looks_away() -> None:
    for name, profile in CASES:
        objects = rendering(name, profile).objects
        spec = find(objects, "ValidatingAdmissionPolicy")["spec"]
        assert spec["failurePolicy"] == "Fail"
        (rule,) = spec["matchConstraints"]["resourceRules"]
        assert set(rule["resources"]) == {"pods", "pods/ephemeralcontainers"}
        assert set(rule["operations"]) == {"CREATE", "UPDATE"}
        actions = find(objects, "ValidatingAdmissionPolicyBinding")["spec"]["validationActions"]
        assert "Deny" in actions


def on_pod(**changes: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"].update(changes)


def on_container(**changes: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"]["containers"][0].update(changes)


def on_security(**changes: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"]["containers"][0]["securityContext"].update(changes)


def without(*path: Any) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        node: Any = pod["spec"]
        for step in path[:-1]:
            node = node[step]
        del node[path[-1]]

    return change


def added_volume(source: Manifest, name: str = "extra") -> Callable[[Pod], None]:
    return lambda pod: pod["spec"]["volumes"].append({"name": name, **source})


def api_token(audience: str | None) -> Manifest:
    token = {"path": "token"} | ({"audience": audience} if audience else {})
    return {"projected": {"sources": [{"serviceAccountToken": token}]}}


def added_init_container(**security: Any) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        extra = copy.deepcopy(pod["spec"]["containers"][0])
        extra["securityContext"].update(security)
        pod["spec"]["initContainers"] = [extra]

    return change


NAMESPACES = "workers share no namespace with their node or between their containers"
TOKEN = "workers run as ServiceAccount `worker` without a token of the API server"
VOLUMES = "workers mount emptyDir, ConfigMap and PersistentVolumeClaim only; never a path of the node"
DEBUG = "no debug containers in workers, because their memory holds prompts"
SECCOMP = "workers run under seccomp profile RuntimeDefault and set no sysctls"
PORTS = "workers take no port of their node"
PRIVILEGED = "workers are not privileged and cannot become it"
CAPABILITIES = "workers drop ALL capabilities and add none but IPC_LOCK"
IMAGES = "images of workers are pinned by digest"

MUTANTS: dict[str, tuple[Callable[[Pod], None], str]] = {
    "network of the node": (on_pod(hostNetwork=True), NAMESPACES),
    "processes of the node": (on_pod(hostPID=True), NAMESPACES),
    "memory of the node": (on_pod(hostIPC=True), NAMESPACES),
    "shared processes": (on_pod(shareProcessNamespace=True), NAMESPACES),
    "another account": (on_pod(serviceAccountName="default"), TOKEN),
    "no account": (without("serviceAccountName"), TOKEN),
    "token": (on_pod(automountServiceAccountToken=True), TOKEN),
    "token by default": (without("automountServiceAccountToken"), TOKEN),
    "devices of the node": (added_volume({"hostPath": {"path": "/dev/infiniband"}}), VOLUMES),
    "secret": (added_volume({"secret": {"secretName": "other"}}), VOLUMES),
    "token by volume": (added_volume(api_token(None)), VOLUMES),
    "token under pod identity's name": (
        added_volume(api_token("https://kubernetes.default.svc"), "eks-pod-identity-token"),
        VOLUMES,
    ),
    "token without audience under that name": (
        added_volume(api_token(None), "eks-pod-identity-token"),
        VOLUMES,
    ),
    "path under pod identity's name": (
        added_volume({"hostPath": {"path": "/"}}, "eks-pod-identity-token"),
        VOLUMES,
    ),
    "secret under pod identity's name": (
        added_volume({"projected": {"sources": [{"secret": {"name": "other"}}]}}, "eks-pod-identity-token"),
        VOLUMES,
    ),
    "debug container": (on_pod(ephemeralContainers=[{"name": "debugger", "image": "busybox"}]), DEBUG),
    "no seccomp": (without("securityContext", "seccompProfile"), SECCOMP),
    "no security context": (without("securityContext"), SECCOMP),
    "unconfined": (on_pod(securityContext={"seccompProfile": {"type": "Unconfined"}}), SECCOMP),
    "unconfined container": (on_security(seccompProfile={"type": "Unconfined"}), SECCOMP),
    "sysctl": (
        lambda pod: pod["spec"]["securityContext"].update(
            sysctls=[{"name": "kernel.shm_rmid_forced", "value": "1"}]
        ),
        SECCOMP,
    ),
    "port of the node": (on_container(ports=[{"containerPort": 8000, "hostPort": 8000}]), PORTS),
    "privileged": (on_security(privileged=True), PRIVILEGED),
    "escalation": (on_security(allowPrivilegeEscalation=True), PRIVILEGED),
    "escalation by default": (
        without("containers", 0, "securityContext", "allowPrivilegeEscalation"),
        PRIVILEGED,
    ),
    "unmasked proc": (on_security(procMount="Unmasked"), PRIVILEGED),
    "privileged init container": (added_init_container(privileged=True), PRIVILEGED),
    "another capability": (
        on_security(capabilities={"drop": ["ALL"], "add": ["IPC_LOCK", "SYS_ADMIN"]}),
        CAPABILITIES,
    ),
    "prefixed capability": (
        on_security(capabilities={"drop": ["ALL"], "add": ["CAP_IPC_LOCK"]}),
        CAPABILITIES,
    ),
    "every capability": (on_security(capabilities={"drop": ["ALL"], "add": ["ALL"]}), CAPABILITIES),
    "default capabilities": (on_security(capabilities={"add": ["IPC_LOCK"]}), CAPABILITIES),
    "capabilities unsaid": (without("containers", 0, "securityContext", "capabilities"), CAPABILITIES),
    "some capabilities kept": (
        on_security(capabilities={"drop": ["NET_RAW"], "add": ["IPC_LOCK"]}),
        CAPABILITIES,
    ),
    "init container with a capability": (
        added_init_container(capabilities={"drop": ["ALL"], "add": ["NET_RAW"]}),
        CAPABILITIES,
    ),
    "tag": (on_container(image="vllm/vllm-openai:latest"), IMAGES),
    "tag that looks like a digest": (on_container(image="evil/sha256:0123456789abcdef"), IMAGES),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_pod_that_asks_for_more_is_refused_for_that_reason_alone(mutant: str) -> None:
    change, message = MUTANTS[mutant]
    pod = worker()
    change(pod)
    assert refusals(policy_of("p5"), pod) == [message]


def test_a_container_that_says_nothing_about_security_is_refused_for_what_it_would_get() -> None:
    pod = worker()
    del pod["spec"]["containers"][0]["securityContext"]
    assert refusals(policy_of("p5"), pod) == [PRIVILEGED, CAPABILITIES]


HARMLESS: dict[str, Callable[[Pod], None]] = {
    "no volumes": without("volumes"),
    "claim": added_volume({"persistentVolumeClaim": {"claimName": "weights"}}),
    "empty list of debug containers": on_pod(ephemeralContainers=[]),
    "no ports": without("containers", 0, "ports"),
    "host port 0": on_container(ports=[{"containerPort": 8000, "hostPort": 0}]),
    "seccomp said twice": on_security(seccompProfile={"type": "RuntimeDefault"}),
    "no capability": on_security(capabilities={"drop": ["ALL"]}),
    "not privileged, said": on_security(privileged=False, procMount="Default"),
    "not on the host, said": on_pod(hostNetwork=False, hostPID=False, hostIPC=False),
    "init container": added_init_container(),
}


@pytest.mark.parametrize("variant", HARMLESS)
def test_a_pod_that_asks_for_less_or_says_the_default_is_admitted(variant: str) -> None:
    pod = worker()
    HARMLESS[variant](pod)
    assert refusals(policy_of("p5"), pod) == []


def test_every_validation_has_a_mutant() -> None:
    messages = {each["message"] for each in policy_of("p5")["spec"]["validations"]}
    assert messages == {message for _, message in MUTANTS.values()}


def test_an_image_without_a_digest_is_admitted_only_when_the_deployment_names_it() -> None:
    policy, pod = policy_of("lmcache-0.4.3"), worker("lmcache-0.4.3")
    image = pod["spec"]["containers"][0]["image"]
    assert "@" not in image
    assert refusals(policy, pod) == []
    pod["spec"]["containers"][0]["image"] = image + "x"
    assert len(refusals(policy, pod)) == 1


def test_the_escape_hatch_opens_privilege_and_nothing_else() -> None:
    usual = {each["message"] for each in policy_of("p5")["spec"]["validations"]}
    opened = {each["message"] for each in policy_of("privileged")["spec"]["validations"]}
    assert usual - opened == {PRIVILEGED, CAPABILITIES}
    pod = worker("privileged")
    pod["spec"]["hostNetwork"] = True
    assert refusals(policy_of("privileged"), pod) == [NAMESPACES]
