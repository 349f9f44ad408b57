"""Whether pods do what was asked of them: rollouts, jobs, services, states of custom resources."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hyperpod_dpd.readiness.poller.kubernetes import ApiError, KubernetesApi
from hyperpod_dpd.readiness.poller.verdict import MET, Verdict, failed, waiting

_NOT_FOUND = 404
_ALREADY_THERE = 409


def rollout(requirement: Mapping[str, Any], *, kubernetes: KubernetesApi) -> Verdict:
    """Judge a Deployment, DaemonSet or StatefulSet: every pod of the newest revision is available.

    Raises:
        ApiError: Kubernetes does not answer.
    """
    kind, namespace, name = requirement["kind"], requirement["namespace"], requirement["name"]
    label = f"{kind} `{namespace}/{name}`"
    found = _find(kubernetes, f"/apis/apps/v1/namespaces/{namespace}/{kind}s/{name}")
    if found is None:
        return waiting(f"{label} does not exist yet")
    status = found.get("status", {})
    if status.get("observedGeneration", 0) < found["metadata"].get("generation", 0):
        return waiting(f"{label} has not been looked at by its controller yet")
    wanted, updated, available = _counts(kind, found["spec"], status)
    if updated >= wanted and available >= wanted and status.get("replicas", wanted) <= wanted:
        return MET
    troubles = "; ".join(_pod_troubles(kubernetes, namespace, found["spec"]["selector"]))
    text = f"{label} has {available} of {wanted} pods available{f': {troubles}' if troubles else ''}"
    if any(entry.get("reason") == "ProgressDeadlineExceeded" for entry in status.get("conditions", ())):
        return failed(f"{text} (it made no progress for `progressDeadlineSeconds`)")
    return waiting(text)


def job_complete(requirement: Mapping[str, Any], *, kubernetes: KubernetesApi) -> Verdict:
    """Judge a Job: complete, or failed with what its pods wrote before they ended.

    Raises:
        ApiError: Kubernetes does not answer.
    """
    namespace, name = requirement["namespace"], requirement["name"]
    label = f"job `{namespace}/{name}`"
    found = _find(kubernetes, f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    if found is None:
        return waiting(f"{label} does not exist yet")
    conditions = _conditions(found)
    if conditions.get("Complete", {}).get("status") == "True":
        return MET
    selector = {"matchLabels": {"batch.kubernetes.io/job-name": name}}
    if conditions.get("Failed", {}).get("status") == "True":
        words = "; ".join(_last_words(kubernetes, namespace, selector))
        return failed(f"{label} failed: {words or conditions['Failed'].get('message', '')}")
    troubles = "; ".join(_pod_troubles(kubernetes, namespace, selector))
    return waiting(f"{label} has not ended{f': {troubles}' if troubles else ''}")


def service_answers(requirement: Mapping[str, Any], *, kubernetes: KubernetesApi) -> Verdict:
    """Judge a Service: a ready pod stands behind it.

    Raises:
        ApiError: Kubernetes does not answer.
    """
    namespace, name = requirement["namespace"], requirement["name"]
    slices = kubernetes.items(
        f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        labelSelector=f"kubernetes.io/service-name={name}",
    )
    # no word about readiness means ready
    ready = any(
        endpoint.get("conditions", {}).get("ready") is not False
        for entry in slices
        for endpoint in entry.get("endpoints") or ()
    )
    return MET if ready else waiting(f"service `{namespace}/{name}` has no ready endpoint")


def resource_state(requirement: Mapping[str, Any], *, kubernetes: KubernetesApi) -> Verdict:
    """Judge a custom resource by the word in its `status.state`, once its controller has seen the newest generation.

    Raises:
        ApiError: Kubernetes does not answer.
    """
    label = f"`{requirement['path']}`"
    found = _find(kubernetes, requirement["path"])
    if found is None:
        return waiting(f"{label} does not exist yet")
    status = found.get("status", {})
    if status.get("observedGeneration", 0) < found["metadata"].get("generation", 0):
        return waiting(f"{label} has not been looked at by its controller yet")
    state = status.get("state")
    messages = "; ".join(entry["message"] for entry in status.get("conditions") or () if entry.get("message"))
    text = f"{label} is `{state}`{f': {messages}' if messages else ''}"
    if state == requirement["failed"]:
        return failed(text)
    return MET if state == requirement["complete"] else waiting(text)


def webhook_answers(requirement: Mapping[str, Any], *, kubernetes: KubernetesApi) -> Verdict:
    """Judge a webhook by a rehearsed creation that the API server has to ask it about.

    Raises:
        ApiError: Kubernetes does not answer.
    """
    try:
        kubernetes.try_to_create(requirement["path"], requirement["body"])
    except ApiError as error:
        if error.status != _ALREADY_THERE:
            return waiting(f"the webhook for `{requirement['path']}` does not answer: {error}")
    return MET


def _find(kubernetes: KubernetesApi, path: str) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = kubernetes.get(path)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return None
        raise
    return found


def _conditions(found: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {entry["type"]: entry for entry in found.get("status", {}).get("conditions") or ()}


def _counts(kind: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return how many pods are wanted, of the newest revision, and available."""
    if kind == "daemonset":
        return (
            status.get("desiredNumberScheduled", 0),
            status.get("updatedNumberScheduled", 0),
            status.get("numberAvailable", 0),
        )
    return spec.get("replicas", 1), status.get("updatedReplicas", 0), status.get("availableReplicas", 0)


def _pods(kubernetes: KubernetesApi, namespace: str, selector: Mapping[str, Any]) -> Iterator[Any]:
    labels = ",".join(f"{name}={value}" for name, value in selector.get("matchLabels", {}).items())
    return kubernetes.items(f"/api/v1/namespaces/{namespace}/pods", labelSelector=labels)


def _pod_troubles(kubernetes: KubernetesApi, namespace: str, selector: Mapping[str, Any]) -> Iterator[str]:
    """Yield what keeps pods from running, each reason once."""
    troubles: dict[str, None] = {}
    for pod in _pods(kubernetes, namespace, selector):
        scheduled = _conditions(pod).get("PodScheduled", {})
        if scheduled.get("status") == "False":
            troubles[f"cannot be scheduled: {scheduled.get('message', '')}"] = None
        for container in _containers(pod):
            held = container.get("state", {}).get("waiting", {})
            if held.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                ended = container.get("lastState", {}).get("terminated", {})
                words = ended.get("message") or held.get("message") or ""
                troubles[f"container `{container['name']}` {held['reason']}: {words}".rstrip(": ")] = None
    return iter(troubles)


def _last_words(kubernetes: KubernetesApi, namespace: str, selector: Mapping[str, Any]) -> Iterator[str]:
    for pod in _pods(kubernetes, namespace, selector):
        for container in _containers(pod):
            ended = container.get("state", {}).get("terminated", {})
            if ended.get("exitCode"):
                words = ended.get("message") or ended.get("reason", "")
                yield f"container `{container['name']}` ended with {ended['exitCode']}: {words}".rstrip(": ")


def _containers(pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    status = pod.get("status", {})
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
