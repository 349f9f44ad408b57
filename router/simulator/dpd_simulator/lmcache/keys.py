"""Keys of KV cache chunks."""

import array
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

_TAG_PREFIX = "lmcache.tag."
_FIELDS_BEFORE_TAGS = 5


class MalformedKeyError(ValueError):
    """A key that its receiver cannot parse, for example because a tag contains `@`."""


class ChunkHasher:
    """Prefix hashes of chunks. Two processes agree only if they were started with the same seed."""

    def __init__(self, *, chunk_size_tokens: int, hash_seed: str | None) -> None:
        self._chunk_size_tokens = chunk_size_tokens
        self._start = os.urandom(16) if hash_seed is None else hash_seed.encode()

    def hashes(self, ids: Sequence[int]) -> list[str]:
        """One hash per chunk of `ids`, the last chunk included if it is not full."""
        raw = array.array("I", ids)
        previous = self._start
        result = []
        for begin in range(0, len(ids), self._chunk_size_tokens):
            content = raw[begin : begin + self._chunk_size_tokens].tobytes()
            previous = hashlib.blake2b(previous + content, digest_size=8).digest()
            result.append(previous.hex())
        return result


def tags_of(kv_transfer_params: Mapping[str, Any] | None) -> str:
    """The part of a key that keeps requests apart, as it goes over the wire."""
    pairs = [
        f"{name.removeprefix(_TAG_PREFIX)}%{value}"
        for name, value in (kv_transfer_params or {}).items()
        if name.startswith(_TAG_PREFIX)
    ]
    return "@".join(pairs)


def tags_are_text(kv_transfer_params: Mapping[str, Any] | None) -> bool:
    """Whether a lookup can match at all: on the wire every tag becomes text, in the lookup it keeps its type."""
    return all(
        isinstance(value, str)
        for name, value in (kv_transfer_params or {}).items()
        if name.startswith(_TAG_PREFIX)
    )


def chunk_key(*, model: str, world_size: int, rank: int, chunk_hash: str, tags: str) -> str:
    """The key of one chunk of one rank."""
    key = f"{model}@{world_size}@{rank}@{chunk_hash}@bfloat16"
    return f"{key}@{tags}" if tags else key


def check_key(key: str) -> None:
    """Parse a key as its receiver does.

    Raises:
        MalformedKeyError: it has no such form.
    """
    _, *tags = key.split("@bfloat16@", 1)
    if key.count("@") < _FIELDS_BEFORE_TAGS - 1 or any(
        "%" not in tag for tag in "@".join(tags).split("@") if tags
    ):
        raise MalformedKeyError(f"Invalid key string: {key}")
