"""How a rule is declared and found.

One file per rule: rules over a deployment in `rules/<area>/`, rules over a template in `rules/<area>/template/`, rules
over Kubernetes manifests in `rules/<area>/manifest/`, rows without a check in `rules/<area>/recorded/`. Importing the
file registers the rule. The registry is filled on first use, so that importing the library costs nothing.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record

if TYPE_CHECKING:
    # checking a deployment never looks at manifests
    from hyperpod_dpd.lint.model import Fault, ManifestSet

DeploymentCheck = Callable[[Deployment], Iterable[Problem]]
TemplateCheck = Callable[[Mapping[str, Any]], Iterable[Problem]]
ManifestCheck = Callable[["ManifestSet"], Iterable["Fault"]]

_Check = TypeVar("_Check", DeploymentCheck, TemplateCheck, ManifestCheck)


class Subject(StrEnum):
    """What a rule looks at."""

    DEPLOYMENT = "deployment"
    """The specification, before a template exists."""

    TEMPLATE = "template"
    """A synthesized CloudFormation template."""

    MANIFEST = "manifest"
    """Kubernetes manifests, whoever rendered them."""

    ACKNOWLEDGEMENTS = "acknowledgements"
    """What the deployment file acknowledges; `check` compares it with what all other rules found."""

    DEFAULT = "default"
    """Nothing to check: the rendering makes the violation impossible, and a test holds that."""

    NOT_EXPRESSIBLE = "not expressible"
    """The specification has no words for the violation."""

    UNDECIDABLE = "undecidable"
    """Only the running system shows it; the rationale says what does."""


@record
class Rule:
    """A checkable statement about a deployment."""

    id: str
    severity: Severity
    title: str
    """What must be true."""
    why: str
    """What happens otherwise."""
    sources: tuple[str, ...]
    """Public threads, documents or measurements it comes from."""
    subject: Subject
    facts: tuple[str, ...] = ()
    """Ids of the research rows that it covers, such as `L1` or `H7`."""
    check: DeploymentCheck | TemplateCheck | ManifestCheck | None = None


_RULES: dict[str, Rule] = {}


def _register(rule: Rule) -> None:
    if rule.id in _RULES:
        raise ValueError(f"rule `{rule.id}` is declared twice")
    _RULES[rule.id] = rule


def _why(check: Callable[..., object]) -> str:
    if not check.__doc__:
        raise ValueError(f"rule function `{check.__name__}` has no docstring that says why")
    return " ".join(check.__doc__.split())


class _Declaration(Generic[_Check]):
    """Declares a function as a rule; its docstring says why."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def __call__(
        self,
        rule_id: str,
        *,
        severity: Severity,
        title: str,
        sources: tuple[str, ...],
        facts: tuple[str, ...] = (),
    ) -> Callable[[_Check], _Check]:
        if not isinstance(severity, Severity):
            raise TypeError(
                f"`severity` of rule `{rule_id}` should be a `Severity`: given `{severity!r}`. "
                f"help: give one of {', '.join(f'`{each}`' for each in Severity.__members__)}"
            )

        def declare(check: _Check) -> _Check:
            _register(
                Rule(
                    id=rule_id,
                    severity=severity,
                    title=title,
                    why=_why(check),
                    sources=sources,
                    subject=self._subject,
                    facts=facts,
                    check=check,
                )
            )
            return check

        return declare


deployment_rule = _Declaration[DeploymentCheck](Subject.DEPLOYMENT)
"""Declare the decorated function as a rule over a deployment."""

template_rule = _Declaration[TemplateCheck](Subject.TEMPLATE)
"""Declare the decorated function as a rule over a CloudFormation template."""

manifest_rule = _Declaration[ManifestCheck](Subject.MANIFEST)
"""Declare the decorated function as a rule over a set of Kubernetes manifests."""


def recorded_rule(
    rule_id: str,
    *,
    subject: Subject,
    severity: Severity,
    title: str,
    why: str,
    sources: tuple[str, ...],
    facts: tuple[str, ...] = (),
) -> None:
    """Record a row that needs no check: a default, not expressible, or not decidable before deployment."""
    if subject in _FOLDERS:
        raise ValueError(f"rule `{rule_id}` needs a check")
    _register(
        Rule(
            id=rule_id, severity=severity, title=title, why=why, sources=sources, subject=subject, facts=facts
        )
    )


@cache
def rules() -> Mapping[str, Rule]:
    """Return every rule by id, in the order of ids."""
    for subject in Subject:
        _load(subject)
    return dict(sorted(_RULES.items()))


def rules_about(subject: Subject) -> Sequence[Rule]:
    """Return the rules that look at `subject`, in the order of ids."""
    _load(subject)
    return [rule for _, rule in sorted(_RULES.items()) if rule.subject is subject]


_FOLDERS = {Subject.DEPLOYMENT: "", Subject.TEMPLATE: "template", Subject.MANIFEST: "manifest"}
_RECORDED = "recorded"
"""Folders below an area. A deployment is checked without importing what looks at templates or at nothing."""


@cache
def _load(subject: Subject) -> None:
    folder = _FOLDERS.get(subject, _RECORDED)
    root = Path(__file__).parent
    for area in sorted(root.iterdir()):
        place = area / folder
        if not place.is_dir():
            continue
        package = ".".join(("hyperpod_dpd.rules", *place.relative_to(root).parts))
        for file in sorted(place.glob("dpd_*.py")):
            importlib.import_module(f"{package}.{file.stem}")
