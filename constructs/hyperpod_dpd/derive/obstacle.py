"""Why something cannot be derived from a deployment."""

from collections.abc import Sequence

from hyperpod_dpd.spec.value import record


@record
class Obstacle:
    """One thing that keeps a deployment from being resolved."""

    path: str
    """Where: path into the deployment."""

    says: str
    """Headline, lower case."""

    given: str
    """What was given."""

    fix: str
    """What to do."""

    def __str__(self) -> str:
        return f"{self.path}: {self.says}: given {self.given}. help: {self.fix}"


class UnresolvedError(LookupError):
    """A deployment names something that does not exist or does not go together.

    Attributes:
        obstacles: every reason.
    """

    obstacles: tuple[Obstacle, ...]

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        self.obstacles = tuple(obstacles)
        super().__init__("\n".join(str(obstacle) for obstacle in obstacles))
