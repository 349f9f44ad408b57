"""The navigation of the site leads to every page, once."""

import tomllib
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.support.deployments import ROOT

_CONFIGURATION = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
_LISTED_ELSEWHERE = ("runbooks/", "decisions/")
"""Folders whose pages are reached from an index or a table."""


def _entries(entries: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        for title, below in entry.items():
            if isinstance(below, str):
                yield title, below
            else:
                yield from _entries(below)


_LISTED = list(_entries(_CONFIGURATION["project"]["nav"]))


def test_no_page_and_no_title_is_listed_twice() -> None:
    counted = Counter(word for entry in _LISTED for word in entry)
    assert [word for word, times in counted.items() if times > 1] == []


def test_every_page_is_in_the_navigation_or_in_an_index() -> None:
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    listed = {page for _, page in _LISTED}
    assert listed - pages == set()
    assert {page for page in pages - listed if not page.startswith(_LISTED_ELSEWHERE)} == set()
