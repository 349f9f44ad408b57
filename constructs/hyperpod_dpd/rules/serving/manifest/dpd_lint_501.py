"""DPD-LINT-501: policies open the hand-off."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Endpoint, Fault, ManifestSet, Pod, Worker, fault
from hyperpod_dpd.lint.node import Node, whole_number
from hyperpod_dpd.lint.policies import closed_by
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec import Role

Flow = tuple[Pod, Pod, int, str, Node]


@manifest_rule(
    "DPD-LINT-501",
    severity=Severity.ERROR,
    title="NetworkPolicies let notifications, PD sockets and requests through",
    sources=("this project: the flows of a hand-off",),
    facts=("L12",),
)
def policies_open_the_hand_off(manifests: ManifestSet) -> Iterator[Fault]:
    """A closed port shows as a hand-off that never ends: the sender connects for ever, and no message names the policy."""
    for endpoint in manifests.endpoints:
        for source, target, port, what, node in _flows(endpoint):
            policy = closed_by(manifests, source, target, port)
            if policy is not None:
                yield fault(
                    policy.node.get("spec") or node,
                    says=f"{policy.title} closes {what}",
                    given=f"port {port} from {source.owner.title} to {target.owner.title}",
                    fix=f"open TCP {port} between them, ingress and egress",
                )


def _flows(endpoint: Endpoint) -> Iterator[Flow]:
    for router in endpoint.routers:
        for worker in endpoint.workers:
            if worker.pod is not None:
                yield (
                    router.pod,
                    worker.pod,
                    worker.http_port,
                    f"requests of {router} to {worker}",
                    worker.node,
                )
            if worker.pod is not None and worker.role is Role.PREFILL and worker.through_lmcache:
                port = router.notification_port
                if port is not None:
                    yield worker.pod, router.pod, port, f"notifications of {worker}", router.node
    for prefill, decode in endpoint.pairs:
        if prefill.pod is None or decode.pod is None:
            continue
        if decode.through_lmcache:
            for port in _ports(decode):
                yield prefill.pod, decode.pod, port, f"the PD sockets of {decode}", decode.node
        elif prefill.through_nixl:
            channel = prefill.environment.get("VLLM_NIXL_SIDE_CHANNEL_PORT")
            port = whole_number(channel.value) if channel is not None else None
            yield decode.pod, prefill.pod, port or 5600, f"the side channel of {prefill}", prefill.node


def _ports(decode: Worker) -> Iterator[int]:
    """Yield the first and the last port of each list, over every start that this project's launcher counts."""
    for key in ("pd_peer_init_port", "pd_peer_alloc_port"):
        ports = decode.ports(key)
        if ports:
            yield ports[0]
            yield ports[-1] + (decode.port_epochs - 1) * len(ports)
