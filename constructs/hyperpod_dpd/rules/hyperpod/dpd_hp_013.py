"""DPD-HP-013: group and cluster names are HyperPod's."""

import re
from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_LIMIT = "1 to 63 letters, digits and hyphens, a letter or digit first and last"


@deployment_rule(
    "DPD-HP-013",
    severity=Severity.ERROR,
    title="names of the cluster and its groups are 1 to 63 letters, digits and hyphens",
    sources=("AWS::SageMaker::Cluster ClusterName and InstanceGroupName",),
)
def names_are_valid(deployment: Deployment) -> Iterator[Problem]:
    """HyperPod refuses other names, and nodes carry the group's name as a label."""
    cluster_name = deployment.hyperpod.cluster_name
    if cluster_name is not None and not _is_name(cluster_name):
        yield _problem("hyperpod.cluster_name", "the cluster's name", cluster_name)
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if not _is_name(group.name):
            yield _problem(f"hyperpod.instance_groups[{index}].name", "a group's name", group.name)


def _is_name(text: str) -> bool:
    # the length first: the pattern alone takes long to refuse a long row of hyphens
    return len(text) <= 63 and _NAME.fullmatch(text) is not None


def _problem(path: str, what: str, given: str) -> Problem:
    shown = given if len(given) <= 80 else f"{given[:80]}…"
    return Problem(
        path=path,
        says=f"{what} is not one that HyperPod takes",
        given=f"`{shown}` ({len(given)} characters)",
        limit=_LIMIT,
        fix="for example `prefill`",
    )
