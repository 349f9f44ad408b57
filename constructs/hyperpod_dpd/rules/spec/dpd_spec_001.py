"""DPD-SPEC-001: values have the types and ranges of the specification."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.violation import violations_in


@deployment_rule(
    "DPD-SPEC-001",
    severity=Severity.ERROR,
    title="every value has the type and range that the specification gives it",
    sources=("this project: a dataclass takes whatever Python code gives it",),
)
def values_are_in_range(deployment: Deployment) -> Iterator[Problem]:
    """A deployment that Python code builds never passed the file reader, so its values are checked here."""
    for violation in violations_in(deployment):
        yield Problem(
            path=violation.path,
            says=f"`{violation.path}` {violation.says}",
            given=violation.given or "nothing",
            fix=violation.fix or "give a value that the specification allows; `dpd schema` lists them",
        )
