"""A value in a YAML file together with the place where it is written."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Union

from hyperpod_dpd.spec.value import record

Data = Union[Mapping[str, "Node"], tuple["Node", ...], str, int, float, bool, None]  # noqa: UP007 - names a class below


@record
class Node:
    """One value: a mapping, a list or a scalar."""

    data: Data
    file: str
    line: int
    """Line of the value, 1 for the first."""

    path: str
    """Path inside its document, such as `spec.replicas`."""

    written: str = ""
    """How a scalar is written, without quotes."""

    text_line: int | None = None
    """First line of a block scalar's text; None where the text stands on one line."""

    def get(self, *keys: str | int) -> "Node | None":
        """Return what lies below `keys`, or None where something on the way is absent."""
        current: Node | None = self
        for key in keys:
            if current is None:
                return None
            data = current.data
            if isinstance(data, Mapping):
                current = data.get(str(key))
            elif isinstance(data, tuple) and isinstance(key, int) and key < len(data):
                current = data[key]
            else:
                return None
        return current

    @property
    def pairs(self) -> Mapping[str, "Node"]:
        """Children of a mapping by key; nothing for anything else."""
        return self.data if isinstance(self.data, Mapping) else {}

    @property
    def items(self) -> tuple["Node", ...]:
        """Items of a list; nothing for anything else."""
        return self.data if isinstance(self.data, tuple) else ()

    @property
    def text(self) -> str | None:
        """The scalar as text; None for null, a list or a mapping."""
        if self.data is None or isinstance(self.data, Mapping | tuple):
            return None
        return self.data if isinstance(self.data, str) else self.written

    @property
    def number(self) -> int | None:
        """The scalar as a whole number, also when it is written in quotes; None for anything else."""
        return whole_number(self.text)

    def text_at(self, *keys: str | int) -> str | None:
        """Return the text below `keys`."""
        found = self.get(*keys)
        return None if found is None else found.text

    def walk(self) -> Iterator["Node"]:
        """Yield this value and everything below it."""
        yield self
        below = self.data.values() if isinstance(self.data, Mapping) else self.items
        for child in below:
            yield from child.walk()

    def replaced(self, data: Any) -> "Node":
        """Return plain `data` as a node that stands where this one does."""
        return _wrapped(data, self.file, self.line, self.path)

    def shown(self) -> str:
        """Return the value for a message, on one line."""
        text = self.text
        if text is None:
            text = json.dumps(plain(self))
        text = " ".join(text.split())
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_SHOWN = 80


def whole_number(text: str | None) -> int | None:
    """Return `text` as a whole number, or None."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def plain(node: Node) -> Any:
    """Return the value of `node` as plain data."""
    if isinstance(node.data, Mapping):
        return {key: plain(child) for key, child in node.data.items()}
    if isinstance(node.data, tuple):
        return [plain(child) for child in node.data]
    return node.data


def _wrapped(data: Any, file: str, line: int, path: str) -> Node:
    below: Data
    if isinstance(data, Mapping):
        below = {str(key): _wrapped(value, file, line, f"{path}.{key}") for key, value in data.items()}
    elif isinstance(data, list | tuple):
        below = tuple(_wrapped(value, file, line, f"{path}[{index}]") for index, value in enumerate(data))
    else:
        below = data
    written = json.dumps(data) if isinstance(data, bool) else str(data)
    return Node(data=below, file=file, line=line, path=path, written=written)
