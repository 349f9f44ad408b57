"""Values of a deployment by path, compared with what they are when nobody gives them."""

from dataclasses import MISSING, fields
from typing import Any

from hyperpod_dpd.spec import Deployment


def changed(deployment: Deployment, path: str) -> bool:
    """Return whether the value at `path`, such as `serving.transfer.chunk_tokens`, is not its default."""
    return bool(setting(deployment, path) != _default(deployment, path))


def setting(deployment: Deployment, path: str) -> Any:
    """Return the value at `path`."""
    node: Any = deployment
    for part in path.split("."):
        node = getattr(node, part)
    return node


def shown(deployment: Deployment, path: str) -> str:
    """Return the value at `path` as a message quotes it."""
    name, value = path.rpartition(".")[2], setting(deployment, path)
    match value:
        case bool():
            return f"`{name}: {str(value).lower()}`"
        case str() | int() | float():
            return f"`{name}: {value}`"
        case tuple():
            return ", ".join(f"`{entry}`" for entry in value)
        case dict():
            return ", ".join(f"`{key}`" for key in value)
        case _:
            return f"`{name}`"


def _default(deployment: Deployment, path: str) -> Any:
    holder, _, name = path.rpartition(".")
    (field,) = [each for each in fields(setting(deployment, holder)) if each.name == name]
    if field.default is MISSING:
        raise ValueError(f"`{path}` has no default to compare with")
    return field.default
