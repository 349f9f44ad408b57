"""Pods by role, through kubectl."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from hyperpod_dpd.serving import names
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.status.observation import Answer, Row, State, Unseen
from hyperpod_dpd.status.outside import KubectlAbsentError, KubectlError, Outside
from hyperpod_dpd.status.sources.eks import eks_name

_OPERATOR_ROLE_LABEL = "inference.sagemaker.aws.amazon.com/dpd-role"


def pods(deployment: Deployment, outside: Outside) -> Iterator[Answer]:
    """Yield a row per role, and one per pod that is not ready."""
    try:
        _refuse_other_cluster(deployment, outside)
        found = [
            pod
            for namespace in (names.system_namespace(deployment), names.workers_namespace(deployment))
            for pod in outside.kubectl("get", "pods", "--namespace", namespace)["items"]
        ]
    except KubectlAbsentError as error:
        yield Unseen(what="pods", why=str(error), skipped=True)
        return
    except KubectlError as error:
        yield Unseen(what="pods", why=f"kubectl: {error}")
        return
    by_role = defaultdict(list)
    for pod in found:
        by_role[_role(pod)].append(pod)
    wanted = _wanted(deployment)
    for role in sorted({*by_role, *wanted}):
        yield _role_row(role, by_role[role], wanted.get(role))
        yield from (_pod_row(role, pod) for pod in by_role[role] if not is_ready(pod) and not _is_over(pod))


def _refuse_other_cluster(deployment: Deployment, outside: Outside) -> None:
    """Refuse pods of a cluster that only happens to be the current one."""
    name = eks_name(deployment)
    update = (
        f"help: `aws eks update-kubeconfig --region {deployment.region} --name {name}`, or give `--context`"
    )
    try:
        clusters = outside.kubectl("config", "view", "--minify").get("clusters") or []
    except KubectlError as error:
        raise KubectlError(f"{error}. {update}") from None
    server = str(clusters[0]["cluster"]["server"]) if clusters else "none"
    endpoint = str(outside.account.client("eks").describe_cluster(name=name)["cluster"]["endpoint"])
    if _host(server) != _host(endpoint):
        raise KubectlError(f"the current context is of another cluster (`{server}`). {update}")


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").lower()


def _wanted(deployment: Deployment) -> dict[str, int]:
    """Return how many pods each role shall have; a scaled role has no number of its own."""
    serving = deployment.serving
    workers = {"prefill": serving.prefill, "decode": serving.decode}
    fixed = {role: worker.replicas for role, worker in workers.items() if worker.scaling is None}
    scaled = {role: worker.scaling.minimum for role, worker in workers.items() if worker.scaling is not None}
    router = {"router": 1} if serving.backend == "self-managed" else {}
    return {**fixed, **scaled, **router}


def _role(pod: dict[str, Any]) -> str:
    labels = pod["metadata"].get("labels", {})
    return str(labels.get(names.COMPONENT_LABEL) or labels.get(_OPERATOR_ROLE_LABEL) or "other")


def _role_row(role: str, found: list[dict[str, Any]], wanted: int | None) -> Row:
    alive = [pod for pod in found if not _is_over(pod)]
    ready = sum(map(is_ready, alive))
    enough = wanted is None or ready >= wanted
    state = State.WELL if enough and ready == len(alive) else State.BUSY if alive else State.ILL
    of = len(alive) if wanted is None else max(wanted, len(alive))
    return Row(kind="pods", name=role, state=state, word=f"{ready} of {of} ready")


def _pod_row(role: str, pod: dict[str, Any]) -> Row:
    word, detail = _trouble(pod)
    failed = word in (
        "Failed",
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "CreateContainerConfigError",
    )
    return Row(
        kind="pod",
        name=f"{role}/{pod['metadata']['name']}",
        state=State.ILL if failed else State.BUSY,
        word=word,
        detail=detail,
    )


def is_ready(pod: dict[str, Any]) -> bool:
    """Whether the kubelet's readiness probe succeeds."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _is_over(pod: dict[str, Any]) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Succeeded")


def _trouble(pod: dict[str, Any]) -> tuple[str, str]:
    """Return what keeps a pod from being ready: a container that waits, or the scheduler's words."""
    status = pod.get("status", {})
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = container.get("state", {}).get("waiting")
        if waiting:
            return str(waiting.get("reason", "Waiting")), str(waiting.get("message", ""))
    unscheduled = next(
        (
            each
            for each in status.get("conditions", ())
            if each["type"] == "PodScheduled" and each["status"] != "True"
        ),
        None,
    )
    if unscheduled:
        return str(unscheduled.get("reason", "Pending")), str(unscheduled.get("message", ""))
    return ("not ready" if status.get("phase") == "Running" else str(status.get("phase", "unknown"))), ""
