"""Break right files, one edit at a time, and see every one refused by `dpd check` or reported by `dpd lint`.

Deployments: every failing case of every rule's examples, written into the shipped file, and mistakes of typing.
Manifests: wrong edits of what this project renders, of AWS's example, and of sets written as public ones are.
An edit counts when the rule that it is about reports it, and did not report the unbroken file; a traceback never
counts. Every rule about deployments or manifests has to have an edit.
"""

import argparse
import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperpod_dpd.cli.app import run
from hyperpod_dpd.rules import Subject, rules
from tools.mutations import deployments, manifests
from tools.mutations.edit import ROOT, LostEditError

ONLY_PYTHON_CAN_BREAK = frozenset({"DPD-SPEC-001"})
"""What the file reader refuses, in Python's words: tests/unit/rules/test_built_in_python.py."""

_REPORTED = "exit 1"
_UNBROKEN = "no error"
"""Expected of the files before they are edited."""

LEAST_EDITS = 80
LEAST_MANIFEST_EDITS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command said."""

    code: int | None
    """Exit code; None where it raised."""

    said: frozenset[tuple[str, str]]
    """Rule and what it gave, for every finding."""

    trouble: str = ""
    """Traceback, where there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One edit and what became of it."""

    target: str
    expects: str
    says: str
    found: bool
    answer: str


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--failed", action="store_true", help="print only the edits that were not noticed")
    given = parser.parse_args(arguments)
    # dates are judged on the day of the catalog: time alone must not turn an old commit red
    os.environ.setdefault("SOURCE_DATE_EPOCH", "1796000000")
    outcomes = [*_deployments(), *_manifests()]
    for outcome in outcomes:
        if not outcome.found or not given.failed:
            mark = "ok  " if outcome.found else "LOST"
            print(
                f"{mark}  {outcome.target:<11}  {outcome.expects:<13}  {outcome.answer:<14}  {outcome.says}"
            )
    return _verdict(outcomes)


def _verdict(outcomes: Sequence[Outcome]) -> int:
    edits = [outcome for outcome in outcomes if outcome.expects != _UNBROKEN]
    of_manifests = sum(outcome.target == "manifests" for outcome in edits)
    lost = [outcome for outcome in outcomes if not outcome.found]
    reported = {outcome.expects for outcome in outcomes if outcome.found and outcome.answer == _REPORTED}
    covered = reported | ONLY_PYTHON_CAN_BREAK
    checked = {rule.id for rule in rules().values() if rule.subject in {Subject.DEPLOYMENT, Subject.MANIFEST}}
    without = sorted(checked - covered)
    print(
        f"{len(edits)} wrong edits, {of_manifests} of them in manifests: {sum(each.found for each in edits)} noticed, "
        f"{len(lost)} not; {len(checked) - len(without)} of {len(checked)} rules have one"
    )
    if without:
        print(f"error: no edit is noticed by {', '.join(without)}. help: add one to tools/mutations")
    too_few = len(edits) < LEAST_EDITS or of_manifests < LEAST_MANIFEST_EDITS
    return 1 if lost or without or too_few else 0


def _deployments() -> Iterator[Outcome]:
    name = Path(deployments.DEFAULT_FILE).name
    text = (ROOT / deployments.DEFAULT_FILE).read_text(encoding="utf-8")
    right = _answer("check", {name: text})
    yield _unbroken("deployment", str(deployments.DEFAULT_FILE), right)
    for edit in deployments.edits():
        yield _outcome("deployment", edit.expects, edit.says, _answer("check", edit.applied(), name), right)
    for change in deployments.changes():
        yield _outcome(
            "deployment", change.expects, change.says, _answer("check", {name: change.text()}), right
        )


def _manifests() -> Iterator[Outcome]:
    right = {}
    for base in manifests.BASES:
        files = sorted((ROOT / base).glob("*.yaml")) if (ROOT / base).is_dir() else [ROOT / base]
        right[base] = _answer("lint", {file.name: file.read_text(encoding="utf-8") for file in files})
        yield _unbroken("manifests", str(base), right[base])
    for edit in manifests.edits():
        try:
            texts: Mapping[str, str] = edit.applied()
        except LostEditError as error:
            yield Outcome(
                target="manifests", expects=edit.expects, says=str(error), found=False, answer="no such text"
            )
            continue
        yield _outcome("manifests", edit.expects, edit.says, _answer("lint", texts), right[edit.base])


def _unbroken(target: str, name: str, answer: Answer) -> Outcome:
    """The files themselves have to be right: no error in any of them."""
    broken = answer.code not in {0, 1} or any(rules()[rule].severity == "error" for rule, _ in answer.said)
    return Outcome(
        target=target,
        expects=_UNBROKEN,
        says=f"{name} as it is",
        found=not broken,
        answer=f"exit {answer.code}",
    )


def _outcome(target: str, expects: str, says: str, answer: Answer, right: Answer) -> Outcome:
    new = {rule for rule, _ in answer.said - right.said}
    if answer.code is None:
        return Outcome(target=target, expects=expects, says=answer.trouble, found=False, answer="traceback")
    reported = answer.code == 1 and expects in new
    # what the types refuse never reaches the rule; manifests have no types, so there it has to be the rule
    refused = answer.code == 2 and (target == "deployment" or expects == deployments.UNREADABLE)
    found = refused if expects == deployments.UNREADABLE else reported or refused
    return Outcome(target=target, expects=expects, says=says, found=found, answer=f"exit {answer.code}")


def _answer(command: str, texts: Mapping[str, str], only: str | None = None) -> Answer:
    """Run `dpd` over `texts`, written into a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="dpd-mutation-") as folder:
        for name, text in texts.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        path = folder if command == "lint" else str(Path(folder, only or next(iter(texts))))
        output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        try:
            with redirect_stdout(output), redirect_stderr(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):
                code = int(run([command, path, "--format", "json"]))
        except Exception:  # noqa: BLE001 - any exception is what this looks for
            return Answer(code=None, said=frozenset(), trouble=traceback.format_exc().splitlines()[-1])
        output.seek(0)
        return Answer(code=code, said=frozenset(_said(json.loads(output.read()), folder)))


def _said(report: Any, folder: str) -> Iterator[tuple[str, str]]:
    results = report if isinstance(report, list) else [report]
    for result in results:
        for finding in result.get("findings", ()):
            shown = {key: value for key, value in finding.items() if key not in {"file", "line", "rule"}}
            yield finding["rule"], json.dumps(shown).replace(folder, "")


if __name__ == "__main__":
    sys.exit(main())
