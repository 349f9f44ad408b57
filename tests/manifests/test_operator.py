"""The operator backend: AWS's own example field by field, what is added to it, and that no setting is lost."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from hyperpod_dpd.catalog.eks import addon, addon_version_key, addons
from hyperpod_dpd.catalog.instances import instance_types
from hyperpod_dpd.catalog.operator import INFERENCE_ADDON, OPERATOR_FEATURES, PD_SPEC, REFERENCE
from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.rules import check
from hyperpod_dpd.rules.serving.dpd_srv_410 import NOT_SAID
from hyperpod_dpd.rules.serving.dpd_srv_415 import OPERATOR_ONLY
from hyperpod_dpd.serving.profile import Profile, profiles_of
from hyperpod_dpd.serving.render import render
from hyperpod_dpd.spec import (
    Deployment,
    Engine,
    OperatorEndpoint,
    RatioLimits,
    Routing,
    S3Source,
    Scaling,
    SecondCache,
    Serving,
    Topology,
    Transfer,
    Worker,
)
from tests.support.deployments import changed, ready
from tests.support.manifests import (
    CERTIFICATE,
    OPERATOR_CASES,
    Manifest,
    find,
    of_kind,
    operated,
    rendering,
    walk,
)

KIND = "InferenceEndpointConfig"


def resource(name: str, profile: Profile = Profile.OPERATOR) -> Manifest:
    return find(rendering(name, profile).objects, KIND)


def spec(name: str, profile: Profile = Profile.OPERATOR) -> dict[str, Any]:
    content = resource(name, profile)["spec"]
    assert isinstance(content, dict)
    return content


def options(arguments: list[str]) -> dict[str, str | None]:
    """Return flags with the first value behind each."""
    found: dict[str, str | None] = {}
    for index, argument in enumerate(arguments):
        if argument.startswith("-"):
            following = arguments[index + 1 : index + 2]
            found[argument] = following[0] if following and not following[0].startswith("-") else None
    return found


def variables(content: Manifest) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in content["worker"]["environmentVariables"]}


# what AWS's page on disaggregated serving asks for, by field (SageMaker Developer Guide, DPD example and tuning)
AWS_FIELDS: dict[str, Any] = {
    "instanceType": "ml.p5.48xlarge",
    "invocationEndpoint": "v1/chat/completions",
    "modelSourceConfig.modelSourceType": "s3",
    "loadBalancer.healthCheckPath": "/health",
    "metrics.enabled": True,
    "kvCacheSpec.enableL1Cache": True,
    "intelligentRoutingSpec.enabled": True,
    "intelligentRoutingSpec.routingStrategy": "prefixaware",
    "pdSpec.routingThreshold": 4096,
    "pdSpec.prefillSpec.replicas": 1,
    "pdSpec.prefillSpec.resources.requests.nvidia.com/gpu": "8",
    "pdSpec.prefillSpec.resources.limits.nvidia.com/gpu": "8",
    "pdSpec.decodingSpec.replicas": 1,
    "pdSpec.decodingSpec.resources.requests.nvidia.com/gpu": "8",
    "pdSpec.decodingSpec.resources.limits.nvidia.com/gpu": "8",
    "worker.image": "public.ecr.aws/deep-learning-containers/vllm:server-hyperpod-cuda-v1.1",
    "worker.modelInvocationPort.name": "http",
    "worker.modelInvocationPort.containerPort": 8000,
    "worker.modelVolumeMount.name": "model-weights",
    "worker.modelVolumeMount.mountPath": "/opt/ml/model",
    "worker.resources.requests.cpu": "96",
    "worker.resources.requests.memory": "1024Gi",
    "worker.resources.requests.nvidia.com/gpu": "8",
    "worker.resources.limits.nvidia.com/gpu": "8",
}
AWS_ARGUMENTS = {
    "--model": "/opt/ml/model",
    "--host": "0.0.0.0",
    "--port": "8000",
    "--tensor-parallel-size": "8",
    "--max-model-len": "16384",
    "--gpu-memory-utilization": "0.75",
}
AWS_PREFILL = {"--max-num-seqs": "16", "--enforce-eager": None}
AWS_DECODE = {"--max-num-seqs": "32"}
AWS_ENVIRONMENT = {
    "HF_HOME": "/tmp/hf_home",
    "PD_BUFFER_SIZE": "8589934592",
    "LMCACHE_SAVE_DECODE_CACHE": "False",
    "PYTHONHASHSEED": "0",
}

NAMED_BY_THE_DEPLOYMENT = {
    "modelName",
    "endpointName",
    "modelSourceConfig.modelLocation",
    "modelSourceConfig.s3Storage.bucketName",
    "modelSourceConfig.s3Storage.region",
}
"""Fields of the example whose value is the user's."""

ADDED = {
    # the role's own nodes; without it a role could take the other one's
    "pdSpec.prefillSpec.nodeSelector.sagemaker.amazonaws.com/instance-group-name": "prefill",
    "pdSpec.decodingSpec.nodeSelector.sagemaker.amazonaws.com/instance-group-name": "decode",
    # the default of the custom resource, written out because everything depends on it
    "pdSpec.topologySpec.sameAZ": True,
    # the default port is 8080, where vLLM does not listen
    "metrics.modelMetrics.path": "/metrics",
    "metrics.modelMetrics.port": 8000,
}
"""Everything else that the default operator profile says."""

ADDED_ARGUMENTS = {
    # clients ask for the model by the name in the deployment; the folder stays a name, too
    "--served-model-name": "llama-3.3-70b-instruct",
}
ADDED_ROLE_ARGUMENTS = {
    # LMCache/LMCache issue 2933: chunks that vLLM has already are received and never freed
    "--no-enable-prefix-caching": None,
}


def leaves(content: Any) -> Iterator[tuple[str, Any]]:
    for path, value in walk(content):
        if not isinstance(value, dict | list) and "[" not in path:
            yield path.removeprefix("."), value


def test_the_default_is_what_aws_asks_for_field_by_field() -> None:
    assert resource("operated")["apiVersion"] == "inference.sagemaker.aws.amazon.com/v1"
    content = spec("operated")
    found = dict(leaves(content))
    assert {path: found.get(path) for path in AWS_FIELDS} == AWS_FIELDS
    arguments = options(content["worker"]["args"])
    assert {flag: arguments.get(flag) for flag in AWS_ARGUMENTS} == AWS_ARGUMENTS
    assert variables(content) == AWS_ENVIRONMENT
    for role, asked in (("prefillSpec", AWS_PREFILL), ("decodingSpec", AWS_DECODE)):
        arguments = options(content["pdSpec"][role]["args"])
        assert asked.items() <= arguments.items()


def test_what_the_default_adds_to_it_is_listed_here() -> None:
    content = spec("operated")
    found = dict(leaves(content))
    assert set(found) == AWS_FIELDS.keys() | NAMED_BY_THE_DEPLOYMENT | ADDED.keys()
    assert {path: found[path] for path in ADDED} == ADDED
    assert options(content["worker"]["args"]) == {**AWS_ARGUMENTS, **ADDED_ARGUMENTS}
    assert options(content["pdSpec"]["prefillSpec"]["args"]) == {**AWS_PREFILL, **ADDED_ROLE_ARGUMENTS}
    assert options(content["pdSpec"]["decodingSpec"]["args"]) == {
        **AWS_DECODE,
        **ADDED_ROLE_ARGUMENTS,
        # what tells, behind a router that does not, whether a prompt was handed over
        "--enable-prompt-tokens-details": None,
    }


def test_the_name_under_which_aws_asks_stays_a_name_of_the_model() -> None:
    arguments = spec("operated")["worker"]["args"]
    assert arguments[-3:] == ["--served-model-name", "llama-3.3-70b-instruct", "/opt/ml/model"]


@pytest.mark.parametrize("name", operated())
def test_the_baseline_is_the_same_resource_without_roles(name: str) -> None:
    disaggregated, colocated = resource(name), resource(name, Profile.OPERATOR_BASELINE)
    assert colocated["metadata"] == disaggregated["metadata"], "applying it must replace the other"
    before, after = dict(disaggregated["spec"]), dict(colocated["spec"])
    roles = before.pop("pdSpec")
    assert after.pop("replicas") == roles["prefillSpec"]["replicas"] + roles["decodingSpec"]["replicas"]
    ours, theirs = dict(before.pop("worker")), dict(after.pop("worker"))
    assert after == before
    arguments, own = options(ours.pop("args")), options(theirs.pop("args"))
    assert own.pop("--gpu-memory-utilization") == "0.9"
    assert arguments.pop("--gpu-memory-utilization") == "0.75"
    assert own.pop("--max-num-seqs", None) == ("64" if name == "operated-everything" else None)
    # in the other, decoders say it
    assert own.pop("--enable-prompt-tokens-details") is None
    assert own == arguments
    hand_off = {"PD_BUFFER_SIZE", "LMCACHE_SAVE_DECODE_CACHE"}
    assert theirs.pop("environmentVariables") == [
        entry for entry in ours.pop("environmentVariables") if entry["name"] not in hand_off
    ]
    assert theirs == ours


def test_two_instance_types_have_one_place_each() -> None:
    content = spec("operated-p5-p5en")
    assert "instanceType" not in content
    assert content["instanceTypes"] == ["ml.p5.48xlarge", "ml.p5en.48xlarge"]
    prefill, decode = content["pdSpec"]["prefillSpec"], content["pdSpec"]["decodingSpec"]
    assert (prefill["replicas"], decode["replicas"]) == (2, 1)
    assert prefill["nodeSelector"] == {"sagemaker.amazonaws.com/instance-group-name": "prefill"}
    assert decode["nodeSelector"] == {"sagemaker.amazonaws.com/instance-group-name": "decode"}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "operated",
            {
                "modelSourceType": "s3",
                "modelLocation": "models/llama-3.3-70b-instruct/6f6073b423013f6a7d4d9f39144961bfbfbc386b",
                "s3Storage": {"bucketName": "${dpd:MODEL_BUCKET}", "region": "us-east-1"},
            },
        ),
        (
            "operated-existing-bucket",
            {
                "modelSourceType": "s3",
                "modelLocation": "llama",
                "s3Storage": {"bucketName": "weights", "region": "us-east-1"},
            },
        ),
        (
            "operated-hub",
            {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {
                    "modelId": "meta-llama/Llama-3.3-70B-Instruct",
                    "commitSHA": "6f6073b423013f6a7d4d9f39144961bfbfbc386b",
                },
            },
        ),
        (
            "operated-gated",
            {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {
                    "modelId": "meta-llama/Llama-3.3-70B-Instruct",
                    "commitSHA": "6f6073b423013f6a7d4d9f39144961bfbfbc386b",
                    "tokenSecretRef": {"name": "huggingface", "key": "token"},
                },
            },
        ),
        (
            "operated-fsx",
            {
                "modelSourceType": "fsx",
                "modelLocation": "models/llama-3.3-70b-instruct/6f6073b423013f6a7d4d9f39144961bfbfbc386b",
                "fsxStorage": {
                    "fileSystemId": "${dpd:FSX_FILE_SYSTEM_ID}",
                    "dnsName": "${dpd:FSX_DNS_NAME}",
                    "mountName": "${dpd:FSX_MOUNT_NAME}",
                },
            },
        ),
        (
            "operated-existing-fsx",
            {
                "modelSourceType": "fsx",
                "modelLocation": "llama",
                "fsxStorage": {
                    "fileSystemId": "fs-0123456789abcdef0",
                    "dnsName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
                    "mountName": "abcdefgh",
                },
            },
        ),
        (
            "operated-fsx-root",
            {
                "modelSourceType": "fsx",
                "fsxStorage": {
                    "fileSystemId": "fs-0123456789abcdef0",
                    "dnsName": "${dpd:FSX_DNS_NAME}",
                    "mountName": "${dpd:FSX_MOUNT_NAME}",
                },
            },
        ),
        ("operated-volume", {"modelSourceType": "kubernetesVolume", "modelLocation": "llama"}),
        ("operated-volume-root", {"modelSourceType": "kubernetesVolume"}),
    ],
)
def test_weights_come_from_every_source(name: str, source: dict[str, Any]) -> None:
    content = spec(name)
    assert content["modelSourceConfig"] == source
    assert content["worker"]["modelVolumeMount"]["mountPath"] == "/opt/ml/model"


def test_a_claim_that_exists_is_the_volume_that_the_worker_mounts() -> None:
    content = spec("operated-volume")
    (volume,) = content["kubernetes"]["volumes"]
    assert volume == {
        "name": content["worker"]["modelVolumeMount"]["name"],
        "persistentVolumeClaim": {"claimName": "weights", "readOnly": True},
    }
    assert "kubernetes" not in spec("operated")


def test_the_token_of_a_gated_model_is_where_the_resource_looks_for_it() -> None:
    objects = rendering("operated-gated", Profile.OPERATOR).objects
    secret = find(objects, "ExternalSecret")
    reference = spec("operated-gated")["modelSourceConfig"]["huggingFaceModel"]["tokenSecretRef"]
    assert secret["metadata"]["namespace"] == resource("operated-gated")["metadata"]["namespace"]
    assert secret["spec"]["target"]["name"] == reference["name"]
    assert [entry["secretKey"] for entry in secret["spec"]["data"]] == [reference["key"]]


def test_roles_scale_in_the_spelling_of_the_custom_resource() -> None:
    scaling = spec("operated-scaled")["pdSpec"]["autoScalingSpec"]
    assert list(scaling) == ["prefillAutoScaling", "decodingAutoScaling"]
    prefill = scaling["prefillAutoScaling"]
    assert (prefill["minReplicaCount"], prefill["maxReplicaCount"]) == (1, 3)
    assert prefill["scaleDownStabilizationTime"] == 900
    assert [(each["name"], each["targetValue"]) for each in prefill["prometheusTriggerList"]] == [
        ("waiting-requests", 6),
        ("kv-cache-usage", 0.75),
    ]
    for trigger in prefill["prometheusTriggerList"]:
        assert trigger["serverAddress"] == "${dpd:AMP_WORKSPACE_URL}"
        assert 'pod=~"prefill-.*"' in trigger["query"]
        assert f'namespace="{resource("operated-scaled")["metadata"]["namespace"]}"' in trigger["query"]
    assert scaling["decodingAutoScaling"]["maxReplicaCount"] == 1
    assert "autoScalingSpec" not in spec("operated")["pdSpec"]
    assert not of_kind(rendering("operated-scaled", Profile.OPERATOR).objects, "ScaledObject"), (
        "the operator makes its own"
    )


def test_everything_that_the_endpoint_can_be_told_arrives() -> None:
    content = spec("operated-everything")
    assert content["endpointName"] == "llm"
    assert content["modelVersion"] == "3"
    assert content["invocationEndpoint"] == "v1/completions"
    assert content["tags"] == [
        {"name": "cost-centre", "value": "4711"},
        {"name": "team", "value": "serving"},
    ]
    assert content["tlsConfig"] == {
        "customCertificateConfig": {"acmArn": CERTIFICATE.arn, "domainName": "llm.example.com"}
    }
    assert content["dnsConfig"] == {"hostedZoneId": "Z0123456789ABCDEFGHIJ"}
    assert content["loadBalancer"] == {"healthCheckPath": "/health", "routingAlgorithm": "round_robin"}
    assert content["worker"]["requestLimits"] == {"maxConcurrentRequests": 32, "maxQueueSize": 8}
    assert content["metrics"]["metricsScrapeIntervalSeconds"] == 30
    assert content["kvCacheSpec"] == {
        "enableL1Cache": True,
        "enableL2Cache": True,
        "l2CacheSpec": {"l2CacheBackend": "tieredstorage"},
    }
    assert content["pdSpec"]["topologySpec"] == {
        "sameAZ": True,
        "availabilityZone": "us-east-1a",
        "placementGroup": "gpus",
    }
    assert content["modelSourceConfig"]["prefetchEnabled"] is True
    assert content["maxDeployTimeInSeconds"] == 7200
    assert variables(content) == {**AWS_ENVIRONMENT, "VLLM_LOGGING_LEVEL": "DEBUG"}
    arguments = options(content["worker"]["args"])
    assert arguments["--served-model-name"] == "llama"
    assert "--trust-remote-code" in arguments
    assert options(content["pdSpec"]["prefillSpec"]["args"])["--max-num-batched-tokens"] == "4096"
    decode = content["pdSpec"]["decodingSpec"]["args"]
    assert options(decode)["--gpu-memory-utilization"] == "0.7"
    assert decode[-2:] == ["--max-logprobs", "20"]


def test_a_certificate_without_an_arn_is_bound_when_the_platform_knows_it() -> None:
    content = spec("operated-bound-certificate")
    assert content["tlsConfig"]["customCertificateConfig"] == {
        "acmArn": "${dpd:CERTIFICATE_ARN}",
        "domainName": "llm.example.com",
    }
    assert "dnsConfig" not in content


def test_everything_that_can_be_off_is_off() -> None:
    content = spec("operated-bare")
    assert "endpointName" not in content
    assert content["metrics"] == {"enabled": False}
    assert content["intelligentRoutingSpec"] == {"enabled": False, "routingStrategy": "roundrobin"}
    assert content["tlsConfig"] == {"tlsCertificateOutputS3Uri": "s3://hyperpod-tls-mine/dpd"}
    assert content["kvCacheSpec"] == {
        "enableL1Cache": False,
        "enableL2Cache": True,
        "l2CacheSpec": {"l2CacheBackend": "redis", "l2CacheLocalUrl": "redis://cache:6379"},
        "cacheConfigFile": "/etc/lmcache.yaml",
    }


def test_another_precision_and_block_size_reach_both_roles() -> None:
    arguments = options(spec("operated-fp8")["worker"]["args"])
    assert (arguments["--kv-cache-dtype"], arguments["--block-size"]) == ("fp8", "32")


def test_an_engine_without_a_public_image_takes_the_platforms() -> None:
    image = spec("operated-given-image")["worker"]["image"]
    assert image == operated()["operated-given-image"].platform.images.worker
    built = changed(operated()["operated"], serving__engine__name="vllm-0.25.1")
    assert find(render(built, Profile.OPERATOR).objects, KIND)["spec"]["worker"]["image"] == (
        "${dpd:WORKER_IMAGE}"
    )


@pytest.mark.parametrize(("name", "profile"), OPERATOR_CASES)
def test_the_operators_namespace_only_audits_and_warns(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    namespaces = {
        entry["metadata"]["name"]: entry["metadata"]["labels"] for entry in of_kind(objects, "Namespace")
    }
    workers = namespaces[resource(name, profile)["metadata"]["namespace"]]
    prefix = "pod-security.kubernetes.io/"
    assert f"{prefix}enforce" not in workers
    assert (workers[f"{prefix}audit"], workers[f"{prefix}warn"]) == ("restricted", "restricted")
    (system,) = [labels for labels in namespaces.values() if labels is not workers]
    assert system[f"{prefix}enforce"] == "restricted"
    kinds = {entry["kind"] for entry in objects}
    assert kinds <= {"Namespace", KIND, "ExternalSecret", "SecretStore"}, "everything else is the operator's"


RENDERED: dict[str, Any] = {
    "serving.engine": Engine(name="lmcache-v0.4.3"),
    "serving.tensor_parallel": 4,
    "serving.max_model_len_tokens": 8192,
    "serving.instance_cache": False,
    "serving.prefill.replicas": 2,
    "serving.prefill.instance_group": "decode",
    "serving.prefill.gpu_memory_utilization": 0.7,
    "serving.prefill.max_num_seqs": 8,
    "serving.prefill.max_num_batched_tokens": 4096,
    "serving.prefill.enforce_eager": False,
    "serving.prefill.prefix_caching": True,
    "serving.prefill.extra_args": ("--max-logprobs", "20"),
    "serving.prefill.scaling": Scaling(maximum=3),
    "serving.decode.gpus": 4,
    "serving.transfer.pd_buffer_gib": 16.0,
    "serving.transfer.hash_seed": 7,
    "serving.transfer.block_size_tokens": 32,
    "routing.threshold_tokens": 0,
    "routing.policy": "kvaware",
    "serving.operator.endpoint_name": "llm",
    "serving.operator.registers_endpoint": False,
    "serving.operator.model_version": "3",
    "serving.operator.invocation_path": "v1/completions",
    "serving.operator.certificate": CERTIFICATE,
    "serving.operator.certificate_output_s3_uri": "s3://hyperpod-tls-mine/",
    "serving.operator.load_balancing": "round_robin",
    "serving.operator.max_concurrent_requests_per_pod": 8,
    "serving.operator.max_queued_requests_per_pod": 8,
    "serving.operator.metrics": False,
    "serving.operator.scrape_interval_seconds": 30,
    "serving.operator.second_cache": SecondCache(backend="redis", url="redis://cache"),
    "serving.operator.cache_config_file": "/etc/lmcache.yaml",
    "serving.operator.routes_intelligently": False,
    "serving.operator.topology": Topology(zone_name="us-east-1a"),
    "serving.operator.environment": {"A": "b"},
    "serving.operator.prefetches_weights": True,
    "serving.operator.deploy_timeout_seconds": 60,
}
"""Another value for every setting that the custom resource can say."""

NOT_ABOUT_THE_RESOURCE = {
    # another rule refuses every other value on this backend, or chooses it
    "serving.backend",
    "serving.transfer.type",
    "serving.transfer.backend",
    "serving.transfer.chunk_tokens",
    "serving.decode.replicas",
    # the comparison, and the rule about scaling limits
    "serving.baseline",
    "serving.prefillers_per_decoder",
    # the operator's router always counts characters: a warning where that decides by chance (DPD-SRV-008)
    "routing.estimator",
}


def settings() -> Iterator[str]:
    """Yield every setting of serving and routing."""
    for field in fields(Serving):
        match field.name:
            case "prefill" | "decode":
                yield from (f"serving.{field.name}.{each.name}" for each in fields(Worker))
            case "transfer":
                yield from (f"serving.transfer.{each.name}" for each in fields(Transfer))
            case "operator":
                yield from (f"serving.operator.{each.name}" for each in fields(OperatorEndpoint))
            case "security":
                yield "serving.security.workers"
            case name:
                yield f"serving.{name}"
    yield from (f"routing.{field.name}" for field in fields(Routing))


def test_every_setting_is_rendered_or_refused() -> None:
    # both roles are rendered by one function
    rendered = {*RENDERED, *(path.replace(".prefill.", ".decode.") for path in RENDERED)}
    rendered |= {path.replace(".decode.", ".prefill.") for path in RENDERED}
    accounted = rendered | NOT_SAID.keys() | NOT_ABOUT_THE_RESOURCE
    assert set(settings()) <= accounted, f"unaccounted: {sorted(set(settings()) - accounted)}"
    assert set(OPERATOR_ONLY) <= RENDERED.keys()


@pytest.mark.parametrize("path", RENDERED)
def test_a_setting_that_can_be_said_changes_the_resource(path: str) -> None:
    before = spec("operated")
    after = with_setting(operated()["operated"], path, RENDERED[path])
    assert find(_unchecked(after), KIND)["spec"] != before


@pytest.mark.parametrize("path", OPERATOR_ONLY)
def test_a_setting_that_only_the_operator_has_changes_nothing_else(path: str) -> None:
    """What the self-managed backend refuses it really does not look at."""
    after = with_setting(ready(), path, RENDERED[path])
    assert render(after, Profile.SELF_MANAGED).texts() == rendering("p5").texts()
    assert [finding.rule for finding in check(after).errors].count("DPD-SRV-415") == 1


def with_setting(deployment: Deployment, path: str, value: Any) -> Deployment:
    return changed(deployment, **{path.replace(".", "__"): value})


def _unchecked(deployment: Deployment) -> tuple[Manifest, ...]:
    """Return the objects of a deployment that is on the operator backend already."""
    return render(deployment, Profile.OPERATOR).objects


def test_a_deployment_that_only_one_backend_can_say_has_the_profiles_of_that_one() -> None:
    land = changed(ready(), routing__strategy="land")
    assert profiles_of(land) == (Profile.SELF_MANAGED, Profile.BASELINE, Profile.BASELINE_TUNED)
    endpoint = changed(operated()["operated"], serving__operator__model_version="3")
    assert profiles_of(endpoint) == (Profile.OPERATOR, Profile.OPERATOR_BASELINE)
    copied = changed(ready(), model__source=S3Source(delivery="sync"))
    assert Profile.OPERATOR not in profiles_of(copied)


def test_switching_back_and_forth_changes_only_the_word_and_the_acknowledgements() -> None:
    there = on_backend(ready(), "operator")
    back = on_backend(there, "self-managed")
    assert there.serving.backend == "operator"
    assert changed(ready(), acknowledge=()) == back
    assert on_backend(ready(), "self-managed") is ready() or on_backend(ready(), "self-managed") == ready()


def test_features_name_versions_that_the_add_on_had_in_order() -> None:
    assert addon(INFERENCE_ADDON) in addons()
    assert addon(INFERENCE_ADDON).floor == PD_SPEC.addon
    by_operator = sorted(OPERATOR_FEATURES, key=lambda feature: feature.operator)
    assert by_operator == sorted(OPERATOR_FEATURES, key=lambda feature: addon_version_key(feature.addon))
    assert all(feature.source.text and feature.source.as_of for feature in OPERATOR_FEATURES)
    pinned = addon(INFERENCE_ADDON).pin("1.35")
    assert pinned is not None
    assert all(addon_version_key(feature.addon) <= addon_version_key(pinned) for feature in OPERATOR_FEATURES)


def test_every_instance_type_of_the_catalog_is_one_that_the_operator_disaggregates_on() -> None:
    """DPD-HP-001 refuses any other, so that no rule of the operator's own has to."""
    assert {row.name for row in instance_types()} <= set(REFERENCE.instance_types)


def test_ratio_limits_default_to_what_aws_recommends() -> None:
    assert (RatioLimits().minimum, RatioLimits().maximum) == (1, 3)
