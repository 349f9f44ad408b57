"""DPD-LINT-108: nobody waits for ever."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.engines import version_tuple
from hyperpod_dpd.lint.model import Fault, ManifestSet, Worker, fault
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.rules.serving.dpd_srv_512 import ASYNCHRONOUS_SINCE
from hyperpod_dpd.spec import Role


@manifest_rule(
    "DPD-LINT-108",
    severity=Severity.ERROR,
    title="the sender gives up on a full buffer, and the router waits longer than that",
    sources=(
        "LMCache/LMCache issue 4209",
        "LMCache 0.5.3 source, async PD backend (no notification after an abort)",
    ),
    facts=("L8",),
)
def waits_end(manifests: ManifestSet) -> Iterator[Fault]:
    """Without a limit the sender waits for ever; a router that gives up first leaves a cache behind that nobody consumes."""
    for endpoint in manifests.endpoints:
        for worker in (*endpoint.prefill, *endpoint.decode):
            if not _asynchronous(worker):
                continue
            given = worker.lmcache.get("pd_allocation_timeout_sec")
            seconds = _seconds(given)
            if seconds is None:
                yield fault(
                    worker.at("pd_allocation_timeout_sec"),
                    says=f"{worker} waits for room in the PD buffer without a limit",
                    given="nothing" if given is None else f"`pd_allocation_timeout_sec: {given.shown()}`",
                    limit=f"{worker.engine.says('lmcache')} waits for ever by default",
                    fix="set `pd_allocation_timeout_sec: 10`",
                )
                continue
            for router in endpoint.routers:
                waits = router.arguments.last("--notification-timeout-seconds")
                if worker.role is Role.PREFILL and waits is not None and waits.value is not None:
                    limit = _float(waits.value.text)
                    if limit is None or limit <= seconds:
                        yield fault(
                            waits.node,
                            says="the router gives a hand-off up before the sender does",
                            given=f"`{waits.text}`",
                            limit=f"more than `pd_allocation_timeout_sec: {seconds:g}`",
                            fix=f"set `--notification-timeout-seconds={seconds * 1.5:g}`",
                        )


def _asynchronous(worker: Worker) -> bool:
    """Whether its LMCache knows the key; 0.4.3 has no limit at all, which DPD-LINT-512 says."""
    known = worker.through_lmcache and not worker.operator and worker.lmcache_known and bool(worker.lmcache)
    return known and worker.engine.lmcache_version >= version_tuple(ASYNCHRONOUS_SINCE)


def _seconds(node: Node | None) -> float | None:
    seconds = _float(None if node is None else node.text)
    return None if seconds is None or seconds <= 0 or seconds == float("inf") else seconds


def _float(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
