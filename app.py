"""The CDK application: one deployment file becomes the stacks of one deployment.

Run by the CDK CLI; `--context deployment=FILE` chooses the file, `--context profile=NAME` what the serving stack
installs, for example `baseline` to measure against.
"""

import re
import sys

import aws_cdk as cdk

from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.rules.check import check
from hyperpod_dpd.serving.profile import chosen_profile
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
        print(*(finding.located_in(file) for finding in report.errors), sep="\n", file=sys.stderr)
        return Exit.FINDINGS
    try:
        profile = chosen_profile(file.deployment, app.node.try_get_context("profile"))
        stacks = build(app, file.deployment, profile=profile)
    except ValueError as error:
        print(f"{file.path}: error: {error}", file=sys.stderr)
        return Exit.FINDINGS
    for finding in report.warnings:
        located = str(finding.located_in(file))
        cdk.Annotations.of(stacks.first).add_warning_v2(f"hyperpod-dpd:{finding.rule}", located)
    print(summary(file.deployment, stacks, app.synth()))
    return Exit.OK


def run() -> Exit:
    """Run `main`, and say in one line what the file system refuses."""
    try:
        return main()
    except (OSError, RuntimeError) as error:
        # jsii hands on what Node reports, such as `ENOSPC: no space left on device, write`
        if not isinstance(error, OSError) and not re.match("E[A-Z0-9]+: ", str(error)):
            raise
        print(
            f"error: cannot write the templates: {error}. help: look after the output folder", file=sys.stderr
        )
        return Exit.FINDINGS


if __name__ == "__main__":
    sys.exit(run())
