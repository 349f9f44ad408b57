"""From files to documents. Everything that is not YAML text is refused with file and line."""

import os
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Final

import yaml
import yaml.constructor

from hyperpod_dpd.lint.node import Data, Node
from hyperpod_dpd.spec.value import record

MAX_FILE_BYTES: Final = 10_000_000
"""A rendered chart with everything in it has some hundred kilobytes."""

MAX_VALUES: Final = 500_000
"""Values of one file after its aliases are written out: a few lines of aliases can stand for gigabytes."""

MAX_DEPTH: Final = 60
"""Levels of nesting; a pod template has about fifteen."""

SUFFIXES: Final = (".yaml", ".yml", ".json")
STANDARD_INPUT: Final = Path("-")

_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE: Final = "tag:yaml.org,2002:merge"


@record
class Unreadable:
    """Why one file cannot be read."""

    file: str
    line: int | None
    message: str

    @property
    def location(self) -> str:
        """`file:line`, or the file where no line is known."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        return f"{self.location}: error: {self.message}"


class UnreadableManifestError(ValueError):
    """Some files are not manifests.

    Attributes:
        reasons: every reason.
    """

    reasons: tuple[Unreadable, ...]

    def __init__(self, reasons: Sequence[Unreadable]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("\n".join(map(str, reasons)))


def read(paths: Sequence[Path]) -> tuple[Node, ...]:
    """Return every document of the files at `paths`, and of the files below the folders among them.

    Raises:
        UnreadableManifestError: with every file that cannot be read.
    """
    documents: list[Node] = []
    reasons: list[Unreadable] = []
    for path in paths:
        try:
            for file in _files(path):
                try:
                    documents += parse(_text(file), str(file))
                except UnreadableManifestError as error:
                    reasons += error.reasons
        except UnreadableManifestError as error:
            reasons += error.reasons
    if not documents:
        # a check of nothing would say that nothing is wrong
        reasons += [
            Unreadable(file=str(path), line=None, message="holds no document. help: give rendered manifests")
            for path in paths
            if not reasons
        ]
    if reasons:
        raise UnreadableManifestError(reasons)
    return tuple(documents)


def parse(text: str, file: str, *, first_line: int = 1) -> tuple[Node, ...]:
    """Return the documents in `text`, which begins on `first_line` of `file`.

    Raises:
        UnreadableManifestError: not YAML, or more than a reader can take.
    """
    documents: list[Node] = []
    try:
        documents += [
            _Converter(file, first_line).convert(root, "", 0)
            for root in yaml.compose_all(text, Loader=_Loader)
        ]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + first_line if mark else None
        raise _refuse(file, f"not YAML: {_problem(error, text)}", line) from None
    except yaml.reader.ReaderError as error:
        place = text.find(chr(error.character)) if isinstance(error.character, int) else -1
        line = text.count("\n", 0, place) + first_line if place >= 0 else None
        raise _refuse(file, f"not text: {error.reason}", line) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise _refuse(file, f"not YAML: {error}".splitlines()[0]) from None
    return tuple(document for document in documents if document.data is not None)


def _problem(error: yaml.MarkedYAMLError, text: str) -> str:
    problem = error.problem or error.context or "it cannot be read"
    if "{{" in text:
        return f"{problem}. help: this is a chart's template; give the output of `helm template`"
    return problem


def _refuse(file: object, says: str, line: int | None = None) -> UnreadableManifestError:
    return UnreadableManifestError([Unreadable(file=str(file), line=line, message=says)])


def _files(path: Path) -> Iterator[Path]:
    if path == STANDARD_INPUT or not path.is_dir():
        yield path
        return
    found = sorted(
        Path(folder) / name
        for folder, folders, names in os.walk(path)
        for name in names
        if name.endswith(SUFFIXES)
        and not _hidden(Path(folder, name).relative_to(path))
        and folders is not None
    )
    if not found:
        raise _refuse(path, f"no file below it ends in {', '.join(f'`{each}`' for each in SUFFIXES)}")
    yield from found


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _text(path: Path) -> str:
    raw = _standard_input() if path == STANDARD_INPUT else _bytes(path)
    if len(raw) > MAX_FILE_BYTES:
        raise _refuse(path, f"larger than {MAX_FILE_BYTES:,} bytes. help: give the manifests only")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _refuse(path, f"not UTF-8 text: byte {error.start} is 0x{raw[error.start]:02x}", line) from None
    if "\0" in text:
        raise _refuse(path, "not text: it holds NUL bytes", text.count("\n", 0, text.index("\0")) + 1)
    return text


def _standard_input() -> bytes:
    return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)


def _bytes(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise _refuse(path, "neither a file nor a folder")
        with path.open("rb") as stream:
            return stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise _refuse(path, f"cannot be read: {reason[:1].lower()}{reason[1:]}") from None
    except ValueError as error:  # a NUL in the name
        raise _refuse(path, f"cannot be read: {error}") from None


class _Converter:
    """Turns YAML's nodes into ours; an alias is written out as often as it is used."""

    def __init__(self, file: str, first_line: int) -> None:
        self._file, self._first_line = file, first_line
        self._scalars = yaml.constructor.SafeConstructor()
        self._values = 0

    def convert(self, node: yaml.Node, path: str, depth: int) -> Node:
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._refused(node, f"more than {MAX_VALUES:,} values once its aliases are written out")
        if depth > MAX_DEPTH:
            raise self._refused(node, f"nested deeper than {MAX_DEPTH} levels")
        data: Data
        if isinstance(node, yaml.MappingNode):
            data = self._mapping(node, path, depth)
        elif isinstance(node, yaml.SequenceNode):
            data = tuple(
                self.convert(child, f"{path}[{index}]", depth + 1) for index, child in enumerate(node.value)
            )
        else:
            data = self._scalar(node)
        return Node(
            data=data,
            file=self._file,
            line=self._line(node),
            path=path,
            written=node.value if isinstance(node, yaml.ScalarNode) else "",
            text_line=self._line(node) + 1 if getattr(node, "style", None) in {"|", ">"} else None,
        )

    def _line(self, node: yaml.Node) -> int:
        return int(node.start_mark.line) + self._first_line

    def _refused(self, node: yaml.Node, says: str) -> UnreadableManifestError:
        return _refuse(self._file, says, self._line(node))

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Node]:
        data: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._refused(
                    key_node,
                    "a key is a list or a mapping. help: a chart's template with `{{ }}` is not YAML yet; give the "
                    "output of `helm template`",
                )
            if key_node.tag == _MERGE:
                value = self.convert(value_node, path, depth + 1)
                for source in value.items or (value,):
                    merged = {**source.pairs, **merged}
                continue
            key = str(key_node.value)
            if key in data:
                raise self._refused(key_node, f"the key `{key}` is given twice in one mapping")
            data[key] = self.convert(value_node, f"{path}.{key}" if path else key, depth + 1)
        return {**merged, **data}

    def _scalar(self, node: yaml.Node) -> Data:
        try:
            value = self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError, KeyError):
            # a tag of somebody's own: the text is what Kubernetes would have seen
            return str(node.value)
        if isinstance(value, date) or not isinstance(value, str | int | float | bool | None):
            return str(node.value)
        return value
