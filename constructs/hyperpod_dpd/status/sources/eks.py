"""The EKS cluster and its add-ons."""

from collections.abc import Iterator, Sequence
from typing import Any

from hyperpod_dpd.derive.addons import installed_addons
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.status.observation import Answer, Row, State
from hyperpod_dpd.status.outside import Outside


def eks_name(deployment: Deployment) -> str:
    """Return the name of the EKS cluster."""
    existing = deployment.cluster.existing
    return existing.eks_name if existing else deployment.name


def eks(deployment: Deployment, outside: Outside) -> Iterator[Answer]:
    """Yield a row for the cluster and one per add-on of the cluster or, where it is its own, of the deployment."""
    client = outside.account.client("eks")
    name = eks_name(deployment)
    cluster = client.describe_cluster(name=name)["cluster"]
    yield _row("EKS", name, cluster, f"Kubernetes {cluster.get('version', 'unknown')}")
    pages = client.get_paginator("list_addons").paginate(clusterName=name)
    running = [addon_name for page in pages for addon_name in page["addons"]]
    wanted = [] if deployment.cluster.existing else [row.name for row in installed_addons(deployment)]
    for addon_name in (each for each in wanted if each not in running):
        detail = "the deployment installs it, and it is not on the cluster"
        yield Row(kind="add-on", name=addon_name, state=State.ILL, word="absent", detail=detail)
    for addon_name in running:
        addon = client.describe_addon(clusterName=name, addonName=addon_name)["addon"]
        yield _row("add-on", addon_name, addon, str(addon.get("addonVersion", "")))


def _row(kind: str, name: str, found: dict[str, Any], version: str) -> Row:
    issues: Sequence[dict[str, Any]] = found.get("health", {}).get("issues", ())
    word = str(found["status"])
    state = State.ILL
    if word == "ACTIVE" and not issues:
        state = State.WELL
    elif word in ("CREATING", "UPDATING", "PENDING") and not issues:
        state = State.BUSY
    said = "; ".join(f"{issue.get('code')}: {issue.get('message')}" for issue in issues)
    return Row(kind=kind, name=name, state=state, word=word, detail=said or version)
