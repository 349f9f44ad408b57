"""DPD-SPEC-005: tags are ones that AWS takes."""

import re
from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_MOST = 40
"""AWS takes 50 tags on a resource; CDK, EKS and this project add their own."""

_CHARACTERS = r"[\w\s.:/=+@-]"


@deployment_rule(
    "DPD-SPEC-005",
    severity=Severity.ERROR,
    title="tags are at most 40, with keys and values that AWS takes",
    sources=(
        "AWS General Reference, tagging (128 and 256 characters, no `aws:`)",
        "AWS::SageMaker::Cluster Tags",
    ),
    facts=("P31",),
)
def tags_are_valid(deployment: Deployment) -> Iterator[Problem]:
    """One tag that a service refuses fails the resource, in the middle of a deployment."""
    tags = deployment.tags or {}
    if len(tags) > _MOST:
        yield Problem(
            path="tags", says="too many tags", given=f"{len(tags)}", limit=f"{_MOST}", fix="remove some"
        )
    for key, value in tags.items():
        valid_key = re.fullmatch(rf"{_CHARACTERS}{{1,128}}", key) and not key.lower().startswith("aws:")
        if not (valid_key and re.fullmatch(rf"{_CHARACTERS}{{0,256}}", value)):
            yield Problem(
                path=f"tags.{key}",
                says="a tag that AWS does not take",
                given=f"`{key[:130]}: {value[:80]}`",
                limit="letters, digits, spaces and `_.:/=+-@`; 128 characters in a key, 256 in a value; no `aws:`",
                fix="shorten it or replace the characters",
            )
