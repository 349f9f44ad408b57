"""Every connection that a deployment needs, each said once.

NetworkPolicies are rendered from this list and nothing else is opened. EFA traffic is not IP traffic: no
policy sees it, the EFA security group holds it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from hyperpod_dpd.derive.addresses import SERVICE_CIDR, address_plan
from hyperpod_dpd.observability.jobs import EFA_PORT, efa_counters_are_in_workspace, exporters_namespace
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.spec import Deployment, HuggingFaceSource, S3Source

ANYWHERE: Final = "0.0.0.0/0"

POD_IDENTITY_ADDRESS: Final = "169.254.170.23/32"
"""Link-local address of the EKS Pod Identity agent on every node (EKS User Guide, pod-id-how-it-works)."""

FOREIGN_SERVICE_ADDRESSES: Final = ("10.100.0.1/32", "172.20.0.1/32")
"""First address of the two ranges from which EKS chooses when a cluster names none (EKS API, serviceIpv4Cidr)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """A contiguous range of ports of one protocol, both ends included."""

    first: int
    last: int
    protocol: Literal["TCP", "UDP"] = "TCP"

    @classmethod
    def one(cls, port: int, protocol: Literal["TCP", "UDP"] = "TCP") -> "Ports":
        """Return the range of a single port."""
        return cls(first=port, last=port, protocol=protocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """Pods of this deployment: of one component, or all of one of its namespaces."""

    namespace: str
    component: Component | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignPods:
    """Pods of a namespace that this deployment does not own."""

    namespace: str
    labels: tuple[tuple[str, str], ...] = ()
    """Labels that the pods carry; empty: every pod of the namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsOfEveryDeployment:
    """Pods with a label in all deployments of this project on the cluster."""

    label: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Addresses outside the cluster, or of no pod."""

    cidrs: tuple[str, ...]
    excluded: tuple[str, ...] = ()


Peer = Pods | ForeignPods | PodsOfEveryDeployment | Addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Connections that `source` opens to `destination`."""

    name: str
    source: Peer
    destination: Peer
    ports: tuple[Ports, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOff:
    """Ports over which one role opens connections to the other to agree on a transfer."""

    source: Component
    destination: Component
    ports: tuple[Ports, ...]


def flows(
    deployment: Deployment, workers: tuple[Component, ...], hand_offs: tuple[HandOff, ...]
) -> tuple[Flow, ...]:
    """Return every flow of a profile with `workers` and `hand_offs`, in the order in which they are rendered."""
    return (
        *_common(deployment),
        *_model(deployment),
        *_router(deployment),
        *_workers(deployment, workers, hand_offs),
        *_tracing(deployment),
        *_proof(deployment, workers, hand_offs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """Pods of a component that serve metrics of their node on a port."""

    component: Component
    port: int


def collector_flows(
    deployment: Deployment,
    targets: tuple[tuple[tuple[str, str], int], ...],
    exporters: tuple[Exporter, ...],
    exporters_namespace: str,
) -> Iterator[Flow]:
    """Yield the flows of the collector: it reads every target of the cluster, finds them, and writes to AWS."""
    collector = Pods(namespace=deployment.platform.scraping_namespace, component=Component.COLLECTOR)
    for label, port in targets:
        yield Flow(
            name="metrics",
            source=collector,
            destination=PodsOfEveryDeployment(label=label),
            ports=(Ports.one(port),),
        )
    for exporter in exporters:
        yield Flow(
            name="metrics",
            source=collector,
            destination=Pods(namespace=exporters_namespace, component=exporter.component),
            ports=(Ports.one(exporter.port),),
        )
    yield from _exporters_for_proofs(exporters, exporters_namespace)
    yield Flow(name="dns", source=collector, destination=_DNS, ports=(Ports.one(53, "UDP"), Ports.one(53)))
    yield Flow(
        name="pod-identity",
        source=collector,
        destination=Addresses(cidrs=(POD_IDENTITY_ADDRESS,)),
        ports=(Ports.one(80),),
    )
    # the workspace has public addresses, or those of an interface endpoint in the VPC: a policy cannot name either
    yield Flow(
        name="api-server and workspace",
        source=collector,
        destination=Addresses(cidrs=(ANYWHERE,)),
        ports=(Ports.one(443),),
    )


def exporter_flows(
    deployment: Deployment, exporters: tuple[Exporter, ...], exporters_namespace: str
) -> Iterator[Flow]:
    """Yield the flows of the exporters: whoever scrapes reads them, and they call nobody."""
    for exporter in exporters:
        yield Flow(
            name="metrics",
            source=_scraper(deployment),
            destination=Pods(namespace=exporters_namespace, component=exporter.component),
            ports=(Ports.one(exporter.port),),
        )
    yield from _exporters_for_proofs(exporters, exporters_namespace)


def _exporters_for_proofs(exporters: tuple[Exporter, ...], exporters_namespace: str) -> Iterator[Flow]:
    """Yield the proofs' way to EFA counters: each reads them before and after its prompts."""
    for exporter in exporters:
        if exporter.component is Component.EFA_EXPORTER:
            yield Flow(
                name="proofs",
                source=PodsOfEveryDeployment(label=(names.COMPONENT_LABEL, Component.PROOF.value)),
                destination=Pods(namespace=exporters_namespace, component=exporter.component),
                ports=(Ports.one(exporter.port),),
            )


_DNS: Final = ForeignPods(namespace="kube-system", labels=(("k8s-app", "kube-dns"),))


def _router_pods(deployment: Deployment) -> Pods:
    return Pods(namespace=names.system_namespace(deployment), component=Component.ROUTER)


def _worker_pods(deployment: Deployment, component: Component | None = None) -> Pods:
    return Pods(namespace=names.workers_namespace(deployment), component=component)


def _common(deployment: Deployment) -> Iterator[Flow]:
    for namespace in (names.system_namespace(deployment), names.workers_namespace(deployment)):
        yield Flow(
            name="dns",
            source=Pods(namespace=namespace),
            destination=_DNS,
            ports=(Ports.one(53, "UDP"), Ports.one(53)),
        )


def _model(deployment: Deployment) -> Iterator[Flow]:
    source = deployment.model.source
    if isinstance(source, S3Source):
        yield Flow(
            name="pod-identity",
            source=_worker_pods(deployment),
            destination=Addresses(cidrs=(POD_IDENTITY_ADDRESS,)),
            ports=(Ports.one(80),),
        )
    if isinstance(source, S3Source | HuggingFaceSource):
        # S3's addresses are public ones, also through a gateway endpoint; a policy cannot name a prefix list
        yield Flow(
            name="model",
            source=_worker_pods(deployment),
            destination=Addresses(cidrs=(ANYWHERE,), excluded=deployment.network.vpc_cidrs),
            ports=(Ports.one(443),),
        )


def _router(deployment: Deployment) -> Iterator[Flow]:
    router = _router_pods(deployment)
    endpoint = (Ports.one(names.ROUTER_PORT),)
    clients: list[Peer] = [Pods(namespace=names.system_namespace(deployment))]
    clients += [ForeignPods(namespace=namespace) for namespace in deployment.routing.client_namespaces]
    if deployment.routing.load_balancer is not None:
        clients.append(_load_balancer(deployment))
    for client in clients:
        yield Flow(name="clients", source=client, destination=router, ports=endpoint)
    if deployment.platform.scraping != "none":
        yield Flow(name="metrics", source=_scraper(deployment), destination=router, ports=endpoint)
    yield Flow(
        name="api-server",
        source=router,
        destination=_api_server(deployment),
        ports=(Ports.one(443),),
    )


def _workers(
    deployment: Deployment, workers: tuple[Component, ...], hand_offs: tuple[HandOff, ...]
) -> Iterator[Flow]:
    http = (Ports.one(names.WORKER_HTTP_PORT),)
    for component in workers:
        worker = _worker_pods(deployment, component)
        yield Flow(name="requests", source=_router_pods(deployment), destination=worker, ports=http)
        if deployment.platform.scraping != "none":
            yield Flow(name="metrics", source=_scraper(deployment), destination=worker, ports=http)
    for hand_off in hand_offs:
        yield Flow(
            name="hand-off",
            source=_worker_pods(deployment, hand_off.source),
            destination=_worker_pods(deployment, hand_off.destination),
            ports=hand_off.ports,
        )
    if hand_offs and deployment.serving.transfer.type == "lmcache-pd":
        yield Flow(
            name="notifications",
            source=_worker_pods(deployment, Component.PREFILL),
            destination=_router_pods(deployment),
            ports=(Ports.one(names.NOTIFICATION_PORT),),
        )


def _tracing(deployment: Deployment) -> Iterator[Flow]:
    endpoint = deployment.routing.tracing_endpoint
    if endpoint is None:
        return
    url = urlsplit(endpoint)
    host = (url.hostname or "").removesuffix(".cluster.local").split(".")
    port = url.port or (443 if url.scheme == "https" else 80)
    in_cluster = len(host) == 3 and host[2] == "svc"
    collector = ForeignPods(namespace=host[1]) if in_cluster else Addresses(cidrs=(ANYWHERE,))
    for source in (_router_pods(deployment), _worker_pods(deployment)):
        yield Flow(name="traces", source=source, destination=collector, ports=(Ports.one(port),))


def _proof(
    deployment: Deployment, workers: tuple[Component, ...], hand_offs: tuple[HandOff, ...]
) -> Iterator[Flow]:
    """Yield the flows of the proof: it reads what workers count, asks for pods, and tells its verdict."""
    if not hand_offs:
        return
    proof = Pods(namespace=names.system_namespace(deployment), component=Component.PROOF)
    for component in workers:
        yield Flow(
            name="proof",
            source=proof,
            destination=_worker_pods(deployment, component),
            ports=(Ports.one(names.WORKER_HTTP_PORT),),
        )
    yield Flow(name="api-server", source=proof, destination=_api_server(deployment), ports=(Ports.one(443),))
    if deployment.platform.exporters == "manifests":
        yield Flow(
            name="efa-counters",
            source=proof,
            destination=ForeignPods(
                namespace=exporters_namespace(deployment),
                labels=((names.COMPONENT_LABEL, Component.EFA_EXPORTER.value),),
            ),
            ports=(Ports.one(EFA_PORT),),
        )
    if efa_counters_are_in_workspace(deployment):
        yield Flow(
            name="pod-identity",
            source=proof,
            destination=Addresses(cidrs=(POD_IDENTITY_ADDRESS,)),
            ports=(Ports.one(80),),
        )
        # the workspace has public addresses, or those of an interface endpoint in the VPC: a policy cannot name either
        yield Flow(
            name="workspace",
            source=proof,
            destination=Addresses(cidrs=(ANYWHERE,)),
            ports=(Ports.one(443),),
        )


def _scraper(deployment: Deployment) -> ForeignPods:
    return ForeignPods(namespace=deployment.platform.scraping_namespace)


def _load_balancer(deployment: Deployment) -> Addresses:
    """Return the subnets in which the load balancer has its interfaces.

    Pods on nodes of an internal one's subnets have addresses there, too: a policy cannot tell them apart.
    """
    balancer = deployment.routing.load_balancer
    network = deployment.network
    if deployment.cluster.existing is not None or network.existing is not None or balancer is None:
        return Addresses(cidrs=network.vpc_cidrs)
    zones = address_plan(network).zones.values()
    public = balancer.scheme == "internet-facing"
    return Addresses(cidrs=tuple(str(zone.public if public else zone.system) for zone in zones))


def _api_server(deployment: Deployment) -> Addresses:
    """Return the API server's Service address and its interfaces: policies see a packet before or after translation."""
    network = deployment.network
    if deployment.cluster.existing is not None:
        return Addresses(cidrs=(*FOREIGN_SERVICE_ADDRESSES, *network.vpc_cidrs))
    service = f"{SERVICE_CIDR[1]}/32"
    if network.existing is not None:
        # of the subnets of its interfaces the file has the ids
        return Addresses(cidrs=(service, *network.vpc_cidrs))
    zones = address_plan(network).zones.values()
    return Addresses(cidrs=(service, *(str(zone.control_plane) for zone in zones)))
