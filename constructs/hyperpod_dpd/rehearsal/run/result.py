"""What came of one profile."""

from collections.abc import Mapping, Sequence
from typing import Final

from hyperpod_dpd.evidence.proof import ProofResult
from hyperpod_dpd.rehearsal.faults import Fault
from hyperpod_dpd.rehearsal.measure import Measurement
from hyperpod_dpd.rehearsal.run.leftover import Leftover
from hyperpod_dpd.rehearsal.trouble import Trouble
from hyperpod_dpd.spec.value import record

BEARABLE_LAG_SECONDS: Final = 0.5
"""Simulated seconds by which engines may fall behind; with more, times say something about this machine only."""

BEARABLE_BLIND_SECONDS: Final = 2.5
"""Real seconds for which a pod may go unscraped: the quickest rules wait for two scrapes in a row, one is missed."""


@record
class Outcome:
    """What was seen while a profile ran."""

    mixed: Measurement | None = None
    """Long and short prompts together."""

    runs: tuple[Measurement, ...] = ()
    """The announcement's scenario, by users."""

    under_faults: Measurement | None = None
    unfinished: tuple[Trouble, ...] = ()
    """Faults that did not come to their end, and pods that did not come back after one."""

    leftover: Leftover
    alerts: Mapping[str, str] | None = None
    """Alerts that fired, with their summaries; None: no Prometheus watched."""

    blind_seconds: float = 0.0
    """Real seconds for which at most nothing was known of a pod because this machine was too slow to scrape it."""

    proof: ProofResult | None = None
    """None: it was not asked for, or no router was ready."""

    lost_seconds: float = 0.0
    """Simulated seconds by which engines fell behind because this machine was too slow: with any, times are too long."""

    @property
    def too_slow(self) -> bool:
        """Whether this machine could not keep up, so that times are not comparable with the planner's."""
        return self.lost_seconds > BEARABLE_LAG_SECONDS

    @property
    def alerts_mean_nothing(self) -> bool:
        """Whether alerts may say something about this machine only: of a late token, or of a scrape that was given up."""
        return self.too_slow or self.blind_seconds > BEARABLE_BLIND_SECONDS

    @property
    def undecided(self) -> bool:
        """Whether something was not judged because of this machine."""
        return self.too_slow or (self.under_faults is not None and self.alerts_mean_nothing)


@record
class ProfileResult:
    """Everything that one profile did."""

    profile: str
    folder: str
    notes: tuple[str, ...]
    simulated: bool
    """Whether step times came from the planner, and no GPU was involved."""

    replaced: tuple[str, ...]
    """What differed from a cluster."""

    compression: float
    faults: tuple[Fault, ...]
    outcome: Outcome
    events: tuple[str, ...]
    exit_codes: Mapping[str, Sequence[int | None]]
    """Exit statuses of the containers of each pod that was there at the end."""

    left_behind: tuple[str, ...]
    """Processes that outlived the rehearsal."""

    troubles: tuple[Trouble, ...]
    """What did not work."""

    real_seconds: float
    cpu_seconds: float
    """CPU time of all processes together."""
