"""One moment of a running rehearsal, for whoever shows it."""

from collections.abc import Callable, Mapping

from hyperpod_dpd.spec import Role
from hyperpod_dpd.spec.value import record


@record
class RoleView:
    """Workers of one role."""

    role: Role
    ready: int
    pods: int
    queue: float
    """Requests that wait in the engines."""

    batch: float
    """Requests that the engines run."""

    ttft_seconds: float | None
    """Mean since the run began, as the engines measure it; None before the first."""

    tpot_seconds: float | None


@record
class View:
    """One moment."""

    profile: str
    phase: str
    done: int
    total: int
    """Requests of the phase; 0: it is not counted."""

    left_seconds: float | None
    """Real seconds until the phase is over, by the planner; None: not known."""

    roles: tuple[RoleView, ...]
    decisions: Mapping[str, float]
    events: tuple[str, ...]


Show = Callable[[View], None]
