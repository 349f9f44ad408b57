"""Probes of a worker, sized for the time in which weights load."""

import math
from typing import Final

from hyperpod_dpd.derive import ServingFacts
from hyperpod_dpd.serving.engine.values import Probe, Probes

ENGINE_START_SECONDS: Final = 300
"""Twice the slowest cold start that was measured without weights to load: 145 s, of which 50 s compile."""

SLOWEST_LOAD_BYTES_PER_SECOND: Final = 250e6
"""Rate of reading weights below which something is wrong: the base throughput of one gp3 EBS volume is half of it."""

_PERIOD_SECONDS: Final = 10


def startup_seconds(facts: ServingFacts) -> int:
    """Return the seconds after which a worker that still does not answer is restarted."""
    weights_bytes = facts.weights_bytes_per_rank * facts.tensor_parallel
    return ENGINE_START_SECONDS + math.ceil(weights_bytes / SLOWEST_LOAD_BYTES_PER_SECOND)


def probes(facts: ServingFacts) -> Probes:
    """Return the probes of a worker of any role."""

    def health(period_seconds: int, failure_threshold: int) -> Probe:
        # tokenizing long prompts holds vLLM's event loop for seconds
        return Probe(
            path="/health",
            period_seconds=period_seconds,
            timeout_seconds=5,
            failure_threshold=failure_threshold,
        )

    return Probes(
        startup=health(_PERIOD_SECONDS, math.ceil(startup_seconds(facts) / _PERIOD_SECONDS)),
        readiness=health(5, 3),
        liveness=health(_PERIOD_SECONDS, 6),
    )
