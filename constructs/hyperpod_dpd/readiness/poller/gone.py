"""Whether namespaces are gone, and why not."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from hyperpod_dpd.readiness.poller.kubernetes import ApiError, KubernetesApi

LONGEST = timedelta(minutes=40)
"""Time for finalizers; Lambda starts a function that raises twice more, which makes three times 14 minutes."""

PAUSE_SECONDS = 10.0
_NOT_FOUND = 404


class StillThereError(Exception):
    """Namespaces are not gone, and the function's time is nearly over; Lambda runs it again."""


def remaining(
    namespaces: Sequence[str],
    *,
    kubernetes: KubernetesApi,
    now: Callable[[], datetime],
    seconds_left: Callable[[], float],
    pause: Callable[[float], None] = time.sleep,
) -> str | None:
    """Wait until `namespaces` are gone and return None, or return what holds one that should be gone by now.

    Raises:
        StillThereError: the time of this run is over.
    """
    while True:
        found = dict(_found(namespaces, kubernetes))
        if not found:
            return None
        for name, namespace in found.items():
            since = namespace["metadata"].get("deletionTimestamp")
            if since is None:
                return (
                    f"namespace `{name}` is there and nobody deletes it: objects of others may be in it, or Helm failed "
                    f"before it knew of it. help: `kubectl get all,ingress --namespace {name}`, then `kubectl delete "
                    f"namespace {name}` and delete the stack again"
                )
            if now() - datetime.fromisoformat(since) >= LONGEST:
                return f"namespace `{name}` is being deleted since {since}: {_holders(namespace)}"
        if seconds_left() < 3 * PAUSE_SECONDS:
            raise StillThereError(f"namespaces are still being deleted: {', '.join(found)}")
        pause(PAUSE_SECONDS)


def _found(namespaces: Sequence[str], kubernetes: KubernetesApi) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in namespaces:
        try:
            yield name, kubernetes.get(f"/api/v1/namespaces/{name}")
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise


def _holders(namespace: Mapping[str, Any]) -> str:
    messages = [
        entry["message"]
        for entry in namespace.get("status", {}).get("conditions") or ()
        if entry["status"] == "True" and entry.get("message")
    ]
    return "; ".join(messages) or "Kubernetes does not say what is left in it"
