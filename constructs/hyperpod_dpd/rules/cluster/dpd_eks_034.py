"""DPD-EKS-034: an existing cluster is named as AWS names it."""

import re
from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-034",
    severity=Severity.ERROR,
    title="the names of an existing cluster are possible ones",
    sources=(
        "AWS::EKS::Cluster Name",
        "AWS::SageMaker::Cluster ClusterName",
        "Systems Manager parameter names",
    ),
)
def existing_names_are_possible(deployment: Deployment) -> Iterator[Problem]:
    """A name that AWS never gave to a cluster is a mistake, found here instead of in the middle of a deployment."""
    existing = deployment.cluster.existing
    if existing is None:
        return
    for key, text, pattern, limit in (
        (
            "eks_name",
            existing.eks_name,
            r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}",
            "1 to 100 letters, digits, `-` and `_`",
        ),
        (
            "hyperpod_name",
            existing.hyperpod_name,
            r"[A-Za-z0-9][A-Za-z0-9-]{0,62}",
            "1 to 63 letters, digits and `-`",
        ),
        (
            "parameter_prefix",
            existing.parameter_prefix or "/",
            r"/|(/[A-Za-z0-9_.-]+){1,14}",
            "`/` and a path of letters, digits, `.`, `-` and `_`, without `/` at its end",
        ),
    ):
        if not re.fullmatch(pattern, text):
            yield Problem(
                path=f"cluster.existing.{key}",
                says=f"`{key}` is not a possible name",
                given=f"`{text}`",
                limit=limit,
                fix="`aws eks list-clusters` and `aws sagemaker list-clusters` show the names",
            )
