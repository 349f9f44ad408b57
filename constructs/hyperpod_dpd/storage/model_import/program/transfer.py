"""The import itself: what is missing, and how it gets from the origin into the bucket."""

import concurrent.futures
import heapq
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hyperpod_dpd.storage.model_import.program.model_files import (
    CONFIG,
    WEIGHTS,
    File,
    ImportFailedError,
    Origin,
    belongs,
    verified_sha256,
)
from hyperpod_dpd.storage.model_import.program.store import Store

SPARE_BYTES = 1 << 30
"""What is left free on disk for everything else."""
ATTEMPTS = 8
RETRY_SECONDS = 5.0
LONGEST_RETRY_SECONDS = 300.0
"""Pauses double up to this one: ten minutes together, which outlasts most of a hub's bad moments."""

_COMMIT = re.compile("^hf://.+@[0-9a-f]{40}$")

T = TypeVar("T")


@dataclass(frozen=True)
class Report:
    """What an import did."""

    files: int
    copied: int
    copied_bytes: int

    def __str__(self) -> str:
        return f"{self.copied} of {self.files} files copied, {self.copied_bytes:,} bytes"


def import_model(
    origin: Origin,
    store: Store,
    work: Path,
    *,
    parallel: int,
    say: Callable[[str], None] = print,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Copy the model; return what was done.

    Args:
        origin: where it comes from.
        store: where it goes.
        work: folder on disk for files on their way; it needs room for the `parallel` largest ones.
        parallel: files that are on their way at a time.
        say: takes a line about progress.
        sleep: waits between two attempts.

    Raises:
        ImportFailedError: it is no model, does not fit, or what arrives is not what the origin has.
    """
    files = sorted(
        (file for file in _insist(origin.files, origin.name, sleep) if belongs(file.path)),
        key=lambda file: -file.size_bytes,
    )
    _refuse_unless_model(files, origin.name)
    strangers = store.strangers(file.path for file in files)
    if strangers:
        raise ImportFailedError(
            f"s3://{store.bucket}/{store.prefix} holds weights of another model: {_some(strangers)}. help: import into "
            "a folder of its own, or delete them"
        )
    digests = {file.path: store.stored(file) for file in files}
    missing = [file for file in files if digests[file.path] is None]
    marked = store.manifest()
    if marked is not None and (missing or marked != _manifest(origin, files, digests)):
        store.unmark()
    _refuse_unless_fits(missing, work, parallel)
    say(f"{len(missing)} of {len(files)} files of {origin.name} are missing")
    copied = _copy_all(origin, store, work, missing, parallel=parallel, say=say, sleep=sleep)
    digests |= copied
    if marked is None or missing or marked != _manifest(origin, files, digests):
        store.mark(_manifest(origin, files, digests))
    return Report(
        files=len(files), copied=len(missing), copied_bytes=sum(file.size_bytes for file in missing)
    )


def arrived(origin: str, store: Store) -> Report | None:
    """Return what is there, if an earlier import of the same commit is whole; None: the origin has to be asked.

    Args:
        origin: address of a repository at a commit, whose files are the same for ever: neither the hub nor a token is
            needed to know them. A folder of a bucket may have other content by now.
        store: where it would go.
    """
    if not _COMMIT.search(origin):
        return None
    marked = store.manifest()
    try:
        files = [_marked(each) for each in marked["files"]] if marked and marked["origin"] == origin else []
    except (KeyError, TypeError):
        return None
    whole = all(store.holds(path, size_bytes=size, sha256=sha256) for path, size, sha256 in files)
    if not files or not whole or store.strangers(path for path, _, _ in files):
        return None
    return Report(files=len(files), copied=0, copied_bytes=0)


def _marked(file: dict[str, Any]) -> tuple[str, int, str]:
    return file["path"], file["size_bytes"], file["sha256"]


def _copy_all(
    origin: Origin,
    store: Store,
    work: Path,
    missing: Sequence[File],
    *,
    parallel: int,
    say: Callable[[str], None],
    sleep: Callable[[float], None],
) -> dict[str, str]:
    stopped = threading.Event()

    def copy(file: File) -> tuple[str, str]:
        if stopped.is_set():
            # nobody reads it: the file that failed raises
            return file.path, ""
        try:
            sha256 = _copy(origin, store, work, file, sleep)
        except BaseException:
            # here, because the next file would be on its way before the caller hears of it
            stopped.set()
            raise
        say(f"{file.path}: {file.size_bytes:,} bytes, sha256 {sha256}")
        return file.path, sha256

    with concurrent.futures.ThreadPoolExecutor(max_workers=parallel) as pool:
        running = [pool.submit(copy, file) for file in missing]
        try:
            return dict(done.result() for done in concurrent.futures.as_completed(running))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _copy(origin: Origin, store: Store, work: Path, file: File, sleep: Callable[[float], None]) -> str:
    """Fetch, verify and store one file; return its SHA-256."""

    def once() -> str:
        folder = Path(tempfile.mkdtemp(dir=work))
        try:
            path = origin.fetch(file, folder)
            sha256 = verified_sha256(path, file)
            store.put(path, file, sha256)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return sha256

    return _insist(once, f"`{file.path}`", sleep)


def _insist(do: Callable[[], T], what: str, sleep: Callable[[float], None]) -> T:
    """Do it; what fails on the way is tried again, what is wrong is not."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return do()
        except ImportFailedError:
            raise
        # whatever the libraries raise for a network that fails; the last attempt's error is shown
        except Exception as error:
            if attempt == ATTEMPTS:
                raise ImportFailedError(
                    f"{what} failed {ATTEMPTS} times, last: {type(error).__name__}: {error}"
                ) from error
            print(f"{what}: attempt {attempt} of {ATTEMPTS}: {error}", file=sys.stderr)
            sleep(min(LONGEST_RETRY_SECONDS, RETRY_SECONDS * 2 ** (attempt - 1)))
    raise AssertionError("the last attempt returns or raises")


def _manifest(origin: Origin, files: Sequence[File], digests: dict[str, str | None]) -> dict[str, Any]:
    return {
        "version": 1,
        "origin": origin.name,
        "bytes": sum(file.size_bytes for file in files),
        "files": [
            {"path": file.path, "size_bytes": file.size_bytes, "sha256": digests[file.path]}
            for file in sorted(files, key=lambda file: file.path)
        ],
    }


def _refuse_unless_model(files: Sequence[File], name: str) -> None:
    paths = {file.path for file in files}
    if CONFIG not in paths:
        raise ImportFailedError(
            f"{name} has no `{CONFIG}` among {len(files)} files. help: name the folder or repository that holds it"
        )
    if not any(path.endswith(WEIGHTS) for path in paths):
        raise ImportFailedError(
            f"{name} has no weights in safetensors. help: choose a repository that has them; engines stream no others"
        )


def _refuse_unless_fits(missing: Sequence[File], work: Path, parallel: int) -> None:
    needed = sum(heapq.nlargest(parallel, (file.size_bytes for file in missing)))
    free = shutil.disk_usage(work).free - SPARE_BYTES
    if needed > free:
        raise ImportFailedError(
            f"{work} has {max(free, 0):,} bytes free, the {min(parallel, len(missing))} largest files take {needed:,} "
            "at a time. help: lower `--parallel`, or use a larger build machine"
        )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
