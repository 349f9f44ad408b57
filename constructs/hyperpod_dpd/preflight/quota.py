"""How many of something the account may have, and how a shortage reads."""

from botocore.exceptions import ClientError

from hyperpod_dpd.catalog.quotas import Quota
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.rules.finding import Problem

QUOTA_CALLS = (
    Call(service="service-quotas", operation="GetServiceQuota"),
    Call(service="service-quotas", operation="GetAWSDefaultServiceQuota"),
)
"""What `limit` calls. Neither knows resources."""


def limit(account: Account, quota: Quota) -> float:
    """Return the applied value of `quota`, AWS's default where the account never had one of its own."""
    client = account.client("service-quotas")
    asked = {"ServiceCode": quota.service, "QuotaCode": quota.code}
    try:
        answer = client.get_service_quota(**asked)
    except ClientError as error:
        if code_of(error) != "NoSuchResourceException":
            raise
        answer = client.get_aws_default_service_quota(**asked)
    return float(answer["Quota"]["Value"])


def shortage(
    account: Account, quota: Quota, *, path: str, given: str, needed: int, used: int = 0, used_by: str = ""
) -> Problem | None:
    """Return the problem when `needed` beside what is `used` already exceeds `quota`, otherwise None."""
    allowed = limit(account, quota)
    total = needed + used
    if total <= allowed:
        return None
    return Problem(
        path=path,
        says=f"the account's quota {quota} is too small",
        given=given,
        computed=f"{needed:,} needed + {used:,} in use{used_by} = {total:,}"
        if used
        else f"{needed:,} needed",
        limit=f"{allowed:,.0f}",
        fix=f"`aws service-quotas request-service-quota-increase --service-code {quota.service} "
        f"--quota-code {quota.code} --desired-value {total}`; it is granted in minutes to days",
    )
