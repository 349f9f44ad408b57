"""DPD-EKS-016: administrators are IAM roles or users, each once."""

import re
from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_PRINCIPAL = r"arn:aws(-[a-z]+)*:iam::\d{12}:(role|user)/[\w+=,.@/-]+"


@deployment_rule(
    "DPD-EKS-016",
    severity=Severity.ERROR,
    title="administrators are ARNs of IAM roles or users, each named once",
    sources=("EKS user guide, access entries", "terraform-aws-eks #2968 and #3293", "aws/eks-distro #2805"),
    facts=("P19",),
)
def administrators_are_principals(deployment: Deployment) -> Iterator[Problem]:
    """An access entry takes a role or user, not a session of one, and a second entry for it is a conflict (409)."""
    administrators = deployment.cluster.administrators
    for index, arn in enumerate(administrators):
        path = f"cluster.administrators[{index}]"
        if not re.fullmatch(_PRINCIPAL, arn):
            session = ":assumed-role/" in arn
            yield Problem(
                path=path,
                says="an administrator is not an IAM role or user",
                given=f"`{arn}`",
                limit="`arn:aws:iam::<account>:role/<name>` or `…:user/<name>`",
                fix="name the role, not its session"
                if session
                else "`aws iam get-role` shows the ARN of a role",
            )
        elif arn in administrators[:index]:
            yield Problem(
                path=path,
                says="an administrator is named twice",
                given=f"`{arn}`",
                fix="remove the second one",
            )
