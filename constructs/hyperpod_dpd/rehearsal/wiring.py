"""Whether Services, EndpointSlices and access rights lead the parts to each other."""

from collections.abc import Iterator, Sequence
from typing import Final

from hyperpod_dpd.lint.model import KubernetesObject, ManifestSet, Router
from hyperpod_dpd.lint.services import selected
from hyperpod_dpd.rehearsal.below import items, named_ports
from hyperpod_dpd.rehearsal.pods import PodPlan
from hyperpod_dpd.rehearsal.trouble import Kind, Trouble, trouble
from hyperpod_dpd.spec.value import record

HEADLESS: Final = "None"
_VERBS: Final = frozenset({"get", "list", "watch"})


@record
class ServicePort:
    """One port of a Service."""

    name: str
    port: int
    target: int


@record
class ServicePlan:
    """A Service and the workloads behind it."""

    owner: KubernetesObject
    ports: tuple[ServicePort, ...]
    backends: tuple[PodPlan, ...]
    headless: bool
    publishes_not_ready: bool

    @property
    def name(self) -> str:
        """Name of the Service."""
        return self.owner.name

    @property
    def namespace(self) -> str:
        """Namespace of the Service."""
        return self.owner.namespace

    @property
    def names(self) -> tuple[str, ...]:
        """Names under which pods of any namespace reach it."""
        base = f"{self.name}.{self.namespace}"
        return (base, f"{base}.svc", f"{base}.svc.cluster.local")


def services(manifests: ManifestSet, plans: Sequence[PodPlan]) -> tuple[list[ServicePlan], list[Trouble]]:
    """Return the Services of the set, and which of them lead nowhere."""
    found, troubles = [], []
    for each in manifests.of_kind("Service"):
        if each.node.text_at("spec", "type") == "ExternalName":
            continue
        backends = tuple(plan for plan in plans if selected(each, plan.pod))
        if not backends:
            troubles.append(
                trouble(
                    Kind.BROKEN,
                    each.node.get("spec", "selector") or each.node,
                    f"{each.title} selects no pod of the set",
                    "write the labels of the pods' template into its selector",
                )
            )
        ports, wrong = _ports(each, backends)
        troubles += wrong
        found.append(
            ServicePlan(
                owner=each,
                ports=ports,
                backends=backends,
                headless=each.node.text_at("spec", "clusterIP") == HEADLESS,
                publishes_not_ready=each.node.text_at("spec", "publishNotReadyAddresses") == "true",
            )
        )
    return found, troubles


def _ports(
    service: KubernetesObject, backends: Sequence[PodPlan]
) -> tuple[tuple[ServicePort, ...], list[Trouble]]:
    ports, troubles = [], []
    for entry in items(service.node, "spec", "ports"):
        port = entry.get("port")
        if port is None or port.number is None:
            continue
        target = entry.get("targetPort") or port
        number = target.number
        if number is None:
            numbers = set(_numbers(target.text or "", backends))
            if backends and not numbers:
                troubles.append(
                    trouble(
                        Kind.BROKEN,
                        target,
                        f"port `{port.number}` of {service.title} leads to `{target.text}`, which no pod behind it names",
                        "name a port of the containers",
                    )
                )
            number = next(iter(numbers), port.number)
        ports.append(ServicePort(name=entry.text_at("name") or "", port=port.number, target=number))
    return tuple(ports), troubles


def _numbers(name: str, backends: Sequence[PodPlan]) -> Iterator[int]:
    """Yield the ports that the containers of `backends` call `name`."""
    for plan in backends:
        for container in plan.containers:
            ports = named_ports(container.node)
            if name in ports:
                yield ports[name]


def wiring(
    manifests: ManifestSet, plans: Sequence[PodPlan], found: Sequence[ServicePlan]
) -> Iterator[Trouble]:
    """Yield what keeps each router from finding its workers through EndpointSlices."""
    for plan in plans:
        router = plan.router
        if router is None or router.kind != "dpd-router":
            continue
        if router.arguments.value("--discovery") != "endpointslices":
            continue
        yield from _finds_services(router, found)
        namespace = router.arguments.value("--namespace") or ""
        if not _may_watch(manifests, plan, namespace):
            yield trouble(
                Kind.BROKEN,
                plan.pod.node.get("serviceAccountName") or plan.pod.node,
                f"{router} may not list and watch EndpointSlices in namespace `{namespace}`: no Role there is bound to "
                f"its ServiceAccount `{plan.namespace}/{_account(plan)}`",
                "bind a Role with `get`, `list` and `watch` on `endpointslices` of `discovery.k8s.io`",
            )


def _finds_services(router: Router, found: Sequence[ServicePlan]) -> Iterator[Trouble]:
    arguments = router.arguments
    namespace = arguments.value("--namespace") or ""
    port_name = arguments.value("--worker-port-name") or "http"
    for flag in ("--prefill-service", "--decode-service"):
        given = arguments.last(flag)
        if given is None or given.value is None:
            continue
        name = given.value.text
        service = next((each for each in found if (each.namespace, each.name) == (namespace, name)), None)
        if service is None:
            known = [f"`{each.name}`" for each in found if each.namespace == namespace]
            yield trouble(
                Kind.BROKEN,
                given.node,
                f"{router} looks for workers behind Service `{namespace}/{name}`, which does not exist",
                f"name one of {', '.join(known)}"
                if known
                else f"render a Service in namespace `{namespace}`",
            )
        elif port_name not in {port.name for port in service.ports}:
            yield trouble(
                Kind.BROKEN,
                given.node,
                f"{router} takes the port called `{port_name}` of {service.owner.title}, which does not have it",
                "set `--worker-port-name` to the name of the workers' HTTP port",
            )


def _account(plan: PodPlan) -> str:
    return plan.pod.node.text_at("serviceAccountName") or "default"


def _may_watch(manifests: ManifestSet, plan: PodPlan, namespace: str) -> bool:
    account = (plan.namespace, _account(plan))
    for binding in manifests.of_kind("RoleBinding", "ClusterRoleBinding"):
        if binding.kind == "RoleBinding" and binding.namespace != namespace:
            continue
        bound = {
            (each.text_at("namespace") or binding.namespace, each.text_at("name"))
            for each in items(binding.node, "subjects")
            if each.text_at("kind") == "ServiceAccount"
        }
        if account in bound and _grants(manifests, binding):
            return True
    return False


def _grants(manifests: ManifestSet, binding: KubernetesObject) -> bool:
    kind, name = binding.node.text_at("roleRef", "kind"), binding.node.text_at("roleRef", "name")
    for role in manifests.of_kind(kind or ""):
        if role.name != name or (kind == "Role" and role.namespace != binding.namespace):
            continue
        for rule in items(role.node, "rules"):
            given = {
                key: {each.text for each in items(rule, key)} for key in ("apiGroups", "resources", "verbs")
            }
            if (
                given["apiGroups"] & {"discovery.k8s.io", "*"}
                and given["resources"] & {"endpointslices", "*"}
                and (given["verbs"] >= _VERBS or "*" in given["verbs"])
            ):
                return True
    return False
