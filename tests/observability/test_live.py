"""With real traffic and a fault, Prometheus' own engine fires the alert for it within its window, and no other."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpd_simulator import Fault, FaultKind
from hyperpod_dpd.observability.rules import ABOUT_MISSING_WORKERS
from tests.observability.live import Live, deployment, judged, live

pytestmark = pytest.mark.slow

SETTLING_MINUTES = 6
"""Traffic before a fault: every rate of five minutes has a whole window."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A fault, the alert for it, and the minutes after which it must be there."""

    alert: str
    inject: Callable[[Live], Awaitable[None]]
    within_minutes: int
    """Longest window of its expression + `for` + two scrapes and evaluations."""
    changes: Mapping[str, Any]
    max_num_seqs: int = 256
    notification_timeout_seconds: float = 60
    crowded: bool = False
    from_the_start: bool = False
    """Whether the fault is there before the first request: a configuration, not an incident."""


async def decoder_down(rig: Live) -> None:
    await rig.cluster.decoders[0].stop()


async def silent_tcp(rig: Live) -> None:
    rig.efa_moves = False


def fault(kind: FaultKind, role: str, **values: Any) -> Callable[[Live], Awaitable[None]]:
    async def inject(rig: Live) -> None:
        engines = rig.cluster.prefillers if role == "prefill" else rig.cluster.decoders
        await rig.cluster.add_fault(Fault(kind=kind, **values), engines)

    return inject


SCENARIOS = {
    "silent TCP": Scenario(alert="DpdEfaIdle", inject=silent_tcp, within_minutes=12, changes={}),
    "lost notifications": Scenario(
        alert="DpdTransferStuck",
        inject=fault(FaultKind.NOTIFICATION_LOST, "prefill"),
        within_minutes=8,
        changes={},
        notification_timeout_seconds=0.2,
        from_the_start=True,
    ),
    "KV not reused": Scenario(
        alert="DpdKvNotReused",
        inject=fault(FaultKind.KV_MISS, "decode"),
        within_minutes=12,
        changes={},
    ),
    "KV reported and not loaded": Scenario(
        alert="DpdKvReportedNotLoaded",
        inject=fault(FaultKind.RETRIEVAL_SKIPPED, "decode"),
        within_minutes=5,
        changes={},
        from_the_start=True,
    ),
    "prefill queue growth": Scenario(
        alert="DpdPrefillQueueGrowing",
        inject=fault(FaultKind.SLOW, "prefill", factor=40.0),
        within_minutes=18,
        changes={"serving__prefill__max_num_seqs": 2},
        max_num_seqs=2,
        crowded=True,
    ),
    "decoder down": Scenario(
        alert="DpdNoDecoder",
        inject=decoder_down,
        within_minutes=5,
        changes={},
    ),
}


def firing(matcher: str = "") -> str:
    """Return the expression for the alerts that have fired so far."""
    return f'count_over_time(ALERTS{{{matcher}alertstate="firing"}}[1h])'


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_alert_for_a_fault_fires_within_its_window_and_no_other(name: str, tmp_path: Path) -> None:
    scenario = SCENARIOS[name]
    described = deployment(**scenario.changes)
    async with live(
        described,
        max_num_seqs=scenario.max_num_seqs,
        notification_timeout_seconds=scenario.notification_timeout_seconds,
    ) as rig:
        if not scenario.from_the_start:
            await rig.minutes(SETTLING_MINUTES)
            assert judged(rig, {firing(): None}, tmp_path) == ""
        rig.crowded = scenario.crowded
        await scenario.inject(rig)
        await rig.minutes(scenario.within_minutes)
    expected: dict[str, float | None] = {
        f"count({firing(f'alertname={scenario.alert!r},')})": 1,
        firing(f"alertname!={scenario.alert!r},"): None,
    }
    assert judged(rig, expected, tmp_path) == ""


async def test_ten_minutes_of_healthy_traffic_fire_nothing(tmp_path: Path) -> None:
    async with live(deployment()) as rig:
        await rig.minutes(SETTLING_MINUTES + 10)
    expected: dict[str, float | None] = {
        "sum(up)": 5,
        # without traffic there would be nothing to judge
        'sum(dpd:decisions:rate5m{decision="disaggregated"}) > bool 0.09': 1,
        "sum(dpd:ttft_slo_misses:ratio_rate5m) < bool 0.01": 1,
        firing(): None,
        "ALERTS": None,
    }
    assert judged(rig, expected, tmp_path) == ""


@pytest.mark.parametrize("exporters", ["manifests", "observability-addon"])
async def test_nodes_that_go_for_the_night_fire_what_is_muted_then_and_nothing_else(
    exporters: str, tmp_path: Path
) -> None:
    async with live(deployment(platform__exporters=exporters)) as rig:
        await rig.minutes(SETTLING_MINUTES)
        await rig.take_nodes_away()
        await rig.minutes(30)
    names = "|".join(ABOUT_MISSING_WORKERS)
    expected: dict[str, float | None] = {
        f"count({firing()})": 2,
        firing(f"alertname!~{names!r},"): None,
    }
    assert judged(rig, expected, tmp_path) == ""
