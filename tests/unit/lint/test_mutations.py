"""The mutation check: every single wrong edit is noticed, and the check itself notices when one is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from hyperpod_dpd.rules import Subject, rules
from tools.mutation_check import Answer, _outcome
from tools.mutations import manifests
from tools.mutations.edit import Edit, LostEditError

_ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_every_wrong_edit_is_noticed_by_the_rule_that_it_is_about() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.mutation_check", "--failed"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    (summary,) = done.stdout.splitlines()
    edits, of_manifests = int(summary.split()[0]), int(summary.split(", ")[1].split()[0])
    assert edits >= 80
    assert of_manifests >= 30


def test_every_rule_about_manifests_has_a_wrong_edit_that_it_finds() -> None:
    about = {rule.id for rule in rules().values() if rule.subject is Subject.MANIFEST}
    assert about - {edit.expects for edit in manifests.edits()} == set()


_RIGHT = Answer(code=1, said=frozenset({("DPD-LINT-001", "before")}))


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (Answer(code=1, said=frozenset({("DPD-LINT-001", "after")})), True),
        (Answer(code=1, said=frozenset({("DPD-LINT-001", "before")})), False),
        (Answer(code=1, said=frozenset({("DPD-LINT-002", "after")})), False),
        (Answer(code=0, said=frozenset()), False),
        (Answer(code=2, said=frozenset()), False),
        (Answer(code=None, said=frozenset(), trouble="KeyError"), False),
    ],
    ids=["new", "old", "other", "nothing", "unreadable", "traceback"],
)
def test_an_edit_counts_only_when_its_rule_says_something_new(answer: Answer, found: bool) -> None:
    outcome = _outcome("manifests", "DPD-LINT-001", "edit", answer, _RIGHT)
    assert outcome.found is found


def test_an_edit_whose_text_is_gone_is_no_edit() -> None:
    edit = Edit(expects="x", base=Path("deployments/llama-3.3-70b-p5.yaml"), old="not there", new="")
    with pytest.raises(LostEditError, match="does not hold `not there`"):
        edit.applied()


def test_an_edit_changes_one_place() -> None:
    edit = Edit(
        expects="x", base=Path("deployments/llama-3.3-70b-p5.yaml"), old="count: 1", new="count: 2", nth=1
    )
    (text,) = edit.applied().values()
    assert (text.count("count: 1"), text.count("count: 2")) == (1, 1)
    assert text.index("count: 1") < text.index("count: 2")
