"""Copy a model from the Hugging Face Hub or another bucket into the model bucket: all of it, or a reason why not.

Runs in CodeBuild. File by file: download to disk, verify the origin's checksum, upload with SHA-256 checksums that S3
verifies, delete. An object that an earlier run has stored is not copied again, so that a run that was cut short goes on
where it ended. The manifest, which is the completion marker, is written last.

The last line with `dpd-error:` is the reason that CloudFormation shows.
"""

import argparse
import base64
import concurrent.futures
import contextlib
import hashlib
import heapq
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, TypeVar

ERROR_MARK = "dpd-error: "
CONFIG = "config.json"
WEIGHTS = ".safetensors"
OTHER_WEIGHTS = (".bin", ".gguf", ".h5", ".msgpack", ".onnx", ".ot", ".pt", ".pth", ".tflite")
"""The same weights once more in formats that no engine of ours reads."""
OTHER_FOLDERS = ("original", "onnx", "metal", "coreml", ".cache")
"""Folders of repositories with the same weights in other formats."""
SPARE_BYTES = 1 << 30
"""What is left free on disk for everything else."""
PART_BYTES = 64 << 20
"""Part of an upload: S3 takes 10,000 of them, 640 GB for one file."""
CONNECTIONS_PER_FILE = 4
ATTEMPTS = 8
RETRY_SECONDS = 5.0
LONGEST_RETRY_SECONDS = 300.0
"""Pauses double up to this one: ten minutes together, which outlasts most of a hub's bad moments."""
TOKEN_POLL_SECONDS = 15.0


T = TypeVar("T")


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


class Hub:
    """A repository on the Hugging Face Hub, at one commit."""

    def __init__(self, repository: str, revision: str, token: str | None) -> None:
        """Pin `repository` to `revision`."""
        self.name = f"hf://{repository}@{revision}"
        self._repository, self._revision, self._token = repository, revision, token

    def files(self) -> list[File]:
        """Return the files of the commit.

        Raises:
            ImportFailedError: the Hub does not give it out, or answers with another commit.
        """
        from huggingface_hub import HfApi  # noqa: PLC0415 -- `--help` and the tests of S3 work without it

        with _said_in_words(self._repository, self._revision):
            info = HfApi(token=self._token or False).model_info(
                self._repository, revision=self._revision, files_metadata=True
            )
        if info.sha != self._revision:
            raise ImportFailedError(
                f"`{self._repository}` at `{self._revision}` is commit `{info.sha}`. help: set `model.revision` to a "
                "commit, 40 digits"
            )
        return [
            File(
                path=entry.rfilename,
                size_bytes=entry.size or 0,
                identity=entry.lfs.sha256 if entry.lfs else str(entry.blob_id),
                sha256=entry.lfs.sha256 if entry.lfs else None,
                git_sha1=None if entry.lfs else entry.blob_id,
            )
            for entry in info.siblings or ()
        ]

    def fetch(self, file: File, folder: Path) -> Path:
        """Download one file; a connection that breaks is resumed where it broke."""
        from huggingface_hub import hf_hub_download  # noqa: PLC0415 -- as above

        with _said_in_words(self._repository, self._revision):
            return Path(
                hf_hub_download(
                    self._repository,
                    file.path,
                    revision=self._revision,
                    local_dir=folder,
                    token=self._token or False,
                )
            )


class Folder:
    """A folder in another bucket, each object at the version that it has when the import starts."""

    def __init__(self, uri: str, client: Any) -> None:
        """Name the folder `s3://bucket/prefix`."""
        self.name = uri
        self._bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        self._prefix = prefix.strip("/") + "/"
        self._client = client

    def files(self) -> list[File]:
        """Return the objects below the folder.

        Raises:
            ImportFailedError: a key points out of the folder.
        """
        found = []
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix
        )
        for page in pages:
            for entry in page.get("Contents", ()):
                path = entry["Key"].removeprefix(self._prefix)
                if not path or path.endswith("/"):
                    continue
                if ".." in PurePosixPath(path).parts or path.startswith("/"):
                    raise ImportFailedError(f"key `{entry['Key']}` points out of its folder. help: rename it")
                found.append(File(path=path, size_bytes=entry["Size"], identity=entry["ETag"].strip('"')))
        return found

    def fetch(self, file: File, folder: Path) -> Path:
        """Download one object, with S3's own checksum where it has one.

        Raises:
            ImportFailedError: the object was replaced since the import started.
        """
        from boto3.s3.transfer import TransferConfig  # noqa: PLC0415 -- as above
        from botocore.exceptions import ClientError  # noqa: PLC0415 -- as above

        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._client.download_file(
                self._bucket,
                f"{self._prefix}{file.path}",
                str(target),
                Config=TransferConfig(multipart_chunksize=PART_BYTES, max_concurrency=CONNECTIONS_PER_FILE),
            )
            now = self._client.head_object(
                Bucket=self._bucket, Key=f"{self._prefix}{file.path}", ChecksumMode="ENABLED"
            )
        except ClientError as error:
            # an object that is gone, or may not be read, is no better in a minute
            raise ImportFailedError(f"reading `{self.name}/{file.path}` failed: {error}") from error
        if now["ETag"].strip('"') != file.identity:
            raise ImportFailedError(
                f"`{self.name}/{file.path}` was replaced while it was copied. help: import a folder that nobody writes"
            )
        _refuse_unless_same(target, file.path, now)
        return target


def _refuse_unless_same(path: Path, name: str, head: dict[str, Any]) -> None:
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


@contextlib.contextmanager
def _said_in_words(repository: str, revision: str) -> Iterator[None]:
    from huggingface_hub.errors import (  # noqa: PLC0415 -- as above
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except GatedRepoError as error:
        raise ImportFailedError(
            f"`{repository}` is gated, and the token does not open it. help: accept the licence on the model's page as "
            "the owner of the token, and store the token with `dpd secret set`"
        ) from error
    except RevisionNotFoundError as error:
        raise ImportFailedError(
            f"`{repository}` has no commit `{revision}`. help: copy `model.revision` from the model's commits"
        ) from error
    except RepositoryNotFoundError as error:
        raise ImportFailedError(
            f"the Hub gives out no `{repository}`: it does not exist, or is private and the token does not open it. "
            "help: check `model.repository`, and `imported_from.token_secret`"
        ) from error
    except HfHubHTTPError as error:
        if error.response.status_code == 401:
            raise ImportFailedError(
                f"the Hub does not accept the token for `{repository}`. help: store a valid one with `dpd secret set`"
            ) from error
        raise


def belongs(path: str) -> bool:
    """Whether an engine can use the file: weights in other formats, often as large again, stay where they are."""
    pure = PurePosixPath(path)
    return pure.parts[0] not in OTHER_FOLDERS and pure.suffix.lower() not in OTHER_WEIGHTS


class Store:
    """The model's folder in the model bucket."""

    def __init__(self, bucket: str, prefix: str, manifest_key: str, client: Any) -> None:
        """Name the folder and its marker."""
        self.bucket, self.prefix, self.manifest_key = bucket, prefix.strip("/"), manifest_key
        self._client = client

    def key(self, path: str) -> str:
        """Return the key of a file of the model."""
        return f"{self.prefix}/{path}"

    def stored(self, file: File) -> str | None:
        """Return the SHA-256 of `file` if an earlier run has stored exactly this content, otherwise None."""
        found = self._head(self.key(file.path))
        if found is None or found["ContentLength"] != file.size_bytes:
            return None
        kept: dict[str, str] = found["Metadata"]
        return kept.get("sha256") if kept.get("identity") == file.identity else None

    def strangers(self, files: Sequence[File]) -> list[str]:
        """Return weights in the folder that are not the model's: an engine would load them with the others."""
        ours = {self.key(file.path) for file in files}
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{self.prefix}/"
        )
        return sorted(
            entry["Key"]
            for page in pages
            for entry in page.get("Contents", ())
            if entry["Key"] not in ours and entry["Key"].endswith(WEIGHTS)
        )

    def put(self, path: Path, file: File, sha256: str) -> None:
        """Upload a verified file; S3 refuses a part whose SHA-256 is not the one computed here."""
        from boto3.s3.transfer import TransferConfig  # noqa: PLC0415 -- as above

        self._client.upload_file(
            str(path),
            self.bucket,
            self.key(file.path),
            ExtraArgs={
                "ChecksumAlgorithm": "SHA256",
                "Metadata": {"sha256": sha256, "identity": file.identity},
            },
            Config=TransferConfig(
                multipart_threshold=PART_BYTES,
                multipart_chunksize=PART_BYTES,
                max_concurrency=CONNECTIONS_PER_FILE,
            ),
        )

    def manifest(self) -> dict[str, Any] | None:
        """Return the marker of an earlier import, or None."""
        if self._head(self.manifest_key) is None:
            return None
        body = self._client.get_object(Bucket=self.bucket, Key=self.manifest_key)["Body"].read()
        try:
            read = json.loads(body)
        except ValueError:
            return {}
        return read if isinstance(read, dict) else {}

    def unmark(self) -> None:
        """Remove the marker: what it says is not true any more."""
        self._client.delete_object(Bucket=self.bucket, Key=self.manifest_key)

    def mark(self, manifest: dict[str, Any]) -> None:
        """Write the marker."""
        self._client.put_object(
            Bucket=self.bucket,
            Key=self.manifest_key,
            Body=json.dumps(manifest, indent=2).encode(),
            ContentType="application/json",
            ChecksumAlgorithm="SHA256",
        )

    def _head(self, key: str) -> dict[str, Any] | None:
        from botocore.exceptions import ClientError  # noqa: PLC0415 -- as above

        try:
            found: dict[str, Any] = self._client.head_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("404", "NoSuchKey", "NotFound"):
                return None
            raise
        return found


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
    strangers = store.strangers(files)
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


def wait_for_token(
    secret: str,
    client: Any,
    *,
    seconds: float,
    say: Callable[[str], None] = print,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Return the token in `secret`; an empty secret is waited for, as the stack has just made it.

    Raises:
        ImportFailedError: nobody filled it in time.
    """
    started = clock()
    said = False
    while True:
        token = _secret_text(secret, client).strip()
        if token:
            return token
        if not said:
            say(
                f"the secret `{secret}` is empty: waiting {seconds / 60:,.0f} minutes for `dpd secret set {secret}`"
            )
            said = True
        if clock() - started >= seconds:
            raise ImportFailedError(
                f"the secret `{secret}` is still empty after {seconds / 60:,.0f} minutes. help: fill it with "
                f"`dpd secret set {secret}`, then deploy again"
            )
        sleep(TOKEN_POLL_SECONDS)


def _secret_text(secret: str, client: Any) -> str:
    from botocore.exceptions import ClientError  # noqa: PLC0415 -- as above

    try:
        return str(client.get_secret_value(SecretId=secret).get("SecretString", ""))
    except ClientError as error:
        # a secret that was made without a value has no version
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return ""
        raise


def _origin(given: argparse.Namespace) -> Origin:
    import boto3  # noqa: PLC0415 -- as above

    if given.origin.startswith("s3://"):
        return Folder(given.origin, boto3.client("s3"))
    repository, _, revision = given.origin.removeprefix("hf://").rpartition("@")
    token = None
    if given.token_secret:
        token = wait_for_token(
            given.token_secret, boto3.client("secretsmanager"), seconds=given.token_wait_seconds
        )
    return Hub(repository, revision, token)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="copy a model into the model bucket")
    parser.add_argument(
        "--origin", required=True, help="hf://organisation/repository@commit, or s3://bucket/folder"
    )
    parser.add_argument("--bucket", required=True, help="model bucket")
    parser.add_argument("--prefix", required=True, help="key prefix of the model's folder")
    parser.add_argument("--manifest-key", required=True, help="key of the completion marker")
    parser.add_argument("--token-secret", default="", help="secret with the token of a gated model")
    parser.add_argument(
        "--token-wait-seconds", type=float, default=7200, help="how long an empty one is waited for"
    )
    parser.add_argument("--parallel", type=int, default=8, help="files on their way at a time")
    parser.add_argument("--work", type=Path, required=True, help="folder on disk for files on their way")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Import; return the exit code."""
    given = _parser().parse_args(arguments)
    # progress bars would fill the build's log
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    import boto3  # noqa: PLC0415 -- as above
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 -- as above

    given.work.mkdir(parents=True, exist_ok=True)
    store = Store(given.bucket, given.prefix, given.manifest_key, boto3.client("s3"))
    try:
        report = import_model(_origin(given), store, given.work, parallel=given.parallel)
    except (ImportFailedError, BotoCoreError, ClientError) as error:
        print(f"{ERROR_MARK}{error}", file=sys.stderr)
        return 1
    except Exception as error:  # noqa: BLE001 -- nobody reads the middle of a build's log: the reason is its last line
        traceback.print_exc()
        print(f"{ERROR_MARK}{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"s3://{given.bucket}/{given.prefix}: {report}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
