"""One profile, from its manifests to its results.

`profile` has the phases in their order; `scenarios` and `under_faults` are the traffic, both through `running`; `alerts`,
`counters`, `simulator_state`, `leftover` and `proof` are what is seen beside it and after it; `result` is what is kept of
all that, and `verdict` what is wrong with it.
"""

from hyperpod_dpd.rehearsal.run.profile import rehearse
from hyperpod_dpd.rehearsal.run.result import Outcome, ProfileResult

__all__ = ["Outcome", "ProfileResult", "rehearse"]
