"""Whatever one object names, another one has: labels, ports, ConfigMaps, Secrets, accounts, claims, hosts."""

import json
import re
from typing import Any

import pytest
import yaml

from hyperpod_dpd.serving.bindings import bind, read_values
from hyperpod_dpd.serving.profile import Profile
from tests.support.manifests import (
    BOUND,
    CASES,
    Manifest,
    containers,
    deployments,
    find,
    of_kind,
    pods,
    rendering,
    walk,
)

pytestmark = pytest.mark.parametrize(("name", "profile"), CASES)


def selected(objects: tuple[Manifest, ...], namespace: str, labels: Manifest) -> list[Manifest]:
    return [
        pod
        for pod in pods(objects)
        if pod["metadata"]["namespace"] == namespace and labels.items() <= pod["metadata"]["labels"].items()
    ]


def test_every_selector_selects_what_it_should(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    for entry in of_kind(objects, "Deployment"):
        labels = entry["spec"]["selector"]["matchLabels"]
        own = selected(objects, entry["metadata"]["namespace"], labels)
        assert [pod["metadata"]["name"] for pod in own] == [entry["metadata"]["name"]], (
            "a Deployment counts another one's pods"
        )
        assert not any("generation" in label for label in labels), "a selector can never change"
    for entry in of_kind(objects, "PodDisruptionBudget"):
        labels = entry["spec"]["selector"]["matchLabels"]
        assert len(selected(objects, entry["metadata"]["namespace"], labels)) == 1
    for entry in of_kind(objects, "Service"):
        assert selected(objects, entry["metadata"]["namespace"], entry["spec"]["selector"]), entry["metadata"]


def test_every_workload_has_a_disruption_budget_that_lets_one_go(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    budgets = of_kind(objects, "PodDisruptionBudget")
    assert {entry["metadata"]["name"] for entry in budgets} == {
        entry["metadata"]["name"] for entry in of_kind(objects, "Deployment")
    }
    for entry in budgets:
        assert entry["spec"]["maxUnavailable"] == 1
        assert "minAvailable" not in entry["spec"], "it would block node patching"


def test_every_service_port_is_a_port_of_every_selected_pod(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    for service in of_kind(objects, "Service"):
        for pod in selected(objects, service["metadata"]["namespace"], service["spec"]["selector"]):
            offered = {
                (port["name"], port["containerPort"])
                for each in containers(pod)
                for port in each.get("ports", ())
            }
            assert {(port["name"], port["targetPort"]) for port in service["spec"]["ports"]} <= offered


def test_every_probe_asks_a_port_that_its_container_has(name: str, profile: Profile) -> None:
    for pod in pods(rendering(name, profile).objects):
        for container in pod["spec"]["containers"]:
            named = {port["name"] for port in container["ports"]}
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                if kind in container:
                    assert container[kind]["httpGet"]["port"] in named
                    assert not container[kind]["httpGet"]["path"].startswith("/v1/"), (
                        "a prefiller fails on a prompt without `disagg_spec`"
                    )


def test_every_volume_is_mounted_and_every_mount_has_a_volume(name: str, profile: Profile) -> None:
    for pod in pods(rendering(name, profile).objects):
        offered = {volume["name"] for volume in pod["spec"]["volumes"]}
        mounted = [mount for each in containers(pod) for mount in each.get("volumeMounts", ())]
        assert {mount["name"] for mount in mounted} == offered
        for container in containers(pod):
            paths = [mount["mountPath"] for mount in container["volumeMounts"]]
            assert len(paths) == len(set(paths)), "two volumes at one path"


def test_what_pods_refer_to_exists_in_their_namespace(name: str, profile: Profile) -> None:
    rendered = rendering(name, profile)
    objects = rendered.objects

    def names_of(kind: str, namespace: str) -> set[str]:
        return {
            entry["metadata"]["name"]
            for entry in of_kind(objects, kind)
            if entry["metadata"]["namespace"] == namespace
        }

    for pod in pods(objects):
        namespace = pod["metadata"]["namespace"]
        assert pod["spec"]["serviceAccountName"] in names_of("ServiceAccount", namespace)
        for _, node in walk(pod["spec"]):
            match node:
                case {"configMap": {"name": wanted}}:
                    assert wanted in names_of("ConfigMap", namespace)
                case {"secretKeyRef": {"name": wanted, "key": key}}:
                    assert (wanted, key) in secrets(objects, namespace)
                case {"secret": {"secretName": wanted}}:
                    assert wanted in {each for each, _ in secrets(objects, namespace)}
                case {"persistentVolumeClaim": {"claimName": wanted}}:
                    given = getattr(deployments()[name].model.source, "claim", None)
                    assert wanted == given or wanted in names_of("PersistentVolumeClaim", namespace)


def secrets(objects: tuple[Manifest, ...], namespace: str) -> set[tuple[str, str]]:
    """Return name and key of every Secret that External Secrets writes in `namespace`."""
    found = set()
    for entry in of_kind(objects, "ExternalSecret"):
        if entry["metadata"]["namespace"] == namespace:
            store = entry["spec"]["secretStoreRef"]["name"]
            assert store in {
                each["metadata"]["name"]
                for each in of_kind(objects, "SecretStore")
                if each["metadata"]["namespace"] == namespace
            }
            found |= {(entry["spec"]["target"]["name"], data["secretKey"]) for data in entry["spec"]["data"]}
    return found


def test_every_command_runs_a_file_that_its_config_map_has(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    for pod in pods(objects):
        for container in containers(pod):
            command = [
                *container.get("command", ()),
                *container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ()),
                *(entry.get("value", "") for entry in container.get("env", ())),
            ]
            for text in command:
                if text.startswith("/etc/dpd/"):
                    config = find(objects, "ConfigMap", pod["metadata"]["name"])
                    assert text.removeprefix("/etc/dpd/") in config["data"], text


def test_every_namespace_and_role_that_is_named_exists(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    namespaces = {entry["metadata"]["name"] for entry in of_kind(objects, "Namespace")}
    assert {entry["metadata"].get("namespace") for entry in objects} - {None} <= namespaces
    roles = {(role["metadata"]["namespace"], role["metadata"]["name"]) for role in of_kind(objects, "Role")}
    bindings = of_kind(objects, "RoleBinding")
    # no role without a binding, and no binding without a role, in the binding's own namespace
    assert {(one["metadata"]["namespace"], one["roleRef"]["name"]) for one in bindings} == roles
    for binding in bindings:
        (subject,) = binding["subjects"]
        account = find(objects, "ServiceAccount", subject["name"])
        assert subject["namespace"] == account["metadata"]["namespace"]
    policy = find(objects, "ValidatingAdmissionPolicy")
    bound = find(objects, "ValidatingAdmissionPolicyBinding")
    assert bound["spec"]["policyName"] == policy["metadata"]["name"]
    held = bound["spec"]["matchResources"]["namespaceSelector"]["matchLabels"]
    assert set(held.values()) <= namespaces


def test_nothing_is_named_twice(name: str, profile: Profile) -> None:
    identities = [
        (entry["apiVersion"], entry["kind"], entry["metadata"].get("namespace"), entry["metadata"]["name"])
        for entry in rendering(name, profile).objects
    ]
    assert len(identities) == len(set(identities))


def test_names_are_names(name: str, profile: Profile) -> None:
    for entry in rendering(name, profile).objects:
        metadata = entry["metadata"]
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", metadata["name"])
    # labels are names only once they are bound
    bound = json.loads(bind(json.dumps(rendering(name, profile).objects), read_values(BOUND)))
    labels = [
        node["labels"]
        for entry in bound
        for _, node in walk(entry)
        if isinstance(node, dict) and "labels" in node
    ]
    assert len(labels) > len(bound)
    for label, value in (pair for each in labels for pair in each.items()):
        assert re.fullmatch(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,62}", label)
        assert re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", value), value


def test_the_router_finds_the_services_and_ports_that_its_arguments_name(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    arguments = router_arguments(objects)
    wanted = [arguments["decode-service"]]
    if profile is Profile.SELF_MANAGED:
        wanted.append(arguments["prefill-service"])
    else:
        assert arguments["threshold"] == "never"
    for service_name in wanted:
        service = find(objects, "Service", service_name)
        assert service["metadata"]["namespace"] == arguments["namespace"]
        assert [port["name"] for port in service["spec"]["ports"]] == [arguments["worker-port-name"]]
    ports = {port["name"]: port["port"] for port in find(objects, "Service", "router")["spec"]["ports"]}
    assert ports == {"http": int(arguments["port"]), "kv-notify": int(arguments["notification-port"])}
    assert (int(arguments["port"]), int(arguments["notification-port"])) == (8081, 7500)


def router_arguments(objects: tuple[Manifest, ...]) -> dict[str, str]:
    (container,) = find(objects, "Deployment", "router")["spec"]["template"]["spec"]["containers"]
    return dict(argument.removeprefix("--").split("=", 1) for argument in container["args"])


def test_prefillers_notify_the_host_and_port_of_the_router_service(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    for config in of_kind(objects, "ConfigMap"):
        lmcache: dict[str, Any] = yaml.safe_load(config["data"].get("lmcache.yaml", "{}"))
        if lmcache.get("pd_role") != "sender":
            continue
        service_name, namespace, kind, *_ = lmcache["pd_proxy_host"].split(".")
        assert kind == "svc"
        service = find(objects, "Service", service_name)
        assert service["metadata"]["namespace"] == namespace
        assert lmcache["pd_proxy_port"] in {port["port"] for port in service["spec"]["ports"]}


def test_an_fsx_volume_can_be_claimed_by_the_workers_only(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    for volume in of_kind(objects, "PersistentVolume"):
        claim = find(objects, "PersistentVolumeClaim")
        assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
        assert volume["spec"]["claimRef"] == {
            "namespace": claim["metadata"]["namespace"],
            "name": claim["metadata"]["name"],
        }
        assert claim["spec"]["accessModes"] == volume["spec"]["accessModes"] == ["ReadWriteMany"]
        assert "ro" in volume["spec"]["mountOptions"], "the driver knows no ReadOnlyMany"
        assert claim["spec"]["resources"]["requests"]["storage"] == volume["spec"]["capacity"]["storage"]
