"""The CDK application: one deployment file becomes the stacks of one deployment.

Run by the CDK CLI; `--context deployment=FILE` chooses the file.
"""

import sys

import aws_cdk as cdk

from hyperpod_dpd.cli.check import locate
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.rules.check import check
from hyperpod_dpd.spec.load import UnreadableDeploymentError, load
from stacks.build import build
from stacks.summary import summary

DEFAULT_DEPLOYMENT = "deployments/llama-3.3-70b-p5.yaml"


def main() -> Exit:
    """Check the deployment, build its stacks, say what they are; refuse a deployment with errors."""
    app = cdk.App()
    try:
        file = load(app.node.try_get_context("deployment") or DEFAULT_DEPLOYMENT)
    except UnreadableDeploymentError as error:
        print(error, file=sys.stderr)
        return Exit.UNREADABLE
    report = check(file.deployment)
    if report.errors:
        print(*(locate(finding, file) for finding in report.errors), sep="\n", file=sys.stderr)
        return Exit.FINDINGS
    try:
        stacks = build(app, file.deployment)
    except ValueError as error:
        print(f"{file.path}: error: {error}", file=sys.stderr)
        return Exit.FINDINGS
    for finding in report.warnings:
        located = str(locate(finding, file))
        cdk.Annotations.of(stacks.network).add_warning_v2(f"hyperpod-dpd:{finding.rule}", located)
    print(summary(file.deployment, app.synth()))
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
