"""A folder in another bucket as the origin of a model."""

from pathlib import Path, PurePosixPath
from typing import Any

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from hyperpod_dpd.storage.model_import.program.checksums import refuse_unless_same
from hyperpod_dpd.storage.model_import.program.model_files import File, ImportFailedError
from hyperpod_dpd.storage.model_import.program.store import CONNECTIONS_PER_FILE, PART_BYTES


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
        refuse_unless_same(target, file.path, now)
        return target
