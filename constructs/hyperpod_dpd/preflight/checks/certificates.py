"""PRE-TLS-001: the certificates are issued, in the region, and not about to end."""

from collections.abc import Iterator
from datetime import timedelta

from botocore.exceptions import ClientError

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import code_of, explain
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

_MARGIN = timedelta(days=14)
"""ACM warns 45 days ahead and renews by itself where it can; what is left at two weeks will not be renewed in time."""


def _certificates(deployment: Deployment) -> Iterator[tuple[str, str]]:
    balancer = deployment.routing.load_balancer
    if balancer is not None and balancer.certificate_arn is not None:
        yield "routing.load_balancer.certificate_arn", balancer.certificate_arn
    certificate = deployment.serving.operator.certificate
    given = certificate.arn if certificate else None
    if deployment.serving.backend == "operator" and given:
        yield "serving.operator.certificate.arn", given


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    for path, certificate_arn in _certificates(deployment):
        parts = certificate_arn.split(":")
        actual = parts[3] if len(parts) > 3 else ""
        if actual != deployment.region:
            yield Problem(
                path=path,
                says="the certificate is in another region",
                given=f"`{certificate_arn}`",
                computed=f"`{actual}`",
                limit=f"`{deployment.region}`: a load balancer uses certificates of its own region",
                fix="request one there: `aws acm request-certificate`",
            )
            continue
        try:
            yield from _certificate(account, path, certificate_arn)
        except ClientError as error:
            yield explain(error).gap(f"the certificate `{certificate_arn}`")


def _certificate(account: Account, path: str, certificate_arn: str) -> Iterator[Problem]:
    given = f"`{certificate_arn}`"
    try:
        row = account.client("acm").describe_certificate(CertificateArn=certificate_arn)["Certificate"]
    except ClientError as error:
        if code_of(error) != "ResourceNotFoundException":
            raise
        yield Problem(
            path=path,
            says="the certificate does not exist",
            given=given,
            fix="`aws acm list-certificates` lists those there are",
        )
        return
    if row["Status"] != "ISSUED":
        yield Problem(
            path=path,
            says="the certificate is not issued",
            given=given,
            computed=f"status `{row['Status']}`",
            limit="`ISSUED`",
            fix="finish its validation; a pending one waits for a DNS record or a mail",
        )
    elif "NotAfter" in row and row["NotAfter"] < account.now() + _MARGIN:
        yield Problem(
            path=path,
            says="the certificate is about to end",
            given=given,
            computed=f"it ends {row['NotAfter']:%Y-%m-%d}",
            limit=f"at least {_MARGIN.days} days",
            fix="renew or replace it",
        )


CHECK = Check(
    id="PRE-TLS-001",
    title="certificates are issued, in the region, and last",
    calls=(
        Call(
            service="acm",
            operation="DescribeCertificate",
            on=lambda deployment: tuple(arn for _, arn in _certificates(deployment)),
        ),
    ),
    look=_look,
    applies=lambda deployment: any(_certificates(deployment)),
)
