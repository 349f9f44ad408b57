"""What both sides of a hand-off are told, and that they are told the same."""

from typing import Any

import pytest
import yaml

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.serving.engine import EngineConfiguration, engine_configuration
from hyperpod_dpd.serving.names import NOTIFICATION_PORT, router_host
from hyperpod_dpd.spec import Deployment, Role
from tests.support.deployments import changed, ready, variations

BOTH = (Role.PREFILL, Role.DECODE)
THROUGH_LMCACHE = {name: d for name, d in variations().items() if d.serving.transfer.type == "lmcache-pd"}


def lmcache(deployment: Deployment, role: Role) -> dict[str, Any]:
    text = engine_configuration(deployment, role).lmcache_yaml
    assert text is not None
    keys: dict[str, Any] = yaml.safe_load(text)
    return keys


def variables(configuration: EngineConfiguration) -> dict[str, str]:
    return {entry.name: entry.value or f"<{entry.field_path}>" for entry in configuration.environment}


def option(configuration: EngineConfiguration, flag: str) -> str:
    return configuration.arguments[configuration.arguments.index(flag) + 1]


@pytest.mark.parametrize("name", THROUGH_LMCACHE)
def test_sender_and_receiver_have_opposite_roles_in_both_files(name: str) -> None:
    sender, receiver = (engine_configuration(THROUGH_LMCACHE[name], role) for role in BOTH)
    assert sender.kv_transfer_config is not None
    assert receiver.kv_transfer_config is not None
    assert [c.kv_transfer_config["kv_connector"] for c in (sender, receiver) if c.kv_transfer_config] == [
        "LMCacheConnectorV1",
        "LMCacheConnectorV1",
    ]
    assert sender.kv_transfer_config["kv_role"] == "kv_producer"
    assert receiver.kv_transfer_config["kv_role"] == "kv_consumer"
    assert lmcache(THROUGH_LMCACHE[name], Role.PREFILL)["pd_role"] == "sender"
    assert lmcache(THROUGH_LMCACHE[name], Role.DECODE)["pd_role"] == "receiver"


@pytest.mark.parametrize("name", THROUGH_LMCACHE)
def test_the_decoder_alone_leaves_out_exactly_one_token(name: str) -> None:
    sender, receiver = (engine_configuration(THROUGH_LMCACHE[name], role).kv_transfer_config for role in BOTH)
    assert sender is not None
    assert receiver is not None
    assert receiver["kv_connector_extra_config"]["skip_last_n_tokens"] == 1
    assert "skip_last_n_tokens" not in sender["kv_connector_extra_config"]


@pytest.mark.parametrize("name", THROUGH_LMCACHE)
def test_partial_chunks_are_handed_over_and_sockets_have_names_of_their_own(name: str) -> None:
    extras = [engine_configuration(THROUGH_LMCACHE[name], role).kv_transfer_config for role in BOTH]
    assert [extra["kv_connector_extra_config"]["discard_partial_chunks"] for extra in extras if extra] == [
        False,
        False,
    ]
    assert len({extra["kv_connector_extra_config"]["lmcache_rpc_port"] for extra in extras if extra}) == 2


@pytest.mark.parametrize("name", variations())
def test_the_connector_has_only_fields_that_every_version_takes(name: str) -> None:
    for role in BOTH:
        config = engine_configuration(variations()[name], role).kv_transfer_config
        assert config is not None
        assert set(config) == {
            "kv_connector",
            "kv_role",
            "kv_load_failure_policy",
            "kv_connector_extra_config",
        }
        assert config["kv_load_failure_policy"] == "fail"
        assert "kv_load_failure_policy" not in config["kv_connector_extra_config"]


def test_nixl_names_libfabric_on_both_sides_and_advertises_the_pods_address() -> None:
    for role in BOTH:
        configuration = engine_configuration(variations()["nixl"], role)
        assert configuration.kv_transfer_config is not None
        assert configuration.kv_transfer_config["kv_connector"] == "NixlConnector"
        assert configuration.kv_transfer_config["kv_connector_extra_config"] == {"backends": ["LIBFABRIC"]}
        assert variables(configuration)["VLLM_NIXL_SIDE_CHANNEL_HOST"] == "<status.podIP>"
        assert configuration.lmcache_yaml is None
        assert "LMCACHE_CONFIG_FILE" not in variables(configuration)


@pytest.mark.parametrize("name", THROUGH_LMCACHE)
def test_values_that_have_to_be_equal_are_equal(name: str) -> None:
    deployment = THROUGH_LMCACHE[name]
    sender, receiver = (engine_configuration(deployment, role) for role in BOTH)
    for flag in ("--tensor-parallel-size", "--max-model-len", "--dtype", "--kv-cache-dtype"):
        assert option(sender, flag) == option(receiver, flag)
    assert ("--block-size" in sender.arguments) == ("--block-size" in receiver.arguments)
    # chunk keys contain the model's path
    assert sender.arguments[2] == receiver.arguments[2]
    assert variables(sender)["PYTHONHASHSEED"] == variables(receiver)["PYTHONHASHSEED"] == "0"
    assert (sender.image, sender.engine, sender.generation) == (
        receiver.image,
        receiver.engine,
        receiver.generation,
    )
    keys = [lmcache(deployment, role) for role in BOTH]
    for key in ("chunk_size", "nixl_backends", "transfer_channel", "save_unfull_chunk"):
        assert keys[0][key] == keys[1][key]
    assert keys[0].get("pd_backend_mode") == keys[1].get("pd_backend_mode")


def test_another_hash_seed_reaches_both_roles() -> None:
    deployment = changed(ready(), serving__transfer__hash_seed=7)
    for role in BOTH:
        assert variables(engine_configuration(deployment, role))["PYTHONHASHSEED"] == "7"


@pytest.mark.parametrize("name", THROUGH_LMCACHE)
def test_the_buffer_is_a_whole_number_of_chunks_that_holds_the_longest_prompt(name: str) -> None:
    facts = resolve(THROUGH_LMCACHE[name])
    for role in BOTH:
        size = lmcache(THROUGH_LMCACHE[name], role)["pd_buffer_size"]
        assert type(size) is int
        assert size % facts.chunk_bytes_per_rank == 0
        assert size // facts.chunk_bytes_per_rank >= -(-facts.max_model_len_tokens // facts.chunk_tokens)
        assert size <= 8 * 1024**3


def test_rounding_is_reported_in_the_file() -> None:
    text = engine_configuration(ready(), Role.DECODE).lmcache_yaml
    assert text is not None
    assert "819 chunks of 256 tokens and 10,485,760 bytes; 2,097,152 bytes of 8 GiB rounded off" in text


def test_a_decoders_buffer_may_be_larger() -> None:
    deployment = changed(ready(), serving__transfer__decode_pd_buffer_gib=16.0)
    sizes = [lmcache(deployment, role)["pd_buffer_size"] // 10_485_760 for role in BOTH]
    assert sizes == [819, 1638]


@pytest.mark.parametrize("name", THROUGH_LMCACHE)
def test_the_sender_knows_the_router_and_the_receiver_binds_its_own_address(name: str) -> None:
    deployment = THROUGH_LMCACHE[name]
    sender, receiver = (lmcache(deployment, role) for role in BOTH)
    assert (sender["pd_proxy_host"], sender["pd_proxy_port"]) == (router_host(deployment), NOTIFICATION_PORT)
    assert sender["pd_proxy_host"] not in {"localhost", "127.0.0.1"}
    assert receiver["pd_peer_host"] == "0.0.0.0"
    assert not [key for key in sender if "peer" in key]
    assert not [key for key in receiver if "proxy" in key]


@pytest.mark.parametrize("name", THROUGH_LMCACHE)
def test_nothing_but_hand_offs_is_kept(name: str) -> None:
    for role in BOTH:
        keys = lmcache(THROUGH_LMCACHE[name], role)
        assert (keys["local_cpu"], keys["max_local_cpu_size"], keys["save_decode_cache"]) == (False, 0, False)
        assert keys["enable_pd"] is True
        assert "enable_p2p" not in keys
        assert "pd_skip_proxy_notification" not in keys


def test_keys_follow_the_declared_version() -> None:
    newer = {"pd_backend_mode", "pd_max_prefill_len", "pd_allocation_timeout_sec"}
    for version, expected in (("0.4.3", set()), ("0.4.4", set()), ("0.4.5", newer), ("0.5.6", newer)):
        keys = lmcache(changed(ready(), serving__engine__lmcache=version), Role.DECODE)
        assert newer & set(keys) == expected, version


def test_waiting_for_room_ends() -> None:
    keys = lmcache(changed(ready(), serving__transfer__allocation_timeout_seconds=4.5), Role.PREFILL)
    assert keys["pd_allocation_timeout_sec"] == 4.5
    assert keys["pd_max_prefill_len"] == 16384


def test_a_step_of_an_older_prefiller_ends() -> None:
    old = variations()["lmcache-0.4.3"]
    assert int(variables(engine_configuration(old, Role.PREFILL))["VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"]) < 300
    for deployment, role in ((old, Role.DECODE), (ready(), Role.PREFILL)):
        assert "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS" not in variables(engine_configuration(deployment, role))


@pytest.mark.parametrize("name", variations())
def test_efa_is_the_provider_and_shared_memory_is_off(name: str) -> None:
    for role in BOTH:
        found = variables(engine_configuration(variations()[name], role))
        assert found["FI_PROVIDER"] == "efa"
        assert found["FI_EFA_USE_DEVICE_RDMA"] == "1"
        assert found["FI_EFA_ENABLE_SHM_TRANSFER"] == "0"
        assert found["FI_EFA_USE_HUGE_PAGE"] == ("1" if name == "huge-pages" else "0")
        assert not [variable for variable in found if variable.startswith("UCX_")]
        assert "LD_LIBRARY_PATH" not in found


@pytest.mark.parametrize(
    ("name", "caches"), [("p5", False), ("land", True), ("nixl", True), ("lmcache-0.4.3", False)]
)
def test_the_decoders_prefix_cache_follows_the_strategy(name: str, caches: bool) -> None:
    arguments = engine_configuration(variations()[name], Role.DECODE).arguments
    assert ("--enable-prefix-caching" in arguments) == caches
    assert ("--no-enable-prefix-caching" in arguments) == (not caches)


def test_only_the_decoder_counts_cached_tokens_and_captures_graphs() -> None:
    prefill, decode = (engine_configuration(ready(), role).arguments for role in BOTH)
    assert "--enable-prompt-tokens-details" in decode
    assert "--enable-prompt-tokens-details" not in prefill
    assert "--enforce-eager" in prefill
    assert "--enforce-eager" not in decode


def test_a_changed_common_value_is_another_generation() -> None:
    first = engine_configuration(ready(), Role.PREFILL).generation
    changes: tuple[dict[str, Any], ...] = (
        {"serving__transfer__hash_seed": 1},
        {"serving__transfer__chunk_tokens": 512},
        {"serving__transfer__block_size_tokens": 32},
        {"serving__transfer__port_epochs": 4},
        {"serving__tensor_parallel": 4},
        {"serving__engine__lmcache": "0.5.6"},
        {"serving__engine__image": "registry.example/worker:1"},
        {"model__kv_cache": "fp8"},
        {"model__revision": "0" * 40},
    )
    others = [engine_configuration(changed(ready(), **change), Role.DECODE).generation for change in changes]
    assert len({first, *others}) == len(changes) + 1


def test_a_value_of_one_role_is_the_same_generation() -> None:
    first = engine_configuration(ready(), Role.PREFILL).generation
    for change in ({"serving__decode__max_num_seqs": 64}, {"serving__prefill__replicas": 2}):
        assert engine_configuration(changed(ready(), **change), Role.DECODE).generation == first


@pytest.mark.parametrize("role", BOTH)
def test_lmcache_runs_under_the_first_model_runner_and_nixl_is_free(role: Role) -> None:
    for deployment in variations().values():
        rendered = variables(engine_configuration(deployment, role))
        through_lmcache = deployment.serving.transfer.type == "lmcache-pd"
        assert rendered.get("VLLM_USE_V2_MODEL_RUNNER") == ("0" if through_lmcache else None)
