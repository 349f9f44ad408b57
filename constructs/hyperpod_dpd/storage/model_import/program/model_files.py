"""Files of a model: what is told of them at their origin, and which of them an engine reads."""

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

CONFIG = "config.json"
WEIGHTS = ".safetensors"
OTHER_WEIGHTS = (".bin", ".gguf", ".h5", ".msgpack", ".onnx", ".ot", ".pt", ".pth", ".tflite")
"""The same weights once more in formats that no engine of ours reads."""
OTHER_FOLDERS = ("original", "onnx", "metal", "coreml", ".cache")
"""Folders of repositories with the same weights in other formats."""


class ImportFailedError(Exception):
    """The import cannot go on; the text says why and what to do."""


@dataclass(frozen=True)
class File:
    """One file of the model at its origin."""

    path: str
    size_bytes: int
    identity: str
    """What tells its content from every other at the origin: a digest, or an entity tag."""
    sha256: str | None = None
    git_sha1: str | None = None


class Origin(Protocol):
    """Where a model comes from."""

    name: str
    """Address with the pinned revision."""

    def files(self) -> list[File]:
        """Return every file."""

    def fetch(self, file: File, folder: Path) -> Path:
        """Download `file` below `folder` and return where it lies."""


def belongs(path: str) -> bool:
    """Whether an engine can use the file: weights in other formats, often as large again, stay where they are."""
    pure = PurePosixPath(path)
    return pure.parts[0] not in OTHER_FOLDERS and pure.suffix.lower() not in OTHER_WEIGHTS


def verified_sha256(path: Path, file: File) -> str:
    """Return the SHA-256 of a downloaded file.

    Raises:
        ImportFailedError: size or digest are not those of the origin.
    """
    size = path.stat().st_size
    if size != file.size_bytes:
        raise ImportFailedError(
            f"`{file.path}` has {size:,} bytes, the origin says {file.size_bytes:,}: refused"
        )
    sha256 = hashlib.sha256()
    sha1 = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as opened:
        while block := opened.read(1 << 20):
            sha256.update(block)
            if file.git_sha1 is not None:
                sha1.update(block)
    for kind, computed, expected in (
        ("SHA-256", sha256.hexdigest(), file.sha256),
        ("git SHA-1", sha1.hexdigest(), file.git_sha1),
    ):
        if expected is not None and computed != expected:
            raise ImportFailedError(
                f"`{file.path}` has {kind} `{computed}`, the origin says `{expected}`: refused. help: run it again; if "
                "it stays, something between here and the origin changes what is downloaded"
            )
    return sha256.hexdigest()
