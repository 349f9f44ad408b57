"""The variables of a container."""

import re
from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Pod
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.rehearsal.below import items
from hyperpod_dpd.rehearsal.pods.plan import Variable
from hyperpod_dpd.rehearsal.pods.references import ReferenceKind, References
from hyperpod_dpd.rehearsal.pods.remarks import Remarks
from hyperpod_dpd.rehearsal.trouble import Kind

_FIELDS: Final = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_LABEL_FIELD: Final = re.compile(r"metadata\.(?:labels|annotations)\['[^']+'\]")

_WHOLE: Final[tuple[tuple[str, ReferenceKind], ...]] = (
    ("configMapRef", "ConfigMap"),
    ("secretRef", "Secret"),
)
"""Fields of `envFrom`, and what each names."""

_SINGLE: Final[tuple[tuple[str, ReferenceKind], ...]] = (
    ("configMapKeyRef", "ConfigMap"),
    ("secretKeyRef", "Secret"),
)
"""Fields of `valueFrom`, and what each names a key of."""


def read_environment(
    pod: Pod, container: Node, title: str, references: References, remarks: Remarks
) -> Iterator[Variable]:
    """Yield the variables of `container`, those of `envFrom` first, and remark what is missing.

    Args:
        pod: its pod.
        container: where it is written.
        title: what messages call it.
        references: ConfigMaps and Secrets of the set.
        remarks: where remarks go.
    """
    for source in items(container, "envFrom"):
        yield from _all_of(pod, source, title, references, remarks)
    for entry in items(container, "env"):
        name = entry.text_at("name") or ""
        given = entry.get("valueFrom")
        if given is None:
            yield Variable(name=name, text=entry.text_at("value") or "")
        elif (field := given.text_at("fieldRef", "fieldPath")) is not None:
            if field in _FIELDS or _LABEL_FIELD.fullmatch(field):
                yield Variable(name=name, text=None, field=field)
            else:
                remarks.trouble(
                    Kind.REFUSED,
                    given,
                    f"variable `{name}` of {title} reads the field `{field}`, which pods do not have",
                    "name a field such as `status.podIP`",
                )
        elif given.get("resourceFieldRef") is not None:
            remarks.note(f"variable `{name}` of {title} is an amount of a resource and is left out")
        else:
            text = _key_of(pod, given, f"variable `{name}` of {title}", references, remarks)
            if text is not None:
                yield Variable(name=name, text=text)


def _all_of(
    pod: Pod, source: Node, title: str, references: References, remarks: Remarks
) -> Iterator[Variable]:
    for field, kind in _WHOLE:
        reference = source.get(field)
        if reference is None:
            continue
        name = reference.text_at("name")
        data = references.data(kind, pod.namespace, name)
        if data is None and reference.text_at("optional") != "true":
            remarks.trouble(
                Kind.PENDING,
                reference,
                f"{title} takes its environment from {kind} `{name}`, and there is none in namespace `{pod.namespace}`",
                f"render the {kind}, or correct the name",
            )
        prefix = source.text_at("prefix") or ""
        for key, text in (data or {}).items():
            yield Variable(name=f"{prefix}{key}", text=_verbatim(text))


def _key_of(pod: Pod, given: Node, variable: str, references: References, remarks: Remarks) -> str | None:
    for field, kind in _SINGLE:
        reference = given.get(field)
        if reference is None:
            continue
        name, key = reference.text_at("name"), reference.text_at("key") or ""
        data = references.data(kind, pod.namespace, name)
        if data is not None and key in data:
            return _verbatim(data[key])
        if reference.text_at("optional") != "true":
            remarks.trouble(
                Kind.PENDING,
                reference,
                f"{variable} is key `{key}` of {kind} `{name}`, which namespace `{pod.namespace}` does not have",
                "correct name and key, or render what is missing",
            )
    return None


def _verbatim(text: str) -> str:
    """Return `text` so that the kubelet writes nothing out in it: what is referenced holds no references."""
    return text.replace("$(", "$$(")
