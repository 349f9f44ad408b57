"""News for users: one fragment a change, collected at a release."""

from pathlib import Path

import pytest

from tests.support.deployments import ROOT
from tools.changelog import collect, said

_FRAGMENTS = sorted((ROOT / "changelog.d").glob("*.md"))


@pytest.mark.parametrize("fragment", _FRAGMENTS, ids=lambda path: path.stem)
def test_every_fragment_is_for_users(fragment: Path) -> None:
    news = said(fragment)
    assert news.endswith((".", "`)", ")")), "a fragment is a sentence"
    assert 30 <= len(news) <= 1000
    assert fragment.stem == fragment.stem.lower()
    assert len([line for line in fragment.read_text(encoding="utf-8").splitlines() if line.strip()]) == 1


def _repository(folder: Path, changelog: str) -> Path:
    (folder / "changelog.d").mkdir()
    (folder / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    return folder


def test_a_release_collects_the_fragments_above_the_older_versions(tmp_path: Path) -> None:
    root = _repository(tmp_path, "# Changelog\n\nHead.\n\n## 0.1.0 – 2026-01-01\n\n- Old.\n")
    (root / "changelog.d/b.md").write_text("- Second.\n", encoding="utf-8")
    (root / "changelog.d/a.md").write_text("First.\n", encoding="utf-8")
    collect(root, "0.2.0", "2026-11-30")
    assert (root / "CHANGELOG.md").read_text(encoding="utf-8") == (
        "# Changelog\n\nHead.\n\n## 0.2.0 – 2026-11-30\n\n- First.\n- Second.\n\n## 0.1.0 – 2026-01-01\n\n- Old.\n"
    )
    assert list((root / "changelog.d").iterdir()) == []


@pytest.mark.parametrize(
    ("version", "fragment", "says"),
    [
        ("next", "News.", "three numbers"),
        ("0.1.0", "News.", "already"),
        ("0.2.0", None, "no fragments"),
    ],
)
def test_what_is_no_release_changes_nothing(
    tmp_path: Path, version: str, fragment: str | None, says: str
) -> None:
    root = _repository(tmp_path, "# Changelog\n\n## 0.1.0 – 2026-01-01\n\n- Old.\n")
    if fragment:
        (root / "changelog.d/a.md").write_text(fragment, encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        collect(root, version, "2026-11-30")
    assert (root / "CHANGELOG.md").read_text(encoding="utf-8").count("## ") == 1
