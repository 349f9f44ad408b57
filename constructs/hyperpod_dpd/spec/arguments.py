"""Arguments of the library's functions and constructors are what their annotations say.

A type checker sees a wrong one; who runs none meets it here, where it was given, and not as an attribute that is missing
three calls below or as a template that CloudFormation refuses.
"""

import functools
import inspect
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

import annotated_types as at

from hyperpod_dpd.spec.deployment import Deployment
from hyperpod_dpd.spec.value import record

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")

_SCALARS: Final[Mapping[Any, tuple[str, tuple[type, ...]]]] = {
    str: ("text", (str,)),
    int: ("a whole number", (int,)),
    float: ("a number", (float, int)),
    bool: ("`True` or `False`", (bool,)),
}
_SEVERAL: Final = frozenset({Sequence, Collection, Iterable, list, tuple})
_PLAIN: Final = (str, bytes, int, float, Mapping, list, tuple, set)
"""What is no object of CDK's."""


@record
class _Complaint:
    """What is wrong with one argument."""

    says: str
    """What it should be, as the predicate of a sentence."""
    given: str
    fix: str
    place: str = ""
    """Where in the argument."""
    kind: type[TypeError | ValueError] = TypeError


_NOTHING: Final = _Complaint(says="should be `None`", given="", fix="")


def checked(function: _F) -> _F:
    """Refuse arguments of `function` that are not what their annotations say, all of them at once.

    Annotations that are text are not looked at, nor what is in a mapping that may compute it (anything but a `dict`).

    Raises:
        TypeError: an argument is of another type.
        ValueError: an argument is of its type and out of its range.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            arguments = signature.bind(*given, **named).arguments
        except TypeError:
            return function(*given, **named)  # Python says which one is missing or unknown
        found = [
            (parameter, complaint)
            for parameter, value in arguments.items()
            if (complaint := _complaint(signature.parameters[parameter].annotation, value)) is not None
        ]
        if found:
            kind = next((each.kind for _, each in found if each.kind is TypeError), ValueError)
            raise kind("\n".join(_sentence(function, *each) for each in found))
        return function(*given, **named)

    return cast(_F, call)


def checked_fields(cls: type[_T]) -> type[_T]:
    """Refuse fields of a dataclass that are not what their annotations say, as `checked` does."""
    cls.__init__ = checked(cls.__init__)  # type: ignore[method-assign]
    return cls


def _sentence(function: Callable[..., Any], parameter: str, complaint: _Complaint) -> str:
    name = function.__qualname__.removesuffix(".__init__")
    argument = f"`{name}({parameter}{complaint.place}=…)`"
    fix = complaint.fix or _described(function, parameter)
    return f"{argument} {complaint.says}: given {complaint.given}. help: {fix}"


def _described(function: Callable[..., Any], parameter: str) -> str:
    """Return what the docstring says about a parameter."""
    lines = re.search(
        rf"^ {{4}}{parameter}: (.+(?:\n {{8}}.+)*)", inspect.getdoc(function) or "", re.MULTILINE
    )
    return f"give what it is for: {' '.join(lines[1].split()).rstrip('.')}" if lines else "give one"


def _complaint(annotation: Any, value: object) -> _Complaint | None:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Union, UnionType}:
        return _of_neither([_complaint(each, value) for each in arguments])
    if origin is Annotated and arguments[0] not in _SCALARS:
        return _complaint(arguments[0], value) or _too_few(annotation, value)
    if origin in {Annotated, Literal}:
        return _by_limits(annotation, value)
    return _of_type(origin or annotation, arguments, value)


def _of_type(expected: Any, items: Sequence[Any], value: object) -> _Complaint | None:
    if expected in _SCALARS:
        return _of_scalar(expected, value)
    if expected in _SEVERAL:
        return _of_several(expected, items, value)
    if expected is Mapping and isinstance(value, dict):
        return _of_entries(items, value)
    if inspect.isclass(expected) and expected not in {Any, inspect.Parameter.empty}:
        return _of_class(expected, value)
    return None


def _of_neither(complaints: Sequence[_Complaint | None]) -> _Complaint | None:
    if None in complaints:
        return None
    said = [each for each in complaints if each is not None and each.says != _NOTHING.says]
    nearer = [each for each in said if each.kind is ValueError or each.place]
    if nearer:
        return nearer[0]
    first = said[0]
    says = " or ".join([first.says, *(each.says.removeprefix("should be ") for each in said[1:])])
    return (
        first if len(said) == 1 else _Complaint(says=says, given=first.given, fix=first.fix, kind=first.kind)
    )


def _of_several(expected: Any, items: Sequence[Any], value: object) -> _Complaint | None:
    """Look at every item; a text is a sequence of its letters, which nobody means."""
    if isinstance(value, str | bytes):
        return _Complaint(
            says="should be several", given=_seen(value), fix=f"put it into a list: `[{value!r}]`"
        )
    if not isinstance(value, expected) or isinstance(value, Mapping):
        return _Complaint(says="should be several", given=_seen(value), fix="put them into a list")
    if not items or not isinstance(value, Collection):
        return None
    complaints = ((_complaint(items[0], item), f"[{index}]") for index, item in enumerate(value))
    return next((_at(place, found) for found, place in complaints if found is not None), None)


def _of_entries(types: Sequence[Any], value: Mapping[Any, object]) -> _Complaint | None:
    key_type, item_type = types or (Any, Any)
    complaints = (
        (_complaint(key_type, key) or _complaint(item_type, item), f"[{_key(key)}]")
        for key, item in value.items()
    )
    return next((_at(place, found) for found, place in complaints if found is not None), None)


def _key(key: object) -> str:
    return str(key) if isinstance(key, Enum) else repr(key)


def _at(place: str, complaint: _Complaint) -> _Complaint:
    return replace(complaint, place=f"{place}{complaint.place}")


def _too_few(annotation: Any, value: object) -> _Complaint | None:
    (least,) = [each.min_length for each in get_args(annotation)[1:] if isinstance(each, at.MinLen)] or (0,)
    if not isinstance(value, Collection) or len(value) >= least:
        return None
    return _Complaint(
        says=f"should have at least {least}",
        given="none",
        fix="",
        kind=ValueError,
    )


def _of_class(expected: Any, value: object) -> _Complaint | None:
    if expected is NoneType:
        return None if value is None else _NOTHING
    if getattr(expected, "_is_protocol", False):
        missing = _missing_of(expected, value)
    else:
        missing = "" if isinstance(value, expected) else "it"
    if not missing:
        return _by_fields(value)
    article = "an" if expected.__name__[0] in "AEIO" else "a"
    lacks = f", which has no {missing}" if missing != "it" else ""
    return _Complaint(
        says=f"should be {article} `{expected.__name__}`",
        given=f"{_seen(value)}{lacks}",
        fix=_fix(expected, value),
    )


def _missing_of(protocol: Any, value: object) -> str:
    """Return what keeps `value` from being what a protocol asks for; CDK itself looks at those of CDK."""
    if value is None or isinstance(value, _PLAIN):
        return "it"
    if not protocol.__module__.startswith("hyperpod_dpd."):
        return ""
    return ", ".join(each for each in _members_of(protocol) if not hasattr(value, each.strip("`")))


def _members_of(protocol: Any) -> list[str]:
    members = dict.fromkeys([*vars(protocol).get("__annotations__", {}), *vars(protocol)])
    return [f"`{each}`" for each in members if not each.startswith("_")]


def _of_scalar(annotation: Any, value: object) -> _Complaint | None:
    words, types = _SCALARS[annotation]
    if isinstance(value, types) and isinstance(value, bool) == (annotation is bool):
        return None
    return _Complaint(says=f"should be {words}", given=_seen(value), fix=f"give {words}")


def _by_limits(annotation: Any, value: object) -> _Complaint | None:
    detail = _refusal(annotation, value)
    if detail is None:
        return None
    from hyperpod_dpd.spec.violation import close_to, expectation  # noqa: PLC0415 - only for a mistake

    meant = close_to(value, [str(each) for each in get_args(annotation)]) if isinstance(value, str) else ""
    return _Complaint(
        says=expectation(detail),
        given=_seen(value),
        fix=meant,
        kind=TypeError if detail["type"].endswith("_type") else ValueError,
    )


def _by_fields(value: Any) -> _Complaint | None:
    """Look into a part of a specification; a whole one is the business of the rules, which say more."""
    if not hasattr(value, "__pydantic_config__") or isinstance(value, Deployment):
        return None
    detail = _refusal(cast(Hashable, type(value)), value)
    if detail is None:
        return None
    from hyperpod_dpd.spec.violation import expectation, path_of  # noqa: PLC0415 - only for a mistake

    return _Complaint(
        says=expectation(detail),
        given=_seen(detail["input"]),
        fix="`dpd schema` lists what it can be",
        place=f".{path_of(detail['loc'])}",
        kind=ValueError,
    )


def _refusal(annotation: Any, value: object) -> Any | None:
    """Return the first error of pydantic's, which the readers of files use as well."""
    from pydantic import ValidationError  # noqa: PLC0415 - most arguments have no limits

    try:
        _adapter(annotation).validate_python(value, strict=True)
    except ValidationError as error:
        return error.errors(include_url=False)[0]
    return None


@functools.cache
def _adapter(annotation: Hashable) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 - as above

    return TypeAdapter[Any](cast(Any, annotation))


def _seen(value: object) -> str:
    if value is None:
        return "`None`"
    if isinstance(value, str | int | float | bool):
        return f"`{value!r}`"
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} `{name}`"


def _fix(expected: Any, value: object) -> str:
    if expected is Deployment and isinstance(getattr(value, "deployment", None), Deployment):
        return "give its `deployment`"
    if expected in _READ_WITH:
        return _READ_WITH[expected]
    if issubclass(expected, Enum):
        return _member(expected, value)
    if not expected.__module__.startswith("hyperpod_dpd."):
        return f"make or look one up with `{expected.__module__}`"
    if getattr(expected, "_is_protocol", False):
        return f"give an object that has {', '.join(_members_of(expected))}"
    return f"make one with `{expected.__name__}(...)`"


_READ_WITH: Final[Mapping[Any, str]] = {
    Deployment: "`load(path).deployment` reads one",
    Path: "make one with `pathlib.Path(...)`",
    Mapping: "give a `dict`",
}


def _member(expected: type[Enum], value: object) -> str:
    for member in expected:
        if str(value).lower() in {str(member.value).lower(), member.name.lower()}:
            return f"give `{expected.__name__}.{member.name}`"
    names = [f"{expected.__name__}.{member.name}" for member in expected]
    from hyperpod_dpd.spec.violation import close_to  # noqa: PLC0415 - only for a mistake

    return close_to(str(value), names) or f"give one of {', '.join(f'`{each}`' for each in names)}"
