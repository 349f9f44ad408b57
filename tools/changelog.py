"""Collect the fragments of `changelog.d/` below a version in `CHANGELOG.md`, and remove them."""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def collect(root: Path, version: str, day: str) -> None:
    """Move every fragment below `root` into its changelog, under `version`.

    Raises:
        ValueError: there is nothing to collect, or the version is no number or is there already.
    """
    changelog, fragments = root / "CHANGELOG.md", sorted((root / "changelog.d").glob("*.md"))
    text = changelog.read_text(encoding="utf-8")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"no version: given `{version}`. help: write three numbers, such as `0.2.0`")
    if f"## {version} " in text:
        raise ValueError(f"`{version}` is in the changelog already. help: choose the next number")
    if not fragments:
        raise ValueError("no fragments in `changelog.d`. help: a release without changes needs no release")
    head, _, before = text.partition("\n## ")
    entries = "\n".join(f"- {said(fragment)}" for fragment in fragments)
    older = f"\n## {before}" if before else ""
    changelog.write_text(f"{head.rstrip()}\n\n## {version} – {day}\n\n{entries}\n{older}", encoding="utf-8")
    for fragment in fragments:
        fragment.unlink()


def said(fragment: Path) -> str:
    """Return what a fragment says, without the dash that some begin with."""
    return " ".join(fragment.read_text(encoding="utf-8").split()).removeprefix("- ")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tools.changelog VERSION", file=sys.stderr)
        return 2
    try:
        collect(ROOT, arguments[0], datetime.now(tz=UTC).date().isoformat())
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
