"""How a value object of the specification is declared."""

from dataclasses import dataclass
from typing import Annotated, TypeVar, dataclass_transform

import annotated_types as at

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[_T]) -> type[_T]:
    """Make a frozen, slotted, keyword-only dataclass that also knows how to be read from text.

    Strict: `count: "2"` is not a number. Unknown keys are refused, because a misspelt key that is
    ignored is a setting that silently does not exist.
    """
    cls.__pydantic_config__ = {  # type: ignore[attr-defined]
        "extra": "forbid",
        "strict": True,
        "revalidate_instances": "always",
    }
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


PositiveInt = Annotated[int, at.Ge(1)]
NonNegativeInt = Annotated[int, at.Ge(0)]
PositiveFloat = Annotated[float, at.Gt(0)]
Fraction = Annotated[float, at.Gt(0), at.Le(1)]
NonEmptyStr = Annotated[str, at.MinLen(1)]
