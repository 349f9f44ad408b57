"""Every object is what the API server of the cluster's version accepts."""

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate  # type: ignore[import-untyped]
import pytest

from hyperpod_dpd.derive.custom_resources import OPERATOR_GROUP
from hyperpod_dpd.serving.bindings import bind, read_values
from hyperpod_dpd.serving.profile import Profile
from tests.support.crds import closed_validator, published_schema
from tests.support.manifests import BOUND, CASES, OPERATOR_CASES, of_kind, rendering

SCHEMAS = Path(__file__).parent / "schemas"


@pytest.fixture(autouse=True)
def _schemas_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # the package reads a megabyte of definitions for every object
    monkeypatch.setattr(kubernetes_validate.utils, "schema_contents", schema_contents)


schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)


def custom_schema(entry: dict[str, Any]) -> Path:
    group = entry["apiVersion"].partition("/")[0]
    return SCHEMAS / f"{group}_{entry['kind'].lower()}.json"


def is_custom(entry: dict[str, Any]) -> bool:
    group = entry["apiVersion"].partition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


@pytest.mark.parametrize(("name", "profile"), [*CASES, *OPERATOR_CASES])
def test_every_object_passes_the_strict_schema_of_the_cluster_version(name: str, profile: Profile) -> None:
    rendered = rendering(name, profile)
    version = rendered.deployment.cluster.kubernetes_version
    for entry in rendered.objects:
        if is_custom(entry):
            schema = json.loads(custom_schema(entry).read_text(encoding="utf-8"))
            jsonschema.validate(entry, schema)
        else:
            checked = kubernetes_validate.validate(entry, version, strict=True)
            assert checked == version, "the validator took the schema of a neighbouring version"


def test_every_built_in_kind_is_known_to_the_validator() -> None:
    """A kind without a schema would pass unseen in the test above, were it not strict about it."""
    with pytest.raises(kubernetes_validate.SchemaNotFoundError):
        kubernetes_validate.validate({"apiVersion": "apps/v1", "kind": "Deploymint"}, "1.35", strict=True)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "template", "spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"), None),
        (("spec", "template", "spec", "containers", 0, "livnessProbe"), {}),
        (("spec", "replicas"), "one"),
        (("spec", "strategy"), {"rollingUpdate": {"maxSurge": [0]}}),
    ],
)
def test_the_validator_refuses_what_cdk8s_lets_through(path: tuple[Any, ...], value: Any) -> None:
    entry = json.loads(json.dumps(of_kind(rendering("p5").objects, "Deployment")[0]))
    node = entry
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(entry, "1.35", strict=True)


def test_every_committed_schema_is_used_and_closed() -> None:
    used = {
        custom_schema(entry).name
        for name, profile in [*CASES, *OPERATOR_CASES]
        for entry in rendering(name, profile).objects
        if is_custom(entry)
    }
    assert used == {path.name for path in SCHEMAS.glob("*.json")}
    for path in SCHEMAS.glob("*.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        assert not list(open_objects(schema)), path.name


def open_objects(schema: Any, path: str = "") -> Any:
    """Yield the path of every object that would take a misspelt key."""
    if isinstance(schema, dict):
        if "properties" in schema and schema.get("additionalProperties") is not False:
            yield path
        for key, below in schema.items():
            yield from open_objects(below, f"{path}/{key}")


@pytest.mark.parametrize("schema", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_own_schemas_agree_with_the_published_ones(schema: Path) -> None:
    group, _, kind = schema.stem.rpartition("_")
    theirs = published_schema(group, kind, api_version(schema))
    if theirs is None:
        pytest.skip(f"the CustomResourceDefinition of `{group}` is not among ../shared/crds")
    own = json.loads(schema.read_text(encoding="utf-8"))
    assert not list(not_in(own, theirs, "")), "a field that the CRD does not have"


@pytest.mark.parametrize(("name", "profile"), [("scaled", Profile.SELF_MANAGED), *OPERATOR_CASES])
def test_every_custom_object_passes_the_published_schema_when_its_bindings_are_filled(
    name: str, profile: Profile
) -> None:
    objects = json.loads(bind(json.dumps(rendering(name, profile).objects), read_values(BOUND)))
    for entry in filter(is_custom, objects):
        group, version = entry["apiVersion"].split("/")
        if group == "external-secrets.io":
            continue  # no definition of it is at hand; its own subset is checked above
        schema = published_schema(group, entry["kind"].lower(), version)
        if schema is None:
            pytest.skip(f"the CustomResourceDefinition of `{group}` is not among ../shared/crds")
        closed_validator(group, entry["kind"].lower(), version).validate(entry)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "pdSpec", "decodeSpec"), {"replicas": 1}),
        (("spec", "pdSpec", "prefillSpec", "env"), []),
        (("spec", "pdSpec", "routingThreshold"), "4096"),
        (("spec", "pdSpec", "autoScalingSpec", "decodeAutoScaling"), {}),
        (("spec", "kvCacheSpec", "l2CacheSpec", "l2CacheBackend"), "disk"),
        (("spec", "modelSourceConfig", "modelSourceType"), "efs"),
    ],
)
def test_the_published_schema_is_strict_enough_to_refuse_a_slip(path: tuple[str, ...], value: Any) -> None:
    if published_schema(OPERATOR_GROUP, "inferenceendpointconfig", "v1") is None:
        pytest.skip("the operator's CustomResourceDefinition is not among ../shared/crds")
    objects = json.loads(
        bind(json.dumps(rendering("operated-everything", Profile.OPERATOR).objects), read_values(BOUND))
    )
    (entry,) = [each for each in objects if each["kind"] == "InferenceEndpointConfig"]
    node = entry
    for step in path[:-1]:
        node = node.setdefault(step, {})
    node[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        closed_validator(OPERATOR_GROUP, "inferenceendpointconfig", "v1").validate(entry)


def api_version(schema: Path) -> str:
    own = json.loads(schema.read_text(encoding="utf-8"))
    version: str = own["properties"]["apiVersion"]["const"]
    return version.rpartition("/")[2]


def not_in(own: Any, theirs: Any, path: str) -> Any:
    """Yield every property of `own` that `theirs` does not declare; a map takes any key."""
    if "additionalProperties" in theirs and "properties" not in theirs:
        return
    for key, below in own.get("properties", {}).items():
        if path == "" and key in {"apiVersion", "kind", "metadata"}:
            continue
        if key not in theirs.get("properties", {}):
            yield f"{path}.{key}"
        else:
            yield from not_in(below, theirs["properties"][key], f"{path}.{key}")
    if "items" in own:
        yield from not_in(own["items"], theirs.get("items", {}), f"{path}[]")
