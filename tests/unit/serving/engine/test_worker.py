"""Everything else of a worker: arguments, resources, probes, ports, places to write."""

import math
from typing import Any

import pytest

from hyperpod_dpd.catalog.engine_words import vllm_flags
from hyperpod_dpd.catalog.instances import instance_type, instance_types
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.physics.node_share import node_share
from hyperpod_dpd.rules.serving.computed import (
    COMPUTED_ENVIRONMENT,
    COMPUTED_FLAG_VARIANTS,
    COMPUTED_FLAGS,
    COMPUTED_LMCACHE_KEYS,
)
from hyperpod_dpd.rules.serving.dpd_srv_215 import SHAPING_FLAGS
from hyperpod_dpd.serving.engine import (
    EngineConfiguration,
    EnvironmentVariable,
    Variant,
    engine_configuration,
)
from hyperpod_dpd.serving.engine.values import Peer
from hyperpod_dpd.spec import Deployment, Role
from tests.support.deployments import changed, ready, variations


def every(deployment: Deployment) -> list[EngineConfiguration]:
    workers = [engine_configuration(deployment, role) for role in (Role.PREFILL, Role.DECODE)]
    return workers + [
        engine_configuration(deployment, Role.COLOCATED, variant=variant) for variant in Variant
    ]


def flags(configuration: EngineConfiguration) -> set[str]:
    return {argument for argument in configuration.arguments if argument.startswith("--")}


def test_every_rendered_flag_is_one_that_a_deployment_may_not_repeat() -> None:
    rendered = set[str]()
    for name, deployment in variations().items():
        if name != "tuned":  # it has arguments of its own
            for configuration in every(deployment):
                rendered |= flags(configuration)
    rendered |= flags(every(variations()["tuned"])[1]) - {"--max-logprobs"}
    assert rendered == COMPUTED_FLAGS


def test_every_rendered_variable_and_key_is_one_that_a_deployment_may_not_repeat() -> None:
    variables, keys = set[str](), set[str]()
    for name, deployment in variations().items():
        for configuration in every(deployment):
            variables |= {entry.name for entry in configuration.environment}
            for line in (configuration.lmcache_yaml or "").splitlines():
                if line[0].isalpha():
                    keys.add(line.partition(":")[0])
        if name == "tuned":
            variables.discard("VLLM_LOGGING_LEVEL")
    assert variables - COMPUTED_ENVIRONMENT == {"NCCL_SOCKET_IFNAME"}  # a rule of its own looks at it
    assert variables >= COMPUTED_ENVIRONMENT
    opt_in = {"local_cpu", "max_local_cpu_size", "save_decode_cache"}
    assert keys | {"pd_peer_init_port", "pd_peer_alloc_port"} == COMPUTED_LMCACHE_KEYS | opt_in


@pytest.mark.parametrize("name", variations())
def test_only_flags_of_the_declared_version_are_used(name: str) -> None:
    for configuration in every(variations()[name]):
        known = vllm_flags(configuration.engine.vllm)
        assert known is not None
        assert flags(configuration) <= known


def test_every_refused_flag_is_one_that_some_version_has() -> None:
    known = (vllm_flags("0.19.0") or frozenset()) | (vllm_flags("0.25.1") or frozenset())
    assert known >= COMPUTED_FLAG_VARIANTS.keys()
    assert known >= COMPUTED_FLAGS
    assert known >= SHAPING_FLAGS


def test_catalog_of_flags_knows_what_was_removed_and_what_is_new() -> None:
    old, new = vllm_flags("0.19.0"), vllm_flags("0.25.1")
    assert old is not None
    assert new is not None
    assert old <= new
    assert "--disable-log-requests" not in new
    assert vllm_flags("v0.25.1+cu130") == new
    assert vllm_flags("0.33.0") is None


@pytest.mark.parametrize(
    ("instance", "ranks", "efa"),
    [
        ("ml.p5.48xlarge", 8, 32),
        ("ml.p5en.48xlarge", 8, 16),
        ("ml.p5.48xlarge", 4, 16),
        ("ml.p5.48xlarge", 1, 4),
    ],
)
def test_efa_devices_follow_the_gpus(instance: str, ranks: int, efa: int) -> None:
    deployment = changed(
        ready(),
        hyperpod__instance_groups__0__instance_type=instance,
        serving__tensor_parallel=ranks,
        model__name="llama-3.1-8b-instruct",
    )
    resources = engine_configuration(deployment, Role.PREFILL).resources
    assert (resources.gpus, resources.efa_devices) == (ranks, efa)


@pytest.mark.parametrize("instance", [row.name for row in instance_types()])
@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
@pytest.mark.parametrize("threads", [1, 2])
def test_workers_of_a_node_leave_room_for_the_node(instance: str, gpus: int, threads: Any) -> None:
    row = instance_type(instance)
    share = node_share(row, gpus, threads)
    workers = row.gpus // gpus
    assert workers * share.cpus <= row.vcpus * threads // 2 - 16
    # a 2 TiB node reports some 2 % less, and kubelet keeps about 1 GiB
    assert workers * share.memory_gib <= row.memory_gib * 0.98 - 64
    # no smaller than AWS's own example on a whole node
    assert workers * share.cpus >= 80
    assert workers * share.memory_gib > 1024


@pytest.mark.parametrize("gpus", [0, 9])
def test_node_share_of_gpus_that_a_node_does_not_have_is_refused(gpus: int) -> None:
    says = rf"`ml\.p5\.48xlarge` has 8 GPUs, given {gpus}\. help: use 1 to 8"
    with pytest.raises(ValueError, match=says):
        node_share(instance_type("ml.p5.48xlarge"), gpus, 2)


@pytest.mark.parametrize("name", variations())
def test_memory_holds_devices_and_shared_memory(name: str) -> None:
    for configuration in every(variations()[name]):
        resources = configuration.resources
        assert resources.memory_gib >= 128 * resources.efa_devices / 32 + resources.shared_memory_gib


def test_huge_pages_come_out_of_the_memory_and_only_where_they_are_used() -> None:
    plain, paged = (
        engine_configuration(variations()[name], Role.DECODE).resources for name in ("p5", "huge-pages")
    )
    assert (plain.huge_pages_mib, paged.huge_pages_mib) == (0, 5120)
    assert plain.memory_gib - paged.memory_gib == 5
    assert engine_configuration(variations()["huge-pages"], Role.COLOCATED).resources.huge_pages_mib == 0


def test_disk_holds_the_weights_only_where_they_are_copied() -> None:
    sizes = {
        name: engine_configuration(variations()[name], Role.PREFILL).resources.ephemeral_storage_gib
        for name in ("p5", "synced", "hugging-face", "fsx", "volume")
    }
    assert sizes["p5"] == sizes["fsx"] == sizes["volume"] == 50
    # 70.6 billion parameters of two bytes
    assert sizes["synced"] == sizes["hugging-face"] == 50 + math.ceil(141.1e9 / 1024**3)


@pytest.mark.parametrize("name", variations())
def test_no_probe_sends_a_prompt(name: str) -> None:
    for configuration in every(variations()[name]):
        probes = configuration.probes
        assert {probe.path for probe in (probes.startup, probes.readiness, probes.liveness)} == {"/health"}


def test_larger_weights_get_more_time_to_load() -> None:
    def seconds(deployment: Deployment) -> int:
        startup = engine_configuration(deployment, Role.DECODE).probes.startup
        return startup.period_seconds * startup.failure_threshold

    bf16, fp8 = seconds(variations()["p5"]), seconds(variations()["fp8"])
    # AWS reports 5 to 10 minutes for 70B
    assert 600 <= fp8 < bf16 < 1800
    assert bf16 - fp8 == pytest.approx(68e9 / 250e6, abs=20)


def test_ports_and_who_connects_to_them() -> None:
    prefill, decode, colocated = (
        engine_configuration(ready(), role) for role in (Role.PREFILL, Role.DECODE, Role.COLOCATED)
    )
    assert [port.name for port in prefill.ports] == [port.name for port in colocated.ports] == ["http"]
    assert decode.port("http").peers == (Peer.ROUTER, Peer.SCRAPER)
    init, alloc = decode.port("kv-init"), decode.port("kv-alloc")
    assert (init.first, init.last, init.peers) == (7300, 7363, (Peer.PREFILL,))
    assert (alloc.first, alloc.last, alloc.peers) == (7400, 7463, (Peer.PREFILL,))
    assert all(len(port.name) <= 15 for port in decode.ports)
    with pytest.raises(KeyError):
        prefill.port("kv-init")


def test_a_nixl_decoder_calls_the_prefillers_side_channel() -> None:
    prefill, decode = (
        engine_configuration(variations()["nixl"], role) for role in (Role.PREFILL, Role.DECODE)
    )
    assert prefill.port("nixl-side").peers == (Peer.DECODE,)
    assert [port.name for port in decode.ports] == ["http"]
    assert ("VLLM_NIXL_SIDE_CHANNEL_PORT", str(prefill.port("nixl-side").first)) in {
        (entry.name, entry.value) for entry in prefill.environment
    }


@pytest.mark.parametrize("name", variations())
def test_every_path_that_is_written_is_a_scratch_directory(name: str) -> None:
    for configuration in every(variations()[name]):
        writable = [directory.path for directory in configuration.scratch]
        for entry in configuration.environment:
            if entry.name in {"HOME", "PROMETHEUS_MULTIPROC_DIR", "DPD_STATE_DIRECTORY"}:
                assert any((entry.value or "").startswith(path) for path in writable), entry.name
        memory = [directory for directory in configuration.scratch if directory.in_memory]
        assert [(directory.path, directory.size_gib) for directory in memory] == [
            ("/dev/shm", configuration.resources.shared_memory_gib)
        ]


def test_the_baseline_is_vllms_own_choice_and_the_tuned_one_has_short_steps() -> None:
    baseline, tuned = (engine_configuration(ready(), Role.COLOCATED, variant=variant) for variant in Variant)
    assert not {"--max-num-seqs", "--max-num-batched-tokens", "--enforce-eager"} & flags(baseline)
    assert baseline.kv_transfer_config is None
    assert baseline.arguments[baseline.arguments.index("--gpu-memory-utilization") + 1] == "0.9"
    assert "--enable-prefix-caching" in baseline.arguments
    assert tuned.arguments[tuned.arguments.index("--max-num-batched-tokens") + 1] == "512"
    assert baseline.resources.efa_devices == 0
    assert not [entry.name for entry in baseline.environment if entry.name.startswith(("FI_", "LMCACHE_"))]


def test_a_colocated_worker_takes_the_size_of_the_nodes_it_runs_on() -> None:
    deployment = changed(ready("llama-3.3-70b-p5-p5en"), hyperpod__instance_groups__1__threads_per_core=1)
    here, there = (
        engine_configuration(deployment, Role.COLOCATED, nodes=role) for role in (Role.PREFILL, Role.DECODE)
    )
    assert (here.resources.cpus, there.resources.cpus) == (176, 80)
    assert here.arguments == there.arguments


def test_physics_decides_the_share_of_memory_that_nobody_named() -> None:
    for role, given in ((Role.PREFILL, "0.86"), (Role.DECODE, "0.9")):
        arguments = engine_configuration(ready("llama-3.3-70b-p5-p5en"), role).arguments
        assert arguments[arguments.index("--gpu-memory-utilization") + 1] == given
    named = engine_configuration(changed(ready(), serving__decode__gpu_memory_utilization=0.75), Role.DECODE)
    assert named.arguments[named.arguments.index("--gpu-memory-utilization") + 1] == "0.75"


def test_what_physics_assumed_is_written_out() -> None:
    facts = resolve(changed(ready(), serving__decode__max_num_seqs=None))
    arguments = engine_configuration(
        changed(ready(), serving__decode__max_num_seqs=None), Role.DECODE
    ).arguments
    assert arguments[arguments.index("--max-num-seqs") + 1] == str(facts.decode.max_num_seqs)
    assert arguments[arguments.index("--max-num-batched-tokens") + 1] == str(
        facts.decode.max_num_batched_tokens
    )


def test_own_arguments_and_variables_reach_their_role_only() -> None:
    prefill, decode = (
        engine_configuration(variations()["tuned"], role) for role in (Role.PREFILL, Role.DECODE)
    )
    assert "--max-logprobs" in decode.arguments
    assert "--max-logprobs" not in prefill.arguments
    assert "VLLM_LOGGING_LEVEL" in {entry.name for entry in prefill.environment}
    assert "VLLM_LOGGING_LEVEL" not in {entry.name for entry in decode.environment}


@pytest.mark.parametrize("name", variations())
def test_the_served_name_is_last_and_variables_are_named_once(name: str) -> None:
    for configuration in every(variations()[name]):
        assert configuration.arguments[-2] == "--served-model-name"
        names = [entry.name for entry in configuration.environment]
        assert len(names) == len(set(names))


def test_the_image_is_the_given_one_before_the_catalogs() -> None:
    digest = "registry.example/worker@sha256:" + "0" * 64
    assert engine_configuration(ready(), Role.DECODE).image is None
    given = changed(ready(), platform__images__worker=digest)
    assert engine_configuration(given, Role.DECODE).image == digest
    closer = changed(given, serving__engine__image="registry.example/other:1")
    assert engine_configuration(closer, Role.DECODE).image == "registry.example/other:1"
    aws = engine_configuration(variations()["lmcache-0.4.3"], Role.DECODE)
    assert aws.image == "public.ecr.aws/deep-learning-containers/vllm:server-hyperpod-cuda-v1.1"


def test_a_variable_is_a_value_or_a_field() -> None:
    for arguments in ({}, {"value": "1", "field_path": "status.podIP"}):
        with pytest.raises(ValueError, match="either a value or a field path"):
            EnvironmentVariable(name="X", **arguments)


def test_traces_go_where_the_routers_go() -> None:
    for configuration in every(variations()["traced"]):
        arguments = configuration.arguments
        assert arguments[arguments.index("--otlp-traces-endpoint") + 1] == "http://collector:4318/v1/traces"
        variables = {entry.name: entry.value for entry in configuration.environment}
        assert variables["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "http/protobuf"
        assert variables["OTEL_SERVICE_NAME"] == f"vllm-{configuration.role.value}"
