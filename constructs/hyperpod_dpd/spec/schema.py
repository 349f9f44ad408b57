"""JSON Schema of the deployment file, for editors."""

import ast
import inspect
from typing import Any

from pydantic import TypeAdapter

from hyperpod_dpd.spec import (
    cluster,
    deployment,
    hyperpod,
    model,
    network,
    operator,
    platform,
    routing,
    serving,
)

_MODULES = (cluster, deployment, hyperpod, model, network, operator, platform, routing, serving)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a deployment file.

    Descriptions are the docstrings below the fields, so that what an editor shows is what the code says.
    """
    schema = TypeAdapter(deployment.Deployment).json_schema()
    documented = field_docs()
    definitions = schema.get("$defs", {})
    for name, definition in (("Deployment", schema), *definitions.items()):
        for field, text in documented.get(name, {}).items():
            definition.get("properties", {}).get(field, {}).setdefault("description", text)
    # `platform` may also name a file that several deployments share
    platform_schema = schema["properties"]["platform"]
    schema["properties"]["platform"] = {
        "description": platform_schema.pop("description"),
        "default": platform_schema.pop("default", None),
        "anyOf": [{"$ref": "#/$defs/Platform"}, {"type": "string", "minLength": 1}],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "HyperPod DPD deployment",
        **schema,
    }


def field_docs() -> dict[str, dict[str, str]]:
    """Return the docstring of every field by class name and field name."""
    docs: dict[str, dict[str, str]] = {}
    for module in _MODULES:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                docs[node.name] = _class_field_docs(node)
    return docs


def _class_field_docs(node: ast.ClassDef) -> dict[str, str]:
    docs = {}
    for statement, following in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            docs[statement.target.id] = " ".join(following.value.value.split())
    return docs
