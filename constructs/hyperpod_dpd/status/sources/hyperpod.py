"""The HyperPod cluster: groups, nodes, events."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.status.observation import Answer, Row, State
from hyperpod_dpd.status.outside import Outside

_SHOWN_EVENTS = 5

_EVENTS_PER_CALL = 100

_LOOKED_THROUGH = 1000
"""Events that are looked through for serious ones: a cluster that scales tells hundreds that are none."""

_NODE_STATES = {
    "Running": State.WELL,
    "Pending": State.BUSY,
    "ShuttingDown": State.BUSY,
    "SystemUpdating": State.BUSY,
    "DeepHealthCheckInProgress": State.BUSY,
    "AttachInProgress": State.BUSY,
    "DetachInProgress": State.BUSY,
}
"""States of nodes; any other needs a look."""

_GROUP_STATES = {
    "InService": State.WELL,
    "Creating": State.BUSY,
    "Updating": State.BUSY,
    "SystemUpdating": State.BUSY,
}


def hyperpod_name(deployment: Deployment) -> str:
    """Return the name of the HyperPod cluster."""
    existing = deployment.cluster.existing
    return existing.hyperpod_name if existing else deployment.cluster_name


def hyperpod(deployment: Deployment, outside: Outside) -> Iterator[Answer]:
    """Yield a row for the cluster and one per instance group of the file or of the cluster."""
    name = hyperpod_name(deployment)
    found = outside.account.client("sagemaker").describe_cluster(ClusterName=name)
    word = found["ClusterStatus"]
    yield Row(
        kind="HyperPod",
        name=name,
        state=_GROUP_STATES.get(word, State.ILL),
        word=word,
        detail=found.get("FailureMessage", ""),
    )
    running = {group["InstanceGroupName"]: group for group in found.get("InstanceGroups", ())}
    wanted = {group.name: group for group in deployment.hyperpod.instance_groups}
    for group_name in dict.fromkeys([*wanted, *running]):
        if group_name not in running:
            yield Row(
                kind="group",
                name=group_name,
                state=State.ILL,
                word="absent",
                detail="in the file, not in the cluster",
            )
            continue
        wish = wanted.get(group_name)
        yield _group(running[group_name], None if wish is None else wish.count, deployment)


def _group(group: dict[str, Any], wanted: int | None, deployment: Deployment) -> Row:
    current, target = group.get("CurrentCount", 0), group.get("TargetCount", 0)
    # a cluster without continuous provisioning has no states of groups
    word = group.get("Status") or "InService"
    state = _GROUP_STATES.get(word, State.ILL)
    detail = f"{current} of {target} `{group.get('InstanceType', 'mixed')}`"
    # a cluster that belongs to others has groups that this file does not name
    if wanted is None and deployment.cluster.existing is None:
        state, detail = State.ILL, f"{detail}; in the cluster, not in the file"
    elif wanted is not None and wanted != target:
        state, detail = State.ILL, f"{detail}; the file wants {wanted}"
    elif current != target and state is State.WELL:
        # with continuous provisioning a group is in service while nodes are still missing
        state = State.BUSY
    return Row(kind="group", name=group["InstanceGroupName"], state=state, word=word, detail=detail)


def nodes(deployment: Deployment, outside: Outside) -> Iterator[Answer]:
    """Yield a row per node with its last event, and a count per state first."""
    client = outside.account.client("sagemaker")
    name = hyperpod_name(deployment)
    pages = client.get_paginator("list_cluster_nodes").paginate(ClusterName=name)
    found = [node for page in pages for node in page["ClusterNodeSummaries"]]
    last = _last_events(client, name)
    counts = Counter(node["InstanceStatus"]["Status"] for node in found)
    for word, number in sorted(counts.items()):
        yield Row(
            kind="nodes", name=word, state=_NODE_STATES.get(word, State.ILL), word=f"{number} of {len(found)}"
        )
    for node in sorted(found, key=lambda node: (node["InstanceGroupName"], node["InstanceId"])):
        status = node["InstanceStatus"]
        yield Row(
            kind="node",
            name=f"{node['InstanceGroupName']}/{node['InstanceId']}",
            state=_NODE_STATES.get(status["Status"], State.ILL),
            word=status["Status"],
            detail=status.get("Message") or last.get(node["InstanceId"], ""),
        )


def _last_events(client: Any, name: str) -> dict[str, str]:
    """Return the last event of each node. Who may not read events still sees the nodes; `events` says what is missing."""
    from botocore.exceptions import ClientError  # noqa: PLC0415 - loaded with the clients

    try:
        found = list(islice(_recent(client, name, ResourceType="Instance"), _EVENTS_PER_CALL))
    except ClientError:
        return {}
    # the newest come first, and the first one stays
    return {event["InstanceId"]: _text(event) for event in reversed(found) if event.get("InstanceId")}


def events(deployment: Deployment, outside: Outside) -> Iterator[Answer]:
    """Yield the newest events that warn of something: a launch that fails appears nowhere else."""
    found = islice(_recent(outside.account.client("sagemaker"), hyperpod_name(deployment)), _LOOKED_THROUGH)
    serious = (event for event in found if event.get("EventLevel", "Info") != "Info")
    for event in islice(serious, _SHOWN_EVENTS):
        subject = event.get("InstanceId") or event.get("InstanceGroupName") or event["ClusterName"]
        yield Row(
            kind="event",
            name=subject,
            state=State.NOTE,
            word=event["EventLevel"],
            detail=_text(event),
        )


def _recent(client: Any, name: str, **narrowed: str) -> Iterator[dict[str, Any]]:
    """Yield events, the newest first, page by page as they are taken."""
    following: dict[str, str] = {}
    while True:
        answer = client.list_cluster_events(
            ClusterName=name,
            SortBy="EventTime",
            SortOrder="Descending",
            MaxResults=_EVENTS_PER_CALL,
            **narrowed,
            **following,
        )
        yield from answer.get("Events", ())
        if not answer.get("NextToken"):
            return
        following = {"NextToken": answer["NextToken"]}


def _text(event: dict[str, Any]) -> str:
    return f"{event['EventTime']:%Y-%m-%d %H:%M} {event.get('Description', '')}".rstrip()
