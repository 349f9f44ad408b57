"""The configuration of the inference add-on in a template: JSON with references in between."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from hyperpod_dpd.derive.addons import INFERENCE_OPERATOR
from hyperpod_dpd.rules.template import Template, properties, resources, target

CONFIGURATION: Final = "Properties.ConfigurationValues"


def configured(template: Template, key: str) -> Iterator[tuple[str, object]]:
    """Yield the logical id of every inference add-on and what its configuration says under `key`, None if nothing."""
    for logical_id, entry in resources(template, "AWS::EKS::Addon"):
        given = properties(entry)
        if given.get("AddonName") == INFERENCE_OPERATOR:
            yield logical_id, _value(given.get("ConfigurationValues"), key)


def name_of(template: Template, value: object, name: str) -> str | None:
    """Return the literal beginning of property `name` of the resource that `value` refers to, or None."""
    logical_id = target(value)
    given = properties(template["Resources"].get(logical_id, {})).get(name) if logical_id else None
    if isinstance(given, Mapping) and "Fn::Join" in given:
        given = given["Fn::Join"][1][0]
    return given if isinstance(given, str) else None


def _value(configuration: object, key: str) -> object:
    if isinstance(configuration, str):
        return _parsed(configuration).get(key)
    parts = configuration["Fn::Join"][1] if isinstance(configuration, Mapping) else []
    for before, part in pairwise(parts):
        if isinstance(before, str) and before.endswith(f'"{key}":"'):
            return part
    text = "".join(part if isinstance(part, str) else "" for part in parts)
    return _parsed(text).get(key)


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}
