"""DPD-SRV-311: `LD_LIBRARY_PATH` is what it says."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import environment
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-311",
    severity=Severity.ERROR,
    title="`LD_LIBRARY_PATH` refers to no other variable and contains EFA's libraries",
    sources=("ai-dynamo/dynamo PR 9521", "Kubernetes: only `$(VAR)` of the same list is expanded"),
    facts=("E11",),
)
def library_path_is_literal(deployment: Deployment) -> Iterator[Problem]:
    """The image's own value cannot be referred to: it would be replaced by the literal text, without EFA's path."""
    for path, name, value in environment(deployment):
        if name != "LD_LIBRARY_PATH":
            continue
        if replaces_library_path(value):
            yield Problem(
                path=path,
                says="the image's library path is replaced",
                given=f"`{name}: {value}`",
                limit="whole paths, `/opt/amazon/efa/lib` among them",
                fix="remove it: the image has the right value",
            )


def replaces_library_path(value: str) -> bool:
    """Whether `value` refers to a variable, which is never expanded, or leaves out EFA's libraries."""
    return "$" in value or "efa" not in value
