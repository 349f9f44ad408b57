"""The comparison of two deployments."""

from collections.abc import Mapping

from hyperpod_dpd.changes.consequences import Consequence, consequences
from hyperpod_dpd.changes.fields import Difference, differences
from hyperpod_dpd.derive import resolve_or_none
from hyperpod_dpd.derive.quota import quotas_needed
from hyperpod_dpd.planner.cost import UndatedPriceError, hourly_burn
from hyperpod_dpd.serving.engine.generation import generation
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record


@record
class Sides:
    """The same figure of both deployments."""

    old: str
    new: str

    @property
    def differs(self) -> bool:
        """Whether it changes."""
        return self.old != self.new


@record
class Comparison:
    """Everything that differs."""

    differences: tuple[Difference, ...]

    grouped: Mapping[Consequence, tuple[Difference, ...]]
    """Differences by consequence, the gravest first; one with several consequences stands under each."""

    generation: Sides | None
    """Digest of what both roles have in common; None where a deployment does not resolve."""

    cost: Sides | None
    """US dollars per hour of the instance groups; None where a price has no date."""

    quota: Sides


def compare(old: Deployment, new: Deployment) -> Comparison:
    """Return what changes from `old` to `new`."""
    found = differences(old, new)
    by_difference = {each.path: consequences(each, old, new) for each in found}
    return Comparison(
        differences=found,
        grouped={
            consequence: tuple(each for each in found if consequence in by_difference[each.path])
            for consequence in Consequence
            if any(consequence in caused for caused in by_difference.values())
        },
        generation=_generation(old, new),
        cost=_cost(old, new),
        quota=Sides(old=_quota(old), new=_quota(new)),
    )


def _generation(old: Deployment, new: Deployment) -> Sides | None:
    facts = [(deployment, resolve_or_none(deployment)) for deployment in (old, new)]
    digests = [generation(deployment, resolved) for deployment, resolved in facts if resolved is not None]
    return Sides(old=digests[0], new=digests[1]) if len(digests) == len(facts) else None


def _cost(old: Deployment, new: Deployment) -> Sides | None:
    try:
        return Sides(old=_dollars(old), new=_dollars(new))
    except UndatedPriceError:
        return None


def _dollars(deployment: Deployment) -> str:
    burn = hourly_burn(deployment)
    without = f" without {', '.join(burn.unpriced)}" if burn.unpriced else ""
    return f"${burn.usd_per_hour:,.2f}/h{without}"


def _quota(deployment: Deployment) -> str:
    return ", ".join(map(str, quotas_needed(deployment))) or "none"
