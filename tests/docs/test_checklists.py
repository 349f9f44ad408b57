"""A checklist promises that a test holds each item; those tests exist, and every item of work has one."""

import ast
import re
from pathlib import Path

import pytest

from tests.support.deployments import ROOT

_PAGES = sorted((ROOT / "docs/contributing").glob("add-*.md"))
_HELD = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
BY_HAND = {"Run it", "Read the release notes"}
"""First words of what a person has to do, because no test can."""


def _items(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [
        " ".join(item.split())
        for item in re.findall(r"^- \[ \] ((?:.+\n?)(?:  .+\n?)*)", text, flags=re.MULTILINE)
    ]


def test_there_is_a_checklist_for_whatever_is_added_most() -> None:
    assert {page.stem for page in _PAGES} == {
        "add-a-model",
        "add-a-rule",
        "add-an-engine",
        "add-an-instance",
    }


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_every_item_is_held_by_a_test_or_done_by_hand(page: Path) -> None:
    items = _items(page)
    assert len(items) >= 4
    loose = [
        item
        for item in items
        if not _HELD.search(item) and not any(item.startswith(words) for words in BY_HAND)
    ]
    assert loose == []


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_tests_that_a_checklist_names_exist(page: Path) -> None:
    named = _HELD.findall(page.read_text(encoding="utf-8"))
    assert named
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, (
            f"{file}::{name}"
        )
