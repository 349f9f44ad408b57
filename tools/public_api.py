"""Write `tests/unit/public_api.txt`: the signature of everything that `hyperpod_dpd` exports, and what it hands out.

A reviewer sees in its difference whether a change adds something (minor version) or takes something away (major). What
has no type is written as `?`, and a test refuses it.
"""

import ast
import contextlib
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, get_args, get_origin

import hyperpod_dpd

FILE = Path(__file__).resolve().parents[1] / "tests" / "unit" / "public_api.txt"

_LIBRARY = "hyperpod_dpd."
_UNTYPED = inspect.Parameter.empty


def text() -> str:
    """Return the whole surface, one name or member a line."""
    exported = [line for name in sorted(hyperpod_dpd.__all__) for line in describe(name, exports()[name])]
    returned = [line for name, thing in handed_out().items() for line in describe(name, thing)]
    return "".join(f"{line}\n" for line in [*exported, "", "# handed out by these, not exported", *returned])


def exports() -> dict[str, Any]:
    """Return everything that the library exports by name."""
    return {name: getattr(hyperpod_dpd, name) for name in hyperpod_dpd.__all__}


def handed_out() -> dict[str, type]:
    """Return the classes of the library that users meet as results and attributes, and do not import, by name."""
    known = {thing for thing in exports().values() if inspect.isclass(thing)}
    found: dict[str, type] = {}
    waiting = list(exports().values())
    while waiting:
        for each in _mentioned(waiting.pop()):
            if each.__module__.startswith(_LIBRARY) and each not in known:
                known.add(each)
                waiting.append(each)
                if each.__name__ in found or each.__name__ in hyperpod_dpd.__all__:
                    raise ValueError(f"two classes are called `{each.__name__}`. help: rename one")
                found[each.__name__] = each
    return dict(sorted(found.items()))


def describe(name: str, thing: object) -> Iterator[str]:
    """Yield the lines of one public name."""
    if inspect.isclass(thing):
        yield from _class_lines(name, thing)
    elif inspect.isfunction(thing):
        yield f"{name}{_signature(thing)}"
    elif callable(thing):
        yield f"{name}{_signature(type(thing).__call__)}"
    else:
        yield f"{name}: {type(thing).__name__}"


def attributes(thing: type) -> dict[str, object]:
    """Return what objects of `thing` have, fields of dataclasses and properties left out, with its declared type.

    What a method sets on `self` or a class body assigns, and nobody declares, has the type `inspect.Parameter.empty`.
    """
    found: dict[str, object] = {}
    for each in _own_classes(thing):
        found |= vars(each).get("__annotations__", {})
        found |= {name: _UNTYPED for name in (*_assigned(each), *_set_on_self(each)) if name not in found}
    left_out = {*_fields(thing), *(thing.__members__ if issubclass(thing, Enum) else ())}
    return {
        name: annotation
        for name, annotation in found.items()
        if not name.startswith("_") and name not in left_out
    }


def _class_lines(name: str, thing: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
    yield f"class {name}({bases})"
    if issubclass(thing, Enum):
        yield from (f"    {member.name}" for member in thing)
    elif fields := _fields(thing):
        yield from (f"    {_field(field)}" for field in fields.values())
    elif (constructor := _constructor(thing)) is not None:
        yield f"    __init__{_signature(constructor)}"
    yield from (
        f"    {attribute}: {_type(annotation)}" for attribute, annotation in attributes(thing).items()
    )
    for member, body in sorted(_members(thing).items()):
        if isinstance(body, property | cached_property):
            yield f"    {member}: {_type(_getter(body).return_annotation)}"
        else:
            yield f"    {member}{_signature(_function(body))}"


def _mentioned(thing: object) -> Iterator[type]:
    """Yield the classes that a user meets through `thing`."""
    if inspect.isfunction(thing):
        yield from _in_signature(thing)
        return
    if not inspect.isclass(thing):
        return
    for field in _fields(thing).values():
        yield from _classes(field.type)
    if (constructor := _constructor(thing)) is not None and not _fields(thing):
        yield from _in_signature(constructor)
    for annotation in attributes(thing).values():
        yield from _classes(annotation)
    for body in _members(thing).values():
        if isinstance(body, property | cached_property):
            yield from _classes(_getter(body).return_annotation)
        else:
            yield from _in_signature(_function(body))


def _in_signature(function: Callable[..., object]) -> Iterator[type]:
    signature = inspect.signature(function)
    yield from _classes(signature.return_annotation)
    for parameter in signature.parameters.values():
        yield from _classes(parameter.annotation)


def _classes(annotation: object) -> Iterator[type]:
    arguments = annotation if isinstance(annotation, list) else get_args(annotation)
    for each in arguments:
        yield from _classes(each)
    if inspect.isclass(annotation) and not arguments:
        yield annotation


def _own_classes(thing: type) -> list[type]:
    """Return `thing` and those of its bases that are the library's, the most basic one first."""
    return [each for each in reversed(thing.__mro__) if each.__module__.startswith(_LIBRARY)]


def _fields(thing: type) -> dict[str, "dataclasses.Field[object]"]:
    return {each.name: each for each in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else {}


def _constructor(thing: type) -> Callable[..., object] | None:
    """Return how a user makes one; nobody makes an error, a protocol or the member of an enumeration."""
    if issubclass(thing, BaseException | Enum) or vars(thing).get("_is_protocol"):
        return None
    return next((vars(each)["__init__"] for each in thing.__mro__ if "__init__" in vars(each)), None)


def _members(thing: type) -> dict[str, Any]:
    """Return properties and methods that `thing` has of the library."""
    return {
        name: body
        for each in _own_classes(thing)
        for name, body in vars(each).items()
        if not name.startswith("_")
        and (
            isinstance(body, property | cached_property | classmethod | staticmethod)
            or inspect.isfunction(body)
        )
    }


def _getter(body: Any) -> inspect.Signature:
    return inspect.signature(body.func if isinstance(body, cached_property) else body.fget)


def _function(body: Any) -> Callable[..., object]:
    return body.__func__ if isinstance(body, classmethod | staticmethod) else body


def _assigned(thing: type) -> list[str]:
    """Return what the body of the class assigns, beside methods and descriptors."""
    return [
        name
        for name, body in vars(thing).items()
        if not name.startswith("_")
        and not inspect.isroutine(body)
        and not hasattr(type(body), "__get__")
        and name not in vars(thing).get("__annotations__", {})
    ]


def _set_on_self(thing: type) -> Iterator[str]:
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(thing)))):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            yield node.attr


def _field(field: "dataclasses.Field[object]") -> str:
    optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    return f"{field.name}: {_type(field.type)}{' = …' if optional else ''}"


def _signature(function: Callable[..., object]) -> str:
    signature = inspect.signature(function)
    parts = []
    for parameter in signature.parameters.values():
        if parameter.name in {"self", "cls"}:
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
    special = {_UNTYPED: "?", None: "None", type(None): "None", Ellipsis: "..."}
    if isinstance(annotation, str):
        return re.sub(r"\b\w+\.(?=\w)", "", annotation)
    with contextlib.suppress(TypeError):
        if annotation in special:
            return special[annotation]
    return str(getattr(annotation, "__name__", annotation))


def main() -> int:
    FILE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
