"""Whether an EKS add-on works."""

from collections.abc import Mapping
from typing import Any

from hyperpod_dpd.readiness.poller.verdict import MET, Verdict, failed, waiting

_FAILED = ("CREATE_FAILED", "UPDATE_FAILED", "DELETE_FAILED")


def addon_active(requirement: Mapping[str, Any], *, cluster_name: str, eks: Any) -> Verdict:
    """Judge the add-on of `requirement`: CloudFormation takes `DEGRADED` for created, this does not.

    Raises:
        botocore.exceptions.ClientError: EKS does not answer.
    """
    name = requirement["name"]
    addon = eks.describe_addon(clusterName=cluster_name, addonName=name)["addon"]
    status = addon["status"]
    if status == "ACTIVE":
        return MET
    issues = "; ".join(
        f"{issue['code']}: {issue['message']}" for issue in addon.get("health", {}).get("issues", ())
    )
    text = f"add-on `{name}` is `{status}`{f': {issues}' if issues else ''}"
    return failed(text) if status in _FAILED else waiting(text)
