"""DPD-LINT-112: the sender finds the router."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Endpoint, Fault, ManifestSet, Router, Worker, fault
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.services import named, selected, target_port
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule

_SELF: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - what a sender must not be told


@manifest_rule(
    "DPD-LINT-112",
    severity=Severity.ERROR,
    title="`pd_proxy_host` and `pd_proxy_port` of the sender lead to the router's notification socket",
    sources=(
        "LMCache examples/disagg_prefill/disagg_proxy_server.py (`--proxy-host` is `localhost` by default)",
        "pyzmq, run: 1,000 messages queue, then `send` blocks",
    ),
    facts=("L12",),
)
def sender_finds_the_router(manifests: ManifestSet) -> Iterator[Fault]:
    """Notifications that nobody takes queue up; after 1,000 of them the sender blocks, with it every prefill."""
    for endpoint in manifests.endpoints:
        for worker in endpoint.prefill:
            if (
                worker.operator
                or not worker.through_lmcache
                or not worker.lmcache
                or not worker.lmcache_known
            ):
                continue
            missing = [key for key in ("pd_proxy_host", "pd_proxy_port") if key not in worker.lmcache]
            for key in missing:
                yield fault(
                    worker.at("pd_role"),
                    says=f"{worker} has no `{key}`",
                    given="nothing",
                    fix=f"set `{key}` to the router's {'Service' if key.endswith('host') else 'notification port'}",
                )
            if not missing:
                yield from _leads(manifests, endpoint, worker)


def _leads(manifests: ManifestSet, endpoint: Endpoint, worker: Worker) -> Iterator[Fault]:
    host, port = worker.at("pd_proxy_host"), worker.at("pd_proxy_port")
    name = host.text or ""
    if name in _SELF:
        yield fault(
            host,
            says=f"{worker} would notify itself",
            given=f"`pd_proxy_host: {name}`",
            fix="name the router's Service",
        )
        return
    if port.number is None:
        yield fault(
            port,
            says="the notification port is no number",
            given=f"`pd_proxy_port: {port.shown()}`",
            fix="write it out",
        )
        return
    owners = [router for router in endpoint.routers if router.owns_notifications]
    service = named(manifests, name, worker.owner.namespace)
    if service is None:
        yield from _elsewhere(owners, name, host, port)
        return
    entry = target_port(service, port.number)
    target = (entry.get("targetPort") or entry.get("port")) if entry is not None else None
    for router in owners:
        if not selected(service, router.pod):
            yield fault(
                host,
                says=f"{service.title} does not lead to {router}",
                given=f"`pd_proxy_host: {name}`",
                fix="name the Service whose selector matches the router's pod",
            )
        elif target is None:
            yield fault(
                port,
                says=f"{service.title} has no port {port.number}",
                given=f"`pd_proxy_port: {port.number}`",
                limit=f"the router listens on {router.notification_port}",
                fix="add the port to the Service, or name the one that it has",
            )
        elif target.number is not None and target.number != router.notification_port:
            yield fault(
                port,
                says="notifications arrive at another port than the router listens on",
                given=f"`pd_proxy_port: {port.number}`",
                computed=f"{service.title} sends it to {target.number}",
                limit=f"{router.notification_port}: {router}",
                fix=f"send it to {router.notification_port}",
            )


def _elsewhere(owners: list[Router], name: str, host: Node, port: Node) -> Iterator[Fault]:
    for router in owners:
        if not name.replace(".", "").isdigit():
            yield fault(
                host,
                says=f"no Service of that name leads to {router}",
                given=f"`pd_proxy_host: {name}`",
                fix="name the router's Service with its namespace, such as `router.NAMESPACE.svc.cluster.local`",
            )
        elif port.number != router.notification_port:
            yield fault(
                port,
                says="the router listens for notifications on another port",
                given=f"`pd_proxy_port: {port.number}`",
                limit=f"{router.notification_port}: {router}",
                fix=f"set `pd_proxy_port: {router.notification_port}`",
            )
