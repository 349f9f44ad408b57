"""A rule of your organization: it is checked, reported and acknowledged like any other."""

import sys
from collections.abc import Iterator
from pathlib import Path

from hyperpod_dpd import Deployment, Problem, Severity, check, deployment_rule, load

DEPLOYMENT = Path(__file__).parents[1] / "deployments/llama-3.3-70b-p5.yaml"


@deployment_rule(
    "ACME-001",
    severity=Severity.ERROR,
    title="every deployment names its cost centre",
    sources=("ACME cloud policy 12",),
)
def somebody_pays(deployment: Deployment) -> Iterator[Problem]:
    """Finance stops accounts whose GPU hours belong to nobody."""
    if "cost-centre" not in (deployment.tags or {}):
        yield Problem(
            path="tags",
            says="nobody pays for the deployment",
            given="no `tags.cost-centre`",
            fix="add the tag of your team",
        )


def main() -> int:
    """Check the default deployment, print what is wrong, and say so by the exit code."""
    errors = check(load(DEPLOYMENT).deployment).errors
    for finding in errors:
        print(f"deployments/{DEPLOYMENT.name}: {finding.severity.value}: {finding.message}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
