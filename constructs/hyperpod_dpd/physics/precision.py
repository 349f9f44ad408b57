"""Bytes of one number."""

from typing import Literal

Precision = Literal["bf16", "fp8"]

_BYTES: dict[str, int] = {"bf16": 2, "fp8": 1}


def bytes_per_value(precision: Precision) -> int:
    """Return the bytes that one number takes in `precision`.

    Raises:
        ValueError: the precision is neither `bf16` nor `fp8`.
    """
    try:
        return _BYTES[precision]
    except KeyError:
        known = ", ".join(f"`{name}`" for name in _BYTES)
        raise ValueError(f"unknown precision `{precision}`. help: use one of {known}") from None
