"""How a rule's passing and failing cases are written down."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.violation import adapter

DEFAULT: Final = Path(__file__).parents[3] / "deployments/llama-3.3-70b-p5.yaml"

Changes = Mapping[str, Any]
"""New values by path into the default deployment, such as `hyperpod.instance_groups.0.count`."""


class Removed:
    """Marks a key that a change takes away."""


REMOVED: Final = Removed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A case that the rule has to find."""

    case: Mapping[str, Any]
    """Changes to the default deployment, or a template."""

    at: str
    """Path of the finding."""

    besides: tuple[str, ...] = ()
    """Paths of everything else that the rule finds in the same case."""

    mentions: tuple[str, ...] = ()
    """What the message has to say: the numbers and names that were wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Cases of one rule."""

    rule: str
    good: tuple[Mapping[str, Any], ...]
    """Cases near the limit that the rule lets through: changes, or templates."""
    bad: tuple[Bad, ...]


@cache
def _default_text() -> str:
    return json.dumps(yaml.safe_load(DEFAULT.read_text(encoding="utf-8")))


def default_data() -> dict[str, Any]:
    """Return the default deployment as plain data, free to change."""
    data: dict[str, Any] = json.loads(_default_text())
    return data


def changed_data(changes: Changes) -> dict[str, Any]:
    """Return the default deployment with `changes` as plain data."""
    data = default_data()
    for path, value in changes.items():
        _change(data, path.split("."), copy.deepcopy(value))
    return data


def deployment(changes: Changes) -> Deployment:
    """Return the default deployment with `changes`."""
    return adapter().validate_json(json.dumps(changed_data(changes)), strict=True)


def _change(data: Any, path: list[str], value: Any) -> None:
    for part in path[:-1]:
        data = data[int(part)] if isinstance(data, list) else data.setdefault(part, {})
    last = path[-1]
    if isinstance(value, Removed):
        del data[last]
    elif isinstance(data, list):
        index = int(last)
        data[index:] = [value, *data[index + 1 :]]
    else:
        data[last] = value
