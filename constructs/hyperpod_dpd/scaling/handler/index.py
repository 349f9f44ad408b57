"""Give instance groups of a HyperPod cluster other numbers of nodes.

`UpdateCluster` wants every group with all its settings: a group that is left out is deleted, and a setting that is left
out goes back to its default, one thread per core for example. So what the cluster says about itself is sent back, with
other counts and nothing else changed. Runs on Lambda with the standard library and boto3 only.
"""

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import boto3
from botocore.exceptions import ClientError

RETRY_SECONDS = 30
"""Time between two tries while the cluster is busy with another change."""

_RESERVE_MILLISECONDS = 90_000
"""What a last try and its answer may take before Lambda ends the function."""

_BUSY = "ConflictException"

# what the cluster calls the counts of a group, and what an update calls them
_COUNTS = {"TargetCount": "InstanceCount", "MinCount": "MinInstanceCount"}

# a described setting that is changing has a value of now and one that was asked for; the latter is the setting
_DESIRED = "Desired"

_log = logging.getLogger(__name__)
_log.setLevel(logging.INFO)


class CannotScaleError(RuntimeError):
    """The cluster cannot be given these counts; the message says why."""


def handler(event: Mapping[str, Any], context: Any) -> None:
    """Give the groups of `event["cluster"]` the counts of `event["counts"]`.

    Raises:
        CannotScaleError: a group does not exist, or this version of boto3 does not know one of `event["settings"]`.
        botocore.exceptions.ClientError: SageMaker refuses, or is busy for longer than the function may run.
    """

    def may_wait() -> bool:
        return int(context.get_remaining_time_in_millis()) > _RESERVE_MILLISECONDS + RETRY_SECONDS * 1000

    scale(
        boto3.client("sagemaker"),
        event["cluster"],
        event["counts"],
        settings=event["settings"],
        may_wait=may_wait,
        sleep=time.sleep,
    )


def scale(
    client: Any,
    cluster: str,
    counts: Mapping[str, int],
    *,
    settings: Collection[str] = (),
    may_wait: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Give groups the `counts` by their names and return whether that changed anything.

    Args:
        client: SageMaker.
        cluster: name of the HyperPod cluster.
        counts: nodes by name of the group; other groups stay as they are.
        settings: settings of groups that `client` has to know, lest it drops them from what it sends back.
        may_wait: says whether to try again later while the cluster is busy.
        sleep: waits for some seconds.

    Raises:
        CannotScaleError: a group does not exist, or `client` does not know one of the `settings`.
        botocore.exceptions.ClientError: SageMaker refuses.
    """
    known = client.meta.service_model.shape_for("ClusterInstanceGroupSpecification")
    if strangers := sorted(set(settings) - set(known.members)):
        raise CannotScaleError(
            f"this version of boto3 does not know {_listed(strangers)} of an instance group and would reset it. "
            "help: deploy again with the values in the deployment file"
        )
    while True:
        groups = client.describe_cluster(ClusterName=cluster)["InstanceGroups"]
        wanted = request(groups, counts, known)
        if wanted == request(groups, {}, known):
            _log.info("%s has these counts already: %s", cluster, json.dumps(dict(counts)))
            return False
        try:
            client.update_cluster(ClusterName=cluster, InstanceGroups=wanted)
        except ClientError as error:
            if error.response["Error"]["Code"] != _BUSY or not may_wait():
                raise
            _log.info("%s is busy: %s", cluster, error)
            sleep(RETRY_SECONDS)
        else:
            _log.info("%s gets %s", cluster, json.dumps(dict(counts)))
            return True


def request(
    groups: Collection[Mapping[str, Any]], counts: Mapping[str, int], known: Any
) -> list[dict[str, Any]]:
    """Return `groups`, as the cluster describes them, as an update takes them (shape `known`), with other `counts`.

    The image is not sent: a described image is an id also where the group follows HyperPod's default.

    Raises:
        CannotScaleError: a group of `counts` does not exist.
    """
    names = [group["InstanceGroupName"] for group in groups]
    if strangers := sorted(set(counts) - set(names)):
        raise CannotScaleError(
            f"the cluster has no instance group {_listed(strangers)}, only {_listed(names)}. "
            "help: deploy the HyperPod stack first"
        )
    return [_group(group, counts, known) for group in groups]


def _group(group: Mapping[str, Any], counts: Mapping[str, int], known: Any) -> dict[str, Any]:
    kept = {name: _asked(group[name], shape) for name, shape in known.members.items() if name in group}
    kept |= {sent: group[said] for said, sent in _COUNTS.items() if said in group}
    count = counts.get(group["InstanceGroupName"])
    if count is None:
        return kept
    kept["InstanceCount"] = count
    if "MinInstanceCount" in kept:
        kept["MinInstanceCount"] = min(kept["MinInstanceCount"], count)
    return kept


def _asked(said: Any, known: Any) -> Any:
    """Return what was asked for, where `said` is what became of it."""
    if known.type_name == "list":
        return [_asked(each, known.member) for each in said]
    if known.type_name != "structure":
        return said
    asked = {}
    for name, shape in known.members.items():
        if name in said:
            asked[name] = _asked(said[name], shape)
        elif desired := said.get(_DESIRED + name):
            asked[name] = _asked(desired, shape)
    return asked


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
