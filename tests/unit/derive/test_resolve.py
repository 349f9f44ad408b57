"""What follows from a deployment, and every obstacle at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_dpd.catalog.models import model
from hyperpod_dpd.derive import UnreadableModelError, UnresolvedError, read_config, resolve, resolve_or_none
from hyperpod_dpd.physics import parameters
from hyperpod_dpd.spec import (
    Deployment,
    Engine,
    HyperPod,
    InstanceGroup,
    Model,
    Network,
    Role,
    Routing,
    Serving,
    Transfer,
    Worker,
)


def _deployment(
    serving: Serving | None = None,
    *,
    groups: tuple[InstanceGroup, ...] | None = None,
    model_spec: Model | None = None,
    routing: Routing | None = None,
) -> Deployment:
    return Deployment(
        name="test",
        region="us-east-1",
        network=Network(gpu_zone_id="use1-az6", cluster_zone_ids=("use1-az6", "use1-az4")),
        hyperpod=HyperPod(instance_groups=groups or (_group(Role.PREFILL), _group(Role.DECODE))),
        model=model_spec or Model(name="llama-3.3-70b-instruct"),
        serving=serving or Serving(),
        routing=routing or Routing(),
    )


def _group(role: Role, instance_type: str = "ml.p5.48xlarge", name: str | None = None) -> InstanceGroup:
    return InstanceGroup(name=name or role.value, role=role, instance_type=instance_type, count=1)


def test_default_deployment_follows_the_reference_values() -> None:
    facts = resolve(_deployment())
    assert facts.kv_bytes_per_token_per_rank == 40_960
    assert facts.chunk_bytes_per_rank == 10 * 1024**2
    assert facts.prefill.efa_devices == facts.decode.efa_devices == 32
    assert facts.decode.pd_buffer.chunks == 819
    assert (facts.prefill.enforce_eager, facts.decode.enforce_eager) == (True, False)
    assert facts.prefill.memory.fits
    assert facts.decode.memory.fits
    assert facts.engine.tested
    assert facts.engine.transfers_asynchronously


def test_what_a_worker_leaves_out_is_vllms_own_and_what_it_says_wins() -> None:
    said = Worker(
        max_num_seqs=7,
        max_num_batched_tokens=900,
        gpu_memory_utilization=0.5,
        enforce_eager=False,
        prefix_caching=True,
    )
    facts = resolve(
        _deployment(Serving(prefill=said, decode=Worker(), transfer=Transfer(block_size_tokens=32)))
    )
    prefill, decode = facts.prefill, facts.decode
    assert (prefill.max_num_seqs, prefill.max_num_batched_tokens) == (7, 900)
    assert (prefill.gpu_memory_utilization, prefill.enforce_eager, prefill.prefix_caching) == (
        0.5,
        False,
        True,
    )
    assert (decode.max_num_seqs, decode.max_num_batched_tokens) == (1024, 8192)
    assert (decode.enforce_eager, decode.prefix_caching) == (False, False)
    assert facts.block_size_tokens == 32
    assert resolve(_deployment()).block_size_tokens == 16


@pytest.mark.parametrize(("backend", "utilization"), [("self-managed", 0.86), ("operator", 0.75)])
def test_utilization_beside_eight_gib_is_computed_and_on_the_operator_awss(
    backend: Any, utilization: float
) -> None:
    facts = resolve(_deployment(Serving(backend=backend)))
    assert facts.decode.gpu_memory_utilization == pytest.approx(utilization)


def test_gpus_that_a_role_declares_are_its_workers() -> None:
    facts = resolve(_deployment(Serving(tensor_parallel=4, decode=Worker(gpus=8))))
    assert (facts.prefill.gpus, facts.decode.gpus, facts.decode.efa_devices) == (4, 8, 32)


def test_mixed_pools_keep_their_own_devices_and_memory() -> None:
    facts = resolve(_deployment(groups=(_group(Role.PREFILL), _group(Role.DECODE, "ml.p5en.48xlarge"))))
    assert (facts.prefill.efa_devices, facts.decode.efa_devices) == (32, 16)
    assert facts.decode.memory.kv_tokens > 2 * facts.prefill.memory.kv_tokens


def test_half_a_node_per_worker_puts_two_on_a_node() -> None:
    facts = resolve(_deployment(Serving(tensor_parallel=4, decode=Worker(replicas=3))))
    assert facts.decode.gpus == 4
    assert facts.decode.efa_devices == 16
    assert facts.decode.workers_per_node == 2
    assert facts.decode.nodes == 2
    assert not facts.decode.whole_node


def test_operator_backend_takes_awss_engine() -> None:
    engine = resolve(_deployment(Serving(backend="operator"))).engine
    assert (engine.vllm, engine.lmcache, engine.nixl) == ("0.19.0", "0.4.3", "1.0.0")
    assert not engine.transfers_asynchronously


def test_declared_version_replaces_the_triples_and_is_untested() -> None:
    engine = resolve(_deployment(Serving(engine=Engine(lmcache="0.5.6")))).engine
    assert engine.lmcache_version == (0, 5, 6)
    assert not engine.tested


@pytest.mark.parametrize(
    ("key", "given"), [("image", "registry.example/vllm:1"), ("vllm", "0.25.2"), ("nixl", "1.6.0")]
)
def test_what_is_declared_of_an_engine_replaces_that_alone(key: str, given: str) -> None:
    triple = resolve(_deployment(Serving())).engine
    declared = resolve(_deployment(Serving(engine=Engine(**{key: given})))).engine
    keys = ("image", "vllm", "lmcache", "nixl")
    assert {name: getattr(declared, name) for name in keys} == {
        **{name: getattr(triple, name) for name in keys},
        key: given,
    }


@pytest.mark.parametrize(("strategy", "cached"), [("continue", False), ("land", True)])
def test_decoder_prefix_cache_follows_the_hand_off_strategy(strategy: Any, cached: bool) -> None:
    facts = resolve(_deployment(routing=Routing(strategy=strategy)))
    assert facts.decode.prefix_caching is cached
    assert facts.prefill.prefix_caching is False


def test_nixl_needs_no_buffer_and_keeps_the_prefix_cache() -> None:
    facts = resolve(_deployment(Serving(transfer=Transfer(type="nixl"))))
    assert facts.decode.pd_buffer.requested_bytes == 0
    assert facts.decode.gpu_memory_utilization == 0.90
    assert facts.prefill.prefix_caching


def test_every_boot_of_a_decoder_has_ports_of_its_own_until_the_epochs_repeat() -> None:
    ports = resolve(_deployment()).decode_ports
    assert ports.init(0) == tuple(range(7300, 7308))
    assert ports.init(1) == tuple(range(7308, 7316))
    assert ports.alloc(ports.epochs) == ports.alloc(0)
    assert {port for epoch in range(ports.epochs) for port in ports.init(epoch)} == set(ports.init_range)


def test_every_obstacle_is_reported_at_once() -> None:
    broken = _deployment(
        Serving(engine=Engine(name="vllm-1"), decode=Worker(instance_group="nowhere")),
        groups=(_group(Role.PREFILL, "ml.p4d.24xlarge"), _group(Role.DECODE)),
        model_spec=Model(name="gpt-5"),
    )
    with pytest.raises(UnresolvedError) as caught:
        resolve(broken)
    assert {obstacle.path for obstacle in caught.value.obstacles} == {
        "model.name",
        "serving.engine.name",
        "hyperpod.instance_groups[0].instance_type",
        "serving.decode.instance_group",
    }
    assert "`ml.p5.48xlarge`" in str(caught.value)
    assert resolve_or_none(broken) is None


@pytest.mark.parametrize(
    ("groups", "given"),
    [
        ((_group(Role.PREFILL),), "0 groups with `role: decode`"),
        (
            (_group(Role.PREFILL), _group(Role.DECODE), _group(Role.DECODE, name="decode-2")),
            "2 groups with `role: decode`",
        ),
    ],
)
def test_role_without_exactly_one_group_is_an_obstacle(groups: tuple[InstanceGroup, ...], given: str) -> None:
    with pytest.raises(UnresolvedError, match=given):
        resolve(_deployment(groups=groups))


def test_more_ranks_than_gpus_is_an_obstacle() -> None:
    with pytest.raises(UnresolvedError, match="needs more GPUs than a node has"):
        resolve(_deployment(Serving(tensor_parallel=16)))


def test_model_that_does_not_divide_is_an_obstacle_with_the_degrees_that_do() -> None:
    with pytest.raises(
        UnresolvedError, match=r"64 attention heads are not a multiple.*use one of 1, 2, 4, 8"
    ):
        resolve(_deployment(Serving(tensor_parallel=6)))


def test_version_that_is_not_a_number_is_an_obstacle() -> None:
    with pytest.raises(UnresolvedError, match=r"serving\.engine: a version is not numbers"):
        resolve(_deployment(Serving(engine=Engine(vllm="latest"))))


LLAMA_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}


def _config(folder: Path, **changes: Any) -> Path:
    path = folder / "config.json"
    path.write_text(
        json.dumps({key: value for key, value in (LLAMA_CONFIG | changes).items() if value is not ...})
    )
    return path


def test_local_config_gives_the_geometry_of_a_model_that_the_catalog_lacks(tmp_path: Path) -> None:
    spec = Model(name="my-llama", config_file=str(_config(tmp_path)))
    facts = resolve(_deployment(model_spec=spec))
    assert facts.geometry.name == "my-llama"
    assert parameters(facts.geometry) == parameters(model("llama-3.3-70b-instruct"))


def test_local_config_of_experts_and_latent_attention_equals_the_catalog(tmp_path: Path) -> None:
    path = _config(
        tmp_path,
        model_type="deepseek_v3",
        hidden_size=7168,
        num_hidden_layers=61,
        num_attention_heads=128,
        num_key_value_heads=128,
        intermediate_size=18432,
        vocab_size=129280,
        n_routed_experts=256,
        num_experts_per_tok=8,
        n_shared_experts=1,
        moe_intermediate_size=2048,
        first_k_dense_replace=3,
        kv_lora_rank=512,
        q_lora_rank=1536,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
    )
    assert parameters(read_config(path, name="x")) == parameters(model("deepseek-v3"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba2"}, "`model_type: mamba2`, whose memory formulas are not known"),
        ({"num_hidden_layers": ...}, "has no `num_hidden_layers`"),
        ({"hidden_size": -1}, "`hidden_size: -1`, which is not a positive whole number"),
        ({"num_key_value_heads": 0}, "`num_key_value_heads: 0`, which is not a positive whole number"),
        ({"num_key_value_heads": True}, "`num_key_value_heads: True`"),
        ({"vocab_size": "many"}, "`vocab_size: many`"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "layers of type `linear_attention`"),
    ],
)
def test_config_that_cannot_be_interpreted_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnreadableModelError, match=message):
        read_config(_config(tmp_path, **changes), name="x")


@pytest.mark.parametrize(("text", "message"), [("{", "is not JSON"), ("[1]", "is not a JSON object")])
def test_file_that_is_no_configuration_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(UnreadableModelError, match=message):
        read_config(path, name="x")


def test_missing_configuration_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(UnreadableModelError, match="No such file"):
        read_config(tmp_path / "none.json", name="x")
