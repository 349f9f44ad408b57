"""DPD-SPEC-004: the account is twelve digits."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SPEC-004",
    severity=Severity.ERROR,
    title="the account is twelve digits",
    sources=("AWS account ids",),
)
def account_is_digits(deployment: Deployment) -> Iterator[Problem]:
    """The account is written into ARNs and bucket names long before AWS is asked whether it exists."""
    account = deployment.account
    if account is not None and not (account.isascii() and account.isdigit()):
        yield Problem(
            path="account",
            says="not an AWS account",
            given=f"`account: {account}`",
            limit="12 digits",
            fix="`aws sts get-caller-identity` shows it; leave it out to use the CLI's",
        )
