"""What a misspelled word was probably meant to be."""

from collections.abc import Collection


def meant(given: str, known: Collection[str], *, otherwise: str) -> str:
    """Return which of the names that are `known` come near to `given`, as a question; `otherwise` where none does."""
    import difflib  # noqa: PLC0415 - only for a mistake

    close = ", ".join(f"`{name}`" for name in difflib.get_close_matches(given, known, n=3))
    return f"did you mean {close}?" if close else otherwise
