"""DPD-LINT-005: nothing is null that has to have a value."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Container, Fault, ManifestSet, fault
from hyperpod_dpd.lint.node import plain
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-005",
    severity=Severity.ERROR,
    title="no argument is null and every variable has a value",
    sources=("Kubernetes API conventions: null takes the field away", "YAML: `key:` without a value is null"),
)
def values_are_given(manifests: ManifestSet) -> Iterator[Fault]:
    """A template that found no value leaves null behind: the variable is then empty, and the argument is refused or lost."""
    for pod in manifests.pods:
        for container in pod.containers:
            for name, variable in container.environment.items():
                if (
                    variable.value is None
                    and variable.node.text is None
                    and variable.node.get("valueFrom") is None
                ):
                    yield fault(
                        variable.node,
                        says=f"variable `{name}` of container `{container.name}` has no value",
                        given="null" if variable.node.data is None else "neither `value` nor `valueFrom`",
                        fix="write the value, in quotes when it is a number",
                    )
            yield from _words(container)


def _words(container: Container) -> Iterator[Fault]:
    for key in ("command", "args"):
        words = container.node.get(key)
        for word in () if words is None else words.items:
            if not isinstance(word.data, str):
                yield fault(
                    word,
                    says=f"an entry of `{key}` of container `{container.name}` is not text",
                    given=f"`{plain(word)}`",
                    limit="the API server takes text only",
                    fix=f'write it in quotes: `"{word.written}"`'
                    if word.data is not None
                    else "remove it or write the value",
                )
