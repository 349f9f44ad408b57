"""Render every profile of every deployment into `manifests/rendered/`, without AWS CDK.

A deployment is rendered for both back ends where both can say everything that it says.

Run it with `make render`, or `python manifests/main.py FILE...` for some deployments only. GitOps users point their
tool at `manifests/rendered/<deployment>/<profile>/`, a kustomization each.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import print_unwritable
from hyperpod_dpd.evidence.proof_job import write_proof
from hyperpod_dpd.rules.check import check
from hyperpod_dpd.serving.profile import Profile, expressible
from hyperpod_dpd.serving.render import write_platform, write_profiles
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import UnreadableDeploymentError, load

ROOT = Path(__file__).resolve().parent.parent
RENDERED = ROOT / "manifests" / "rendered"


def main(arguments: Sequence[str] = ()) -> int:
    """Render the deployments in the files `arguments`, or all of `deployments/`, and return the exit code."""
    files = [Path(argument) for argument in arguments] or sorted((ROOT / "deployments").glob("*.yaml"))
    try:
        deployments = _accepted(files)
    except UnreadableDeploymentError as error:
        sys.stderr.write(f"{error}\n")
        return Exit.UNREADABLE
    except _RefusedError as error:
        sys.stderr.write(f"{error}\n")
        return Exit.FINDINGS
    try:
        _write(deployments)
        if not arguments:
            _remove_leftovers({deployment.name for deployment in deployments})
    except OSError as error:
        return print_unwritable(error.filename or "standard output", error)
    return Exit.OK


class _RefusedError(ValueError):
    """A deployment cannot be rendered; the message says why, with file and line."""


def _accepted(files: Sequence[Path]) -> list[Deployment]:
    """Return the deployments in `files`: nothing is written before all of them are accepted.

    Raises:
        UnreadableDeploymentError: a file is no deployment.
        _RefusedError: the rules found errors, or two files give one name.
    """
    files_by_name: dict[str, Path] = {}
    deployments = []
    for path in files:
        file = load(path)
        errors = check(file.deployment).errors
        if errors:
            raise _RefusedError("\n".join(str(finding.located_in(file)) for finding in errors))
        name = file.deployment.name
        if name in files_by_name:
            raise _RefusedError(
                f"{path}: error: `name: {name}` is the name in {files_by_name[name]}, too, and both would be rendered "
                "into one folder. help: give the deployment a name of its own"
            )
        files_by_name[name] = path
        deployments.append(file.deployment)
    return deployments


def _write(deployments: Sequence[Deployment]) -> None:
    for deployment in deployments:
        for profile, changed in write_profiles(deployment, RENDERED).items():
            sys.stdout.write(f"{deployment.name}/{profile.value}: {len(changed)} files changed\n")
        changed = write_platform(deployment, RENDERED)
        sys.stdout.write(f"{deployment.name}/platform: {len(changed)} files changed\n")
        changed = write_proof(deployment, RENDERED)
        sys.stdout.write(f"{deployment.name}/proof: {len(changed)} files changed\n")
        _say_about_other_backend(deployment)


def _say_about_other_backend(deployment: Deployment) -> None:
    """Print what keeps the deployment from its other backend, or what somebody who switches has to acknowledge."""
    other = Profile.SELF_MANAGED if deployment.serving.backend == "operator" else Profile.OPERATOR
    report = expressible(deployment, other)
    for finding in report.errors:
        sys.stdout.write(f"{deployment.name}/{other.value}: not rendered: {finding.message}\n")
    accepted = {entry.rule for entry in deployment.acknowledge}
    open_rules = list(dict.fromkeys(each.rule for each in report.warnings if each.rule not in accepted))
    if open_rules and not report.errors:
        sys.stdout.write(
            f"{deployment.name}/{other.value}: to deploy it, set `backend: {other.backend}` and acknowledge "
            f"{', '.join(open_rules)} (`dpd explain {open_rules[0]}`)\n"
        )


def _remove_leftovers(names: set[str]) -> None:
    """Remove what belongs to deployments that no longer exist."""
    for folder in RENDERED.iterdir():
        if folder.is_dir() and folder.name not in names:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
