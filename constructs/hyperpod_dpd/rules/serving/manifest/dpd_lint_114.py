"""DPD-LINT-114: prefillers get hand-offs only."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Endpoint, Fault, ManifestSet, Pod, Worker, fault
from hyperpod_dpd.lint.services import public, selected, services_of
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-114",
    severity=Severity.ERROR,
    title="no probe and no public Service sends a prompt to a prefill worker",
    sources=("LMCache/LMCache issue 1084",),
    facts=("L14",),
)
def prefillers_get_hand_offs_only(manifests: ManifestSet) -> Iterator[Fault]:
    """A prompt without `disagg_spec` raises an AttributeError inside the prefill worker, and vLLM ends."""
    for endpoint in manifests.endpoints:
        for worker in endpoint.prefill:
            if worker.through_lmcache and worker.pod is not None:
                yield from _probes(worker)
                yield from _services(manifests, endpoint, worker, worker.pod)


def _probes(worker: Worker) -> Iterator[Fault]:
    for key in ("startupProbe", "readinessProbe", "livenessProbe", "lifecycle"):
        hook = worker.node.get(key)
        for node in () if hook is None else hook.walk():
            if "/v1/" in (node.text or "") and "/v1/models" not in (node.text or ""):
                yield fault(
                    node,
                    says=f"`{key}` of {worker} sends a prompt without `disagg_spec`",
                    given=f"`{node.shown()}`",
                    fix="ask `/health`",
                )


def _services(manifests: ManifestSet, endpoint: Endpoint, worker: Worker, pod: Pod) -> Iterator[Fault]:
    for service in services_of(manifests, pod):
        shared = [
            other for other in endpoint.decode if other.pod is not None and selected(service, other.pod)
        ]
        if public(manifests, service):
            yield fault(
                service.node.get("spec", "selector") or service.node,
                says=f"{service.title} lets clients reach {worker} past the router",
                given=f"`type: {service.node.text_at('spec', 'type') or 'ClusterIP'}`",
                fix="point it at the router",
            )
        elif shared:
            yield fault(
                service.node.get("spec", "selector") or service.node,
                says=f"{service.title} sends the same requests to prefill and decode workers",
                given=f"it selects `{worker.owner.name}` and `{shared[0].owner.name}`",
                fix="give each role a Service of its own, and clients the router's",
            )
