"""`dpd lint`: the rules over Kubernetes manifests that anyone wrote."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import Format, add_format, counted, paint, print_finding, print_json
from hyperpod_dpd.lint.check import Linted, lint_documents, not_acceptable
from hyperpod_dpd.lint.read import UnreadableManifestError, read


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="DIR|FILE",
        nargs="+",
        type=Path,
        help="folder with manifests, manifest, or `-` for standard input; all together are one set",
    )
    parser.add_argument(
        "--accept",
        metavar="RULE-ID",
        action="append",
        default=[],
        help="let the warnings of this rule through; may be given several times",
    )
    add_format(parser)


def _run(arguments: Namespace) -> Exit:
    accept = {name.upper() for name in arguments.accept}
    if refused := not_acceptable(accept):
        for text in refused:
            print(f"{paint('error', 'error', sys.stderr)}: {text}", file=sys.stderr)
        return Exit.UNREADABLE
    try:
        report = lint_documents(read(arguments.paths), accept=accept)
    except UnreadableManifestError as error:
        return _say_unreadable(error, arguments.format)
    if arguments.format == Format.JSON:
        print_json(_as_dict(report))
    else:
        _print_text(report, arguments.paths)
    return Exit.FINDINGS if report.findings else Exit.OK


COMMAND = Command(
    description="""\
Check rendered Kubernetes manifests, whoever wrote them, against every rule about manifests.

Reads Deployments, StatefulSets, LeaderWorkerSets, Pods and InferenceEndpointConfigs with their ConfigMaps, Services
and NetworkPolicies. What is not understood is a finding of its own. Findings and notes go to standard error, a
summary to standard output; with `--format json` everything goes to standard output.

examples: dpd lint manifests/rendered/llama-3-3-70b-p5/self-managed
          helm template my-chart | dpd lint -""",
    add_arguments=_add_arguments,
    run=_run,
)


def _print_text(report: Linted, paths: list[Path]) -> None:
    for finding in report.findings:
        print_finding(finding)
    for note in report.notes:
        print(note, file=sys.stderr)
    workers = list(report.manifests.workers)
    counts = (
        counted(len(report.errors), "error"),
        counted(len(report.warnings), "warning"),
        f"{len(report.accepted)} accepted",
        counted(len(report.notes), "note"),
    )
    seen = f"{counted(len(report.manifests.objects), 'object')}, {counted(len(workers), 'kind')} of engines"
    print(f"{' '.join(map(str, paths))}: {', '.join(counts)} ({seen})", flush=True)


def _as_dict(report: Linted) -> dict[str, object]:
    return {
        "readable": True,
        "findings": [finding.as_dict() for finding in report.findings],
        "accepted": [finding.as_dict() for finding in report.accepted],
        "notes": [
            {"file": note.file, "line": note.line, "path": note.path, "says": note.says}
            for note in report.notes
        ],
        "recognised": [
            {
                "role": worker.role.value,
                "workload": worker.owner.title,
                "file": worker.node.file,
                "line": worker.node.line,
                "connector": worker.connector,
                "tensor_parallel": worker.tensor_parallel,
                "vllm": worker.engine.vllm,
                "lmcache": worker.engine.lmcache,
                "versions_told": sorted(worker.engine.told),
            }
            for worker in report.manifests.workers
        ],
    }


def _say_unreadable(error: UnreadableManifestError, form: str) -> Exit:
    if form == Format.JSON:
        mistakes = [
            {"file": reason.file, "line": reason.line, "message": reason.message} for reason in error.reasons
        ]
        print_json({"readable": False, "mistakes": mistakes})
    else:
        for reason in error.reasons:
            print(
                f"{reason.location}: {paint('error', 'error', sys.stderr)}: {reason.message}", file=sys.stderr
            )
    return Exit.UNREADABLE
