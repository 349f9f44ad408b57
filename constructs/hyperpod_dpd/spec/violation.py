"""What the types of the specification say about a value, in the words of this project."""

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from hyperpod_dpd.spec.deployment import Deployment
from hyperpod_dpd.spec.forms import WORDS
from hyperpod_dpd.spec.value import record

Location = Sequence[int | str]

_SHOWN_CHARACTERS = 60


@record
class Violation:
    """One value that its type refuses."""

    path: str
    """Path into the deployment, such as `hyperpod.instance_groups[0].count`."""

    says: str
    """What is wrong, as the predicate of a sentence about `path`."""

    given: str = ""
    """The value that was given, ready to be shown."""

    fix: str = ""
    """What to do, where more can be said than `says` does."""

    @property
    def message(self) -> str:
        """One sentence without the path."""
        given = f", given {self.given}" if self.given else ""
        return f"{self.says}{given}{f'. help: {self.fix}' if self.fix else ''}"


@cache
def adapter() -> TypeAdapter[Deployment]:
    """Return pydantic's validator of a deployment; building it takes longer than using it."""
    return TypeAdapter(Deployment)


def violations_in(deployment: Deployment) -> tuple[Violation, ...]:
    """Return what the types refuse in a deployment that Python code has built.

    A dataclass takes whatever it is given; the file reader never gets this far with such values.
    """
    try:
        adapter().validate_python(deployment, strict=True)
    except ValidationError as error:
        return violations(error)
    return ()


def violations(error: ValidationError, written: Mapping[str, str] | None = None) -> tuple[Violation, ...]:
    """Translate pydantic's errors, one violation for each path.

    Args:
        error: What pydantic raised for a deployment.
        written: How a value was written in the file, by path, where that differs from its value (`1.30`).
    """
    by_path: dict[str, list[Violation]] = {}
    for detail in error.errors(include_url=False):
        violation = _violation(detail, written or {})
        by_path.setdefault(violation.path, []).append(violation)
    return tuple(
        _merged(found)
        for path, found in by_path.items()
        # pydantic drops items that it refuses and then finds the list too short
        if not (found[0].says.startswith("should have") and any(p.startswith(f"{path}[") for p in by_path))
    )


def known_keys(location: Location) -> tuple[str, ...]:
    """Return the keys of the value object at `location`, a location as pydantic writes it."""
    current = _type_at(location)
    return tuple(field.name for field in fields(current)) if is_dataclass(current) else ()


def close_to(word: str, known: Sequence[str]) -> str:
    """Return a question that offers what `word` was probably meant to be, or nothing."""
    import difflib  # noqa: PLC0415 - only for a mistake

    by_lower_case = {name.lower(): name for name in known}
    given = word.lower()
    # two that are equally close are both offered: `us-esat-1` is as near to `us-west-1` as to `us-east-1`
    close = difflib.get_close_matches(given, by_lower_case, n=2, cutoff=0.85)
    close = close or difflib.get_close_matches(given, by_lower_case, n=1)
    offered = " or ".join(f"`{by_lower_case[name]}`" for name in close)
    return f"did you mean {offered}?" if offered else ""


def shown(value: object, written: str | None = None) -> str:
    """Return `value` for a message: texts in quotes, so that `"2"` is told from `2`."""
    if value is None:
        return "nothing (`null`)"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"the number `{_cut(written or str(value))}`"
    return f'`"{_cut(value)}"`' if isinstance(value, str) else f"`{_cut(repr(value))}`"


def _cut(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _SHOWN_CHARACTERS else f"{one_line[:_SHOWN_CHARACTERS]}…"


def _violation(detail: Any, written: Mapping[str, str]) -> Violation:
    location = detail["loc"]
    path = path_of(location) + (".type" if detail["type"] == "union_tag_invalid" else "")
    if detail["type"] == "missing":
        return Violation(path=path, says="is missing", fix=_described(location))
    if detail["type"] == "unexpected_keyword_argument":
        known = known_keys(location[:-1])
        listed = ", ".join(f"`{name}`" for name in known)
        return Violation(
            path=path,
            says="unknown key",
            fix=close_to(str(location[-1]), known) or f"the keys here are {listed}",
        )
    value = detail["input"]
    says = expectation(detail)
    if detail["type"] in {"too_short", "too_long"}:
        given = f"{detail['ctx']['actual_length']}"
    elif detail["type"] == "union_tag_invalid":
        given = shown(detail["ctx"]["tag"])
    elif detail["type"] == "union_tag_not_found":
        given = ""
    elif detail["type"] in {"string_too_short", "string_too_long"}:
        given = f"{len(value)}: {shown(value)}"
    else:
        given = shown(value, written.get(path))
    return Violation(path=path, says=says, given=given, fix=_fix(detail, says, written.get(path)))


def _merged(found: Sequence[Violation]) -> Violation:
    """Join what the branches of a union say about one value."""
    first = found[0]
    if len(found) == 1:
        return first
    says = " or ".join([first.says, *(other.says.removeprefix("should be ") for other in found[1:])])
    fix = next((violation.fix for violation in found if violation.fix), "")
    return Violation(path=first.path, says=says, given=first.given, fix=fix)


_EXPECTATIONS = {
    "string_type": "should be text",
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "bool_type": "should be `true` or `false`",
    "dataclass_type": "should be a mapping",
    "dict_type": "should be a mapping",
    "tuple_type": "should be a list",
    "greater_than_equal": "should be at least {ge:g}",
    "greater_than": "should be greater than {gt:g}",
    "less_than_equal": "should be at most {le:g}",
    "less_than": "should be less than {lt:g}",
    "string_too_short": "should have at least {min_length} characters",
    "string_too_long": "should have at most {max_length} characters",
    "too_short": "should have at least {min_length} items",
    "too_long": "should have at most {max_length} items",
    "finite_number": "should be a finite number",
    "string_pattern_mismatch": "should be {form}",
}


def expectation(detail: Any) -> str:
    """Return what a value should be, as the predicate of a sentence about it, from an error of pydantic's."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "tuple_type" and isinstance(detail["input"], list):  # in Python, where a file has only lists
        return "should be a tuple"
    if kind in {"literal_error", "enum"}:
        return f"should be {context['expected'].replace(chr(39), '`')}"
    if kind == "union_tag_invalid":
        return f"should be one of {context['expected_tags'].replace(chr(39), '`')}"
    if kind == "union_tag_not_found":
        return "has no `type`"
    if kind in _EXPECTATIONS:
        text = _EXPECTATIONS[kind].format(**context, form=WORDS.get(context.get("pattern", "")))
        return text.removesuffix("s") if text.endswith((" 1 items", " 1 characters")) else text
    message = str(detail["msg"])
    return message[:1].lower() + message[1:]


def _fix(detail: Any, says: str, written: str | None) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "union_tag_not_found":
        return "add `type`; `dpd schema` lists what it can be"
    if kind == "union_tag_invalid":
        return close_to(detail["ctx"]["tag"], re.findall("`([^`]+)`", says))
    if isinstance(value, str):
        return _fix_of_text(kind, value, says)
    if kind == "string_type" and isinstance(value, int | float):
        return f'put it in quotes: `"{written or str(value).lower()}"`'
    if value is None and kind in {"dataclass_type", "dict_type", "tuple_type"}:
        return "remove the key or give it a value"
    return ""


def _fix_of_text(kind: str, value: str, says: str) -> str:
    if kind in {"int_type", "float_type"} and re.fullmatch(r"[+-]?\d+(\.\d+)?", value):
        return f"write it without quotes: `{value}`"
    if kind == "bool_type":
        return "write `true` or `false` without quotes"
    if kind == "literal_error" and value in re.findall(r"\d+", says):
        return f"write it without quotes: `{value}`"
    return close_to(value, re.findall("`([^`]+)`", says)) if kind in {"literal_error", "enum"} else ""


def _described(location: Location) -> str:
    """Return what the specification says about the field at `location`."""
    from hyperpod_dpd.spec.schema import field_docs  # noqa: PLC0415 - parses sources, only for a mistake

    current = _type_at(location[:-1])
    text = field_docs().get(getattr(current, "__name__", ""), {}).get(str(location[-1]), "")
    is_word = text[1:2].islower()
    return (text[:1].lower() + text[1:] if is_word else text).rstrip(".")


def _type_at(location: Location) -> Any:
    """Return the type of the value at `location`, of an optional one what it is when it is there."""
    current: Any = Deployment
    for part in location:
        current, _ = _step(current, part)
    return _without_none(current)


def path_of(location: Location) -> str:
    """Return the path in a file of a location as pydantic writes it.

    Pydantic also names the branch of a union and marks keys of mappings; the file has neither.
    """
    return "".join(_path_parts(location)).removeprefix(".")


def _path_parts(location: Location) -> Iterator[str]:
    current: Any = Deployment
    for part in location:
        if part == "[key]":
            return
        current, is_key = _step(current, part)
        if is_key:
            yield f"[{part}]" if isinstance(part, int) else f".{part}"


def _step(annotation: Any, part: int | str) -> tuple[Any, bool]:
    """Return the type below `annotation` at `part`, and whether `part` stands in the file."""
    annotation = _without_none(annotation)
    arguments = get_args(annotation)
    if is_dataclass(annotation):
        return get_type_hints(annotation).get(str(part), object), True
    if _is_union(annotation):
        tagged = (member for member in arguments if _tag(member) == part)
        return next(tagged, object), False
    if get_origin(annotation) is tuple:
        return arguments[0], True
    if get_origin(annotation) is dict:
        return arguments[1], True
    return object, True


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in {Union, types.UnionType}


def _without_none(annotation: Any) -> Any:
    if not _is_union(annotation):
        return annotation
    members = [member for member in get_args(annotation) if member is not type(None)]
    return members[0] if len(members) == 1 else Union[tuple(members)]  # noqa: UP007 - built at run time


def _tag(member: Any) -> object:
    if not is_dataclass(member):
        return None
    hint = get_type_hints(member).get("type")
    return get_args(hint)[0] if get_origin(hint) is Literal else None
