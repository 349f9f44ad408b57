"""Links lead somewhere: from every page to a file that exists, and from the site to nothing outside of it."""

import re
from pathlib import Path

import pytest

from tests.support.deployments import ROOT
from tests.support.pages import pages

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PAGES = [*pages(), ROOT / "router/README.md"]


def _links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [
        link.partition("#")[0] for link in _LINK.findall(text) if not re.match(r"https?://|#|mailto:", link)
    ]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_exist(page: Path) -> None:
    assert [link for link in _links(page) if link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    "page", [page for page in _PAGES if page.is_relative_to(ROOT / "docs")], ids=lambda page: page.stem
)
def test_a_page_of_the_site_links_to_pages_of_the_site(page: Path) -> None:
    """Name a file of the repository in backquotes instead: the site does not hold it."""
    outside = [
        link for link in _links(page) if not (page.parent / link).resolve().is_relative_to(ROOT / "docs")
    ]
    assert outside == []
