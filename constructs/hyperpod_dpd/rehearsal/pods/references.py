"""The ConfigMaps and Secrets that the pods of a set take files and variables from."""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from hyperpod_dpd.lint.model import ManifestSet
from hyperpod_dpd.rehearsal.below import items, pairs

SECRET_VALUE: Final = "rehearsal"  # noqa: S105 -- what stands for one
"""Stands for every value that a Secret holds: a rehearsal knows no secrets."""

ReferenceKind = Literal["ConfigMap", "Secret"]


class References:
    """Data of the ConfigMaps and Secrets of a set."""

    def __init__(self, manifests: ManifestSet) -> None:
        self._found: dict[ReferenceKind, dict[tuple[str, str], Mapping[str, str]]] = {
            "ConfigMap": dict(_config_maps(manifests)),
            "Secret": dict(_secrets(manifests)),
        }

    def data(self, kind: ReferenceKind, namespace: str, name: str | None) -> Mapping[str, str] | None:
        """Return what `name` holds, by key; None where the set has no such object."""
        return self._found[kind].get((namespace, name or ""))


def _config_maps(manifests: ManifestSet) -> Iterator[tuple[tuple[str, str], Mapping[str, str]]]:
    for each in manifests.of_kind("ConfigMap"):
        data = {key: node.text or "" for key, node in pairs(each.node, "data").items()}
        yield (each.namespace, each.name), data


def _secrets(manifests: ManifestSet) -> Iterator[tuple[tuple[str, str], Mapping[str, str]]]:
    """Yield the Secrets of the set, those that External Secrets would make included, with stand-ins as values."""
    for each in manifests.of_kind("Secret"):
        keys = [key for field in ("data", "stringData") for key in pairs(each.node, field)]
        yield (each.namespace, each.name), dict.fromkeys(keys, SECRET_VALUE)
    for each in manifests.of_kind("ExternalSecret"):
        keys = [item.text_at("secretKey") or "" for item in items(each.node, "spec", "data")]
        name = each.node.text_at("spec", "target", "name") or each.name
        yield (each.namespace, name), dict.fromkeys(keys, SECRET_VALUE)
