"""The table of consequences, held to what rendering says."""

import dataclasses
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from hyperpod_dpd.changes.compare import compare
from hyperpod_dpd.changes.consequences import EFFECTS, Consequence, effects
from hyperpod_dpd.changes.fields import Difference
from hyperpod_dpd.changes.manifests import object_changes
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import render
from hyperpod_dpd.spec import (
    Deployment,
    ExistingCluster,
    FsxSource,
    InstanceGroup,
    LoadBalancer,
    Scaling,
    Taint,
)
from tests.support.deployments import EXISTING_VPC, changed, ready

_C = Consequence

_CHANGES: dict[str, Any] = {
    "hyperpod__instance_groups__1__name": "others",
    "hyperpod__instance_groups__1__instance_type": "ml.p5en.48xlarge",
    "hyperpod__instance_groups__1__count": 2,
    "hyperpod__instance_groups__1__taints": (Taint(key="a", effect="NoSchedule"),),
    "hyperpod__instance_groups__1__threads_per_core": 1,
    "hyperpod__instance_groups__1__labels": {"a": "b"},
    "model__name": "llama-3.1-8b-instruct",
    "model__source": FsxSource(type="fsx", file_system_id="fs-0123456789abcdef0"),
    "model__revision": "0" * 40,
    "model__served_name": "chat",
    "model__weights": "fp8",
    "model__kv_cache": "fp8",
    "model__trust_remote_code": True,
    "serving__engine__name": "hyperpod-v1.1",
    "serving__engine__lmcache": "0.5.2",
    "serving__tensor_parallel": 4,
    "serving__max_model_len_tokens": 8192,
    "serving__longest_generation_seconds": 700,
    "serving__transfer__type": "nixl",
    "serving__transfer__backend": "UCX",
    "serving__transfer__pd_buffer_gib": 4.0,
    "serving__transfer__decode_pd_buffer_gib": 4.0,
    "serving__transfer__chunk_tokens": 512,
    "serving__transfer__init_port_base": 7600,
    "serving__transfer__alloc_port_base": 7700,
    "serving__transfer__port_epochs": 4,
    "serving__transfer__allocation_timeout_seconds": 11.0,
    "serving__transfer__hash_seed": 1,
    "serving__transfer__block_size_tokens": 32,
    "serving__prefill__replicas": 2,
    "serving__prefill__gpu_memory_utilization": 0.8,
    "serving__prefill__max_num_seqs": 8,
    "serving__prefill__max_num_batched_tokens": 4096,
    "serving__prefill__prefix_caching": True,
    "serving__prefill__environment": {"A": "b"},
    "serving__prefill__extra_args": ("--seed=1",),
    "serving__prefill__enforce_eager": False,
    "serving__decode__replicas": 2,
    "serving__decode__gpu_memory_utilization": 0.8,
    "serving__decode__max_num_seqs": 8,
    "serving__decode__max_num_batched_tokens": 4096,
    "serving__decode__enforce_eager": True,
    "serving__decode__prefix_caching": True,
    "serving__decode__environment": {"A": "b"},
    "serving__decode__extra_args": ("--seed=1",),
    "serving__baseline__max_num_seqs": 64,
    "serving__huge_pages_mib": 5128,
    "serving__shared_memory_gib": 90,
    "serving__security__workers": "privileged",
    "serving__prefillers_per_decoder__maximum": 4.0,
    "serving__instance_cache": False,
    "serving__operator__metrics": False,
    "routing__threshold_tokens": 2048,
    "routing__estimator": "characters",
    "routing__strategy": "land",
    "routing__affinity": "prefix",
    "routing__policy": "roundrobin",
    "routing__notification_timeout_seconds": 20.0,
    "routing__max_concurrent_requests": 100,
    "routing__max_queued_mib": 100,
    "routing__api_keys_secret": "keys",
    "routing__load_balancer": LoadBalancer(scheme="internet-facing"),
    "routing__client_namespaces": ("apps",),
    "routing__cpu": 1.0,
    "routing__memory_gib": 4,
    "routing__tracing_endpoint": "http://collector:4318",
    "traffic__input_tokens": 8000,
    "slo__ttft_p95_seconds": 1.0,
    "platform__scraping_namespace": "metrics",
    "platform__network_policies": "rendered-only",
    "platform__images__worker": f"x@sha256:{'a' * 64}",
    "platform__images__router": f"x@sha256:{'a' * 64}",
    "platform__log_retention_days": 30,
    "network__egress": "closed",
    "network__gpu_zone_id": "use1-az4",
    "cluster__kubernetes_version": "1.34",
    "removal__delete_data_on_destroy": True,
}
"""A change of each field whose value reaches a pod, and of some whose value does not."""

_UNITS = {
    _C.GENERATION: {"generation", "prefill", "decode"},
    _C.PREFILL: {"prefill"},
    _C.DECODE: {"decode"},
    _C.ROUTER: {"router"},
}


@pytest.fixture(scope="module")
def before() -> Deployment:
    return ready()


def _touched(old: Deployment, new: Deployment) -> set[str]:
    """Return which pods a change replaces, and whether the generation changes, as rendering says."""
    templates = [
        {
            entry["metadata"]["name"]: entry["spec"]["template"]
            for entry in render(deployment, Profile.SELF_MANAGED).objects
            if entry["kind"] == "Deployment"
        }
        for deployment in (old, new)
    ]
    touched = {name for name in templates[0] if templates[0][name] != templates[1][name]}
    label = "hyperpod-dpd/generation"
    digests = {each["decode"]["metadata"]["labels"][label] for each in templates}
    return touched | ({"generation"} if len(digests) > 1 else set())


@pytest.mark.parametrize("path", _CHANGES)
def test_table_says_which_pods_rendering_replaces(before: Deployment, path: str) -> None:
    after = changed(before, **{path: _CHANGES[path]})
    claimed = {
        unit for consequence in compare(before, after).grouped for unit in _UNITS.get(consequence, set())
    }
    assert claimed == _touched(before, after)


def test_operator_endpoint_changes_exactly_where_the_table_says() -> None:
    before = ready("llama-3.3-70b-p5-p5en-operator")
    wrong = []
    for path, value in _CHANGES.items():
        after = changed(before, **{path: value})
        if after == before:
            continue
        try:
            objects = [
                next(
                    entry
                    for entry in render(deployment, Profile.OPERATOR).objects
                    if entry["kind"] == "InferenceEndpointConfig"
                )
                for deployment in (before, after)
            ]
        except (LookupError, ValueError):  # the operator cannot say it
            continue
        if objects[0] != objects[1] and Consequence.ENDPOINT not in compare(before, after).grouped:
            wrong.append(path)
    assert wrong == []


# -- every field has an entry -----------------------------------------------------------------------------------------


def _plain(annotation: Any) -> Any:
    return _plain(get_args(annotation)[0]) if get_origin(annotation) is Annotated else annotation


def _leaves(annotation: Any, path: str = "") -> Iterator[str]:
    annotation = _plain(annotation)
    if get_origin(annotation) in {Union, types.UnionType}:
        for member in get_args(annotation):
            if member is not type(None):
                yield from _leaves(member, path)
    elif dataclasses.is_dataclass(annotation):
        for name, below in get_type_hints(annotation, include_extras=True).items():
            yield from _leaves(below, f"{path}.{name}" if path else name)
    elif get_origin(annotation) is tuple and dataclasses.is_dataclass(_plain(get_args(annotation)[0])):
        yield from _leaves(get_args(annotation)[0], f"{path}[]")
    elif get_origin(annotation) is not Literal or path:
        yield path


_FIELDS = sorted(set(_leaves(Deployment)))


@pytest.mark.parametrize("path", _FIELDS)
def test_every_field_has_consequences(path: str) -> None:
    assert effects(path)


def test_no_entry_hides_a_new_field_of_a_section_that_is_used_in_many_places() -> None:
    assert not {"network", "cluster", "hyperpod", "model", "serving", "routing", "platform"} & set(EFFECTS)
    assert not {"serving.transfer", "serving.prefill", "serving.decode", "platform.images"} & set(EFFECTS)
    # `hyperpod.instance_groups[]` itself is about groups that come and go
    below = {field.name for field in dataclasses.fields(InstanceGroup)}
    assert {f"hyperpod.instance_groups[].{name}" for name in below} <= set(EFFECTS)


@pytest.mark.parametrize("path", EFFECTS)
def test_every_entry_is_about_something_that_exists(path: str) -> None:
    assert any(field == path or field.startswith((f"{path}.", f"{path}[")) for field in _FIELDS)


def test_a_field_that_nobody_has_entered_is_a_defect() -> None:
    with pytest.raises(KeyError):
        effects("nothing.of.this")


def test_new_section_gets_the_consequences_of_all_its_fields(before: Deployment) -> None:
    scaled = changed(before, serving__decode__scaling=Scaling(maximum=2))
    grouped = compare(before, scaled).grouped
    assert [each.path for each in grouped[Consequence.OBJECTS]] == ["serving.decode.scaling"]


# -- comparison -------------------------------------------------------------------------------------------------------


def test_zone_of_the_gpus_is_refused_and_the_name_is_another_deployment(before: Deployment) -> None:
    moved = compare(before, changed(before, network__gpu_zone_id="use1-az4"))
    assert next(iter(moved.grouped)) is Consequence.REFUSED
    renamed = compare(before, changed(before, name="other", network__gpu_zone_id="use1-az4"))
    assert list(renamed.grouped) == [Consequence.ELSEWHERE]


def test_a_cluster_does_not_move_into_another_vpc_and_nothing_else_is_said_of_it(before: Deployment) -> None:
    existing = changed(before, network__existing=EXISTING_VPC)
    for old, new in ((before, existing), (existing, before)):
        assert list(compare(old, new).grouped) == [Consequence.REFUSED]
    other = changed(existing, network__existing__vpc_id="vpc-00000000")
    assert list(compare(existing, other).grouped) == [Consequence.REFUSED]


@pytest.mark.parametrize(
    ("path", "given", "said"),
    [
        ("network__existing", EXISTING_VPC, {_C.OBJECTS}),
        ("network__gpu_cidr", "10.2.0.0/16", {_C.OBJECTS}),
        ("network__gpu_zone_id", "use1-az4", {_C.ROUTER}),
        ("network__egress", "closed", {_C.PLAN}),
    ],
)
def test_the_network_of_a_clusters_owner_is_not_changed_by_a_guest(
    before: Deployment, path: str, given: Any, said: set[Consequence]
) -> None:
    guest = changed(before, cluster__existing=ExistingCluster(eks_name="theirs", hyperpod_name="theirs"))
    after = changed(guest, **{path: given})
    assert set(compare(guest, after).grouped) == said
    assert ("router" in _touched(guest, after)) is (said == {_C.ROUTER})


@pytest.mark.parametrize(
    ("key", "given", "said"),
    [
        ("cidrs", ("10.20.0.0/16",), {_C.NETWORK, _C.OBJECTS}),
        ("cluster_subnet_ids", ("subnet-00000000", "subnet-00000001"), {_C.EKS}),
        ("load_balancer_subnet_ids", ("subnet-00000000", "subnet-00000001"), {_C.OBJECTS}),
        ("endpoint_services", (), {_C.NETWORK}),
    ],
)
def test_what_an_existing_vpc_offers_may_change(
    before: Deployment, key: str, given: tuple[str, ...], said: set[Consequence]
) -> None:
    existing = changed(before, network__existing=EXISTING_VPC)
    assert set(compare(existing, changed(existing, **{f"network__existing__{key}": given})).grouped) == said


def test_naming_the_account_moves_nothing(before: Deployment) -> None:
    named = changed(before, account="123456789012")
    assert list(compare(before, named).grouped) == [Consequence.RESOURCES]
    assert list(compare(named, changed(named, account="210987654321")).grouped) == [Consequence.ELSEWHERE]


def test_groups_are_compared_by_name_not_by_place(before: Deployment) -> None:
    prefill, decode = before.hyperpod.instance_groups
    swapped = changed(before, hyperpod__instance_groups=(decode, prefill))
    assert compare(before, swapped).differences == ()
    third = changed(
        before, hyperpod__instance_groups=(prefill, decode, dataclasses.replace(decode, name="spare"))
    )
    (difference,) = compare(before, third).differences
    assert difference.path == "hyperpod.instance_groups[spare]"
    assert difference.old is None
    assert Consequence.GROUPS in compare(before, third).grouped


def test_cost_and_quota_follow_the_groups(before: Deployment) -> None:
    larger = compare(before, changed(before, hyperpod__instance_groups__0__count=2))
    assert larger.cost is not None
    assert larger.cost.differs
    assert larger.quota.old.startswith("2 ×")
    assert larger.quota.new.startswith("3 ×")
    assert larger.generation is not None
    assert not larger.generation.differs


def test_only_the_role_that_runs_on_a_changed_group_rolls(before: Deployment) -> None:
    after = changed(before, hyperpod__instance_groups__0__instance_type="ml.p5en.48xlarge")
    grouped = compare(before, after).grouped
    assert Consequence.PREFILL in grouped
    assert Consequence.DECODE not in grouped


@pytest.mark.parametrize(("index", "role"), [(0, _C.DECODE), (1, _C.PREFILL)])
def test_a_group_that_a_role_names_is_that_roles(before: Deployment, index: int, role: Consequence) -> None:
    prefill, decode = (dataclasses.replace(group, role=None) for group in before.hyperpod.instance_groups)
    named = changed(
        before,
        hyperpod__instance_groups=(prefill, decode),
        serving__prefill__instance_group=decode.name,
        serving__decode__instance_group=prefill.name,
    )
    after = changed(named, **{f"hyperpod__instance_groups__{index}__instance_type": "ml.p5en.48xlarge"})
    assert set(compare(named, after).grouped) & {_C.PREFILL, _C.DECODE} == {role}


def test_both_generations_are_shown_in_their_order(before: Deployment) -> None:
    after = changed(before, serving__transfer__hash_seed=1)
    there, back = compare(before, after).generation, compare(after, before).generation
    assert there is not None
    assert back is not None
    assert there.differs
    assert (there.old, there.new) == (back.new, back.old)


def test_another_digest_of_an_image_changes_no_build(before: Deployment) -> None:
    digests = [f"registry.example/router@sha256:{letter * 64}" for letter in "ab"]
    first, second = (changed(before, platform__images__router=digest) for digest in digests)
    assert Consequence.PLATFORM in compare(before, first).grouped
    assert Consequence.PLATFORM not in compare(first, second).grouped
    assert Consequence.ROUTER in compare(first, second).grouped


def test_objects_come_go_and_change(before: Deployment) -> None:
    exposed = changed(before, routing__load_balancer=LoadBalancer(scheme="internal"))
    title = f"Ingress {before.name}-system/router"

    def fate(old: Deployment, new: Deployment) -> str | None:
        return next((each.fate for each in object_changes(old, new) if each.title == title), None)

    assert fate(before, exposed) == "created"
    assert fate(exposed, before) == "removed"
    assert fate(exposed, exposed) is None
    other = changed(exposed, routing__load_balancer=LoadBalancer(scheme="internet-facing"))
    assert fate(exposed, other) == "changed"


def test_values_read_like_a_deployment_file() -> None:
    scaling = Difference(path="serving.decode.scaling", old=None, new=Scaling(maximum=3, minimum=2))
    assert scaling.text == "absent → {minimum: 2, maximum: 3}"
    assert Difference(path="x", old=True, new=(1.5, "a")).text == "true → [1.5, a]"
