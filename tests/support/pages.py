"""Pages of the documentation as their readers use them: blocks that are run, and commands that only an account can run."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.deployments import ROOT

_FENCE = re.compile(
    r"(?:^[ ]*<!-- needs: (?P<needs>[a-z, ]+) -->\n+)?"
    r"^(?P<indent>[ ]*)```(?P<language>[a-z]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```[ ]*$",
    flags=re.MULTILINE | re.DOTALL,
)

ELISION = "…"
"""Stands for any text in a shown output; alone on a line, for any lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    needs: str | None
    """What somebody needs to run it: an account, a cluster, a GPU. None: nothing but this repository."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of a `console` block and what the page says it prints."""

    text: str
    output: str


def pages() -> list[Path]:
    """Return every page that a reader is sent to."""
    return [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        ROOT / "examples/README.md",
    ]


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of `page` in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page=page,
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            text=re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            needs=found["needs"],
        )
        for found in _FENCE.finditer(text)
    ]


def commands(block: Block) -> list[Command]:
    """Return what a `console` block types, each with what it prints."""
    assert block.text.startswith("$ "), f"{block}: a console block starts with `$ `"
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        typed, _, printed = re.sub(r"\\\n\s*", "", part).partition("\n")
        # a reader's note behind the command is no part of it
        found.append(Command(text=re.sub(r"\s{2,}# .*$", "", typed), output=printed.rstrip("\n")))
    return found


def lines_of_script(block: Block) -> list[str]:
    """Return the commands of a `bash` block."""
    joined = re.sub(r"\\\n\s*", "", block.text)
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")]


def programs(command: str) -> Iterator[list[str]]:
    """Yield the words of every program that a command line starts, without redirections and settings."""
    plain = re.sub(r"\s\d?[<>]+(&\d|\s?[\w./-]+)", "", f" {command}")
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=";|&")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in (*lexer, ";"):
        if not re.fullmatch(r"[;|&]+", word):
            words.append(word)
            continue
        while words and (words[0] in {"do", "then", "else"} or re.fullmatch(r"[A-Z_]+=.*", words[0])):
            words = words[1:]
        if words and words[0] not in {"for", "while", "done", "if", "fi"}:
            yield words
        words = []


def matches(shown: str, printed: str) -> bool:
    """Return whether `printed` is what a page shows."""
    pattern = "".join(
        r"(?:.*\n)*?"
        if line.strip() == ELISION
        else ".*?".join(map(re.escape, line.split(ELISION))) + r"\s*\n"
        for line in shown.splitlines()
    )
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n" if printed.strip() else "") is not None
