"""From manifests to pods as the kubelet would start them: commands, environment, files, probes."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from hyperpod_dpd.lint.model import KubernetesObject, ManifestSet, Pod, Router, Worker
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.objects import WORKLOADS
from hyperpod_dpd.lint.policies import selects
from hyperpod_dpd.rehearsal.below import items, pairs
from hyperpod_dpd.rehearsal.trouble import Kind, Trouble, trouble
from hyperpod_dpd.spec.value import record

_RUN: Final = frozenset({"Deployment", "Pod", "StatefulSet"})
"""Workloads that run until somebody stops them."""

_FIELDS: Final = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_LABEL_FIELD: Final = re.compile(r"metadata\.(?:labels|annotations)\['[^']+'\]")
SECRET_VALUE: Final = "rehearsal"  # noqa: S105 -- what stands for one
"""Stands for every value that a Secret holds: a rehearsal knows no secrets."""

_DEFAULT_GRACE_SECONDS: Final = 30

_Lookup = Callable[[str, str | None], Mapping[str, str] | None]
"""Finds the data of a ConfigMap or Secret by namespace and name."""


@record
class Variable:
    """A variable of a container: a text in which `$(NAME)` is still to be written out, or a field of its pod."""

    name: str
    text: str | None
    field: str | None = None


@record
class Mount:
    """A volume at a path of a container."""

    path: str
    volume: str
    sub_path: str | None


@record
class Probe:
    """An HTTP probe."""

    path: str
    port: int
    period_seconds: float
    timeout_seconds: float
    initial_delay_seconds: float
    failure_threshold: int


@record
class PreStop:
    """What runs before a container is told to end: a wait, or a command."""

    sleep_seconds: float
    command: tuple[str, ...]


@record
class ContainerPlan:
    """A container and what starts it."""

    name: str
    command: tuple[str, ...]
    """Command and arguments, in which `$(NAME)` is still to be written out."""

    environment: tuple[Variable, ...]
    mounts: tuple[Mount, ...]
    startup: Probe | None
    readiness: Probe | None
    liveness: Probe | None
    pre_stop: PreStop | None
    worker: Worker | None
    """What it is where it is an engine."""

    router: Router | None
    """What it is where it is a router."""

    node: Node


@record
class PodPlan:
    """The pods of one workload."""

    owner: KubernetesObject
    pod: Pod
    containers: tuple[ContainerPlan, ...]
    files: Mapping[str, Mapping[str, str]]
    """Files of each volume by path; a volume without any is an empty folder."""

    grace_seconds: float

    @property
    def name(self) -> str:
        """Name of the workload."""
        return self.owner.name

    @property
    def namespace(self) -> str:
        """Namespace of its pods."""
        return self.owner.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of its pods."""
        return self.pod.labels

    @property
    def replicas(self) -> int:
        """How many pods it has."""
        return self.pod.replicas

    @property
    def worker(self) -> Worker | None:
        """Its engine, where it has one."""
        return next((each.worker for each in self.containers if each.worker is not None), None)

    @property
    def router(self) -> Router | None:
        """Its router, where it is one."""
        return next((each.router for each in self.containers if each.router is not None), None)


@record
class ReadPods:
    """Pods, what is wrong with others, and what is left out on purpose."""

    plans: tuple[PodPlan, ...]
    troubles: tuple[Trouble, ...]
    notes: tuple[str, ...]


def read_pods(manifests: ManifestSet) -> ReadPods:
    """Return the pods that the workloads of `manifests` make."""
    reader = _Reader(manifests)
    plans = tuple(plan for pod in manifests.pods if (plan := reader.plan(pod)) is not None)
    return ReadPods(plans=plans, troubles=tuple(reader.troubles), notes=tuple(reader.notes))


class _Reader:
    """Collects what is wrong, so that everything is said at once."""

    def __init__(self, manifests: ManifestSet) -> None:
        self._manifests = manifests
        self._workers = {id(worker.node): worker for worker in manifests.workers}
        self._routers = {id(router.node): router for router in manifests.routers}
        self._config_maps = {(each.namespace, each.name): each for each in manifests.of_kind("ConfigMap")}
        self._secrets = dict(_secrets(manifests))
        self.troubles: list[Trouble] = []
        self.notes: list[str] = []

    def plan(self, pod: Pod) -> PodPlan | None:
        owner = pod.owner
        if owner.kind not in _RUN:
            assert owner.kind in WORKLOADS
            self.notes.append(f"{owner.title} is not started: only Deployments, StatefulSets and Pods are")
            return None
        self._check_selector(pod)
        volumes = self._volumes(pod)
        plans = tuple(self._container(pod, node, volumes) for node in items(pod.node, "containers"))
        for node in items(pod.node, "initContainers"):
            self.notes.append(
                f"init container `{node.text_at('name')}` of {owner.title} is not run: it fetches what only an "
                "account has"
            )
        grace = pod.node.get("terminationGracePeriodSeconds")
        return PodPlan(
            owner=owner,
            pod=pod,
            containers=tuple(each for each in plans if each is not None),
            files={name: files for name, files in volumes.items() if files is not None},
            grace_seconds=_seconds(grace, _DEFAULT_GRACE_SECONDS),
        )

    def _say(self, kind: Kind, node: Node, says: str, fix: str) -> None:
        self.troubles.append(trouble(kind, node, says, fix))

    def _check_selector(self, pod: Pod) -> None:
        selector = pod.owner.node.get("spec", "selector")
        if pod.owner.kind == "Pod":
            return
        if selector is None or not selects(selector, pod.labels):
            self._say(
                Kind.REFUSED,
                pod.owner.node if selector is None else selector,
                f"`selector` of {pod.owner.title} does not match the labels of its template",
                "write the labels of `spec.template.metadata.labels` into `spec.selector.matchLabels`",
            )

    # -- volumes ----------------------------------------------------------------------------------------------------

    def _volumes(self, pod: Pod) -> dict[str, Mapping[str, str] | None]:
        """Return the files of every volume; None where something to mount is missing."""
        found: dict[str, Mapping[str, str] | None] = {}
        for node in items(pod.node, "volumes"):
            name = node.text_at("name") or "?"
            if (source := node.get("configMap")) is not None:
                found[name] = self._mounted(pod, source, "name", self._config_map, "ConfigMap")
            elif (source := node.get("secret")) is not None:
                found[name] = self._mounted(pod, source, "secretName", self._secret, "Secret")
            else:
                found[name] = {}
                if node.get("emptyDir") is None:
                    kind = next((key for key in node.pairs if key != "name"), "nothing")
                    self.notes.append(
                        f"volume `{name}` of {pod.owner.title} (`{kind}`) is an empty folder here"
                    )
        return found

    def _mounted(
        self,
        pod: Pod,
        source: Node,
        key: str,
        lookup: _Lookup,
        kind: str,
    ) -> Mapping[str, str] | None:
        name = source.text_at(key)
        data = lookup(pod.namespace, name)
        if data is None:
            if source.text_at("optional") == "true":
                return {}
            self._say(
                Kind.PENDING,
                source,
                f"{pod.owner.title} cannot mount {kind} `{name}`: there is none in namespace `{pod.namespace}`",
                f"render the {kind}, or correct the name",
            )
            return None
        if source.get("items") is None:
            return data
        files: dict[str, str] = {}
        for item in items(source, "items"):
            wanted, path = item.text_at("key") or "", item.text_at("path") or ""
            if wanted in data:
                files[path] = data[wanted]
                continue
            self._say(
                Kind.PENDING,
                item,
                f"{pod.owner.title} cannot mount key `{wanted}` of {kind} `{name}`: it has "
                f"{', '.join(f'`{each}`' for each in data) or 'none'}",
                "correct the key on one of the two sides",
            )
        return files

    def _config_map(self, namespace: str, name: str | None) -> Mapping[str, str] | None:
        found = self._config_maps.get((namespace, name or ""))
        if found is None:
            return None
        return {key: node.text or "" for key, node in pairs(found.node, "data").items()}

    def _secret(self, namespace: str, name: str | None) -> Mapping[str, str] | None:
        return self._secrets.get((namespace, name or ""))

    # -- containers -------------------------------------------------------------------------------------------------

    def _container(
        self, pod: Pod, node: Node, volumes: Mapping[str, Mapping[str, str] | None]
    ) -> ContainerPlan | None:
        name = node.text_at("name") or "?"
        title = f"container `{name}` of {pod.owner.title}"
        command = tuple(word.text or "" for key in ("command", "args") for word in items(node, key))
        if node.get("command") is None:
            self._say(
                Kind.ELSEWHERE,
                node,
                f"what {title} runs is in its image, which is not pulled here",
                "write `command` into the container",
            )
            return None
        mounts = tuple(self._mounts(node, title, volumes))
        environment = tuple(self._environment(pod, node, title))
        self._check_paths(node, title, mounts, volumes)
        ports = _ports(node)
        self._check_resources(node, title)
        return ContainerPlan(
            name=name,
            command=command,
            environment=environment,
            mounts=mounts,
            startup=self._probe(node, "startupProbe", title, ports),
            readiness=self._probe(node, "readinessProbe", title, ports),
            liveness=self._probe(node, "livenessProbe", title, ports),
            pre_stop=_pre_stop(node.get("lifecycle", "preStop")),
            worker=self._workers.get(id(node)),
            router=self._routers.get(id(node)),
            node=node,
        )

    def _mounts(
        self, node: Node, title: str, volumes: Mapping[str, Mapping[str, str] | None]
    ) -> Iterator[Mount]:
        for each in items(node, "volumeMounts"):
            volume, path = each.text_at("name") or "?", each.text_at("mountPath") or "/"
            if volume not in volumes:
                self._say(
                    Kind.REFUSED,
                    each,
                    f"{title} mounts volume `{volume}`, which its pod does not have",
                    f"name one of {', '.join(f'`{known}`' for known in volumes) or 'the volumes of the pod'}",
                )
                continue
            yield Mount(path=path, volume=volume, sub_path=each.text_at("subPath"))

    def _environment(self, pod: Pod, node: Node, title: str) -> Iterator[Variable]:
        for source in items(node, "envFrom"):
            yield from self._from_source(pod, source, title)
        for entry in items(node, "env"):
            name = entry.text_at("name") or ""
            given = entry.get("valueFrom")
            if given is None:
                yield Variable(name=name, text=entry.text_at("value") or "")
            elif (field := given.text_at("fieldRef", "fieldPath")) is not None:
                if field not in _FIELDS and not _LABEL_FIELD.fullmatch(field):
                    self._say(
                        Kind.REFUSED,
                        given,
                        f"variable `{name}` of {title} reads the field `{field}`, which pods do not have",
                        "name a field such as `status.podIP`",
                    )
                    continue
                yield Variable(name=name, text=None, field=field)
            elif given.get("resourceFieldRef") is not None:
                self.notes.append(f"variable `{name}` of {title} is an amount of a resource and is left out")
            else:
                text = self._referenced(pod, given, name, title)
                if text is not None:
                    yield Variable(name=name, text=text)

    def _from_source(self, pod: Pod, source: Node, title: str) -> Iterator[Variable]:
        for key, lookup, kind in (
            ("configMapRef", self._config_map, "ConfigMap"),
            ("secretRef", self._secret, "Secret"),
        ):
            reference = source.get(key)
            if reference is None:
                continue
            data = lookup(pod.namespace, reference.text_at("name"))
            if data is None and reference.text_at("optional") != "true":
                self._say(
                    Kind.PENDING,
                    reference,
                    f"{title} takes its environment from {kind} `{reference.text_at('name')}`, and there is none in "
                    f"namespace `{pod.namespace}`",
                    f"render the {kind}, or correct the name",
                )
            prefix = source.text_at("prefix") or ""
            for name, text in (data or {}).items():
                yield Variable(name=f"{prefix}{name}", text=text.replace("$(", "$$("))

    def _referenced(self, pod: Pod, given: Node, name: str, title: str) -> str | None:
        for key, lookup, kind in (
            ("configMapKeyRef", self._config_map, "ConfigMap"),
            ("secretKeyRef", self._secret, "Secret"),
        ):
            reference = given.get(key)
            if reference is None:
                continue
            data = lookup(pod.namespace, reference.text_at("name"))
            wanted = reference.text_at("key") or ""
            if data is not None and wanted in data:
                return data[wanted].replace("$(", "$$(")
            if reference.text_at("optional") != "true":
                self._say(
                    Kind.PENDING,
                    reference,
                    f"variable `{name}` of {title} is key `{wanted}` of {kind} `{reference.text_at('name')}`, which "
                    f"namespace `{pod.namespace}` does not have",
                    "correct name and key, or render what is missing",
                )
        return None

    def _check_paths(
        self,
        node: Node,
        title: str,
        mounts: tuple[Mount, ...],
        volumes: Mapping[str, Mapping[str, str] | None],
    ) -> None:
        """Say which files a command or a variable names below a ConfigMap that does not hold them."""
        mounted = {
            mount.path.rstrip("/"): files
            for mount in mounts
            if mount.sub_path is None and (files := volumes[mount.volume])
        }
        for word in _texts(node):
            path = PurePosixPath((word.text or "").partition("=")[2] or word.text or "")
            for folder, files in mounted.items():
                if not path.is_relative_to(folder) or str(path) == folder:
                    continue
                if str(path.relative_to(folder)) in files:
                    continue
                self._say(
                    Kind.BROKEN,
                    word,
                    f"{title} reads `{path}`, and what is mounted at `{folder}` holds "
                    f"{', '.join(f'`{each}`' for each in files)}",
                    "use one name for the file and for the key of the ConfigMap",
                )

    def _probe(self, node: Node, key: str, title: str, ports: Mapping[str, int]) -> Probe | None:
        probe = node.get(key)
        if probe is None:
            return None
        given = probe.get("httpGet")
        if given is None:
            self.notes.append(f"`{key}` of {title} is no HTTP probe and is not run")
            return None
        written = given.get("port")
        port = None if written is None else (written.number or ports.get(written.text or ""))
        if port is None:
            self._say(
                Kind.BROKEN,
                probe if written is None else written,
                f"`{key}` of {title} asks port `{None if written is None else written.text}`, which the container "
                f"does not name: it has {', '.join(f'`{each}`' for each in ports) or 'none'}",
                "name one of the container's ports",
            )
            return None
        return Probe(
            path=given.text_at("path") or "/",
            port=port,
            period_seconds=_seconds(probe.get("periodSeconds"), 10),
            timeout_seconds=_seconds(probe.get("timeoutSeconds"), 1),
            initial_delay_seconds=_seconds(probe.get("initialDelaySeconds"), 0),
            failure_threshold=int(_seconds(probe.get("failureThreshold"), 3)),
        )

    def _check_resources(self, node: Node, title: str) -> None:
        requests = pairs(node, "resources", "requests")
        for name, limit in pairs(node, "resources", "limits").items():
            asked = requests.get(name)
            # an extended resource cannot be overcommitted
            if "/" in name and asked is not None and asked.text != limit.text:
                self._say(
                    Kind.REFUSED,
                    asked,
                    f"{title} requests {asked.text} `{name}` with a limit of {limit.text}",
                    "request as many as the limit says",
                )


def _secrets(manifests: ManifestSet) -> Iterator[tuple[tuple[str, str], Mapping[str, str]]]:
    """Yield the Secrets of the set, those that External Secrets would make included, with stand-ins as values."""
    for each in manifests.of_kind("Secret"):
        keys = [key for field in ("data", "stringData") for key in pairs(each.node, field)]
        yield (each.namespace, each.name), dict.fromkeys(keys, SECRET_VALUE)
    for each in manifests.of_kind("ExternalSecret"):
        keys = [item.text_at("secretKey") or "" for item in items(each.node, "spec", "data")]
        name = each.node.text_at("spec", "target", "name") or each.name
        yield (each.namespace, name), dict.fromkeys(keys, SECRET_VALUE)


def _texts(node: Node) -> Iterator[Node]:
    yield from (*items(node, "command"), *items(node, "args"))
    for entry in items(node, "env"):
        value = entry.get("value")
        if value is not None:
            yield value
    yield from items(node, "lifecycle", "preStop", "exec", "command")


def _ports(node: Node) -> dict[str, int]:
    return {
        name: number
        for entry in items(node, "ports")
        if (name := entry.text_at("name")) is not None
        and (port := entry.get("containerPort")) is not None
        and (number := port.number) is not None
    }


def _pre_stop(node: Node | None) -> PreStop | None:
    if node is None:
        return None
    return PreStop(
        sleep_seconds=_seconds(node.get("sleep", "seconds"), 0),
        command=tuple(word.text or "" for word in items(node, "exec", "command")),
    )


def _seconds(node: Node | None, default: float) -> float:
    number = None if node is None else node.number
    return float(default if number is None else number)
