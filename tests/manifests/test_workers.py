"""What a worker's manifest says: devices, hand-off, placement, roll-out, drain, weights."""

import json
from typing import Any

import pytest
import yaml

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import render
from tests.support.deployments import changed, ready
from tests.support.manifests import (
    CASES,
    Manifest,
    containers,
    deployments,
    environment,
    find,
    of_kind,
    pods,
    rendering,
)


def worker(name: str, component: str, profile: Profile = Profile.SELF_MANAGED) -> Manifest:
    return find(rendering(name, profile).objects, "Deployment", component)


def engine(deployment: Manifest) -> Manifest:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def lmcache(name: str, component: str) -> dict[str, Any]:
    config = find(rendering(name).objects, "ConfigMap", component)
    loaded = yaml.safe_load(config["data"]["lmcache.yaml"])
    assert isinstance(loaded, dict)
    return loaded


def argument(container: Manifest, name: str) -> str:
    arguments = container["args"]
    value = arguments[arguments.index(name) + 1]
    assert isinstance(value, str)
    return value


@pytest.mark.parametrize(
    ("name", "component", "instance_type", "gpus", "efa"),
    [
        ("p5", "prefill", "ml.p5.48xlarge", 8, 32),
        ("p5", "decode", "ml.p5.48xlarge", 8, 32),
        ("p5en", "prefill", "ml.p5en.48xlarge", 8, 16),
        ("p5en", "decode", "ml.p5en.48xlarge", 8, 16),
        ("p5-p5en", "prefill", "ml.p5.48xlarge", 8, 32),
        ("p5-p5en", "decode", "ml.p5en.48xlarge", 8, 16),
        ("half-nodes", "prefill", "ml.p5.48xlarge", 4, 16),
        ("half-nodes", "decode", "ml.p5.48xlarge", 4, 16),
    ],
)
def test_a_worker_takes_its_gpus_and_their_share_of_efa(
    name: str, component: str, instance_type: str, gpus: int, efa: int
) -> None:
    deployment = worker(name, component)
    resources = engine(deployment)["resources"]
    for kind in ("limits", "requests"):
        assert resources[kind]["nvidia.com/gpu"] == gpus
        assert resources[kind]["vpc.amazonaws.com/efa"] == efa
    selector = deployment["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {
        "sagemaker.amazonaws.com/instance-group-name": component,
        "node.kubernetes.io/instance-type": instance_type,
    }
    assert argument(engine(deployment), "--tensor-parallel-size") == str(gpus)


@pytest.mark.parametrize("name", ["p5", "p5en", "p5-p5en", "half-nodes"])
def test_both_roles_hand_over_through_lmcache_and_libfabric(name: str) -> None:
    ranks = deployments()[name].serving.tensor_parallel
    configs = {component: lmcache(name, component) for component in ("prefill", "decode")}
    for config in configs.values():
        assert config["nixl_backends"] == ["LIBFABRIC"]
        assert type(config["pd_buffer_size"]) is int
    assert configs["prefill"]["pd_role"] == "sender"
    assert configs["decode"]["pd_role"] == "receiver"
    # the launcher adds the lists of its epoch, so that a decoder that restarts is another peer
    settings = environment(engine(worker(name, "decode")))
    facts = resolve(deployments()[name])
    assert int(settings["DPD_TENSOR_PARALLEL"]) == ranks == len(facts.decode_ports.init(0))
    assert int(settings["DPD_INIT_PORT_BASE"]) == facts.decode_ports.init_base
    seeds = {environment(engine(worker(name, each)))["PYTHONHASHSEED"] for each in ("prefill", "decode")}
    assert seeds == {"0"}


def test_connectors_are_opposite_and_named_on_both_roles() -> None:
    connectors = {
        component: json.loads(argument(engine(worker("p5", component)), "--kv-transfer-config"))
        for component in ("prefill", "decode")
    }
    assert {each["kv_connector"] for each in connectors.values()} == {"LMCacheConnectorV1"}
    assert connectors["prefill"]["kv_role"] == "kv_producer"
    assert connectors["decode"]["kv_role"] == "kv_consumer"
    assert connectors["decode"]["kv_connector_extra_config"]["skip_last_n_tokens"] == 1


@pytest.mark.parametrize("name", [name for name, profile in CASES if profile is Profile.SELF_MANAGED])
def test_prefill_and_decode_never_share_a_node(name: str) -> None:
    for component, other in (("prefill", "decode"), ("decode", "prefill")):
        terms = worker(name, component)["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
        (term,) = terms["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "kubernetes.io/hostname"
        avoided = term["labelSelector"]["matchLabels"]
        assert avoided.items() <= worker(name, other)["spec"]["template"]["metadata"]["labels"].items()
        assert (
            not avoided.items() <= worker(name, component)["spec"]["template"]["metadata"]["labels"].items()
        )


@pytest.mark.parametrize(
    ("name", "component", "surge"),
    [
        ("p5", "prefill", 0),
        ("p5", "decode", 0),
        ("p5-p5en", "decode", 0),
        # one node holds two such workers and has one
        ("half-nodes", "prefill", 1),
        # free GPUs may be on a node of the other role
        ("one-group", "prefill", 0),
        ("one-group", "decode", 0),
    ],
)
def test_a_new_worker_starts_first_only_where_it_surely_has_a_place(
    name: str, component: str, surge: int
) -> None:
    strategy = worker(name, component)["spec"]["strategy"]
    assert strategy == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1 - surge},
    }


def test_a_spare_whole_node_is_not_used_for_a_surge() -> None:
    spare = changed(ready(), hyperpod__instance_groups__0__count=2)
    deployment = find(render(spare, Profile.SELF_MANAGED).objects, "Deployment", "prefill")
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0


def test_taints_of_the_group_are_tolerated() -> None:
    tolerations = worker("tainted", "prefill")["spec"]["template"]["spec"]["tolerations"]
    assert tolerations == [
        {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"key": "a", "operator": "Equal", "value": "", "effect": "NoExecute"},
    ]
    assert "tolerations" not in worker("tainted", "decode")["spec"]["template"]["spec"]


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_no_worker_is_cut_off_within_the_longest_answer(name: str, profile: Profile) -> None:
    longest = deployments()[name].serving.longest_generation_seconds
    for pod in pods(rendering(name, profile).objects):
        grace = pod["spec"]["terminationGracePeriodSeconds"]
        (container,) = pod["spec"]["containers"]
        if container["name"] == "router":
            arguments = dict(each.removeprefix("--").split("=", 1) for each in container["args"])
            assert int(arguments["shutdown-grace-seconds"]) >= longest
            assert int(arguments["idle-timeout-seconds"]) >= longest
            assert grace > longest + container["lifecycle"]["preStop"]["sleep"]["seconds"]
        else:
            command = container["lifecycle"]["preStop"]["exec"]["command"]
            options = dict(each.removeprefix("--").split("=", 1) for each in command if each.startswith("--"))
            assert float(options["deadline-seconds"]) >= longest
            assert grace > float(options["deadline-seconds"])


def test_the_drain_spans_the_gaps_of_a_hand_off() -> None:
    command = engine(worker("p5", "decode"))["lifecycle"]["preStop"]["exec"]["command"]
    routing, transfer = deployments()["p5"].routing, deployments()["p5"].serving.transfer
    assert routing.notification_timeout_seconds == 15
    assert transfer.allocation_timeout_seconds == 10
    assert "--quiet-seconds=15" in command
    assert (
        "--quiet-seconds=5"
        in engine(worker("p5", "colocated-prefill", Profile.BASELINE))["lifecycle"]["preStop"]["exec"][
            "command"
        ]
    )


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_no_environment_variable_is_set_twice(name: str, profile: Profile) -> None:
    for pod in pods(rendering(name, profile).objects):
        for container in containers(pod):
            variables = [entry["name"] for entry in container.get("env", ())]
            assert len(variables) == len(set(variables))


def changed_template(before: Manifest, after: Manifest) -> bool:
    return bool(before["spec"]["template"] != after["spec"]["template"])


def objects_with(**changes: Any) -> tuple[Manifest, ...]:
    return render(changed(ready(), **changes), Profile.SELF_MANAGED).objects


@pytest.mark.parametrize(
    ("changes", "rolled"),
    [
        ({"serving__transfer__allocation_timeout_seconds": 12.0}, {"prefill", "decode", "router"}),
        ({"serving__decode__max_num_seqs": 48}, {"decode"}),
        ({"serving__prefill__max_num_batched_tokens": 4096}, {"prefill"}),
        ({"routing__threshold_tokens": 2048}, {"router"}),
        ({"serving__decode__replicas": 2}, set()),
    ],
)
def test_a_change_rolls_exactly_what_reads_it(changes: dict[str, Any], rolled: set[str]) -> None:
    before, after = rendering("p5").objects, objects_with(**changes)
    assert {
        component
        for component in ("prefill", "decode", "router")
        if changed_template(find(before, "Deployment", component), find(after, "Deployment", component))
    } == rolled


@pytest.mark.parametrize(
    "changes",
    [
        {"serving__transfer__hash_seed": 7},
        {"serving__transfer__chunk_tokens": 512},
        {"serving__engine__name": "hyperpod-v1.1"},
        {"model__revision": "0" * 40},
        {"model__kv_cache": "fp8"},
        {"serving__transfer__type": "nixl"},
        {"platform__images__worker": "registry.example/worker@sha256:" + "1" * 64},
    ],
)
def test_an_incompatible_change_replaces_both_roles_and_their_services(changes: dict[str, Any]) -> None:
    before, after = rendering("p5").objects, objects_with(**changes)
    for component in ("prefill", "decode"):
        old, new = find(before, "Deployment", component), find(after, "Deployment", component)
        assert generation(old["spec"]["template"]["metadata"]["labels"]) != generation(
            new["spec"]["template"]["metadata"]["labels"]
        )
        assert old["spec"]["selector"] == new["spec"]["selector"], "a selector cannot be changed"
    for objects in (before, after):
        generations = {
            generation(entry["spec"]["selector"])
            for entry in of_kind(objects, "Service")
            if entry["metadata"]["name"] != "router"
        } | {
            generation(find(objects, "Deployment", each)["spec"]["template"]["metadata"]["labels"])
            for each in ("prefill", "decode")
        }
        assert len(generations) == 1, "the router must never see two"


def generation(labels: Manifest) -> str:
    value = labels["hyperpod-dpd/generation"]
    assert isinstance(value, str)
    return value


def test_an_image_that_is_built_later_is_part_of_the_generation() -> None:
    built, given = rendering("p5").objects, rendering("given-images").objects
    for objects, bound in ((built, True), (given, False)):
        labels = find(objects, "Deployment", "decode")["spec"]["template"]["metadata"]["labels"]
        assert generation(labels).endswith("-${dpd:WORKER_IMAGE_ID}") is bound


def test_weights_are_streamed_from_s3_by_the_engine() -> None:
    pod = worker("p5", "decode")["spec"]["template"]["spec"]
    assert "initContainers" not in pod
    (container,) = pod["containers"]
    assert container["args"][2].startswith("s3://${dpd:MODEL_BUCKET}/models/llama-3.3-70b-instruct/")
    assert argument(container, "--load-format") == "runai_streamer"
    assert environment(container)["AWS_REGION"] == "us-east-1"
    assert environment(container)["RUNAI_STREAMER_NO_BOTO3_SESSION"] == "0", "Pod Identity's credentials"


def test_weights_are_copied_to_the_pods_own_disk_first() -> None:
    pod = worker("synced", "decode")["spec"]["template"]["spec"]
    (copy,), (container,) = pod["initContainers"], pod["containers"]
    assert copy["args"] == ["s3://weights/llama", "/model"]
    assert set(copy["resources"]["requests"]) == {"cpu", "memory", "ephemeral-storage"}, "and no device"
    for amount in copy["resources"]["limits"]:
        assert copy["resources"]["limits"][amount] == container["resources"]["limits"][amount]
    assert {mount["mountPath"] for mount in copy["volumeMounts"]} == {"/etc/dpd", "/model"}
    assert copy["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["args"][2] == "/model"
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["model"] == {"name": "model", "emptyDir": {}}, "node-local, and gone with the pod"
    geometry = resolve(deployments()["synced"])
    needed_gib = geometry.weights_bytes_per_rank * geometry.tensor_parallel / 2**30
    assert int(container["resources"]["requests"]["ephemeral-storage"].removesuffix("Gi")) > needed_gib


def test_a_token_of_the_hub_comes_from_a_secret() -> None:
    container = engine(worker("secrets", "decode"))
    (token,) = [entry for entry in container["env"] if entry["name"] == "HF_TOKEN"]
    assert token["valueFrom"] == {"secretKeyRef": {"name": "huggingface", "key": "token"}}
    assert container["args"][2] == "meta-llama/Llama-3.3-70B-Instruct"
    assert argument(container, "--revision") == deployments()["secrets"].model.revision


@pytest.mark.parametrize(
    ("name", "claim", "path"),
    [
        ("fsx", "model", "/model/models/llama-3.3-70b-instruct/6f6073b423013f6a7d4d9f39144961bfbfbc386b"),
        ("volume", "weights", "/model/llama"),
    ],
)
def test_weights_on_a_volume_are_mounted_read_only(name: str, claim: str, path: str) -> None:
    pod = worker(name, "prefill")["spec"]["template"]["spec"]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "model"]
    assert volume["persistentVolumeClaim"] == {"claimName": claim, "readOnly": True}
    (container,) = pod["containers"]
    assert container["args"][2] == path
    assert {"name": "model", "mountPath": "/model", "readOnly": True} in container["volumeMounts"]


def test_what_a_decoder_counts_its_starts_with_outlives_its_container() -> None:
    pod = worker("p5", "decode")["spec"]["template"]["spec"]
    directory = environment(engine(worker("p5", "decode")))["DPD_STATE_DIRECTORY"]
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["mountPath"] == directory]
    (volume,) = [each for each in pod["volumes"] if each["name"] == mount["name"]]
    assert volume["emptyDir"] == {}, "lives as long as the pod"


def test_shared_memory_is_memory_and_counts() -> None:
    pod = worker("p5", "prefill")["spec"]["template"]["spec"]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "shm"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "80Gi"}
    assert int(pod["containers"][0]["resources"]["limits"]["memory"].removesuffix("Gi")) > 128 + 80


def test_huge_pages_are_requested_only_when_they_are_wanted() -> None:
    assert engine(worker("huge-pages", "decode"))["resources"]["limits"]["hugepages-2Mi"] == "5120Mi"
    assert "hugepages-2Mi" not in engine(worker("p5", "decode"))["resources"]["limits"]


@pytest.mark.parametrize(("name", "profile"), [case for case in CASES if case[1] is not Profile.SELF_MANAGED])
def test_the_baseline_uses_the_same_gpus(name: str, profile: Profile) -> None:
    def gpus(which: Profile) -> dict[tuple[str, str], int]:
        total: dict[tuple[str, str], int] = {}
        for deployment in of_kind(rendering(name, which).objects, "Deployment"):
            if deployment["metadata"]["name"] != "router":
                place = tuple(deployment["spec"]["template"]["spec"]["nodeSelector"].values())
                count = (
                    deployment["spec"]["replicas"]
                    * engine(deployment)["resources"]["limits"]["nvidia.com/gpu"]
                )
                total[place] = total.get(place, 0) + count
        return total

    assert gpus(profile) == gpus(Profile.SELF_MANAGED)


def test_the_baseline_has_vllms_own_defaults() -> None:
    container = engine(worker("p5", "colocated-prefill", Profile.BASELINE))
    tuned = engine(worker("p5", "colocated-prefill", Profile.BASELINE_TUNED))
    assert argument(container, "--gpu-memory-utilization") == "0.9"
    assert "--enable-prefix-caching" in container["args"]
    for absent in ("--max-num-seqs", "--max-num-batched-tokens", "--enforce-eager", "--kv-transfer-config"):
        assert absent not in container["args"]
    assert argument(tuned, "--max-num-batched-tokens") == "512"
    assert "vpc.amazonaws.com/efa" not in container["resources"]["limits"]
    assert "add" not in container["securityContext"]["capabilities"]


def test_a_baseline_replaces_a_disaggregated_profile_under_the_same_names() -> None:
    shared = {"Namespace", "ServiceAccount", "ValidatingAdmissionPolicy", "Role"}
    for kind in shared:
        assert {entry["metadata"]["name"] for entry in of_kind(rendering("p5").objects, kind)} == {
            entry["metadata"]["name"] for entry in of_kind(rendering("p5", Profile.BASELINE).objects, kind)
        }
