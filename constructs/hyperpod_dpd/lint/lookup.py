"""Rows of the catalog for what manifests call models and instances."""

from collections.abc import Sequence

from hyperpod_dpd.catalog.instances import InstanceType, instance_type
from hyperpod_dpd.catalog.models import ModelGeometry, models
from hyperpod_dpd.catalog.row import UnknownCatalogEntryError


def instance_named(name: str | None) -> InstanceType | None:
    """Return the catalog's row; EC2's own names are those of HyperPod without `ml.`."""
    if not name:
        return None
    try:
        return instance_type(name if name.startswith("ml.") else f"ml.{name}")
    except UnknownCatalogEntryError:
        return None


def geometry_of(names: Sequence[str]) -> ModelGeometry | None:
    """Return the catalog's model that one of `names` contains, or None."""
    squeezed = [_squeezed(name) for name in names]
    for row in models():
        short = row.repository.rpartition("/")[2]
        if any(_squeezed(word) in name for name in squeezed for word in (row.name, short)):
            return row
    return None


def _squeezed(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
