"""DPD-SPEC-002: the deployment's name can be part of every name that is made from it."""

import re
from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SPEC-002",
    severity=Severity.ERROR,
    title="the deployment's name is lower-case letters, digits and single hyphens, a letter first",
    sources=(
        "CloudFormation stack names",
        "RFC 1123 labels (Kubernetes namespaces)",
        "S3 bucket naming rules",
    ),
)
def name_fits_everywhere(deployment: Deployment) -> Iterator[Problem]:
    """Stacks, namespaces, buckets and Services carry it; each of them refuses another part of the alphabet."""
    if not re.fullmatch(r"[a-z]([a-z0-9]|-(?=[a-z0-9]))*", deployment.name):
        fixed = re.sub(r"[^a-z0-9]+", "-", deployment.name.lower()).strip("-")[:40]
        yield Problem(
            path="name",
            says="the deployment's name cannot be part of other names",
            given=f"`name: {deployment.name}`",
            limit="lower-case letters, digits and single hyphens, a letter first, no hyphen last",
            fix=f"for example `{fixed}`" if re.match("[a-z]", fixed) else "for example `llama-70b`",
        )
