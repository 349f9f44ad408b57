"""From documents to workers, routers and what connects them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hyperpod_dpd.catalog.instances import InstanceType
from hyperpod_dpd.lint.command import Arguments
from hyperpod_dpd.lint.flags import written_out
from hyperpod_dpd.lint.image import engine_versions
from hyperpod_dpd.lint.lmcache import configuration
from hyperpod_dpd.lint.lookup import geometry_of, instance_named
from hyperpod_dpd.lint.model import (
    EFA,
    GPU,
    Container,
    Endpoint,
    Fault,
    ManifestSet,
    Note,
    Pod,
    Router,
    Worker,
    fault,
    note,
)
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.objects import objects
from hyperpod_dpd.lint.operator import operator_workers
from hyperpod_dpd.lint.pods import VLLM, Resolver, pods
from hyperpod_dpd.serving.names import INSTANCE_LABEL
from hyperpod_dpd.spec import Role

ROUTERS: Final = frozenset(
    {"dpd-router", "lmcache-proxy", "vllm-router", "production-stack", "llm-d-sidecar", "dynamo"}
)
_KV_ROLES: Final = {"kv_producer": Role.PREFILL, "kv_consumer": Role.DECODE}
_PD_ROLES: Final = {"sender": Role.PREFILL, "receiver": Role.DECODE}
INSTANCE_TYPE_LABELS: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


def recognise(documents: tuple[Node, ...]) -> ManifestSet:
    """Return what `documents` say about disaggregated serving."""
    found = objects(documents)
    resolver = Resolver(found.objects)
    all_pods = tuple(pods(found.objects, resolver))
    workers: list[Worker] = []
    routers: list[Router] = []
    unknown: list[Fault] = list(found.unknown)
    for pod in all_pods:
        for container in pod.containers:
            if container.program == VLLM:
                workers.append(_worker(pod, container, resolver))
                _say_variables(container.arguments, resolver)
            elif container.program in ROUTERS:
                routers.append(_router(pod, container))
            else:
                unknown += _unknown(container, pod)
    operator_endpoints = tuple(each for each in found.objects if each.kind == "InferenceEndpointConfig")
    for each in operator_endpoints:
        made = list(operator_workers(each, resolver))
        workers += made
        for worker in made:
            _say_variables(worker.arguments, resolver)
    return ManifestSet(
        objects=found.objects,
        pods=all_pods,
        endpoints=tuple(_endpoints(workers, routers)),
        routers=tuple(routers),
        operator_endpoints=operator_endpoints,
        unknown=tuple(unknown),
        unresolved=tuple(dict.fromkeys(resolver.unresolved)),
        broken=tuple(resolver.broken),
        notes=tuple(_notes(workers)),
    )


def _unknown(container: Container, pod: Pod) -> Iterator[Fault]:
    """Speak of programs that hold GPUs or EFA devices, and of routers by name, that nobody understands."""
    resources = container.node.get("resources")
    asks = resources is not None and any(
        resources.get(kind, device) is not None for kind in ("limits", "requests") for device in (GPU, EFA)
    )
    if asks or "router" in pod.owner.name or "proxy" in pod.owner.name:
        yield fault(
            container.node,
            says=f"what container `{container.name}` of {pod.owner.title} runs is not understood",
            given=f"`{container.program or container.node.text_at('image')}`",
            fix="write `vllm serve …` into `command` and `args`, so that the arguments can be read",
        )


def _say_variables(arguments: Arguments, resolver: Resolver) -> None:
    """Speak of arguments whose value only the running container knows."""
    for argument in arguments.flags:
        if argument.value is not None and not argument.value.known:
            resolver.missing(argument.node, f"the value of `{argument.flag}`", "write the value out")


def _router(pod: Pod, container: Container) -> Router:
    return Router(
        kind=container.program,
        owner=pod.owner,
        pod=pod,
        container=container,
        arguments=container.arguments,
        node=container.node,
    )


def _worker(pod: Pod, container: Container, resolver: Resolver) -> Worker:
    image = container.node.get("image")
    versions = engine_versions(image)
    arguments = written_out(container.arguments, versions)
    transfer = _transfer(arguments)
    lmcache, known = configuration(pod, container, resolver)
    return Worker(
        role=_role(pod, transfer, lmcache),
        owner=pod.owner,
        pod=pod,
        container=container,
        node=container.node,
        arguments=arguments,
        transfer=transfer,
        lmcache=lmcache,
        lmcache_known=known,
        environment=container.environment,
        engine=versions,
        image=image,
        instance=_instance(pod),
        geometry=geometry_of(model_names(arguments)),
        resources=container.node.get("resources"),
        replicas=pod.replicas,
    )


def _transfer(arguments: Arguments) -> Node | None:
    given = arguments.last("--kv-transfer-config")
    if given is None or given.value is None:
        return None
    try:
        data = json.loads(given.value.text)
    except ValueError:
        return given.value.node
    return given.value.node.replaced(data)


def _role(pod: Pod, transfer: Node | None, lmcache: Mapping[str, Node]) -> Role:
    role = _KV_ROLES.get((transfer.text_at("kv_role") if transfer is not None else None) or "")
    if role is not None:
        return role
    role = _PD_ROLES.get((lmcache["pd_role"].text if "pd_role" in lmcache else None) or "")
    return role or _named_role(pod)


def _named_role(pod: Pod) -> Role:
    """Tell the role by the labels that are usual for it, or by the workload's name."""
    words = {pod.owner.name.lower(), *(value.lower() for value in pod.labels.values())}
    if any("colocated" in word for word in words):
        return Role.COLOCATED
    for role, stems in ((Role.PREFILL, ("prefill",)), (Role.DECODE, ("decode", "decoding"))):
        if any(stem in word for stem in stems for word in words):
            return role
    return Role.COLOCATED


def _instance(pod: Pod) -> InstanceType | None:
    selector = pod.node.get("nodeSelector")
    for label in INSTANCE_TYPE_LABELS:
        name = None if selector is None else selector.text_at(label)
        found = instance_named(name or _required(pod, label))
        if found is not None:
            return found
    return None


def _required(pod: Pod, label: str) -> str | None:
    """Return the only value that a required node affinity leaves for `label`."""
    terms = pod.node.get(
        "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
    )
    for term in () if terms is None else terms.items:
        expressions = term.get("matchExpressions")
        for expression in () if expressions is None else expressions.items:
            values = expression.get("values")
            wanted = expression.text_at("key") == label and expression.text_at("operator") == "In"
            if wanted and values is not None and len(values.items) == 1:
                return values.items[0].text
    return None


def model_names(arguments: Arguments) -> tuple[str, ...]:
    """Return what the arguments call the model."""
    positional = (arguments.positional[0].text,) if arguments.positional else ()
    named = (arguments.value("--model"), arguments.value("--served-model-name"))
    return (*positional, *(name for name in named if name))


def _endpoints(workers: Sequence[Worker], routers: Sequence[Router]) -> Iterator[Endpoint]:
    groups: dict[tuple[str, str], list[Worker]] = {}
    for worker in workers:
        groups.setdefault(_group(worker), []).append(worker)
    for (namespace, instance), members in groups.items():
        own = tuple(router for router in routers if _serves(router, namespace, instance))
        alone = len(groups) == 1
        yield Endpoint(
            name=f"{namespace}/{instance}" if instance else namespace,
            workers=tuple(members),
            routers=own or (tuple(routers) if alone else ()),
        )


def _group(worker: Worker) -> tuple[str, str]:
    if worker.pod is None:
        return worker.owner.namespace, f"endpoint {worker.owner.name}"
    return worker.owner.namespace, worker.pod.labels.get(INSTANCE_LABEL, "")


def _serves(router: Router, namespace: str, instance: str) -> bool:
    served = router.arguments.value("--namespace", "--k8s-namespace") or router.owner.namespace
    own = router.pod.labels.get(INSTANCE_LABEL, "")
    return served == namespace and (not own or not instance or own == instance)


def _notes(workers: Sequence[Worker]) -> Iterator[Note]:
    for worker in workers:
        if worker.role is Role.COLOCATED:
            continue
        assumption = worker.engine.assumption(lmcache=worker.through_lmcache)
        if assumption is not None:
            yield note(worker.image or worker.node, f"image of {worker}: {assumption}")
        if worker.geometry is None:
            yield note(
                worker.node,
                f"{worker}: the catalog does not know its model, so memory and PD buffer were not computed",
            )
        if worker.instance is None:
            yield note(
                worker.node,
                f"{worker}: no `node.kubernetes.io/instance-type` is required, so its memory and EFA devices "
                "were not compared with an instance type",
            )
