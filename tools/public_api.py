"""Write `tests/unit/public_api.txt`: the signature of everything that `hyperpod_dpd` exports.

A reviewer sees in its difference whether a change adds something (minor version) or takes something away (major).
"""

import contextlib
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import get_args, get_origin

import hyperpod_dpd

FILE = Path(__file__).resolve().parents[1] / "tests" / "unit" / "public_api.txt"


def text() -> str:
    """Return the whole surface, one name or member a line."""
    return "".join(f"{line}\n" for name in sorted(hyperpod_dpd.__all__) for line in describe(name))


def describe(name: str) -> Iterator[str]:
    """Yield the lines of one public name."""
    thing = getattr(hyperpod_dpd, name)
    if inspect.isclass(thing):
        yield from _class_lines(name, thing)
    elif inspect.isfunction(thing):
        yield f"{name}{_signature(thing)}"
    elif callable(thing):
        yield f"{name}{_signature(type(thing).__call__)}"
    else:
        yield f"{name}: {type(thing).__name__}"


def _class_lines(name: str, thing: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
    yield f"class {name}({bases})"
    fields = (
        {field.name: field for field in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else {}
    )
    if issubclass(thing, Enum):
        yield from (f"    {member.name}" for member in thing)
    elif fields:
        yield from (f"    {_field(field)}" for field in fields.values())
    elif "__init__" in vars(thing) and not vars(thing).get("_is_protocol"):
        yield f"    __init__{_signature(thing.__init__)}"
    yield from (f"    {attribute}" for attribute in _attributes(thing))
    for member, body in sorted(vars(thing).items()):
        if member.startswith("_") or member in fields:
            continue
        if isinstance(body, property) and body.fget:
            yield f"    {member}: {_type(inspect.signature(body.fget).return_annotation)}"
        elif inspect.isfunction(body):
            yield f"    {member}{_signature(body)}"


def _attributes(thing: type) -> list[str]:
    """Return the names below `Attributes:` in the docstring, which is where a construct says what it offers."""
    described = inspect.getdoc(thing) or ""
    section = re.search(r"^Attributes:\n((?: {4}.*\n?)+)", described, flags=re.MULTILINE)
    return re.findall(r"^ {4}(\w+):", section[1], flags=re.MULTILINE) if section else []


def _field(field: "dataclasses.Field[object]") -> str:
    optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    return f"{field.name}: {_type(field.type)}{' = …' if optional else ''}"


def _signature(function: Callable[..., object]) -> str:
    signature = inspect.signature(function)
    parts = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if parameter.default is parameter.empty else " = …"
        parts.append(f"{parameter.name}: {_type(parameter.annotation)}{default}")
    return f"({', '.join(parts)}) -> {_type(signature.return_annotation)}"


def _type(annotation: object) -> str:
    """Return an annotation without module names: a class may move inside the library, and CDK's move in CDK."""
    if hasattr(annotation, "__metadata__"):
        # the limits of a value are the schema's business
        return _type(get_args(annotation)[0])
    if isinstance(annotation, list):
        return f"[{', '.join(map(_type, annotation))}]"
    parts = [repr(each) if isinstance(each, str) else _type(each) for each in get_args(annotation)]
    name = _name(get_origin(annotation) or annotation)
    if name in {"UnionType", "Union"}:
        return " | ".join(parts)
    return f"{name}[{', '.join(parts)}]" if parts else name


def _name(annotation: object) -> str:
    special = {inspect.Parameter.empty: "?", None: "None", type(None): "None", Ellipsis: "..."}
    if isinstance(annotation, str):
        return annotation
    with contextlib.suppress(TypeError):
        if annotation in special:
            return special[annotation]
    return str(getattr(annotation, "__name__", annotation))


def main() -> int:
    FILE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
