"""Checksums of a whole object as S3 keeps them."""

import base64
import hashlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hyperpod_dpd.storage.model_import.program.model_files import ImportFailedError


class _Crc:
    """A cyclic redundancy check with the interface of `hashlib`."""

    def __init__(self, step: Callable[[bytes, int], int], size_bytes: int) -> None:
        self._step, self._size_bytes, self._value = step, size_bytes, 0

    def update(self, block: bytes) -> None:
        self._value = self._step(block, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size_bytes, "big")


def _crc64nvme() -> _Crc:
    from awscrt import checksums  # type: ignore[import-untyped]  # noqa: PLC0415 -- only S3 has this check

    return _Crc(checksums.crc64nvme, 8)


def _crc32c() -> _Crc:
    from awscrt import checksums  # noqa: PLC0415 -- as above

    return _Crc(checksums.crc32c, 4)


CHECKSUMS: dict[str, Callable[[], Any]] = {
    "CRC64NVME": _crc64nvme,
    "CRC32C": _crc32c,
    "CRC32": lambda: _Crc(zlib.crc32, 4),
    "SHA1": lambda: hashlib.sha1(usedforsecurity=False),
    "SHA256": hashlib.sha256,
}
"""S3's algorithms by the name that they have in its answers."""


def refuse_unless_same(path: Path, name: str, head: dict[str, Any]) -> None:
    """Compare a download with every checksum of the whole object that S3 keeps; those of parts are S3's own matter."""
    if head.get("ChecksumType", "FULL_OBJECT") != "FULL_OBJECT":
        return
    for algorithm, new in CHECKSUMS.items():
        expected = head.get(f"Checksum{algorithm}")
        if expected is None or "-" in expected:
            continue
        checksum = new()
        with path.open("rb") as opened:
            while block := opened.read(1 << 20):
                checksum.update(block)
        computed = base64.b64encode(checksum.digest()).decode()
        if computed != expected:
            raise ImportFailedError(
                f"`{name}` has {algorithm} `{computed}`, its bucket says `{expected}`: refused. help: run it again"
            )
