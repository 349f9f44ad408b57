"""The fields that lint knows of the operator's resource are those that AWS publishes."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.crds import PUBLISHED

_RULE = importlib.import_module("hyperpod_dpd.rules.serving.manifest.dpd_lint_411")
_EMITTED = (
    Path(__file__).parents[2]
    / "manifests/schemas/inference.sagemaker.aws.amazon.com_inferenceendpointconfig.json"
)
_PLACES = (("_SPEC", ()), ("_PD_SPEC", ("pdSpec",)), ("_ROLE", ("pdSpec", "decodingSpec")))


def _fields(schema: Any, path: tuple[str, ...]) -> set[str]:
    below = schema["properties"]["spec"]
    for key in path:
        below = below["properties"][key]
    return set(below["properties"])


@pytest.mark.parametrize(("name", "path"), _PLACES)
def test_what_this_project_emits_is_known(name: str, path: tuple[str, ...]) -> None:
    schema = json.loads(_EMITTED.read_text(encoding="utf-8"))
    assert _fields(schema, path) <= getattr(_RULE, name)


@pytest.mark.parametrize(("name", "path"), _PLACES)
def test_the_published_fields_are_known_and_no_others(name: str, path: tuple[str, ...]) -> None:
    files = sorted(PUBLISHED.glob("hyperpod-inference-operator/*_inferenceendpointconfigs.yaml"))
    if not files:
        pytest.skip("the operator's CustomResourceDefinition is not among ../shared/crds")
    definition = yaml.safe_load(files[0].read_text(encoding="utf-8"))
    versions = {each["name"]: each["schema"]["openAPIV3Schema"] for each in definition["spec"]["versions"]}
    assert _fields(versions["v1"], path) == getattr(_RULE, name)
    assert _fields(versions["v1alpha1"], ()) == _RULE._SPEC_V1ALPHA1
