"""What keeps manifests from running, and where it is written."""

from enum import StrEnum
from typing import Final

from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.spec.value import record


class Kind(StrEnum):
    """What Kubernetes, or this project's rules, would make of it."""

    REFUSED = "refused"
    """The API server does not accept the object."""

    PENDING = "pending"
    """The object is accepted, and its pod never starts: nowhere to run, or something to mount is missing."""

    BROKEN = "broken"
    """Everything starts, and the parts do not find each other."""

    RULE = "rule"
    """A rule over manifests found an error."""

    ELSEWHERE = "elsewhere"
    """It cannot be started on this machine, right or wrong."""

    RUNNING = "running"
    """It was started, and did not do what the manifests promise."""


_MEANS: Final = {
    Kind.REFUSED: "the API server refuses it",
    Kind.PENDING: "its pod stays pending",
    Kind.BROKEN: "it starts and does not work",
    Kind.RULE: "",
    Kind.ELSEWHERE: "it may be right, and cannot be rehearsed",
    Kind.RUNNING: "seen while it ran",
}


@record
class Trouble:
    """One reason why the rehearsal does not go on."""

    kind: Kind
    says: str
    """What is wrong, lower case, with the numbers."""

    fix: str
    file: str | None = None
    line: int | None = None
    rule: str | None = None
    """Id of the rule that found it (`kind: rule`)."""

    @property
    def location(self) -> str:
        """`file:line`, as far as it is known."""
        if self.file is None:
            return "rehearsal"
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def message(self) -> str:
        """One sentence with what it means and what to do."""
        means = _MEANS[self.kind]
        return f"{self.says}{f' ({means})' if means else ''}. help: {self.fix}"

    def as_dict(self) -> dict[str, str | int | None]:
        """Return it as plain data for JSON."""
        return {
            "kind": self.kind.value,
            "says": self.says,
            "fix": self.fix,
            "file": self.file,
            "line": self.line,
            "rule": self.rule,
        }

    def __str__(self) -> str:
        return f"{self.location}: error: {self.message}"


READ_LOGS: Final = "read the logs of router and workers; `--keep DIR` keeps them"
READ_ROUTER_LOG: Final = "read its log; `--keep DIR` keeps it"


class RefusedError(ValueError):
    """The manifests cannot be rehearsed; `troubles` holds every reason."""

    def __init__(self, troubles: tuple[Trouble, ...]) -> None:
        self.troubles = troubles
        super().__init__("\n".join(map(str, troubles)))


def trouble(kind: Kind, node: Node, says: str, fix: str) -> Trouble:
    """Return a trouble that is written at `node`."""
    return Trouble(kind=kind, says=says, fix=fix, file=node.file, line=node.line)
