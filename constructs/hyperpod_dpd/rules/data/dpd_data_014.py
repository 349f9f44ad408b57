"""DPD-DATA-014: secrets are of the deployment's region and account."""

from collections.abc import Iterator

from hyperpod_dpd.derive.secrets import account_of_arn, named_secrets, region_of_arn
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-DATA-014",
    severity=Severity.ERROR,
    title="secrets are of the deployment's region and account",
    sources=(
        "External Secrets AWS provider: one region per store",
        "Secrets Manager user guide, replication",
    ),
)
def secrets_are_near(deployment: Deployment) -> Iterator[Problem]:
    """The store reads one region with one role: a secret from elsewhere stays empty, and pods wait for it for ever."""
    for secret in named_secrets(deployment):
        region, account = region_of_arn(secret.name), account_of_arn(secret.name)
        if region is not None and region != deployment.region:
            yield Problem(
                path=secret.path,
                says="the secret is of another region",
                given=f"`{secret.name}`",
                computed=f"it is in `{region}`",
                limit=f"`{deployment.region}`",
                fix=f"replicate it: `aws secretsmanager replicate-secret-to-regions --region {region} "
                f"--secret-id {secret.name} --add-replica-regions Region={deployment.region}`",
            )
        elif account is not None and deployment.account is not None and account != deployment.account:
            yield Problem(
                path=secret.path,
                says="the secret is of another account",
                given=f"`{secret.name}`",
                limit=f"account `{deployment.account}`",
                fix="store the value in a secret of this account: `dpd secret set NAME`",
            )
