"""Fields that are written only where the deployment says something."""

from typing import Any


def given(**fields: Any) -> dict[str, Any]:
    """Return `fields` without those that are None: there the custom resource's own default holds."""
    return {name: value for name, value in fields.items() if value is not None}
