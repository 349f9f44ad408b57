"""What tells that a role needs more workers, or fewer. Pure Python: both back ends scale on the same signals."""

from dataclasses import dataclass
from typing import Final

from hyperpod_dpd.spec import Role, Scaling

DEPLOYMENT_LABEL: Final = "deployment"
"""Label by which a scraped series says whose it is."""

ROLE_LABEL: Final = "role"
"""Label by which a scraped series of a worker says its role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A metric of vLLM, summed over the workers of a role, and what one worker should have of it."""

    name: str
    metric: str
    """Name of the gauge in vLLM's `/metrics`, the same in 0.19 and 0.25."""

    target: float
    """Sum divided by the number of workers, above which there are too few."""

    def query(self, selector: str) -> str:
        """Return the PromQL of the sum over the series that `selector` matches."""
        return f"sum({self.metric}{{{selector}}})"


def signals(scaling: Scaling) -> tuple[Signal, ...]:
    """Return the signals; the one that asks for most workers decides."""
    return (
        Signal(
            name="waiting-requests",
            metric="vllm:num_requests_waiting",
            target=scaling.waiting_requests_per_replica,
        ),
        Signal(name="kv-cache-usage", metric="vllm:kv_cache_usage_perc", target=scaling.kv_cache_usage),
    )


def scraped_selector(deployment: str, role: Role) -> str:
    """Return the matchers of the series that this project's scrape jobs write."""
    return f'{DEPLOYMENT_LABEL}="{deployment}",{ROLE_LABEL}="{role.value}"'
