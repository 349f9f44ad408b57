"""What is done with a profile."""

from hyperpod_dpd.rehearsal.engines import Gpu
from hyperpod_dpd.rehearsal.faults import Fault
from hyperpod_dpd.spec.value import record


@record
class Options:
    """What is done with a profile."""

    compression: float = 1.0
    """Simulated seconds in a real one."""

    users: tuple[int, ...] = (8, 16, 32, 64)
    requests_per_user: int = 2
    input_tokens: int = 4096
    output_tokens: int = 256
    monitors: bool = True
    """Whether a Prometheus watches, where one is installed."""

    proves: bool = True
    faults: tuple[Fault, ...] = ()
    """With faults, mixed traffic runs under them, and the announcement's runs are left out."""

    fault_seconds: float = 45.0
    """Real seconds of traffic under faults."""

    fault_users: int = 16
    gpus: tuple[Gpu, ...] = ()
    """GPUs on which real engines run; none: engines are simulated."""

    ready_seconds: float = 120.0
