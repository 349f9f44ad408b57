"""Decisions are found from their index, and each says why, what and what follows."""

import re

import pytest

from tests.support.deployments import ROOT

_FOLDER = ROOT / "docs/decisions"
_DECISIONS = sorted(_FOLDER.glob("[0-9]*.md"))


def test_the_index_lists_every_decision_once_and_in_order() -> None:
    listed = re.findall(
        r"^\| (\d+) \| \[.+\]\((\S+)\) \|$",
        (_FOLDER / "README.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    assert [name for _, name in listed] == [path.name for path in _DECISIONS]
    assert [int(number) for number, _ in listed] == list(range(1, len(_DECISIONS) + 1))


@pytest.mark.parametrize("path", _DECISIONS, ids=lambda path: path.stem)
def test_a_decision_says_why_what_and_what_follows(path: str) -> None:
    text = (_FOLDER / path).read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert re.search(r"^(Accepted|Superseded by \[.+\]), \d{4}-\d{2}-\d{2}\.$", text, flags=re.MULTILINE)
