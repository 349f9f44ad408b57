"""Reading a synthesized template as a reviewer does."""

import tempfile
from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk

from tests.support.synth import context

Template = Mapping[str, Any]
Resource = Mapping[str, Any]

# emptied when the process ends; without it every app leaves its output in the system's temporary folder
_OUTPUT = tempfile.TemporaryDirectory(prefix="hyperpod-dpd-")


def app() -> cdk.App:
    """An app with the feature flags of the real one."""
    return cdk.App(context=context(), outdir=tempfile.mkdtemp(dir=_OUTPUT.name))


def synthesized(stack: cdk.Stack) -> Template:
    """The template of `stack`, as it is written for the CLI."""
    root = stack.node.root
    assert isinstance(root, cdk.App)
    template: Template = root.synth().get_stack_by_name(stack.stack_name).template
    return template


def resources(template: Template, resource_type: str) -> dict[str, Resource]:
    """Resources of one type by logical id."""
    return {
        logical_id: resource
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == resource_type
    }


def only(template: Template, resource_type: str) -> tuple[str, Resource]:
    """The one resource of that type."""
    found = resources(template, resource_type)
    assert len(found) == 1, f"{len(found)} resources of type {resource_type}: {sorted(found)}"
    return next(iter(found.items()))


def depends_on(resource: Resource) -> set[str]:
    """Logical ids that a resource waits for explicitly."""
    given = resource.get("DependsOn", ())
    return {given} if isinstance(given, str) else set(given)


def tags(resource: Resource) -> dict[str, str]:
    """Tags of a resource."""
    return {tag["Key"]: tag["Value"] for tag in resource["Properties"].get("Tags", ())}


def text(value: Any) -> str:
    """A value with its references written as `${Name}`, so that it can be read and compared."""
    match value:
        case str():
            return value
        case {"Ref": name}:
            return f"${{{name}}}"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"${{{name}.{attribute}}}"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(text(part) for part in parts)
        case {"Fn::ImportValue": name}:
            return f"${{import {text(name)}}}"
        case {"Fn::Sub": template}:
            return str(template)
    raise AssertionError(f"cannot read {value!r}")
