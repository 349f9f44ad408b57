"""The edge where a YAML file becomes a `Deployment`."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
import yaml.constructor
from pydantic import TypeAdapter, ValidationError

from hyperpod_dpd.spec.deployment import Deployment

MAX_FILE_BYTES = 1_000_000
"""A deployment file is a page of text; anything larger is a mistake or an attack."""

_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing in a file that cannot be read as a deployment."""

    file: str
    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        subject = f"`{self.path}`: " if self.path else ""
        return f"{where}: error: {subject}{self.message}"


class UnreadableDeploymentError(ValueError):
    """The file is not a deployment; `mistakes` holds every reason."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in mistakes))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFile:
    """A deployment together with the lines it was read from."""

    deployment: Deployment
    path: Path
    lines: dict[str, tuple[str, int]]
    """File and line by path into the deployment."""

    def place(self, path: str) -> tuple[str, int | None]:
        """Return file and line of `path`, or of the nearest part of it that the file has."""
        for candidate in _ancestors(path):
            if candidate in self.lines:
                return self.lines[candidate]
        return str(self.path), None


def load(path: str | Path) -> DeploymentFile:
    """Read the deployment file at `path`.

    `platform` may be the name of another YAML file, relative to this one, that several deployments share.

    Raises:
        UnreadableDeploymentError: with every mistake at once: not a file, not text, not YAML, unknown keys,
            wrong types, missing values, values out of range.
    """
    path = Path(path)
    data, lines = _read(path)
    if isinstance(data.get("platform"), str):
        shared = path.parent / data["platform"]
        data["platform"], shared_lines = _read(shared)
        lines |= {f"platform.{key}" if key else "platform": place for key, place in shared_lines.items()}
    try:
        deployment = _adapter().validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise UnreadableDeploymentError(list(_mistakes(error, path, lines))) from None
    return DeploymentFile(deployment=deployment, path=path, lines=lines)


@cache
def _adapter() -> TypeAdapter[Deployment]:
    return TypeAdapter(Deployment)


def _refuse(path: Path, message: str, line: int | None = None) -> UnreadableDeploymentError:
    return UnreadableDeploymentError([Mistake(file=str(path), line=line, path="", message=message)])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, tuple[str, int]]]:
    text = _text(path)
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise _refuse(path, f"not YAML: {error.problem or error.context}", line) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise _refuse(path, f"not YAML: {error}".splitlines()[0]) from None
    if root is None:
        raise _refuse(path, "the file is empty. help: start from `deployments/llama-3.3-70b-p5.yaml`")
    if not isinstance(root, yaml.MappingNode):
        raise _refuse(path, "a deployment is a mapping of keys to values", root.start_mark.line + 1)
    reader = _Reader(path)
    data = reader.mapping(root, "")
    if reader.mistakes:
        raise UnreadableDeploymentError(reader.mistakes)
    return data, reader.lines


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _refuse(path, f"cannot be read: {error.strerror or error}") from None
    if len(raw) > MAX_FILE_BYTES:
        raise _refuse(path, f"larger than {MAX_FILE_BYTES:,} bytes; a deployment file is a page of text")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refuse(path, f"not UTF-8 text: byte {error.start} is 0x{raw[error.start]:02x}") from None
    if "\0" in text:
        raise _refuse(path, "not text: it holds NUL bytes")
    return text


class _Reader:
    """Turns YAML nodes into plain data and remembers the line of every value."""

    def __init__(self, file: Path) -> None:
        self.lines: dict[str, tuple[str, int]] = {}
        self.mistakes: list[Mistake] = []
        self._file = str(file)
        self._seen: set[int] = set()
        self._scalars = yaml.constructor.SafeConstructor()

    def mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._mistake(key_node, path, "a key is a word, not a list or a mapping")
                continue
            key = key_node.value
            below = f"{path}.{key}" if path else key
            if key in data:
                self._mistake(
                    key_node, below, f"the key is given twice, first on line {self.lines[below][1]}"
                )
                continue
            self.lines[below] = (self._file, key_node.start_mark.line + 1)
            data[key] = self._value(value_node, below)
        return data

    def _value(self, node: yaml.Node, path: str) -> Any:
        if id(node) in self._seen:
            # an alias turns a few lines into gigabytes, and a deployment needs none
            self._mistake(node, path, "YAML aliases are refused. help: write the value out")
            return None
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(child, f"{path}[{index}]") for index, child in enumerate(node.value)]
        return self._scalar(node, path)

    def _item(self, node: yaml.Node, path: str) -> Any:
        self.lines[path] = (self._file, node.start_mark.line + 1)
        return self._value(node, path)

    def _scalar(self, node: yaml.Node, path: str) -> Any:
        try:
            value = self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            reason = getattr(error, "problem", None) or str(error)
            self._mistake(node, path, f"not a value: {reason}")
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self._mistake(node, path, f"`{node.value}` is not a finite number")
            return None
        return value if isinstance(value, str | int | float | bool | None) else str(node.value)

    def _mistake(self, node: yaml.Node, path: str, message: str) -> None:
        line = node.start_mark.line + 1
        self.mistakes.append(Mistake(file=self._file, line=line, path=path, message=message))


def _mistakes(error: ValidationError, path: Path, lines: dict[str, tuple[str, int]]) -> Iterator[Mistake]:
    for detail in error.errors(include_url=False):
        # pydantic puts the tag of a union into the location; the file has no such key
        key = _location_in_file(detail["loc"], lines)
        missing = detail["type"] == "missing"
        nearest = next((part for part in _ancestors(key) if part in lines), "")
        file, line = lines.get(nearest, (str(path), None))
        yield Mistake(file=file, line=line, path=key, message=_message(detail, missing=missing))


def _location_in_file(location: Sequence[int | str], lines: dict[str, tuple[str, int]]) -> str:
    key = ""
    for position, part in enumerate(location):
        below = f"{key}[{part}]" if isinstance(part, int) else f"{key}.{part}" if key else str(part)
        last = position == len(location) - 1
        if below in lines or last:
            key = below
    return key


def _message(detail: Any, *, missing: bool) -> str:
    kind = detail["type"]
    if missing:
        return "is missing"
    if kind == "unexpected_keyword_argument":
        return "unknown key. help: `dpd schema` lists the keys"
    message = str(detail["msg"])
    message = message[0].lower() + message[1:]
    if kind in {"dataclass_type", "dict_type", "tuple_type"}:
        return message
    return f"{message}, given `{detail['input']}`"


def _ancestors(path: str) -> Iterator[str]:
    """Yield `path` and the paths above it, nearest first."""
    while path:
        yield path
        cut = max(path.rfind("."), path.rfind("["))
        path = path[:cut] if cut > 0 else ""
