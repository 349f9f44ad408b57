"""Where two deployments differ, field by field."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from hyperpod_dpd.spec import Acknowledgement, Deployment, InstanceGroup, Price
from hyperpod_dpd.spec.value import record

_ABSENT = None

_KEYS: Mapping[type, str] = {InstanceGroup: "name", Price: "instance_type", Acknowledgement: "rule"}
"""Items of lists that have an identity of their own: their place in the list means nothing."""


@record
class Difference:
    """One value that is not the same."""

    path: str
    """Path with the names of list items, such as `hyperpod.instance_groups[decode].count`."""

    old: Any
    new: Any

    @property
    def pattern(self) -> str:
        """Path without the names of items."""
        return re.sub(r"\[[^\]]*\]", "[]", self.path)

    @property
    def text(self) -> str:
        """`old → new` in words."""
        return f"{shown(self.old)} → {shown(self.new)}"


def differences(old: Deployment, new: Deployment) -> tuple[Difference, ...]:
    """Return every difference in the order of the specification."""
    return tuple(_compare("", old, new))


def _compare(path: str, old: Any, new: Any) -> Iterator[Difference]:
    if old == new:
        return
    if is_dataclass(old) and old.__class__ is new.__class__:
        for field in fields(old):
            below = f"{path}.{field.name}" if path else field.name
            yield from _compare(below, getattr(old, field.name), getattr(new, field.name))
    elif (key := _key(old, new)) is not None:
        before, after = ({getattr(item, key): item for item in side} for side in (old, new))
        for name in dict.fromkeys([*before, *after]):
            yield from _compare(f"{path}[{name}]", before.get(name, _ABSENT), after.get(name, _ABSENT))
    else:
        yield Difference(path=path, old=old, new=new)


def _key(old: Any, new: Any) -> str | None:
    if not isinstance(old, tuple) or not isinstance(new, tuple):
        return None
    keys = {_KEYS.get(type(item)) for item in (*old, *new)}
    return keys.pop() if len(keys) == 1 else None


def shown(value: Any) -> str:
    """Return `value` as a deployment file would write it, in one line."""
    match value:
        case None:
            text = "absent"
        case bool():
            text = str(value).lower()
        case Enum():
            text = str(value.value)
        case float():
            text = f"{value:g}"
        case tuple():
            text = f"[{', '.join(map(shown, value))}]"
        case Mapping():
            text = f"{{{', '.join(f'{key}: {shown(each)}' for key, each in value.items())}}}"
        case _ if is_dataclass(value):
            text = shown(_given(value))
        case _:
            text = str(value)
    return text


def _given(value: Any) -> dict[str, Any]:
    """Return the fields of `value` that a file has to name: those that are not as usual."""
    return {
        field.name: getattr(value, field.name)
        for field in fields(value)
        if getattr(value, field.name) not in (None, field.default)
    }
