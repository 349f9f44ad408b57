"""The one way to an object that cdk8s-plus-27 cannot say.

It models Kubernetes 1.27 and drops what it does not know without a word, from typed objects and from patches
alike. `cdk8s.ApiObject` passes everything through; `kubernetes-validate` at the cluster's version is what
checks it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cdk8s import ApiObject, ApiObjectMetadata, JsonPatch
from constructs import Construct


def api_object(
    scope: Construct,
    construct_id: str,
    *,
    api_version: str,
    kind: str,
    name: str,
    labels: Mapping[str, str],
    namespace: str | None = None,
    annotations: Mapping[str, str] | None = None,
    **sections: Any,
) -> ApiObject:
    """Add an object whose `sections`, such as `spec`, reach the YAML exactly as given.

    Raises:
        ValueError: a section contains None, which would vanish or become a `null`.
    """
    for path, value in _walk(sections, ""):
        if value is None:
            raise ValueError(f"`{kind}` `{name}` has no value at `{path}`")
    made = ApiObject(
        scope,
        construct_id,
        api_version=api_version,
        kind=kind,
        metadata=ApiObjectMetadata(
            name=name, namespace=namespace, labels=dict(labels), annotations=dict(annotations or {}) or None
        ),
    )
    for section, content in sections.items():
        made.add_json_patch(JsonPatch.add(f"/{section}", content))
    return made


def metadata(
    name: str,
    *,
    labels: Mapping[str, str],
    namespace: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> ApiObjectMetadata:
    """Return the metadata of a cdk8s-plus object, named explicitly: generated names would be a surprise."""
    return ApiObjectMetadata(
        name=name, namespace=namespace, labels=dict(labels), annotations=dict(annotations or {}) or None
    )


def leave_out(made: Construct, *paths: str) -> None:
    """Remove what cdk8s-plus writes although nobody asked for it, such as an empty list, at JSON pointers `paths`."""
    for path in paths:
        ApiObject.of(made).add_json_patch(JsonPatch.remove(path))


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    match value:
        case Mapping():
            for key, item in value.items():
                yield from _walk(item, f"{path}/{key}")
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _walk(item, f"{path}/{index}")
        case _:
            yield path, value
