"""PRE-ACC-002: the account has enabled the region."""

from collections.abc import Iterator

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    answer = account.client("ec2").describe_regions(AllRegions=True)
    states = {row["RegionName"]: row["OptInStatus"] for row in answer["Regions"]}
    state = states.get(deployment.region, "unknown to this account")
    if state not in ("opt-in-not-required", "opted-in"):
        yield Problem(
            path="region",
            says="the account has not enabled the region",
            given=f"`region: {deployment.region}`",
            computed=f"the region is `{state}`",
            fix=f"`aws account enable-region --region-name {deployment.region}`; it takes minutes to hours",
        )


CHECK = Check(
    id="PRE-ACC-002",
    title="the account has enabled the region",
    calls=(Call(service="ec2", operation="DescribeRegions"),),
    look=_look,
)
