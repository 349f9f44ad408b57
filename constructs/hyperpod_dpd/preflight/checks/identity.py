"""PRE-ACC-001: the credentials belong to the deployment's account."""

from collections.abc import Iterator

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    if account.region != deployment.region:
        yield Problem(
            path="region",
            says="the deployment is for another region",
            given=f"`region: {deployment.region}`",
            computed=f"asked about `{account.region}`",
            fix="leave `--region` out, or name the deployment of that region",
        )
    actual = account.account_id
    if deployment.account not in (None, actual):
        yield Problem(
            path="account",
            says="the credentials belong to another account",
            given=f"`account: {deployment.account}`",
            computed=f"account `{actual}` of the caller",
            fix=f"give the `--profile` of {deployment.account}, or correct `account`",
        )


CHECK = Check(
    id="PRE-ACC-001",
    title="the credentials belong to the deployment's account",
    calls=(Call(service="sts", operation="GetCallerIdentity"),),
    look=_look,
)
