"""The API server, as far as the proof needs it: pods, their logs, and an Event."""

import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from hyperpod_dpd.evidence.proof.options import Place
from hyperpod_dpd.evidence.proof.web import Answer, NoAnswerError, ask

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECONDS: Final = 15.0
_LONGEST_MESSAGE: Final = 1024
"""Characters of an Event's message (Kubernetes API, core/v1 Event)."""

_LOG_BYTES: Final = 4 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that has not ended."""

    name: str
    node: str
    address: str
    """Empty: it has none yet."""

    containers: tuple[str, ...]

    def url(self, port: int) -> str:
        """Return the URL of `port`."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{port}"


class Api:
    """The API server, with the rights of a ServiceAccount."""

    def __init__(self, *, url: str, token: str, context: ssl.SSLContext | None) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._context = context

    @classmethod
    def in_cluster(cls) -> Self:
        """Return the API server of the cluster on which this runs.

        Raises:
            OSError: this runs on no cluster.
        """
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port:
            raise OSError("this does not run on a cluster. help: give `--prefiller` and `--decoder`")
        host = f"[{host}]" if ":" in host else host
        return cls(
            url=f"https://{host}:{port}",
            token=(_ACCOUNT / "token").read_text(encoding="utf-8").strip(),
            context=_trusting(_ACCOUNT / "ca.crt"),
        )

    def pods(self, place: Place) -> tuple[Pod, ...]:
        """Return the pods at `place` that have not ended, by name.

        Raises:
            OSError: the API server does not answer, or says no.
        """
        found = self._ask(f"/api/v1/namespaces/{place.namespace}/pods?labelSelector={quote(place.selector)}")
        try:
            return tuple(sorted(_pods(found.json()), key=lambda pod: pod.name))
        except (ValueError, KeyError, TypeError) as error:
            raise OSError(f"the API server's list of pods cannot be read: {error!r}") from None

    def log(self, place: Place, pod: Pod, container: str, *, seconds: float) -> str:
        """Return what a container has logged in the last so many seconds.

        Raises:
            OSError: the API server does not answer, says no, or sends only the beginning, which is all that it cuts out.
        """
        since = max(1, round(seconds) + 1)
        path = (
            f"/api/v1/namespaces/{place.namespace}/pods/{pod.name}/log"
            f"?container={quote(container)}&sinceSeconds={since}&limitBytes={_LOG_BYTES}"
        )
        answer = self._ask(path)
        if len(answer.data) >= _LOG_BYTES:
            raise NoAnswerError(
                f"the log of `{pod.name}` has more than {_LOG_BYTES} bytes in {since} seconds"
            )
        return answer.text

    def tell(self, *, namespace: str, job: str, proved: bool, message: str) -> None:
        """Create an Event about a Job.

        Raises:
            OSError: the API server does not answer, or says no.
        """
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{job}.", "namespace": namespace},
            "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "namespace": namespace, "name": job},
            "type": "Normal" if proved else "Warning",
            "reason": "HandOffProved" if proved else "HandOffNotProved",
            "message": message[:_LONGEST_MESSAGE],
            "source": {"component": "dpd-proof"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._ask(f"/api/v1/namespaces/{namespace}/events", body=event)

    def _ask(self, path: str, body: Any = None) -> Answer:
        answer = ask(
            self._url + path, seconds=_SECONDS, body=body, headers=self._headers, context=self._context
        )
        if answer.status >= 300:
            raise NoAnswerError(f"the API server answers {answer.status} to `{path.partition('?')[0]}`")
        return answer


def _trusting(authority: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority))
    # Python 3.13 and later refuse certificates without an authority key identifier by default, and those of EKS have
    # none (awslabs/mcp #3791); chain, dates and host name are checked all the same
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _pods(listed: dict[str, Any]) -> Iterator[Pod]:
    for item in listed["items"]:
        status, metadata = item.get("status", {}), item["metadata"]
        ended = status.get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in metadata
        if ended:
            continue
        yield Pod(
            name=metadata["name"],
            node=item["spec"].get("nodeName", ""),
            address=status.get("podIP", ""),
            containers=tuple(container["name"] for container in item["spec"]["containers"]),
        )
