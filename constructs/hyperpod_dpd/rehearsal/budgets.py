"""Disruption budgets: which pods may go."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from hyperpod_dpd.lint.model import KubernetesObject, ManifestSet
from hyperpod_dpd.lint.policies import selects
from hyperpod_dpd.rehearsal.pods import PodPlan
from hyperpod_dpd.rehearsal.trouble import Kind, Trouble, trouble

_COUNT_OR_SHARE: Final = re.compile(r"[0-9]{1,6}%?")


def refused_budgets(manifests: ManifestSet) -> Iterator[Trouble]:
    """Yield disruption budgets that the API server does not accept."""
    for each in budgets_of(manifests):
        for key in ("maxUnavailable", "minAvailable"):
            given = each.node.get("spec", key)
            if given is not None and not _COUNT_OR_SHARE.fullmatch(given.text or ""):
                yield trouble(
                    Kind.REFUSED,
                    given,
                    f"`{key}` of {each.title} is `{given.shown()}`",
                    "write a number of pods, or a share such as `50%`",
                )


def budgets_of(manifests: ManifestSet) -> Sequence[KubernetesObject]:
    """Return the disruption budgets of a set."""
    return tuple(manifests.of_kind("PodDisruptionBudget"))


def covers(budget: KubernetesObject, plan: PodPlan) -> bool:
    """Whether a disruption budget is about the pods of `plan`."""
    selector = budget.node.get("spec", "selector")
    return budget.namespace == plan.namespace and selector is not None and selects(selector, plan.labels)


def expected(budget: KubernetesObject, plans: Sequence[PodPlan]) -> int:
    """Return how many pods a disruption budget is about."""
    return sum(plan.replicas for plan in plans if covers(budget, plan))


def allows(budget: KubernetesObject, *, healthy: int, expected: int) -> bool:
    """Whether a disruption budget lets one more pod go while `healthy` of `expected` are there."""
    available = budget.node.text_at("spec", "minAvailable")
    if available is not None:
        return healthy > _share(available, expected)
    return healthy > expected - _share(budget.node.text_at("spec", "maxUnavailable") or "0", expected)


def _share(text: str, whole: int) -> int:
    """Return a number, or a share of `whole` in per cent, rounded up as Kubernetes does."""
    if text.endswith("%"):
        return -(-int(text[:-1]) * whole // 100)
    return int(text)
