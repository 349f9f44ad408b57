"""How rules read a CloudFormation template: by resource type, because names and construct classes differ."""

from collections.abc import Iterator, Mapping
from typing import Any

Template = Mapping[str, Any]


def resources(template: Template, *types: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield logical id and resource of every resource of one of `types`."""
    for logical_id, resource in template.get("Resources", {}).items():
        if resource.get("Type") in types:
            yield logical_id, resource


def properties(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the properties of `resource`, empty when it has none."""
    found: Mapping[str, Any] = resource.get("Properties") or {}
    return found


def target(value: object) -> str | None:
    """Return the logical id to which a `Ref` or `Fn::GetAtt` points, or None for anything else."""
    if not isinstance(value, Mapping):
        return None
    if "Ref" in value:
        return str(value["Ref"])
    attribute = value.get("Fn::GetAtt")
    if isinstance(attribute, str):
        return attribute.partition(".")[0]
    return str(attribute[0]) if attribute else None


def targets(value: object) -> Iterator[str]:
    """Yield every logical id that is referred to anywhere inside `value`."""
    if isinstance(value, Mapping):
        found = target(value)
        if found is not None:
            yield found
        for below in value.values():
            yield from targets(below)
    elif isinstance(value, list):
        for below in value:
            yield from targets(below)


def dependencies(template: Template, logical_id: str) -> frozenset[str]:
    """Return everything that CloudFormation creates before `logical_id`, by `DependsOn` and by reference."""
    found: set[str] = set()
    waiting = [logical_id]
    while waiting:
        resource = template["Resources"].get(waiting.pop(), {})
        depends_on = resource.get("DependsOn") or []
        direct = {depends_on} if isinstance(depends_on, str) else set(depends_on)
        direct |= set(targets(resource.get("Properties")))
        waiting.extend(direct - found)
        found |= direct
    return frozenset(found)


def items(value: object) -> list[Any]:
    """Return `value` as a list: policy documents write one statement or action without brackets."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def at(logical_id: str, *keys: object) -> str:
    """Return the path of a property for a finding."""
    return ".".join(["Resources", logical_id, *map(str, keys)])
