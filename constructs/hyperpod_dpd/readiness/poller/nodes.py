"""Whether the nodes of the instance groups run, are healthy and offer their devices."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hyperpod_dpd.readiness.poller.kubernetes import KubernetesApi
from hyperpod_dpd.readiness.poller.verdict import MET, Verdict, failed, together, waiting

PATIENCE = timedelta(minutes=30)
"""How long HyperPod, which retries for ever, may go on failing before the wait gives up."""

STILL_FAILING = timedelta(minutes=15)
"""A failure older than this may have been overcome."""

GROUP_LABEL = "sagemaker.amazonaws.com/instance-group-name"
HEALTH_LABEL = "sagemaker.amazonaws.com/node-health-status"

_LOST = ("Failed", "Deleting")
_EVENTS = 100


def nodes_healthy(
    requirement: Mapping[str, Any],
    *,
    cluster_name: str,
    sagemaker: Any,
    kubernetes: KubernetesApi,
    started: datetime,
    now: datetime,
) -> Verdict:
    """Judge the groups of `requirement` on the HyperPod cluster `cluster_name`.

    Raises:
        botocore.exceptions.ClientError: SageMaker does not answer.
        ApiError: Kubernetes does not answer.
    """
    cluster = sagemaker.describe_cluster(ClusterName=cluster_name)
    look = _Look(cluster, cluster_name=cluster_name, sagemaker=sagemaker, started=started, now=now)
    if cluster["ClusterStatus"] in _LOST:
        return failed(
            f"HyperPod cluster `{cluster_name}` is `{cluster['ClusterStatus']}`: "
            f"{cluster.get('FailureMessage') or look.last_words(None)}"
        )
    wanted: Sequence[Mapping[str, Any]] = requirement["groups"]
    verdict = together(look.group(group) for group in wanted)
    return verdict if verdict is not MET else _in_kubernetes(wanted, kubernetes)


class _Look:
    """What SageMaker says about the groups, asked at most once each."""

    def __init__(
        self,
        cluster: Mapping[str, Any],
        *,
        cluster_name: str,
        sagemaker: Any,
        started: datetime,
        now: datetime,
    ) -> None:
        self._groups = {group["InstanceGroupName"]: group for group in cluster.get("InstanceGroups", ())}
        self._continuous = cluster.get("NodeProvisioningMode") == "Continuous"
        self._cluster_name = cluster_name
        self._sagemaker = sagemaker
        self._started = started
        self._now = now
        self._nodes: list[Mapping[str, Any]] | None = None
        self._newest_events: list[Mapping[str, Any]] | None = None

    def group(self, wanted: Mapping[str, Any]) -> Verdict:
        """Judge one instance group."""
        name, count = wanted["name"], wanted["count"]
        found = self._groups.get(name)
        if found is None:
            return failed(f"instance group `{name}` is not in HyperPod cluster `{self._cluster_name}`")
        target = found.get("TargetCount", 0)
        if target < count:
            # a minimum that is not met within three hours ends like this, and the cluster says `InService`
            return failed(
                f"instance group `{name}` was set to {target} of {count} nodes: {self.last_words(name)}"
            )
        if found.get("Status") == "Failed":
            return failed(f"instance group `{name}` failed: {self.last_words(name)}")
        nodes = [node for node in self._all_nodes() if node["InstanceGroupName"] == name]
        states = Counter(node["InstanceStatus"]["Status"] for node in nodes)
        if states["Running"] >= count:
            return MET
        so_far = f"instance group `{name}` has {states['Running']} of {count} nodes running"
        ill = [node for node in nodes if node["InstanceStatus"]["Status"] == "Failure"]
        if (ill and not self._continuous) or self._keeps_failing(name):
            return failed(f"{so_far}: {self.last_words(name)}")
        others = ", ".join(
            f"{number} {state}" for state, number in sorted(states.items()) if state != "Running"
        )
        return waiting(f"{so_far}{f' ({others})' if others else ''}")

    def last_words(self, group: str | None) -> str:
        """Return why the newest failure of `group`, or of the cluster, happened, in HyperPod's own words."""
        for event in self._events(group):
            if event["EventLevel"] != "Info":
                return self._in_full(event)
        messages = [
            node["InstanceStatus"]["Message"]
            for node in self._all_nodes()
            if group in (None, node["InstanceGroupName"]) and node["InstanceStatus"].get("Message")
        ]
        return (
            messages[0] if messages else "HyperPod gives no reason; see `aws sagemaker list-cluster-events`"
        )

    def _keeps_failing(self, group: str) -> bool:
        """Whether errors go on that began long ago; a single one is retried and often overcome."""
        times: list[datetime] = [
            event["EventTime"]
            for event in self._events(group)
            if event["EventLevel"] == "Error" and event["EventTime"] >= self._started
        ]
        if not times:
            return False
        return self._now - min(times) >= PATIENCE and self._now - max(times) <= STILL_FAILING

    def _events(self, group: str | None) -> Iterator[Mapping[str, Any]]:
        if self._newest_events is None:
            self._newest_events = (
                self._sagemaker.list_cluster_events(
                    ClusterName=self._cluster_name,
                    SortBy="EventTime",
                    SortOrder="Descending",
                    MaxResults=_EVENTS,
                )["Events"]
                if self._continuous
                else []
            )
        for event in self._newest_events:
            # an event of the cluster, such as a subnet without addresses, concerns every group
            if group is None or event.get("InstanceGroupName", group) == group:
                yield event

    def _in_full(self, event: Mapping[str, Any]) -> str:
        """Return the event's text with the failure message that only its details have."""
        details = self._sagemaker.describe_cluster_event(
            ClusterName=self._cluster_name, EventId=event["EventId"]
        )["EventDetails"]
        metadata = details.get("EventDetails", {}).get("EventMetadata", {})
        messages = [part["FailureMessage"] for part in metadata.values() if part.get("FailureMessage")]
        description = event.get("Description", "")
        return " ".join(dict.fromkeys(text for text in (description, *messages) if text))

    def _all_nodes(self) -> list[Mapping[str, Any]]:
        if self._nodes is None:
            pages = self._sagemaker.get_paginator("list_cluster_nodes").paginate(
                ClusterName=self._cluster_name
            )
            self._nodes = [node for page in pages for node in page["ClusterNodeSummaries"]]
        return self._nodes


def _in_kubernetes(groups: Sequence[Mapping[str, Any]], kubernetes: KubernetesApi) -> Verdict:
    """Judge the nodes as the scheduler sees them: joined, ready, healthy, with their devices registered."""
    names = ",".join(group["name"] for group in groups)
    nodes = list(kubernetes.items("/api/v1/nodes", labelSelector=f"{GROUP_LABEL} in ({names})"))
    return together(
        _group_in_kubernetes(
            group, [node for node in nodes if node["metadata"]["labels"][GROUP_LABEL] == group["name"]]
        )
        for group in groups
    )


def _group_in_kubernetes(group: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> Verdict:
    troubles = {node["metadata"]["name"]: _trouble(node, group["devices"]) for node in nodes}
    usable = sum(trouble is None for trouble in troubles.values())
    if usable >= group["count"]:
        return MET
    reasons = "".join(f"; `{name}` {trouble}" for name, trouble in troubles.items() if trouble)
    return waiting(
        f"instance group `{group['name']}` has {usable} of {group['count']} nodes usable in Kubernetes{reasons}"
    )


def _trouble(node: Mapping[str, Any], devices: Mapping[str, int]) -> str | None:
    conditions = {entry["type"]: entry["status"] for entry in node["status"].get("conditions", ())}
    if conditions.get("Ready") != "True":
        return "is not ready"
    health = node["metadata"]["labels"].get(HEALTH_LABEL, "Schedulable")
    if health != "Schedulable":
        return f"has the health status `{health}`"
    if node.get("spec", {}).get("unschedulable"):
        return "is cordoned"
    offered = node["status"].get("allocatable", {})
    for name, count in devices.items():
        number = int(offered.get(name, "0"))
        if number < count:
            return f"offers {number} of {count} `{name}`"
    return None


def utc_now() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)
