"""A rendering as a Helm chart whose values are the bindings, and nothing else is a template.

Helm orders, upgrades and prunes every kind of object, custom resources among them, and its chart is an asset without
the size limit of a Lambda payload. Objects are full of `{{ }}` of their own, in alerts and dashboards: what is no
binding reaches the cluster as written.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from hyperpod_dpd._version import __version__
from hyperpod_dpd.serving.bindings import PLACEHOLDER, Binding, BindingError, placeholders, unknown
from hyperpod_dpd.serving.render import Rendering, document
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.forms import ObjectName

VALUES_KEY: Final = "bindings"
"""Key of the chart's values below which the bindings stand by name."""

RELEASE_NAME_LENGTH: Final = 53
"""Most characters of a release's name; Helm derives labels from it."""

# a placeholder; braces that Helm would read as the start of an action; a brace that would touch such a start
_SPECIAL: Final = re.compile(rf"{PLACEHOLDER.pattern}|\{{{{2,}}|\{{(?=\$\{{dpd:)")

# CloudFormation cannot cut a text, Helm can
_COMPUTED: Final[Mapping[Binding, tuple[Binding, str]]] = {
    Binding.WORKER_IMAGE_ID: (Binding.WORKER_IMAGE, ' | splitList ":" | last | trunc 12'),
}


@checked
def required_bindings(rendering: Rendering) -> tuple[Binding, ...]:
    """Return the bindings that the chart of `rendering` takes as values, in the order of `Binding`.

    Raises:
        BindingError: an object holds a placeholder that is no binding; all of them at once.
    """
    names = set(placeholders(list(rendering.objects)))
    if strangers := sorted(names - set(Binding.__members__)):
        raise BindingError(tuple(unknown(name) for name in strangers))
    sources = {_source(Binding[name]) for name in names}
    return tuple(binding for binding in Binding if binding in sources)


def values(bindings: Mapping[Binding, str]) -> dict[str, dict[str, str]]:
    """Return `bindings` as the chart takes them; what Helm computes is left out."""
    return {
        VALUES_KEY: {binding.name: text for binding, text in bindings.items() if binding not in _COMPUTED}
    }


@checked
def write_chart(rendering: Rendering, directory: Path, *, name: ObjectName) -> None:
    """Write `rendering` as a chart called `name` into the empty folder `directory`.

    The chart's schema refuses a binding that is missing, unknown or of the wrong form, whoever installs it.

    Raises:
        BindingError: an object holds a placeholder that is no binding.
        ValueError: `directory` is not empty: Helm takes every file below it for the chart's.
    """
    if directory.is_dir() and any(directory.iterdir()):
        raise ValueError(
            f"a chart needs a folder of its own: given `{directory}`, which holds files. help: give an empty one"
        )
    for path, text in _files(rendering, name).items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text, encoding="utf-8")


def _files(rendering: Rendering, name: str) -> dict[str, str]:
    return {
        "Chart.yaml": yaml.safe_dump(_metadata(rendering, name), sort_keys=False),
        "values.schema.json": json.dumps(_schema(required_bindings(rendering)), indent=2) + "\n",
        **{
            f"templates/{file.name}.yaml": _template("".join(map(document, file.objects)))
            for file in rendering.files
        },
    }


def _metadata(rendering: Rendering, name: str) -> dict[str, str]:
    return {
        "apiVersion": "v2",
        "name": name,
        "version": __version__,
        "type": "application",
        "description": f"Profile {rendering.profile} of deployment {rendering.deployment.name}",
    }


def _schema(bindings: tuple[Binding, ...]) -> dict[str, Any]:
    below = {
        "type": "object",
        "required": [binding.name for binding in bindings],
        "additionalProperties": False,
        "properties": {
            binding.name: {
                "type": "string",
                "description": binding.meaning,
                "pattern": f"^(?:{binding.pattern.pattern})$",
            }
            for binding in bindings
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": [VALUES_KEY] if bindings else [],
        "properties": {VALUES_KEY: below},
    }


def _template(text: str) -> str:
    return _SPECIAL.sub(_action, text)


def _action(match: re.Match[str]) -> str:
    name = match.group(1)
    if name is None:
        return f'{{{{ "{match.group()}" }}}}'
    binding = Binding[name]
    _, function = _COMPUTED.get(binding, (binding, ""))
    return f"{{{{ .Values.{VALUES_KEY}.{_source(binding).name}{function} }}}}"


def _source(binding: Binding) -> Binding:
    source, _ = _COMPUTED.get(binding, (binding, ""))
    return source
