"""The volumes of a pod and the files in them."""

from collections.abc import Mapping
from typing import Final

from hyperpod_dpd.lint.model import Pod
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.rehearsal.below import items
from hyperpod_dpd.rehearsal.pods.references import ReferenceKind, References
from hyperpod_dpd.rehearsal.pods.remarks import Remarks
from hyperpod_dpd.rehearsal.trouble import Kind

Volumes = Mapping[str, Mapping[str, str] | None]
"""Files of each volume by path, nothing in an empty folder; None where what is to be mounted is missing."""

_SOURCES: Final[tuple[tuple[str, ReferenceKind, str], ...]] = (
    ("configMap", "ConfigMap", "name"),
    ("secret", "Secret", "secretName"),
)
"""Field of a volume, what it mounts, and the field that names it."""


def read_volumes(pod: Pod, references: References, remarks: Remarks) -> Volumes:
    """Return the volumes of `pod`, and remark what is missing."""
    return {
        node.text_at("name") or "?": _files(pod, node, references, remarks)
        for node in items(pod.node, "volumes")
    }


def _files(pod: Pod, node: Node, references: References, remarks: Remarks) -> Mapping[str, str] | None:
    for field, kind, name_field in _SOURCES:
        source = node.get(field)
        if source is None:
            continue
        name = source.text_at(name_field)
        data = references.data(kind, pod.namespace, name)
        if data is not None:
            return _chosen(pod, source, data, f"{kind} `{name}`", remarks)
        if source.text_at("optional") == "true":
            return {}
        remarks.trouble(
            Kind.PENDING,
            source,
            f"{pod.owner.title} cannot mount {kind} `{name}`: there is none in namespace `{pod.namespace}`",
            f"render the {kind}, or correct the name",
        )
        return None
    if node.get("emptyDir") is None:
        written = next((key for key in node.pairs if key != "name"), "nothing")
        name = node.text_at("name") or "?"
        remarks.note(f"volume `{name}` of {pod.owner.title} (`{written}`) is an empty folder here")
    return {}


def _chosen(
    pod: Pod, source: Node, data: Mapping[str, str], title: str, remarks: Remarks
) -> Mapping[str, str]:
    """Return what `items` of a volume's source choose of its data, by path; without `items` everything."""
    if source.get("items") is None:
        return data
    files: dict[str, str] = {}
    for item in items(source, "items"):
        wanted, path = item.text_at("key") or "", item.text_at("path") or ""
        if wanted in data:
            files[path] = data[wanted]
            continue
        remarks.trouble(
            Kind.PENDING,
            item,
            f"{pod.owner.title} cannot mount key `{wanted}` of {title}: it has "
            f"{', '.join(f'`{each}`' for each in data) or 'none'}",
            "correct the key on one of the two sides",
        )
    return files
