"""Command lines: which program a container runs, and its arguments with their lines."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from hyperpod_dpd.lint.node import Node, whole_number
from hyperpod_dpd.rules.serving.subjects import spelled_flag
from hyperpod_dpd.spec.value import record

SHELLS: Final = frozenset({"ash", "bash", "dash", "sh"})
_ENDS: Final = frozenset("();<>|&\n")
_SUBSTITUTION: Final = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`")
_UNITS: Final = {"k": 1000, "m": 10**6, "g": 10**9, "K": 1024, "M": 1024**2, "G": 1024**3}
"""Suffixes of numbers as vLLM's parser reads them."""

_SHORT: Final = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
}


@record
class Token:
    """One word of a command line."""

    text: str
    node: Node
    """Where it is written."""

    @property
    def known(self) -> bool:
        """Whether the text is the value itself and not a shell variable that names it."""
        return not ("$" in self.text and not self.text.startswith("${dpd:"))


@record
class Argument:
    """A flag and what follows it."""

    flag: str
    """As vLLM spells it: hyphens, long."""

    given: str
    value: Token | None
    node: Node

    @property
    def text(self) -> str:
        """The flag with its value, for a message."""
        return self.given if self.value is None else f"{self.given} {self.value.text}"


@record
class Arguments:
    """Arguments of one program."""

    positional: tuple[Token, ...] = ()
    flags: tuple[Argument, ...] = ()

    def last(self, *names: str) -> Argument | None:
        """Return the last of the flags called one of `names`: it is the one that counts."""
        found = [argument for argument in self.flags if argument.flag in names]
        return found[-1] if found else None

    def value(self, *names: str) -> str | None:
        """Return the value of the last flag called one of `names`."""
        found = self.last(*names)
        return None if found is None or found.value is None else found.value.text

    def number(self, *names: str) -> int | None:
        """Return the value as a whole number, with vLLM's suffixes; None when it is none or absent."""
        return count(self.value(*names))

    def switched(self, name: str) -> Argument | None:
        """Return the last of `--name` and `--no-name`."""
        return self.last(f"--{name}", f"--no-{name}")


def count(text: str | None) -> int | None:
    """Return `text` as a whole number, `16k` and `16K` included."""
    if text and text[-1] in _UNITS:
        try:
            return int(float(text[:-1]) * _UNITS[text[-1]])
        except (ValueError, OverflowError):
            return None
    return whole_number(text)


def words(*lists: Node | None) -> tuple[Token, ...]:
    """Return the words of `command` and `args`."""
    return tuple(
        Token(text=item.text or "", node=item) for node in lists if node is not None for item in node.items
    )


def programs(tokens: Sequence[Token]) -> Iterator[tuple[Token, ...]]:
    """Yield the command lines in `tokens`: one, or those of a script given to a shell."""
    script = _script(tokens)
    if script is None:
        yield tuple(tokens)
        return
    line: list[Token] = []
    for token in _shell_words(script):
        if set(token.text) <= _ENDS and token.text:
            if line:
                yield tuple(line)
            line = []
        else:
            line.append(token)
    if line:
        yield tuple(line)


def _script(tokens: Sequence[Token]) -> Token | None:
    if not tokens or PurePosixPath(tokens[0].text).name not in SHELLS:
        return None
    for index, token in enumerate(tokens[1:], start=1):
        if token.text.startswith("-") and token.text.endswith("c"):
            return tokens[index + 1] if index + 1 < len(tokens) else None
        if not token.text.startswith("-"):
            return None
    return None


def _opaque(found: re.Match[str]) -> str:
    """Return a word as long as a command substitution, whose value is not known here."""
    return "$" + "_" * (len(found.group()) - 1)


def _shell_words(script: Token) -> Iterator[Token]:
    text = _SUBSTITUTION.sub(_opaque, script.text.replace("\\\n", "  "))
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    first = script.node.text_line or script.node.line
    lines_known = script.node.text_line is not None
    # a joined line keeps its length, so its words are looked up in the text as it was written
    position = 0
    while True:
        try:
            word = lexer.get_token()
        except ValueError:  # an open quote: what was read so far still counts
            return
        if word is None:
            return
        found = script.text.find(word.strip("'\""), position) if word.strip() else -1
        if found >= 0:
            position = found
        line = first + script.text.count("\n", 0, position) if lines_known else script.node.line
        yield Token(
            text=word,
            node=Node(data=word, file=script.node.file, line=line, path=script.node.path, written=word),
        )


def arguments(tokens: Sequence[Token]) -> Arguments:
    """Return `tokens` as flags with their values, and the words before the first flag."""
    positional: list[Token] = []
    flags: list[Argument] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        flag = spelled_flag(token.text)
        if flag is None:
            if not flags:
                positional.append(token)
            continue
        given, equals, value = token.text.partition("=")
        follows: Token | None = Token(text=value, node=token.node) if equals else None
        if not equals and index < len(tokens) and spelled_flag(tokens[index].text) is None:
            follows = tokens[index]
            index += 1
        flags.append(Argument(flag=_SHORT.get(flag, flag), given=given, value=follows, node=token.node))
    return Arguments(positional=tuple(positional), flags=tuple(flags))
