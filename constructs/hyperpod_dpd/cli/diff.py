"""`dpd diff`: what changes between two deployment files, and what gets replaced."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from hyperpod_dpd.changes.compare import Comparison, Sides, compare
from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.node import use_bundled_node
from hyperpod_dpd.cli.output import Format, add_format, counted, paint, print_json, print_line, print_mistakes
from hyperpod_dpd.derive import UnresolvedError
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import DeploymentFile, UnreadableDeploymentError, load


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", type=Path, help="deployment file as deployed, or `-`")
    parser.add_argument("new", metavar="NEW", type=Path, help="deployment file as it shall be, or `-`")
    add_format(parser)


def _run(arguments: Namespace) -> Exit:
    files = [_load(path) for path in (arguments.old, arguments.new)]
    old, new = files
    if old is None or new is None:
        return Exit.UNREADABLE
    comparison = compare(old.deployment, new.deployment)
    if arguments.format == Format.JSON:
        print_json(_as_dict(old, new, comparison))
    else:
        _print_text(old, new, comparison)
    if not comparison.differences:
        return Exit.OK
    for file in (old, new):
        _say_refused(file)
    return Exit.FINDINGS


COMMAND = Command(
    description="""\
Say what changes between two deployment files: each field with its old and new value, grouped by what the change does
when it is deployed, the gravest first; then cost, quota and the Kubernetes objects that differ.

The exit code is that of diff(1): 0 when nothing differs, 1 when something does, 2 when a file cannot be read.

examples: dpd diff deployed.yaml deployments/llama-3.3-70b-p5.yaml
          git show HEAD:my.yaml | dpd diff - my.yaml""",
    add_arguments=_add_arguments,
    run=_run,
)


def _load(path: Path) -> DeploymentFile | None:
    try:
        return load(path)
    except UnreadableDeploymentError as error:
        print_mistakes(error)
        return None


def _say_refused(file: DeploymentFile) -> None:
    from hyperpod_dpd.rules.check import check  # noqa: PLC0415 - the rules come after what is already on the screen

    report = check(file.deployment)
    if report.errors:
        print_line(
            str(file.path),
            "warning",
            f"does not pass the rules ({counted(len(report.errors), 'error')}), so it cannot be deployed. "
            f"help: run `dpd check {file.path}`",
        )


def _print_text(old: DeploymentFile, new: DeploymentFile, comparison: Comparison) -> None:
    count = counted(len(comparison.differences), "difference")
    print(f"{old.path} → {new.path}: {count}")
    for consequence, found in comparison.grouped.items():
        print(f"\n{paint(consequence.value, 'rule', sys.stdout)}")
        for each in found:
            print(f"  {each.path}: {each.text}")
    if not comparison.differences:
        return
    print()
    for label, sides in _figures(comparison):
        print(f"{label}: {_sides(sides)}")
    # what needs no renderer is on the screen before it starts
    sys.stdout.flush()
    print(f"Kubernetes objects:{_objects_text(old.deployment, new.deployment)}")


def _figures(comparison: Comparison) -> list[tuple[str, Sides | None]]:
    return [
        ("generation of the workers", comparison.generation),
        ("cost of the instance groups", comparison.cost),
        ("quota needed", comparison.quota),
    ]


def _sides(sides: Sides | None) -> str:
    if sides is None:
        return "unknown"
    return f"{sides.old} → {sides.new}" if sides.differs else f"{sides.old}, unchanged"


def _objects_text(old: Deployment, new: Deployment) -> str:
    changes = _object_changes(old, new)
    if isinstance(changes, str):
        return f" {changes}"
    return "".join(f"\n  {change['fate']}: {change['object']}" for change in changes) or " none differs"


def _object_changes(old: Deployment, new: Deployment) -> list[dict[str, str]] | str:
    """Return the objects that differ, or why they cannot be compared."""
    if old.name != new.name:
        return f"all are new, because `{old.name}` and `{new.name}` have namespaces of their own"
    use_bundled_node()
    from hyperpod_dpd.changes.manifests import object_changes  # noqa: PLC0415 - starts cdk8s
    from hyperpod_dpd.rules.check import DeploymentRefusedError  # noqa: PLC0415
    from hyperpod_dpd.serving.router import IdleTimeoutTooLongError  # noqa: PLC0415

    try:
        changes = object_changes(old, new)
    except (DeploymentRefusedError, UnresolvedError, IdleTimeoutTooLongError) as error:
        return f"not compared, because one side cannot be rendered: {str(error).splitlines()[0]}"
    return [{"object": change.title, "fate": change.fate.value} for change in changes]


def _as_dict(old: DeploymentFile, new: DeploymentFile, comparison: Comparison) -> dict[str, object]:
    changes = _object_changes(old.deployment, new.deployment)
    caused = {
        each.path: [
            consequence.name.lower().replace("_", "-")
            for consequence, found in comparison.grouped.items()
            if each in found
        ]
        for each in comparison.differences
    }
    return {
        "old": str(old.path),
        "new": str(new.path),
        "differences": [
            {"path": each.path, "change": each.text, "consequences": caused[each.path]}
            for each in comparison.differences
        ],
        "consequences": {
            consequence.name.lower().replace("_", "-"): consequence.value
            for consequence in comparison.grouped
        },
        **{
            label.split(" ")[0]: None if sides is None else {"old": sides.old, "new": sides.new}
            for label, sides in _figures(comparison)
        },
        "objects": None if isinstance(changes, str) else changes,
        "objects_not_compared": changes if isinstance(changes, str) else None,
    }
