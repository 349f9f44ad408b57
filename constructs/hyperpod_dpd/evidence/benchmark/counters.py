"""What the router has counted, before and after a run."""

import ssl
import urllib.request
from collections.abc import Mapping
from typing import Final

NAMES: Final = (
    "dpd_router_decisions_total",
    "dpd_router_handoff_hits_total",
    "dpd_router_handoffs_total",
    "dpd_router_notif_timeouts_total",
    "dpd_router_rejected_total",
)
"""Counters that say which way requests went."""

_TIMEOUT_SECONDS: Final = 10


class NoCountersError(Exception):
    """The router's metrics cannot be read."""


def read_counters(url: str) -> dict[str, float]:
    """Return the counters of the router at the base URL `url`, by name and labels.

    Raises:
        NoCountersError: nothing answers, or something else than the router does.
    """
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - not on AWS's router

    try:
        with urllib.request.urlopen(  # noqa: S310 - the address of the settings
            f"{url}/metrics", timeout=_TIMEOUT_SECONDS, context=ssl.create_default_context()
        ) as answer:
            text = answer.read().decode()
        families = list(text_string_to_metric_families(text))
    except (OSError, ValueError) as error:
        raise NoCountersError(f"`{url}/metrics`: {error}") from error
    found = {
        _key(sample.name, sample.labels): float(sample.value)
        for family in families
        for sample in family.samples
        if sample.name in NAMES
    }
    if not found:
        raise NoCountersError(f"`{url}/metrics` has no `dpd_router_` counters")
    return found


def grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return by how much each counter grew; one that began again, because the router did, counts from zero."""
    growth = {}
    for key, value in after.items():
        earlier = before.get(key, 0.0)
        growth[key] = value - earlier if value >= earlier else value
    return {key: value for key, value in growth.items() if value}


def _key(name: str, labels: Mapping[str, str]) -> str:
    shown = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{shown}}}"
