"""CustomResourceDefinitions as their projects publish them, where a copy lies beside the repository."""

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema
import yaml

from tests.support.deployments import ROOT

PUBLISHED = ROOT.parent / "shared" / "crds"

Schema = Mapping[str, Any]


class _Loader(yaml.CSafeLoader):
    """Reads a lone `=`, which the Prometheus operator lists as a kind of match, as the text that it is."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda _loader, node: str(node.value))


@cache
def published_schema(group: str, kind: str, version: str) -> Schema | None:
    """Return the schema of `kind` (lower case) in `group` at `version`, or None where no copy is at hand."""
    for path in sorted(PUBLISHED.rglob(f"{group}_*.yaml")):
        for definition in yaml.load_all(path.read_text(encoding="utf-8"), Loader=_Loader):
            if definition["spec"]["names"]["kind"].lower() == kind:
                (found,) = [each for each in definition["spec"]["versions"] if each["name"] == version]
                schema: Schema = found["schema"]["openAPIV3Schema"]
                return schema
    return None


@cache
def closed_validator(group: str, kind: str, version: str) -> jsonschema.Draft202012Validator:
    """Return a validator that also refuses keys which the schema does not declare.

    The API server prunes them without a word, which is how a misspelt setting comes to have no effect.
    """
    schema = copy.deepcopy(published_schema(group, kind, version))
    assert schema is not None, f"no copy of `{group}` `{kind}`"
    _close(schema)
    # what is in `metadata` is every object's own
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft202012Validator(schema)


def _close(schema: Any) -> None:
    if isinstance(schema, dict):
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        for below in schema.values():
            _close(below)
    elif isinstance(schema, list):
        for below in schema:
            _close(below)
