"""Copy a model folder from S3 to node-local storage: all of it, or an exit code that is not zero.

Runs in an init container on the worker's image, which has boto3 because vLLM's S3 loader needs it. What a start
before has copied is not copied again. Several processes, because one interpreter cannot fill the network.
"""

import argparse
import concurrent.futures
import functools
import multiprocessing
import os
import shutil
import sys
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PARTIAL_SUFFIX = ".partial"


@dataclass(frozen=True)
class Item:
    """One object of the folder."""

    key: str
    size_bytes: int
    path: Path

    @property
    def present(self) -> bool:
        """Whether a complete copy is there: a partial one has another name."""
        return self.path.is_file() and self.path.stat().st_size == self.size_bytes


@functools.cache
def s3_client() -> Any:
    """Return this process's S3 client."""
    import boto3  # noqa: PLC0415 -- the parser's `--help` must work without it

    return boto3.client("s3")


def list_items(bucket: str, prefix: str, target: Path) -> list[Item]:
    """Return every object below `prefix`, largest first, so that no large one is left for the end.

    Raises:
        ValueError: a key points out of the target folder.
    """
    folder = prefix.strip("/") + "/"
    items = []
    for page in s3_client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=folder):
        for entry in page.get("Contents", ()):
            relative = entry["Key"].removeprefix(folder)
            if not relative or relative.endswith("/"):
                continue
            path = (target / relative).resolve()
            if not path.is_relative_to(target.resolve()):
                raise ValueError(f"key `{entry['Key']}` points out of `{target}`")
            items.append(Item(key=entry["Key"], size_bytes=entry["Size"], path=path))
    return sorted(items, key=lambda item: (-item.size_bytes, item.key))


def fetch(bucket: str, item: Item) -> None:
    """Download one object; the final name appears only with the whole content.

    Raises:
        OSError: the local copy has another size than the object.
    """
    item.path.parent.mkdir(parents=True, exist_ok=True)
    partial = item.path.with_name(item.path.name + PARTIAL_SUFFIX)
    s3_client().download_file(bucket, item.key, str(partial))
    written = partial.stat().st_size
    if written != item.size_bytes:
        raise OSError(f"`{item.key}` has {item.size_bytes} bytes, {written} arrived")
    partial.replace(item.path)


def sync(uri: str, target: Path, processes: int) -> str:
    """Copy the folder at `uri` to `target` and return a summary.

    Raises:
        SystemExit: nothing is there, or the disk is too small.
    """
    location = urllib.parse.urlsplit(uri)
    items = list_items(location.netloc, location.path, target)
    if not items:
        raise SystemExit(
            f"dpd: no object below {uri}. help: import the model, or correct `model.source.prefix`"
        )
    target.mkdir(parents=True, exist_ok=True)
    missing = [item for item in items if not item.present]
    needed = sum(item.size_bytes for item in missing)
    free = shutil.disk_usage(target).free
    if needed > free:
        raise SystemExit(
            f"dpd: {needed:,} bytes are missing in {target}, which has {free:,} free. "
            "help: is kubelet's directory on NVMe?"
        )
    with concurrent.futures.ProcessPoolExecutor(
        max_workers=max(1, min(processes, len(missing))), mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        for copied in [pool.submit(fetch, location.netloc, item) for item in missing]:
            copied.result()
    return f"{len(missing)} of {len(items)} objects copied, {needed:,} bytes"


def main() -> None:
    """Copy, and say on the container's log what was done."""
    parser = argparse.ArgumentParser()
    parser.add_argument("uri", help="s3://bucket/prefix")
    parser.add_argument("target", type=Path)
    parser.add_argument("--processes", type=int, default=min(16, os.cpu_count() or 1))
    given = parser.parse_args()
    sys.stderr.write(f"dpd: {sync(given.uri, given.target, given.processes)}\n")


if __name__ == "__main__":
    main()
