"""From an `InferenceEndpointConfig` to the workers that the operator makes of it."""

from collections.abc import Iterator, Mapping
from typing import Final

from hyperpod_dpd.catalog.instances import InstanceType
from hyperpod_dpd.lint.command import Arguments, arguments, words
from hyperpod_dpd.lint.flags import written_out
from hyperpod_dpd.lint.image import engine_versions
from hyperpod_dpd.lint.lmcache import from_environment
from hyperpod_dpd.lint.lookup import geometry_of, instance_named
from hyperpod_dpd.lint.model import KubernetesObject, Variable, Worker
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.pods import Resolver, variables
from hyperpod_dpd.spec import Role

ROLE_KEYS: Final = {Role.PREFILL: "prefillSpec", Role.DECODE: "decodingSpec"}
"""Keys of `pdSpec`; mind the second one."""

BUFFER_VARIABLE: Final = "PD_BUFFER_SIZE"
"""Variable from which the operator's image takes LMCache's `pd_buffer_size`, in bytes per rank."""


def operator_workers(owner: KubernetesObject, resolver: Resolver) -> Iterator[Worker]:
    """Yield the workers of `owner`: two with `pdSpec`, one without."""
    spec = owner.node.get("spec")
    if spec is None:
        return
    disaggregated = spec.get("pdSpec")
    if disaggregated is None:
        yield _worker(owner, spec, None, Role.COLOCATED, resolver)
        return
    for role, key in ROLE_KEYS.items():
        part = disaggregated.get(key)
        if part is not None:
            yield _worker(owner, spec, part, role, resolver)


def _worker(
    owner: KubernetesObject,
    spec: Node,
    part: Node | None,
    role: Role,
    resolver: Resolver,
) -> Worker:
    worker = spec.get("worker")
    environment: Mapping[str, Variable] = {}
    if worker is not None:
        environment = variables(owner.namespace, worker, resolver, "environmentVariables")
    image = None if worker is None else worker.get("image")
    versions = engine_versions(image, operator=True)
    given = written_out(_arguments(worker, part), versions)
    lmcache = dict(from_environment(environment))
    if BUFFER_VARIABLE in environment:
        lmcache["pd_buffer_size"] = environment[BUFFER_VARIABLE].node
    resources = None if part is None else part.get("resources")
    if resources is None and worker is not None and part is None:
        resources = worker.get("resources")
    names = [*(_names(given)), spec.text_at("modelName") or "", *_locations(spec)]
    return Worker(
        role=role,
        owner=owner,
        pod=None,
        container=None,
        node=part or worker or spec,
        arguments=given,
        transfer=None,
        lmcache=lmcache,
        lmcache_known=True,
        environment=environment,
        engine=versions,
        image=image,
        instance=_instance(spec),
        geometry=geometry_of(names),
        resources=resources,
        replicas=_replicas(part, spec),
    )


def _replicas(part: Node | None, spec: Node) -> int:
    given = (part or spec).get("replicas")
    return 1 if given is None or given.number is None else given.number


def _arguments(worker: Node | None, part: Node | None) -> Arguments:
    """Return the worker's arguments followed by those of the role, which win."""
    own = None if part is None else part.get("args")
    common = None if worker is None else worker.get("args")
    return arguments(words(common, own))


def _names(given: Arguments) -> Iterator[str]:
    yield from (name for name in (given.value("--model"), given.value("--served-model-name")) if name)


def _locations(spec: Node) -> Iterator[str]:
    source = spec.get("modelSourceConfig")
    if source is None:
        return
    for key in (("modelLocation",), ("huggingFaceModel", "modelId")):
        found = source.text_at(*key)
        if found:
            yield found


def _instance(spec: Node) -> InstanceType | None:
    listed = spec.get("instanceTypes")
    names = [spec.text_at("instanceType")]
    if listed is not None and len(listed.items) == 1:
        names.append(listed.items[0].text)
    return next((found for name in names if (found := instance_named(name)) is not None), None)
