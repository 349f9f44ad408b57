"""The edge where a YAML file becomes a `Deployment`."""

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import yaml
import yaml.constructor
from pydantic import ValidationError
from pydantic_core import to_json

from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.deployment import Deployment
from hyperpod_dpd.spec.value import record
from hyperpod_dpd.spec.violation import adapter, violations

MAX_FILE_BYTES = 1_000_000
"""A deployment file is a page of text; anything larger is a mistake or an attack."""

STANDARD_INPUT = Path("-")
"""Stands for what comes through a pipe, as in `git show HEAD:my.yaml | dpd check -`."""

MAX_DEPTH = 20
"""Levels of nesting; the specification itself has six."""

_WHICH = "name a text file that you may read"

_PLAIN_TAGS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}

_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@record
class Mistake:
    """One thing in a file that cannot be read as a deployment."""

    file: str
    line: int | None
    path: str
    """Where in the file; empty where the whole file is meant."""
    says: str
    """What is wrong with it, and what to do."""

    @property
    def message(self) -> str:
        """One sentence with the place in the file."""
        return f"`{self.path}`: {self.says}" if self.path else self.says

    @property
    def location(self) -> str:
        """`file:line`, or the file where no line is known."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        return f"{self.location}: error: {self.message}"


class UnreadableDeploymentError(ValueError):
    """The file is not a deployment.

    Attributes:
        mistakes: every reason.
    """

    mistakes: tuple[Mistake, ...]

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in mistakes))


@record
class DeploymentFile:
    """A deployment together with the lines it was read from."""

    deployment: Deployment
    path: Path
    lines: dict[str, tuple[str, int]]
    """File and line by path into the deployment."""

    def place(self, path: str) -> tuple[str, int | None]:
        """Return file and line of `path`, or of the nearest part of it that the file has."""
        return _place(self.lines, path, self.path)


@checked
def load(path: str | Path) -> DeploymentFile:
    """Read the deployment file at `path`, or standard input where that is `-`.

    `platform` may be the name of another YAML file, relative to this one, that several deployments share.

    Example:
        >>> from hyperpod_dpd import check, load
        >>> check(load("deployments/llama-3.3-70b-p5.yaml").deployment).errors
        ()

    Raises:
        UnreadableDeploymentError: with every mistake at once: not a file, not text, not YAML, unknown keys,
            wrong types, missing values, values out of range.
    """
    path = Path(path)
    document = _read(
        path, empty="start from `deployments/llama-3.3-70b-p5.yaml`", piped=path == STANDARD_INPUT
    )
    if isinstance(document.data.get("platform"), str):
        _include_platform(document, path)
    _anchor_files(document.data, path.parent)
    mistakes = list(document.mistakes)
    try:
        # through JSON, because strict reading of Python objects would refuse lists and enum values
        deployment = adapter().validate_json(to_json(document.data), strict=True)
    except ValidationError as error:
        mistakes += _refused(error, document, path)
    if mistakes:
        raise UnreadableDeploymentError(
            sorted(mistakes, key=lambda mistake: (mistake.file, mistake.line or 0))
        )
    return DeploymentFile(deployment=deployment, path=path, lines=document.lines)


@dataclass(slots=True, kw_only=True)
class _Document:
    """Plain data of a file, with what is known about where it was written."""

    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, tuple[str, int]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    """How a value was written, by path, where its text says more than its value (`1.30`)."""
    mistakes: list[Mistake] = field(default_factory=list)


_FILES = (("model", "config_file"), ("traffic", "trace_file"))
"""Keys that name a local file, relative to the deployment file: a deployment means the same from any folder."""


def _anchor_files(data: dict[str, Any], folder: Path) -> None:
    for section, key in _FILES:
        values = data.get(section)
        if isinstance(values, dict) and isinstance(values.get(key), str) and values[key]:
            values[key] = str(folder / values[key])


def _include_platform(document: _Document, path: Path) -> None:
    name = document.data["platform"]
    try:
        shared = _read(path.parent / name, empty="write the keys of `platform` into it")
    except UnreadableDeploymentError as error:
        file, line = document.lines["platform"]
        document.mistakes += [
            Mistake(file=file, line=line, path="platform", says=f"names a file with a mistake: {mistake}")
            for mistake in error.mistakes
        ]
        document.data.pop("platform")
        return
    document.data["platform"] = shared.data
    document.mistakes += shared.mistakes
    document.lines |= {f"platform.{key}": place for key, place in shared.lines.items()}
    document.written |= {f"platform.{key}": text for key, text in shared.written.items()}


def _refuse(path: Path, message: str, line: int | None = None) -> UnreadableDeploymentError:
    return UnreadableDeploymentError([Mistake(file=str(path), line=line, path="", says=message)])


def _read(path: Path, *, empty: str, piped: bool = False) -> _Document:
    root = _compose(path, _text(path, piped=piped))
    if root is None:
        raise _refuse(path, f"the file is empty. help: {empty}")
    if not isinstance(root, yaml.MappingNode):
        raise _refuse(path, "should be a mapping of keys to values", root.start_mark.line + 1)
    reader = _Reader(path)
    reader.read(root)
    return reader.document


def _compose(path: Path, text: str) -> yaml.Node | None:
    try:
        root: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise _refuse(path, _yaml_problem(error, text), line) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, text.find(chr(error.character))) + 1 if error.character else None
        raise _refuse(
            path, f"not text: it holds the control character 0x{error.character:02x}", line
        ) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise _refuse(path, f"not YAML: {error}".splitlines()[0]) from None
    return root


def _yaml_problem(error: yaml.MarkedYAMLError, text: str) -> str:
    problem = error.problem or error.context or "it cannot be read"
    if "another document" in problem:
        return "holds more than one YAML document. help: one file is one deployment; remove the `---`"
    mark = error.problem_mark
    lines = text.split("\n")
    if mark and mark.line < len(lines) and "\t" in lines[mark.line][: mark.column + 1]:
        return f"not YAML: {problem}. help: indent with spaces, not with tabs"
    return f"not YAML: {problem}"


def _bytes(path: Path, *, piped: bool) -> bytes:
    if piped:
        return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    with path.open("rb") as stream:
        return stream.read(MAX_FILE_BYTES + 1)


def _text(path: Path, *, piped: bool) -> str:
    try:
        raw = _bytes(path, piped=piped)
    except OSError as error:
        reason = error.strerror or str(error)
        raise _refuse(path, f"cannot be read: {reason[:1].lower()}{reason[1:]}. help: {_WHICH}") from None
    except ValueError as error:  # a NUL in the name
        raise _refuse(path, f"cannot be read: {error}. help: {_WHICH}") from None
    if len(raw) > MAX_FILE_BYTES:
        raise _refuse(
            path, f"larger than {MAX_FILE_BYTES:,} bytes; a deployment file is a page of text. help: {_WHICH}"
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refuse(
            path, f"not UTF-8 text: byte {error.start} is 0x{raw[error.start]:02x}. help: save it as UTF-8"
        ) from None
    if "\0" in text:
        raise _refuse(path, f"not text: it holds NUL bytes. help: {_WHICH}")
    return text


class _Reader:
    """Turns YAML nodes into plain data and remembers the line of every value."""

    def __init__(self, file: Path) -> None:
        self.document = _Document()
        self._file = str(file)
        self._seen: set[int] = set()
        self._scalars = yaml.constructor.SafeConstructor()

    def read(self, root: yaml.MappingNode) -> None:
        """Fill `document` from the file's outermost mapping."""
        value = self._value(root, "", depth=0)
        if isinstance(value, dict):
            self.document.data = value

    def _value(self, node: yaml.Node, path: str, depth: int) -> Any:
        if id(node) in self._seen:
            # an alias turns a few lines into gigabytes, and a deployment needs none
            return self._mistake(node, path, "YAML aliases are refused. help: write the value out")
        self._seen.add(id(node))
        if depth > MAX_DEPTH:
            return self._mistake(node, path, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if node.tag not in _PLAIN_TAGS:
            return self._mistake(node, path, f"the YAML tag `{node.tag}` is refused. help: remove it")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        return [self._item(child, f"{path}[{index}]", depth) for index, child in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._mistake(key_node, path, "a key should be a word, not a list or a mapping")
                continue
            key = key_node.value
            below = f"{path}.{key}" if path else key
            if _has_surrogates(key):
                self._mistake(key_node, path, "a key holds half of a Unicode surrogate pair")
            elif key in data:
                first = self.document.lines[below][1]
                self._mistake(key_node, below, f"the key is given twice, first on line {first}")
            else:
                self.document.lines[below] = (self._file, key_node.start_mark.line + 1)
                data[key] = self._value(value_node, below, depth + 1)
        return data

    def _item(self, node: yaml.Node, path: str, depth: int) -> Any:
        self.document.lines[path] = (self._file, node.start_mark.line + 1)
        return self._value(node, path, depth + 1)

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        try:
            value = self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError, KeyError) as error:
            reason = getattr(error, "problem", None) or str(error)
            return self._mistake(node, path, f"not a value: {reason}")
        if isinstance(value, float) and not math.isfinite(value):
            return self._mistake(node, path, f"`{node.value}` is not a finite number")
        if isinstance(value, date):  # a `datetime` is one, too
            value = node.value
        if not isinstance(value, str | int | float | bool | None):
            return self._mistake(node, path, f"the YAML tag `{node.tag}` is refused. help: remove it")
        if isinstance(value, str) and _has_surrogates(value):
            return self._mistake(node, path, "holds half of a Unicode surrogate pair")
        if not isinstance(value, str):
            self.document.written[path] = node.value
        return value

    def _mistake(self, node: yaml.Node, path: str, message: str) -> None:
        self.document.mistakes.append(
            Mistake(file=self._file, line=node.start_mark.line + 1, path=path, says=message)
        )


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _refused(error: ValidationError, document: _Document, path: Path) -> Iterator[Mistake]:
    """Yield what the types refuse, without what only follows from a mistake already reported."""
    reported = {mistake.path for mistake in document.mistakes}
    for violation in violations(error, document.written):
        if reported.isdisjoint(_ancestors(violation.path)):
            file, line = _place(document.lines, violation.path, path)
            yield Mistake(file=file, line=line, path=violation.path, says=violation.message)


def _place(lines: dict[str, tuple[str, int]], path: str, file: Path) -> tuple[str, int | None]:
    """Return file and line of `path`, or of the nearest part of it that the file has."""
    known: Iterable[str] = (part for part in _ancestors(path) if part in lines)
    nearest = next(iter(known), None)
    return (str(file), None) if nearest is None else lines[nearest]


def _ancestors(path: str) -> Iterator[str]:
    """Yield `path` and the paths above it, nearest first."""
    while path:
        yield path
        cut = max(path.rfind("."), path.rfind("["))
        path = path[:cut] if cut > 0 else ""
