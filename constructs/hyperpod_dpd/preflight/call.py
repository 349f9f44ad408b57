"""A call to an AWS API, and the permission that it takes."""

from collections.abc import Callable

from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record

Resources = Callable[[Deployment], tuple[str, ...]]


def everything(_deployment: Deployment) -> tuple[str, ...]:
    """Return `*`: the API knows no narrower resource, or the narrower one is not known before the call."""
    return ("*",)


@record
class Call:
    """An operation that a check may call."""

    service: str
    """Name of the boto3 client."""

    operation: str
    """Name of the operation in the API."""

    on: Resources = everything
    """ARNs on which it is called, for the policy."""

    @property
    def action(self) -> str | None:
        """IAM action that allows the call, or None where nobody can be refused it."""
        call = (self.service, self.operation)
        if call in _FREE:
            return None
        return _ACTIONS.get(call) or f"{_PREFIXES.get(self.service, self.service)}:{self.operation}"


_FREE = {("sts", "GetCallerIdentity")}

_PREFIXES = {"service-quotas": "servicequotas", "amp": "aps", "sso-admin": "sso"}
"""Where the prefix of IAM actions is not the name of the client."""

_ACTIONS = {
    ("s3", "HeadBucket"): "s3:ListBucket",
    ("s3", "ListObjectsV2"): "s3:ListBucket",
    ("s3", "HeadObject"): "s3:GetObject",
    ("service-quotas", "GetAWSDefaultServiceQuota"): "servicequotas:GetAWSDefaultServiceQuota",
}
"""Where the action is not the name of the operation."""


def arn(deployment: Deployment, service: str, resource: str) -> str:
    """Return the ARN of `resource` in the deployment's region and account; `*` for an account that it does not name."""
    return f"arn:aws:{service}:{deployment.region}:{deployment.account or '*'}:{resource}"
