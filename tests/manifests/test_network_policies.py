"""What the rendered NetworkPolicies let through, judged as a cluster judges them."""

import ipaddress
from dataclasses import dataclass, field

import pytest

from hyperpod_dpd.serving.profile import Profile
from tests.support.manifests import CASES, Manifest, deployments, of_kind, pods, rendering

POD_IDENTITY = "169.254.170.23"


@dataclass(frozen=True)
class End:
    """One end of a connection: a pod, or an address."""

    namespace: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    address: str | None = None
    namespace_labels: dict[str, str] = field(default_factory=dict)
    """Labels of the namespace besides its name."""


def allowed(
    objects: tuple[Manifest, ...], source: End, destination: End, port: int, protocol: str = "TCP"
) -> bool:
    """Return whether policies let `source` connect to `destination`: the source's egress and the other's ingress."""
    return one_way(objects, source, destination, port, protocol, "egress", "to") and one_way(
        objects, destination, source, port, protocol, "ingress", "from"
    )


def one_way(
    objects: tuple[Manifest, ...], subject: End, peer: End, port: int, protocol: str, direction: str, key: str
) -> bool:
    if subject.namespace is None:
        return True
    held = [
        policy["spec"]
        for policy in of_kind(objects, "NetworkPolicy")
        if policy["metadata"]["namespace"] == subject.namespace
        and direction.capitalize() in policy["spec"]["policyTypes"]
        and selects(policy["spec"]["podSelector"], subject.labels)
    ]
    if not held:
        return True
    return any(
        any(is_peer(entry, peer, subject.namespace) for entry in rule[key])
        and any(
            each["protocol"] == protocol and each["port"] <= port <= each.get("endPort", each["port"])
            for each in rule["ports"]
        )
        for spec in held
        for rule in spec.get(direction, ())
    )


def selects(selector: Manifest, labels: Manifest) -> bool:
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def is_peer(entry: Manifest, peer: End, own_namespace: str) -> bool:
    if "ipBlock" in entry:
        if peer.address is None:
            return False
        address = ipaddress.ip_address(peer.address)
        block = entry["ipBlock"]
        return address in ipaddress.ip_network(block["cidr"]) and not any(
            address in ipaddress.ip_network(excluded) for excluded in block.get("except", ())
        )
    if peer.namespace is None:
        return False
    if "namespaceSelector" in entry:
        labels = {"kubernetes.io/metadata.name": peer.namespace, **peer.namespace_labels}
        if not selects(entry["namespaceSelector"], labels):
            return False
    elif peer.namespace != own_namespace:
        return False
    return selects(entry.get("podSelector", {}), peer.labels)


def end(objects: tuple[Manifest, ...], component: str) -> End:
    """Return the first pod of `component`."""
    for pod in pods(objects):
        if pod["metadata"]["labels"]["app.kubernetes.io/component"] == component:
            return End(namespace=pod["metadata"]["namespace"], labels=pod["metadata"]["labels"])
    raise AssertionError(f"no pod of `{component}`")


DNS = End(namespace="kube-system", labels={"k8s-app": "kube-dns"})
STRANGER = End(namespace="default", labels={"app": "anything"})
INTERNET = End(address="93.184.216.34")


@pytest.mark.parametrize("name", ["p5", "p5en", "p5-p5en", "half-nodes", "lmcache-0.4.3"])
def test_every_flow_of_a_hand_off_is_open(name: str) -> None:
    objects = rendering(name).objects
    router, prefill, decode = (end(objects, each) for each in ("router", "prefill", "decode"))
    transfer = deployments()[name].serving.transfer
    ranks = deployments()[name].serving.tensor_parallel
    assert allowed(objects, router, prefill, 8000)
    assert allowed(objects, router, decode, 8000)
    assert allowed(objects, prefill, router, 7500)
    for base in (transfer.init_port_base, transfer.alloc_port_base):
        for port in range(base, base + ranks * transfer.port_epochs):
            assert allowed(objects, prefill, decode, port), f"{port}: a decoder that has restarted uses it"
        assert not allowed(objects, prefill, decode, base + ranks * transfer.port_epochs)
        assert not allowed(objects, prefill, decode, base - 1)


@pytest.mark.parametrize("name", ["p5", "p5-p5en"])
def test_nothing_else_is_open_between_pods(name: str) -> None:
    objects = rendering(name).objects
    router, prefill, decode = (end(objects, each) for each in ("router", "prefill", "decode"))
    assert not allowed(objects, decode, prefill, 8000)
    assert not allowed(objects, prefill, decode, 8000), "worker ports are for the router only"
    assert not allowed(objects, decode, prefill, 7300)
    assert not allowed(objects, decode, router, 7500)
    assert not allowed(objects, decode, router, 8081)
    assert not allowed(objects, prefill, router, 8081)
    assert not allowed(objects, router, decode, 7300)
    assert not allowed(objects, prefill, prefill, 8000)
    assert not allowed(objects, decode, decode, 7300)
    for port in (7300, 7400, 7500, 8000, 8081):
        for pod in (router, prefill, decode):
            assert not allowed(objects, STRANGER, pod, port)
            assert not allowed(objects, INTERNET, pod, port)


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_every_pod_resolves_names_and_only_the_scraper_reads_metrics(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    platform = deployments()[name].platform
    scraped = platform.scraping != "none"
    scraper = End(namespace=platform.scraping_namespace)
    for component in {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods(objects)}:
        pod = end(objects, component)
        assert allowed(objects, pod, DNS, 53, "UDP")
        assert allowed(objects, pod, DNS, 53)
        assert not allowed(objects, pod, STRANGER, 53, "UDP")
        port = 8081 if component == "router" else 8000
        assert allowed(objects, scraper, pod, port) is scraped
        assert not allowed(objects, scraper, pod, 7500)


@pytest.mark.parametrize(
    ("name", "identity", "public"),
    [
        ("p5", True, True),
        ("synced", True, True),
        ("hugging-face", False, True),
        ("fsx", False, False),
        ("volume", False, False),
    ],
)
def test_workers_reach_what_the_source_of_the_weights_needs(name: str, identity: bool, public: bool) -> None:
    objects = rendering(name).objects
    network = deployments()[name].network
    for component in ("prefill", "decode"):
        worker = end(objects, component)
        assert allowed(objects, worker, End(address=POD_IDENTITY), 80) is identity
        assert allowed(objects, worker, INTERNET, 443) is public
        assert not allowed(objects, worker, INTERNET, 80)
        for cidr in (network.cidr, network.gpu_cidr):
            inside = str(ipaddress.ip_network(cidr)[1])
            assert not allowed(objects, worker, End(address=inside), 443), "neither the API server nor a pod"
        assert not allowed(objects, worker, End(address="169.254.169.254"), 80), "the node's own identity"


def test_only_the_router_reaches_the_api_server() -> None:
    objects = rendering("p5").objects
    service, interface = End(address="172.20.0.1"), End(address="10.192.13.7")
    assert allowed(objects, end(objects, "router"), service, 443)
    assert allowed(objects, end(objects, "router"), interface, 443)
    assert not allowed(objects, end(objects, "router"), INTERNET, 443)
    for component in ("prefill", "decode"):
        assert not allowed(objects, end(objects, component), interface, 443)


def test_clients_are_the_system_namespace_and_the_namespaces_that_are_named() -> None:
    plain, opened = rendering("p5").objects, rendering("secrets").objects
    job = End(namespace="llama-3-3-70b-p5-system", labels={"job": "benchmark"})
    chat = End(namespace="chat", labels={"app": "chat"})
    assert allowed(plain, job, end(plain, "router"), 8081)
    assert not allowed(plain, chat, end(plain, "router"), 8081)
    assert allowed(opened, chat, end(opened, "router"), 8081)
    assert not allowed(opened, chat, end(opened, "router"), 7500)


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("balanced", "10.192.96.9", "10.192.5.9"),
        ("public", "10.192.5.9", "10.192.96.9"),
        ("existing-cluster", "10.192.200.9", "192.0.2.1"),
    ],
)
def test_a_load_balancer_reaches_the_router_from_its_own_subnets(
    name: str, inside: str, outside: str
) -> None:
    objects = rendering(name).objects
    router = end(objects, "router")
    assert allowed(objects, End(address=inside), router, 8081)
    assert not allowed(objects, End(address=outside), router, 8081)
    assert not allowed(objects, End(address=inside), router, 7500)


def test_the_decoder_pulls_over_the_side_channel_when_nixl_transfers() -> None:
    objects = rendering("nixl").objects
    prefill, decode = end(objects, "prefill"), end(objects, "decode")
    assert allowed(objects, decode, prefill, 5600)
    assert not allowed(objects, prefill, decode, 5600)
    assert not allowed(objects, prefill, end(objects, "router"), 7500)
    assert not allowed(objects, prefill, decode, 7300)


@pytest.mark.parametrize(
    ("name", "collector", "port"),
    [
        ("traced", INTERNET, 4318),
        ("traced-in-cluster", End(namespace="tracing", labels={"app": "otel"}), 4318),
    ],
)
def test_traces_leave_to_their_collector(name: str, collector: End, port: int) -> None:
    objects = rendering(name).objects
    for component in ("router", "prefill", "decode"):
        assert allowed(objects, end(objects, component), collector, port)
        assert not allowed(objects, end(objects, component), collector, port + 2)


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_every_namespace_denies_by_default(name: str, profile: Profile) -> None:
    objects = rendering(name, profile).objects
    for namespace in of_kind(objects, "Namespace"):
        denying = [
            policy
            for policy in of_kind(objects, "NetworkPolicy")
            if policy["metadata"]["namespace"] == namespace["metadata"]["name"]
            and policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
        ]
        assert len(denying) == 1


def test_a_baseline_has_no_hand_off_to_open() -> None:
    objects = rendering("p5", Profile.BASELINE).objects
    router, worker = end(objects, "router"), end(objects, "colocated")
    assert allowed(objects, router, worker, 8000)
    assert not allowed(objects, worker, worker, 7300)
    assert not allowed(objects, worker, router, 7500)
