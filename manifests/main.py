"""Render every profile of every deployment into `manifests/rendered/`, without AWS CDK.

A deployment is rendered for both back ends where both can say everything that it says.

Run it with `make render`, or `python manifests/main.py FILE...` for some deployments only. GitOps users point their
tool at `manifests/rendered/<deployment>/<profile>/`, a kustomization each.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from hyperpod_dpd.rules.check import DeploymentRefusedError, refuse_unless_valid
from hyperpod_dpd.serving.profile import Profile, expressible
from hyperpod_dpd.serving.render import write_platform, write_profiles
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import UnreadableDeploymentError, load

ROOT = Path(__file__).resolve().parent.parent
RENDERED = ROOT / "manifests" / "rendered"


def main(arguments: Sequence[str] = ()) -> int:
    """Render the deployments in the files `arguments`, or all of `deployments/`, and return the exit code."""
    files = [Path(argument) for argument in arguments] or sorted((ROOT / "deployments").glob("*.yaml"))
    names = set()
    for file in files:
        try:
            deployment = load(file).deployment
            refuse_unless_valid(deployment)
        except (UnreadableDeploymentError, DeploymentRefusedError) as error:
            sys.stderr.write(f"{error}\n")
            return 2 if isinstance(error, UnreadableDeploymentError) else 1
        names.add(deployment.name)
        for profile, changed in write_profiles(deployment, RENDERED).items():
            sys.stdout.write(f"{deployment.name}/{profile.value}: {len(changed)} files changed\n")
        changed = write_platform(deployment, RENDERED)
        sys.stdout.write(f"{deployment.name}/platform: {len(changed)} files changed\n")
        _say_about_other_backend(deployment)
    if not arguments:
        _remove_leftovers(names)
    return 0


def _say_about_other_backend(deployment: Deployment) -> None:
    """Print what keeps the deployment from its other backend, or what somebody who switches has to acknowledge."""
    other = Profile.SELF_MANAGED if deployment.serving.backend == "operator" else Profile.OPERATOR
    report = expressible(deployment, other)
    for finding in report.errors:
        sys.stdout.write(f"{deployment.name}/{other.value}: not rendered: {finding.message}\n")
    accepted = {entry.rule for entry in deployment.acknowledge}
    for finding in () if report.errors else report.warnings:
        if finding.rule in accepted:
            continue
        sys.stdout.write(f"{deployment.name}/{other.value}: warning: {finding.message}\n")


def _remove_leftovers(names: set[str]) -> None:
    """Remove what belongs to deployments that no longer exist."""
    for folder in RENDERED.iterdir():
        if folder.is_dir() and folder.name not in names:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
