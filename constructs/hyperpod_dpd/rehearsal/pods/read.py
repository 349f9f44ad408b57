"""The pods that the workloads of a set of manifests make."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from hyperpod_dpd.lint.model import ManifestSet, Pod
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.objects import WORKLOADS
from hyperpod_dpd.lint.policies import selects
from hyperpod_dpd.rehearsal.below import items, pairs
from hyperpod_dpd.rehearsal.pods.environment import read_environment
from hyperpod_dpd.rehearsal.pods.plan import ContainerPlan, Mount, PodPlan
from hyperpod_dpd.rehearsal.pods.probes import read_pre_stop, read_probe, seconds
from hyperpod_dpd.rehearsal.pods.references import References
from hyperpod_dpd.rehearsal.pods.remarks import Remarks
from hyperpod_dpd.rehearsal.pods.volumes import Volumes, read_volumes
from hyperpod_dpd.rehearsal.trouble import Kind, Trouble
from hyperpod_dpd.spec.value import record

_RUN: Final = frozenset({"Deployment", "Pod", "StatefulSet"})
"""Workloads that run until somebody stops them."""

_DEFAULT_GRACE_SECONDS: Final = 30


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
    return ReadPods(plans=plans, troubles=tuple(reader.remarks.troubles), notes=tuple(reader.remarks.notes))


class _Reader:
    def __init__(self, manifests: ManifestSet) -> None:
        self._workers = {id(worker.node): worker for worker in manifests.workers}
        self._routers = {id(router.node): router for router in manifests.routers}
        self._references = References(manifests)
        self.remarks = Remarks()

    def plan(self, pod: Pod) -> PodPlan | None:
        owner = pod.owner
        if owner.kind not in _RUN:
            assert owner.kind in WORKLOADS
            self.remarks.note(f"{owner.title} is not started: only Deployments, StatefulSets and Pods are")
            return None
        self._check_selector(pod)
        volumes = read_volumes(pod, self._references, self.remarks)
        containers = [self._container(pod, node, volumes) for node in items(pod.node, "containers")]
        for node in items(pod.node, "initContainers"):
            self.remarks.note(
                f"init container `{node.text_at('name')}` of {owner.title} is not run: it fetches what only an "
                "account has"
            )
        return PodPlan(
            owner=owner,
            pod=pod,
            containers=tuple(each for each in containers if each is not None),
            files={name: files for name, files in volumes.items() if files is not None},
            grace_seconds=seconds(pod.node.get("terminationGracePeriodSeconds"), _DEFAULT_GRACE_SECONDS),
        )

    def _check_selector(self, pod: Pod) -> None:
        selector = pod.owner.node.get("spec", "selector")
        if pod.owner.kind == "Pod":
            return
        if selector is None or not selects(selector, pod.labels):
            self.remarks.trouble(
                Kind.REFUSED,
                pod.owner.node if selector is None else selector,
                f"`selector` of {pod.owner.title} does not match the labels of its template",
                "write the labels of `spec.template.metadata.labels` into `spec.selector.matchLabels`",
            )

    def _container(self, pod: Pod, node: Node, volumes: Volumes) -> ContainerPlan | None:
        name = node.text_at("name") or "?"
        title = f"container `{name}` of {pod.owner.title}"
        if node.get("command") is None:
            self.remarks.trouble(
                Kind.ELSEWHERE,
                node,
                f"what {title} runs is in its image, which is not pulled here",
                "write `command` into the container",
            )
            return None
        mounts = tuple(self._mounts(node, title, volumes))
        environment = tuple(read_environment(pod, node, title, self._references, self.remarks))
        self._check_paths(node, title, mounts, volumes)
        self._check_resources(node, title)
        startup, readiness, liveness = (
            read_probe(node, key, title, self.remarks)
            for key in ("startupProbe", "readinessProbe", "livenessProbe")
        )
        return ContainerPlan(
            name=name,
            command=tuple(word.text or "" for key in ("command", "args") for word in items(node, key)),
            environment=environment,
            mounts=mounts,
            startup=startup,
            readiness=readiness,
            liveness=liveness,
            pre_stop=read_pre_stop(node),
            worker=self._workers.get(id(node)),
            router=self._routers.get(id(node)),
            node=node,
        )

    def _mounts(self, node: Node, title: str, volumes: Volumes) -> Iterator[Mount]:
        for each in items(node, "volumeMounts"):
            volume, path = each.text_at("name") or "?", each.text_at("mountPath") or "/"
            if volume not in volumes:
                self.remarks.trouble(
                    Kind.REFUSED,
                    each,
                    f"{title} mounts volume `{volume}`, which its pod does not have",
                    f"name one of {', '.join(f'`{known}`' for known in volumes) or 'the volumes of the pod'}",
                )
                continue
            yield Mount(path=path, volume=volume, sub_path=each.text_at("subPath"))

    def _check_paths(self, node: Node, title: str, mounts: tuple[Mount, ...], volumes: Volumes) -> None:
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
                self.remarks.trouble(
                    Kind.BROKEN,
                    word,
                    f"{title} reads `{path}`, and what is mounted at `{folder}` holds "
                    f"{', '.join(f'`{each}`' for each in files)}",
                    "use one name for the file and for the key of the ConfigMap",
                )

    def _check_resources(self, node: Node, title: str) -> None:
        requests = pairs(node, "resources", "requests")
        for name, limit in pairs(node, "resources", "limits").items():
            asked = requests.get(name)
            # an extended resource cannot be overcommitted
            if "/" in name and asked is not None and asked.text != limit.text:
                self.remarks.trouble(
                    Kind.REFUSED,
                    asked,
                    f"{title} requests {asked.text} `{name}` with a limit of {limit.text}",
                    "request as many as the limit says",
                )


def _texts(node: Node) -> Iterator[Node]:
    """Yield everything in a container that may name a path."""
    yield from (*items(node, "command"), *items(node, "args"))
    for entry in items(node, "env"):
        value = entry.get("value")
        if value is not None:
            yield value
    yield from items(node, "lifecycle", "preStop", "exec", "command")
