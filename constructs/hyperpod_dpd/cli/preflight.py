"""`dpd preflight`: ask the account what would fail, before anything is deployed."""

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hyperpod_dpd.cli.command import Command, seconds_between
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import Format, add_format, print_finding, print_json, print_line, print_mistakes
from hyperpod_dpd.rules.check import check
from hyperpod_dpd.rules.finding import Finding
from hyperpod_dpd.spec.load import DeploymentFile, UnreadableDeploymentError, load

if TYPE_CHECKING:
    # loaded when the account is asked: help and messages about the file shall not wait for it
    from hyperpod_dpd.preflight.account import AwsAccount
    from hyperpod_dpd.preflight.report import Report


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="deployment file, or `-` for standard input")
    add_format(parser)
    parser.add_argument("--profile", metavar="NAME", help="profile of the AWS configuration to ask with")
    parser.add_argument(
        "--region",
        metavar="REGION",
        help="refuse unless the deployment is for this region (default: its own)",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds_between(0, 3600),
        default=30.0,
        help="longest time that one check may take (default: 30)",
    )
    parser.add_argument(
        "--policy",
        action="store_true",
        help="print the IAM policy that the checks of this deployment need, and ask nothing",
    )


def _run(arguments: Namespace) -> Exit:
    try:
        file = load(arguments.file)
    except UnreadableDeploymentError as error:
        if arguments.format == Format.JSON:
            print_json({"file": str(arguments.file), "asked": False, "mistakes": _mistakes(error)})
            return Exit.UNREADABLE
        print_mistakes(error)
        return Exit.UNREADABLE
    if arguments.policy:
        return _print_policy(file)
    errors = check(file.deployment).errors
    if errors:
        return _refuse(file, errors, arguments.format)
    return _ask(file, arguments)


COMMAND = Command(
    description="""\
Ask the account, before anything is deployed, whether the deployment would work there: credentials, region, CDK
bootstrap, quotas, zones, capacity, versions, names, data, secrets, images. Nothing is changed. All questions are
asked at the same time; a question that may not be asked is reported with the permission that it needs.

Progress and findings go to standard error, a summary to standard output; with `--format json` everything goes to
standard output.

examples:
  dpd preflight deployments/llama-3.3-70b-p5.yaml --profile gpu
  dpd preflight deployments/llama-3.3-70b-p5.yaml --policy > policy.json""",
    add_arguments=_add_arguments,
    run=_run,
)


def _mistakes(error: UnreadableDeploymentError) -> list[dict[str, object]]:
    return [
        {"file": each.file, "line": each.line, "path": each.path, "message": each.says}
        for each in error.mistakes
    ]


def _print_policy(file: DeploymentFile) -> Exit:
    from hyperpod_dpd.preflight.checks import ALL  # noqa: PLC0415
    from hyperpod_dpd.preflight.policy import policy  # noqa: PLC0415

    print_json(policy(file.deployment, ALL))
    return Exit.OK


def _refuse(file: DeploymentFile, errors: tuple[Finding, ...], output: str) -> Exit:
    """Report what `dpd check` refuses: no account can make it work."""
    located = [finding.located_in(file) for finding in errors]
    if output == Format.JSON:
        print_json(
            {"file": str(file.path), "asked": False, "errors": [finding.as_dict() for finding in located]}
        )
        return Exit.FINDINGS
    for finding in located:
        print_finding(finding)
    print(f"{file.path}: not asked, because `dpd check` refuses the deployment", flush=True)
    return Exit.FINDINGS


def _ask(file: DeploymentFile, arguments: Namespace) -> Exit:
    from botocore.exceptions import ProfileNotFound  # noqa: PLC0415

    from hyperpod_dpd.cli.progress import progress  # noqa: PLC0415
    from hyperpod_dpd.preflight.account import AwsAccount  # noqa: PLC0415
    from hyperpod_dpd.preflight.checks import CHECKS, GATE  # noqa: PLC0415
    from hyperpod_dpd.preflight.runner import preflight  # noqa: PLC0415

    deployment = file.deployment
    try:
        account = AwsAccount(region=arguments.region or deployment.region, profile=arguments.profile)
    except ProfileNotFound as error:
        print_line("dpd", "error", f"{error}. help: `aws configure list-profiles` lists the profiles")
        return Exit.UNREADABLE
    names = [check.id for check in (GATE, *CHECKS) if check.applies(deployment)]
    with progress(names, quiet=arguments.format == Format.JSON) as done:
        report = preflight(
            deployment, account, checks=CHECKS, gate=GATE, timeout_seconds=arguments.timeout, done=done
        )
    report = _located(report, file)
    if arguments.format == Format.JSON:
        print_json(_as_dict(report, file, account))
    else:
        _print(report, file, account)
    return _exit(report)


def _located(report: "Report", file: DeploymentFile) -> "Report":
    return replace(
        report,
        outcomes=tuple(
            replace(outcome, findings=tuple(finding.located_in(file) for finding in outcome.findings))
            for outcome in report.outcomes
        ),
    )


def _exit(report: "Report") -> Exit:
    from hyperpod_dpd.preflight.report import Status  # noqa: PLC0415

    if report.findings:
        return Exit.FINDINGS
    undecided = report.count(Status.UNKNOWN) + report.count(Status.SKIPPED)
    return Exit.UNDECIDED if undecided else Exit.OK


def _print(report: "Report", file: DeploymentFile, account: "AwsAccount") -> None:
    for finding in report.findings:
        print_finding(finding)
    for check_, gap in report.gaps:
        print_line(str(file.path), "unknown", f"{check_.id} {gap.message}")
    counts = ", ".join(f"{number} {status}" for status, number in _counts(report).items() if number)
    where = f"account {account.known_id} in {account.region}" if account.known_id else account.region
    print(f"{file.path}: {where}: {len(report.outcomes)} checks, {counts}", flush=True)


def _counts(report: "Report") -> dict[str, int]:
    from hyperpod_dpd.preflight.report import Status  # noqa: PLC0415

    return {status.value: report.count(status) for status in Status}


def _as_dict(report: "Report", file: DeploymentFile, account: "AwsAccount") -> dict[str, object]:
    return {
        "file": str(file.path),
        "asked": True,
        "account": account.known_id,
        "region": account.region,
        "counts": _counts(report),
        "denied_by_organization": report.denied_by_organization,
        "checks": [
            {
                "id": outcome.check.id,
                "title": outcome.check.title,
                "status": outcome.status.value,
                "seconds": round(outcome.seconds, 3),
                "findings": [finding.as_dict() for finding in outcome.findings],
                "gaps": [gap.as_dict() for gap in outcome.gaps],
            }
            for outcome in report.outcomes
        ],
    }
