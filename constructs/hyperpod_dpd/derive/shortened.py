"""Names of deployments where a service leaves them less room than they take."""

import hashlib

_DIGEST_DIGITS = 8


def shortened(name: str, room: int) -> str:
    """Return `name`, or, where it is longer than `room` characters, its beginning and eight digits of its hash.

    Two deployments whose names begin alike are told apart by the digits.
    """
    if len(name) <= room:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_DIGITS]
    return f"{name[: room - _DIGEST_DIGITS - 1].rstrip('-')}-{digest}"
