"""Faults that a rehearsal injects, and what they must bring about."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import aiohttp

from hyperpod_dpd.lint.model import Worker
from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.pod import LocalPod
from hyperpod_dpd.spec import Role
from hyperpod_dpd.spec.value import record

_FORM: Final = re.compile(r"([a-z-]+)(?:=([0-9.]+)(%?))?(?:@([0-9.]+)s)?")
_REPLACEMENT_SECONDS: Final = 5.0
"""Until a lost pod has a successor. On a cluster it takes minutes: a node must be replaced and weights loaded."""


class FaultError(ValueError):
    """A fault on the command line is none."""


@record
class FaultKind:
    """One kind of fault."""

    name: str
    says: str
    """What happens."""

    inject: Callable[["LocalCluster", float], Awaitable[None]]
    """Make it happen; the number is its value."""

    default: float = 0.0
    """Value where none is given; 0 where the kind has none."""

    unit: str = ""
    """`%`, `x`, or nothing."""

    works_on_real_engines: bool = True
    """False: the engine itself has to play along, which only a simulated one does."""

    must_alert: frozenset[str] = frozenset()
    """Alerts that have to fire."""

    may_alert: frozenset[str] = frozenset()
    """Alerts that may fire besides."""


@record
class Fault:
    """A fault at a time."""

    kind: FaultKind
    value: float
    at_seconds: float
    """After the begin of the traffic; 0: from the start."""

    def __str__(self) -> str:
        value = {"%": f"={self.value * 100:g}%", "x": f"={self.value:g}"}.get(self.kind.unit, "")
        return f"{self.kind.name}{value}@{self.at_seconds:g}s"


def _pods(cluster: LocalCluster, role: Role) -> list[LocalPod]:
    return [pod for pod in cluster.alive if _role(pod.plan.worker) is role]


def _role(worker: Worker | None) -> Role | None:
    return None if worker is None else worker.role


async def _decoder_crash(cluster: LocalCluster, _: float) -> None:
    await cluster.lose(_pods(cluster, Role.DECODE)[0], replaced_after_seconds=_REPLACEMENT_SECONDS)


async def _decoder_restart_in_place(cluster: LocalCluster, _: float) -> None:
    for container in _pods(cluster, Role.DECODE)[0].containers:
        container.kill()


async def _router_restart(cluster: LocalCluster, _: float) -> None:
    for pod in cluster.alive:
        if pod.plan.router is not None:
            for container in pod.containers:
                container.kill()


async def _rolling_restart(cluster: LocalCluster, _: float) -> None:
    for pod in sorted(cluster.alive, key=lambda each: each.plan.router is not None):
        fresh = await cluster.evict(pod)
        await cluster.until_ready(fresh)


async def _prefill_slow(cluster: LocalCluster, factor: float) -> None:
    await _switch_on(cluster, Role.PREFILL, {"kind": "slow", "factor": factor})


async def _notify_loss(cluster: LocalCluster, share: float) -> None:
    # one of the ranks is enough to keep a hand-off waiting, so that the share is one of hand-offs
    await _switch_on(cluster, Role.PREFILL, {"kind": "notification-lost", "probability": share, "rank": 0})


async def _nothing(_cluster: LocalCluster, _value: float) -> None:
    """Clients that leave are a matter of the clients."""


async def _switch_on(cluster: LocalCluster, role: Role, fault: Mapping[str, str | float]) -> None:
    for pod in _pods(cluster, role):
        assert pod.plan.worker is not None
        url = f"{pod.url(pod.plan.worker.http_port)}/simulator/faults"
        async with cluster.http.post(url, json=[fault]) as answer:
            answer.raise_for_status()


_LATE: Final = frozenset(
    {
        "DpdItlHigh",
        "DpdTpotBudgetBurningFast",
        "DpdTpotBudgetBurningSlowly",
        "DpdTtftBudgetBurningFast",
        "DpdTtftBudgetBurningSlowly",
        "DpdTtftHigh",
    }
)
"""Whatever holds requests up may bring these."""

CLIENT_DISCONNECTS: Final = "client-disconnects"

KINDS: Final = {
    kind.name: kind
    for kind in (
        FaultKind(
            name="decoder-crash",
            says="a decoder is lost with its node; its successor has another address",
            inject=_decoder_crash,
            must_alert=frozenset({"DpdNoDecoder"}),
            may_alert=_LATE | {"DpdDecodeWorkersMissing"},
        ),
        FaultKind(
            name="decoder-restart-in-place",
            says="a decoder's container is killed and starts again at the same address",
            inject=_decoder_restart_in_place,
            may_alert=_LATE | {"DpdNoDecoder", "DpdDecodeWorkersMissing"},
        ),
        FaultKind(
            name="prefill-slow",
            says="every step of the prefillers takes this many times as long",
            inject=_prefill_slow,
            works_on_real_engines=False,
            default=4.0,
            unit="x",
            may_alert=_LATE | {"DpdPrefillQueueGrowing"},
        ),
        FaultKind(
            name="notify-loss",
            says="this share of hand-offs loses a notification",
            inject=_notify_loss,
            works_on_real_engines=False,
            default=0.05,
            unit="%",
            must_alert=frozenset({"DpdTransferStuck"}),
            may_alert=_LATE | {"DpdPairBroken"},
        ),
        FaultKind(
            name="router-restart",
            says="the router's container is killed and starts again",
            inject=_router_restart,
            may_alert=_LATE | {"DpdRouterDown", "DpdPdBufferLost", "DpdNoDecoder"},
        ),
        FaultKind(
            name="rolling-restart",
            says="every pod is evicted and replaced, one after the other, as its disruption budget allows",
            inject=_rolling_restart,
            may_alert=_LATE
            | {"DpdRouterDown", "DpdNoDecoder", "DpdDecodeWorkersMissing", "DpdPrefillWorkersMissing"},
        ),
        FaultKind(
            name=CLIENT_DISCONNECTS,
            says="this share of the clients leaves after its first token",
            inject=_nothing,
            default=0.20,
            unit="%",
        ),
    )
}
"""Faults by name."""


def parse_fault(text: str) -> Fault:
    """Read `NAME`, `NAME=VALUE`, `NAME@SECONDSs` or both.

    Raises:
        FaultError: an unknown name, or a value that the kind does not have or that cannot be.
    """
    match = _FORM.fullmatch(text)
    kind = KINDS.get(match.group(1)) if match else None
    if match is None or kind is None:
        listed = ", ".join(f"`{name}`" for name in KINDS)
        raise FaultError(f"`{text}` is no fault. help: write one of {listed}, such as `notify-loss=5%@20s`")
    _, given, percent, at = match.groups()
    if given is not None and (not kind.unit or (percent == "%") != (kind.unit == "%")):
        wanted = {"%": "a share such as `=5%`", "x": "a factor such as `=4`"}.get(kind.unit, "no value")
        raise FaultError(f"`{text}`: `{kind.name}` takes {wanted}")
    try:
        value = kind.default if given is None else float(given) / (100 if percent else 1)
        at_seconds = 0.0 if kind.name == CLIENT_DISCONNECTS else _DEFAULT_AT_SECONDS
        at_seconds = at_seconds if at is None else float(at)
    except ValueError:
        raise FaultError(f"`{text}`: not a number. help: write for example `notify-loss=5%@20s`") from None
    if kind.unit == "%" and not 0 < value <= 1:
        raise FaultError(f"`{text}`: a share lies above 0 and up to 100 %")
    if kind.unit == "x" and not 1 <= value <= 1000:
        raise FaultError(f"`{text}`: a factor lies between 1 and 1000")
    return Fault(kind=kind, value=value, at_seconds=at_seconds)


_DEFAULT_AT_SECONDS: Final = 10.0


async def remove_faults(cluster: LocalCluster) -> None:
    """Switch off what still goes wrong in the engines."""
    for pod in cluster.alive:
        if pod.plan.worker is not None:
            url = f"{pod.url(pod.plan.worker.http_port)}/simulator/faults"
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with cluster.http.delete(url) as answer:
                    answer.raise_for_status()


async def inject(fault: Fault, cluster: LocalCluster) -> None:
    """Wait for the fault's time, and make it happen."""
    await asyncio.sleep(fault.at_seconds)
    cluster.events.append(f"fault {fault}")
    await fault.kind.inject(cluster, fault.value)
