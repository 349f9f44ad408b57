"""The model's folder in the model bucket, and its completion marker."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from hyperpod_dpd.storage.model_import.program.model_files import WEIGHTS, File

PART_BYTES = 64 << 20
"""Part of an upload: S3 takes 10,000 of them, 640 GB for one file."""
CONNECTIONS_PER_FILE = 4


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

    def holds(self, path: str, *, size_bytes: int, sha256: str) -> bool:
        """Whether an earlier run has stored a file of this size and digest at `path`."""
        found = self._head(self.key(path))
        return (
            found is not None
            and found["ContentLength"] == size_bytes
            and found["Metadata"].get("sha256") == sha256
        )

    def strangers(self, paths: Iterable[str]) -> list[str]:
        """Return weights in the folder beside the model's files at `paths`: an engine would load them with the others."""
        ours = {self.key(path) for path in paths}
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
        try:
            found: dict[str, Any] = self._client.head_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("404", "NoSuchKey", "NotFound"):
                return None
            raise
        return found
