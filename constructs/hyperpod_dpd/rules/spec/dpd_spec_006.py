"""DPD-SPEC-006: prices are of known instance types, each once, with a day."""

from collections.abc import Iterator
from datetime import date

from hyperpod_dpd.catalog.instances import instance_types
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.violation import close_to


@deployment_rule(
    "DPD-SPEC-006",
    severity=Severity.ERROR,
    title="`prices` name instance types of the catalog, each once, with the day on which they were read",
    sources=("this project: a misspelt type would leave the list price in every sum",),
)
def prices_are_read(deployment: Deployment) -> Iterator[Problem]:
    """A row that nothing reads is a discount that the plan does not know."""
    known = [row.name for row in instance_types()]
    seen = set()
    for index, price in enumerate(deployment.prices):
        path = f"prices[{index}]"
        if price.instance_type not in known:
            yield Problem(
                path=f"{path}.instance_type",
                says="a price of an instance type that the catalog does not have",
                given=f"`instance_type: {price.instance_type}`",
                limit=", ".join(known),
                fix=close_to(price.instance_type, known) or "remove the row",
            )
        elif price.instance_type in seen:
            yield Problem(
                path=f"{path}.instance_type",
                says="two prices of one instance type",
                given=f"`instance_type: {price.instance_type}`",
                fix="keep the one that you pay",
            )
        seen.add(price.instance_type)
        if not _is_day(price.as_of):
            yield Problem(
                path=f"{path}.as_of",
                says="a price without a day",
                given=f"`as_of: {price.as_of}`",
                fix="write the day on which it was read as `YYYY-MM-DD`",
            )


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
