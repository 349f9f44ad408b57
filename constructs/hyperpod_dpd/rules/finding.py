"""What a rule has to say: problem, finding, severity."""

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from hyperpod_dpd.spec.value import record

if TYPE_CHECKING:
    # reading a file needs a YAML parser, judging a deployment does not
    from hyperpod_dpd.spec.load import DeploymentFile


class Severity(StrEnum):
    """How a finding is treated."""

    ERROR = "error"
    """Refuse: the deployment cannot work or would silently do something else."""

    WARNING = "warning"
    """Let through once somebody has acknowledged it, with a reason, in the deployment file."""


@record
class Problem:
    """One violation, with its numbers."""

    path: str
    """Where: path into the deployment, such as `hyperpod.instance_groups[0].count`, or into a template."""

    says: str
    """Headline, lower case."""

    given: str
    """What was given."""

    fix: str
    """What to do."""

    computed: str = ""
    """What was computed from it, when anything was."""

    limit: str = ""
    """The limit that it violates."""


@record
class Finding:
    """A problem together with the rule that found it and the place in the file."""

    rule: str
    severity: Severity
    problem: Problem
    file: str | None = None
    line: int | None = None

    @property
    def message(self) -> str:
        """One sentence with the rule id, the numbers and the fix."""
        problem = self.problem
        details = [f"given {problem.given}"]
        if problem.computed:
            details.append(f"computed {problem.computed}")
        if problem.limit:
            details.append(f"limit {problem.limit}")
        return f"{self.rule} {problem.says}: {'; '.join(details)}. help: {problem.fix}"

    @property
    def location(self) -> str:
        """`file:line`, or the path into the deployment where no file is known."""
        if self.file is None:
            return self.problem.path
        return f"{self.file}:{self.line}" if self.line else self.file

    def located_in(self, file: "DeploymentFile") -> "Finding":
        """Return the finding with the file and the line that its path was read from."""
        name, line = file.place(self.problem.path)
        return replace(self, file=name, line=line)

    def as_dict(self) -> dict[str, str | int | None]:
        """Return the finding as plain data for JSON."""
        problem = self.problem
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "file": self.file,
            "line": self.line,
            "path": problem.path,
            "says": problem.says,
            "given": problem.given,
            "computed": problem.computed or None,
            "limit": problem.limit or None,
            "fix": problem.fix,
        }

    def __str__(self) -> str:
        return f"{self.location}: {self.severity.value}: {self.message}"
