"""The JSON Schema says what the reader accepts, and editors can show what a key means."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from hyperpod_dpd.spec.schema import json_schema
from tools.docs_schema import FILE, text

_DEPLOYMENTS = sorted((Path(__file__).parents[3] / "deployments").glob("*.yaml"))


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json_schema()


def _data(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_schema_is_one(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("path", _DEPLOYMENTS, ids=lambda path: path.stem)
def test_shipped_deployment_is_valid(schema: dict[str, Any], path: Path) -> None:
    jsonschema.validate(_data(path), schema)


def test_shared_platform_file_is_valid(schema: dict[str, Any]) -> None:
    jsonschema.validate({**_data(_DEPLOYMENTS[0]), "platform": "platform.yaml"}, schema)


@pytest.mark.parametrize(
    "change",
    [
        {"unknown": 1},
        {"region": 3},
        {"hyperpod": {"instance_groups": []}},
        {"platform": 3},
        {"model": {"source": {}}},
    ],
    ids=str,
)
def test_what_the_reader_refuses_is_invalid(schema: dict[str, Any], change: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**_data(_DEPLOYMENTS[0]), **change}, schema)


def test_every_key_is_described(schema: dict[str, Any]) -> None:
    silent = [
        f"{name}.{key}"
        for name, definition in (("Deployment", schema), *schema["$defs"].items())
        for key, field in definition.get("properties", {}).items()
        # the tag of a union says itself what it is
        if "description" not in field and not (key == "type" and ("const" in field or "default" in field))
    ]
    assert silent == []


def test_committed_schema_is_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "run `make drift`"


@pytest.mark.parametrize("path", _DEPLOYMENTS, ids=lambda path: path.stem)
def test_shipped_deployment_names_the_schema_for_editors(path: Path) -> None:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    assert first == f"# yaml-language-server: $schema={FILE.name}"
    assert FILE.parent == path.parent
