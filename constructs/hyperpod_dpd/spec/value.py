"""How a value object of the specification is declared."""

from collections.abc import Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from typing import Annotated, Any, TypeVar, cast, dataclass_transform

import annotated_types as at

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[_T]) -> type[_T]:
    """Make a frozen, slotted, keyword-only dataclass.

    Its methods are one function each for all records. `dataclass` would write and compile them anew for every class,
    which took a sixth of a `dpd check`.
    """
    cls.__init__ = _fill  # type: ignore[method-assign]
    cls.__eq__ = _equal  # type: ignore[method-assign]
    cls.__hash__ = _hash  # type: ignore[method-assign, assignment]
    cls.__repr__ = _shown  # type: ignore[method-assign]
    cls.__setattr__ = _refuse_change  # type: ignore[method-assign]
    cls.__delattr__ = _refuse_change  # type: ignore[method-assign]
    cls.__getstate__ = _values  # type: ignore[method-assign, assignment]
    cls.__setstate__ = _restore  # type: ignore[attr-defined]
    return dataclass(init=False, slots=True, kw_only=True, eq=False, repr=False)(cls)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[_T]) -> type[_T]:
    """Make a record that also knows how to be read from text.

    Strict: `count: "2"` is not a number. Unknown keys are refused, because a misspelt key that is
    ignored is a setting that silently does not exist.
    """
    cls.__pydantic_config__ = {  # type: ignore[attr-defined]
        "extra": "forbid",
        "strict": True,
        "revalidate_instances": "always",
    }
    return record(cls)


def _fill(self: Any, **given: object) -> None:
    for field in fields(self):
        if field.name in given:
            content = given.pop(field.name)
        elif field.default is not MISSING:
            content = field.default
        elif field.default_factory is not MISSING:
            content = field.default_factory()
        else:
            raise TypeError(_missing(self, given))
        object.__setattr__(self, field.name, content)
    if given:
        raise TypeError(_unknown(self, given))
    if finish := getattr(self, "__post_init__", None):
        finish()


def _missing(made: Any, given: Mapping[str, object]) -> str:
    names = [
        f"`{field.name}`"
        for field in fields(made)
        if field.default is MISSING
        and field.default_factory is MISSING
        and field.name not in given
        and not hasattr(made, field.name)
    ]
    arguments = "the argument" if len(names) == 1 else "the arguments"
    return f"{type(made).__qualname__}() misses {arguments} {', '.join(names)}"


def _unknown(made: Any, given: Mapping[str, object]) -> str:
    from hyperpod_dpd.spec.violation import close_to  # noqa: PLC0415 - only for a mistake

    name = next(iter(given))
    known = [field.name for field in fields(made)]
    meant = close_to(name, known) or f"its arguments are {', '.join(f'`{each}`' for each in known)}"
    return f"{type(made).__qualname__}() has no argument `{name}`. help: {meant}"


def _refuse_change(self: object, name: str, value: object = None) -> None:  # noqa: ARG001 - what Python passes
    raise FrozenInstanceError(f"cannot change field `{name}`")


def _restore(self: Any, state: tuple[object, ...]) -> None:
    for field, content in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, content)


def _values(value: Any) -> tuple[object, ...]:
    return tuple(getattr(value, field.name) for field in fields(value))


def _equal(value: object, other: object) -> bool:
    return _values(value) == _values(other) if other.__class__ is value.__class__ else NotImplemented


def _hash(value: object) -> int:
    return hash(_values(value))


def _shown(value: object) -> str:
    given = ", ".join(f"{field.name}={getattr(value, field.name)!r}" for field in fields(cast(Any, value)))
    return f"{value.__class__.__qualname__}({given})"


LARGEST = 2**31 - 1
"""No count, size or time of a deployment is larger; Kubernetes, CloudFormation and the engines keep many in 32 bits."""

PositiveInt = Annotated[int, at.Ge(1), at.Le(LARGEST)]
NonNegativeInt = Annotated[int, at.Ge(0), at.Le(LARGEST)]
PositiveFloat = Annotated[float, at.Ge(0.001), at.Le(LARGEST)]
Fraction = Annotated[float, at.Gt(0), at.Le(1)]
NonEmptyStr = Annotated[str, at.MinLen(1)]
