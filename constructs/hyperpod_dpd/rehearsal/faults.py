"""Faults that a rehearsal injects, and the alerts that they must and may bring."""

import re
from typing import Final

from hyperpod_dpd.spec import Role
from hyperpod_dpd.spec.value import record

_FORM: Final = re.compile(r"([a-z-]+)(?:=([0-9.]+)(%?))?(?:@([0-9.]+)s)?")


class FaultError(ValueError):
    """A fault on the command line is none."""


@record
class FaultKind:
    """One kind of fault."""

    name: str
    says: str
    """What happens."""

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

    needs: Role | None = None
    """Role that must be there for it to happen."""

    may_leave_chunks: bool = False
    """Whether chunks may stay in a decoder's PD buffer: nobody is left who knows of them."""


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
ROLLING_RESTART: Final = "rolling-restart"

KINDS: Final = {
    kind.name: kind
    for kind in (
        FaultKind(
            name="decoder-crash",
            says="a decoder is lost with its node; its successor has another address",
            needs=Role.DECODE,
            must_alert=frozenset({"DpdNoDecoder"}),
            may_alert=_LATE | {"DpdDecodeWorkersMissing"},
        ),
        FaultKind(
            name="decoder-restart-in-place",
            says="a decoder's container is killed and starts again at the same address",
            needs=Role.DECODE,
            may_alert=_LATE | {"DpdNoDecoder", "DpdDecodeWorkersMissing"},
        ),
        FaultKind(
            name="prefill-slow",
            says="every step of the prefillers takes this many times as long",
            needs=Role.PREFILL,
            works_on_real_engines=False,
            default=4.0,
            unit="x",
            may_alert=_LATE | {"DpdPrefillQueueGrowing"},
        ),
        FaultKind(
            name="notify-loss",
            says="this share of hand-offs loses a notification",
            needs=Role.PREFILL,
            works_on_real_engines=False,
            default=0.05,
            unit="%",
            must_alert=frozenset({"DpdTransferStuck"}),
            may_alert=_LATE | {"DpdPairBroken"},
        ),
        FaultKind(
            name="router-restart",
            says="the router's container is killed and starts again",
            may_leave_chunks=True,
            may_alert=_LATE | {"DpdRouterDown", "DpdPdBufferLost", "DpdNoDecoder"},
        ),
        FaultKind(
            name=ROLLING_RESTART,
            says="every pod is evicted and replaced, one after the other, as its disruption budget allows",
            may_alert=_LATE
            | {"DpdRouterDown", "DpdNoDecoder", "DpdDecodeWorkersMissing", "DpdPrefillWorkersMissing"},
        ),
        FaultKind(
            name=CLIENT_DISCONNECTS,
            says="this share of the clients leaves after its first token",
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
