"""The key with which the programs ask a protected endpoint."""

from pathlib import Path


def first_key(path: Path) -> str:
    """Return the first key in a file as the router reads it: one a line, without empty lines and those with `#`.

    Raises:
        OSError: the file cannot be read, or has no key.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except UnicodeDecodeError:
        raise OSError(f"`{path}` is not text in UTF-8") from None
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise OSError(f"`{path}` has no key")
    return keys[0]
