"""`dpd scale`: give instance groups another number of nodes, now and without a deployment."""

import dataclasses
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import print_finding, print_line, print_mistakes
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import DeploymentFile, UnreadableDeploymentError, load

_FILE = "file"
"""Word for the counts in the deployment file."""

_LARGEST = 6758
"""Most nodes of an instance group: AWS::SageMaker::Cluster, InstanceCount."""


def _count(text: str) -> int | None:
    """Return the number of nodes, None for those of the file."""
    if text == _FILE:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= _LARGEST):
        raise ArgumentTypeError(f"`{text}` is neither a number from 0 to {_LARGEST} nor `{_FILE}`")
    return int(text)


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="deployment file")
    parser.add_argument(
        "--to",
        metavar="N",
        type=_count,
        required=True,
        help=f"nodes that each group shall have; `{_FILE}`: as many as the deployment file says",
    )
    parser.add_argument(
        "--group",
        metavar="NAME",
        action="append",
        help="instance group; may be repeated (default: every group of the file)",
    )
    parser.add_argument("--yes", action="store_true", help="do it without asking")
    parser.add_argument("--profile", metavar="NAME", help="profile of the AWS configuration to use")


def _run(arguments: Namespace) -> Exit:
    try:
        file = load(arguments.file)
    except UnreadableDeploymentError as error:
        print_mistakes(error)
        return Exit.UNREADABLE
    if problem := _misuse(file.deployment, arguments.group or []):
        print_line(str(file.path), "error", problem)
        return Exit.UNREADABLE
    wanted = _wanted(file.deployment, arguments.group, arguments.to)
    if _refused(file, wanted):
        return Exit.FINDINGS
    return _scale(file.deployment, wanted, arguments)


COMMAND = Command(
    description="""\
Give instance groups of a running HyperPod cluster another number of nodes, at once and without a deployment: 0 for the
night, `file` for what the deployment file says. Settings of the groups stay as they are. Workers of nodes that go end,
those of nodes that come load the weights anew; without a decoder the router answers 503.

The file is not changed: the next deployment that changes the HyperPod cluster brings its counts back. A number that the
rules refuse is refused here; 0 always goes.

examples:
  dpd scale deployments/llama-3.3-70b-p5.yaml --to 0
  dpd scale deployments/llama-3.3-70b-p5.yaml --to 3 --group prefill --yes""",
    add_arguments=_add_arguments,
    run=_run,
)


def _misuse(deployment: Deployment, groups: list[str]) -> str | None:
    existing = deployment.cluster.existing
    if existing is not None:
        return (
            f"the groups belong to the owner of the cluster: given `cluster.existing.hyperpod_name: "
            f"{existing.hyperpod_name}`. help: use the owner's deployment file"
        )
    names = [group.name for group in deployment.hyperpod.instance_groups]
    if strangers := [name for name in groups if name not in names]:
        listed = ", ".join(f"`{name}`" for name in names)
        return f"no instance group `{strangers[0]}`. help: the groups are {listed}"
    return None


def _wanted(deployment: Deployment, groups: list[str] | None, count: int | None) -> dict[str, int]:
    return {
        group.name: group.count if count is None else count
        for group in deployment.hyperpod.instance_groups
        if groups is None or group.name in groups
    }


def _with_counts(deployment: Deployment, counts: Mapping[str, int]) -> Deployment:
    groups = tuple(
        dataclasses.replace(group, count=counts.get(group.name, group.count))
        for group in deployment.hyperpod.instance_groups
    )
    return dataclasses.replace(
        deployment, hyperpod=dataclasses.replace(deployment.hyperpod, instance_groups=groups)
    )


def _refused(file: DeploymentFile, wanted: Mapping[str, int]) -> bool:
    """Print what the rules find wrong with `wanted` and say whether there is something.

    Groups without a node are not judged: nothing runs on them, and nobody has to be allowed to stop paying.
    """
    counts = {name: count for name, count in wanted.items() if count > 0}
    if not counts:
        return False
    from hyperpod_dpd.rules.check import check  # noqa: PLC0415 - stopping does not wait for the rules

    report = check(_with_counts(file.deployment, counts))
    for finding in report.errors:
        print_finding(finding.located_in(file))
    return bool(report.errors)


def _scale(deployment: Deployment, wanted: Mapping[str, int], arguments: Namespace) -> Exit:
    import boto3  # noqa: PLC0415 - help and messages about the file shall not wait for it
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    from hyperpod_dpd.preflight.account import AwsAccount  # noqa: PLC0415
    from hyperpod_dpd.preflight.failure import explain  # noqa: PLC0415
    from hyperpod_dpd.scaling.handler.index import CannotScaleError, scale  # noqa: PLC0415

    name = deployment.cluster_name
    try:
        session = boto3.Session(profile_name=arguments.profile, region_name=deployment.region)
        client = AwsAccount(region=deployment.region, session=session).client("sagemaker")
        running = _running(client, name)
        print("\n".join(_lines(deployment, running, wanted)))
        if all(running.get(group) == count for group, count in wanted.items()):
            print("nothing to change")
            return Exit.OK
        if not arguments.yes and not _agreed():
            print("nothing changed")
            return Exit.FINDINGS
        scale(client, name, wanted)
    except CannotScaleError as error:
        print_line(name, "error", str(error))
        return Exit.FINDINGS
    except (BotoCoreError, ClientError) as error:
        failure = explain(error)
        print_line(name, "error", f"{failure.why}. help: {failure.fix}")
        return Exit.FINDINGS
    print(f"asked for. help: `dpd status {arguments.file} --watch` shows the nodes come or go")
    _say_drift(deployment, wanted)
    return Exit.OK


def _running(client: Any, cluster: str) -> dict[str, int]:
    """Return the nodes that each group of `cluster` is to have now."""
    groups = client.describe_cluster(ClusterName=cluster)["InstanceGroups"]
    return {
        group["InstanceGroupName"]: group.get("TargetCount", group.get("CurrentCount", 0)) for group in groups
    }


def _lines(deployment: Deployment, running: Mapping[str, int], wanted: Mapping[str, int]) -> list[str]:
    from hyperpod_dpd.planner.cost import hourly_burn  # noqa: PLC0415

    before = _with_counts(deployment, running)
    after = _with_counts(before, wanted)
    types = {group.name: group.instance_type for group in deployment.hyperpod.instance_groups}
    lines = [
        f"{group} ({types[group]}): {running.get(group, 'absent')} → {count}"
        for group, count in wanted.items()
    ]
    burns = [hourly_burn(each) for each in (before, after)]
    without = f", without {', '.join(burns[1].unpriced)}" if burns[1].unpriced else ""
    cost = " → ".join(f"${burn.usd_per_hour:,.2f}/h" for burn in burns)
    return [*lines, f"instance groups at list price: {cost}{without}"]


def _agreed() -> bool:
    if not sys.stdin.isatty():
        print_line("dpd", "error", "nobody is there to be asked. help: give `--yes`")
        return False
    return input("go ahead? [y/N] ").strip().lower() in ("y", "yes")


def _say_drift(deployment: Deployment, wanted: Mapping[str, int]) -> None:
    differing = [
        f"`{group.name}` has `count: {group.count}`"
        for group in deployment.hyperpod.instance_groups
        if wanted.get(group.name, group.count) != group.count
    ]
    if differing:
        print(
            f"in the file {', '.join(differing)}: the next deployment that changes the HyperPod cluster brings that "
            "back"
        )
