"""Where a result goes: a folder or S3."""

from pathlib import Path
from typing import Any, Protocol


class NotStoredError(Exception):
    """The result cannot be stored; the message says where and why."""


class Store(Protocol):
    """Takes files by name, the same name again as often as there is something new."""

    def put(self, name: str, text: str) -> str:
        """Store `text` under `name` and return its address.

        Raises:
            NotStoredError: the place does not take it.
        """
        ...


class Folder:
    """A folder of the file system."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, name: str, text: str) -> str:
        """See `Store`."""
        target = self._path / name
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            # never half a file where somebody may look
            partial = target.with_suffix(".partial")
            partial.write_text(text, encoding="utf-8")
            partial.replace(target)
        except OSError as error:
            raise NotStoredError(f"`{target}`: {error.strerror}") from error
        return str(target)


class Bucket:
    """A prefix in S3."""

    def __init__(self, address: str, client: Any) -> None:
        self._bucket, _, prefix = address.removeprefix("s3://").partition("/")
        self._prefix = prefix.rstrip("/")
        self._client = client

    def put(self, name: str, text: str) -> str:
        """See `Store`."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        key = f"{self._prefix}/{name}" if self._prefix else name
        address = f"s3://{self._bucket}/{key}"
        try:
            self._client.put_object(
                Bucket=self._bucket, Key=key, Body=text.encode(), ContentType="application/json"
            )
        except (BotoCoreError, ClientError) as error:
            raise NotStoredError(f"`{address}`: {error}") from error
        return address


def store_at(address: str, *, region: str) -> Store:
    """Return the store at `address`: a path, or `s3://bucket/prefix`."""
    if not address.startswith("s3://"):
        return Folder(Path(address))
    import boto3  # noqa: PLC0415 - not where nothing goes to S3

    return Bucket(address, boto3.client("s3", region_name=region))
