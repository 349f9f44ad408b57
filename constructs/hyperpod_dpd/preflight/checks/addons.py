"""PRE-EKS-002: EKS offers every add-on in the version that will be installed."""

from collections.abc import Iterator
from typing import Any

from hyperpod_dpd.catalog.eks import Addon, addon_version_key
from hyperpod_dpd.derive.addons import INFERENCE_OPERATOR, addon_version, installed_addons
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

_SHOWN = 3


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    kubernetes = deployment.cluster.kubernetes_version
    pages = (
        account.client("eks").get_paginator("describe_addon_versions").paginate(kubernetesVersion=kubernetes)
    )
    offered = {row["addonName"]: _versions(row) for page in pages for row in page["addons"]}
    for row in installed_addons(deployment):
        problem = _compare(deployment, row, offered.get(row.name, []))
        if problem is not None:
            yield problem


def _versions(row: dict[str, Any]) -> list[str]:
    """Return the versions that EKS offers, newest first."""
    names = [version["addonVersion"] for version in row["addonVersions"]]
    return sorted(names, key=addon_version_key, reverse=True)


def _compare(deployment: Deployment, row: Addon, offered: list[str]) -> Problem | None:
    kubernetes = deployment.cluster.kubernetes_version
    path, wanted = _wanted(deployment, row)
    shown = ", ".join(offered[:_SHOWN])
    if not offered:
        return Problem(
            path=path,
            says="EKS does not offer the add-on here",
            given=f"`{row.name}` for Kubernetes {kubernetes} in `{deployment.region}`",
            fix="choose another region or Kubernetes version",
        )
    if wanted is not None and wanted not in offered:
        return Problem(
            path=path,
            says="EKS does not offer the version of the add-on here",
            given=f"`{row.name}: {wanted}` for Kubernetes {kubernetes}",
            limit=f"newest offered: {shown}",
            fix=f"set `cluster.addon_versions.{row.name}` to one of these",
        )
    floor = row.floor
    if wanted is None and floor is not None and addon_version_key(offered[0]) < addon_version_key(floor):
        return Problem(
            path=path,
            says="every version of the add-on that EKS offers here is too old",
            given=f"`{row.name}` for Kubernetes {kubernetes}",
            computed=f"newest offered: {shown}",
            limit=f"at least {floor}",
            fix="choose another region or Kubernetes version",
        )
    return None


def _wanted(deployment: Deployment, row: Addon) -> tuple[str, str | None]:
    """Return where the version comes from, and the version; None where EKS decides."""
    operator = deployment.platform.inference_operator
    if row.name == INFERENCE_OPERATOR and operator is not None and operator.version is not None:
        return "platform.inference_operator.version", operator.version
    return f"cluster.addon_versions.{row.name}", addon_version(deployment.cluster, row.name)


CHECK = Check(
    id="PRE-EKS-002",
    title="EKS offers the add-ons in their versions",
    calls=(Call(service="eks", operation="DescribeAddonVersions"),),
    look=_look,
)
