"""The tokenizer of the served model, brought to where genai-bench can open it."""

from pathlib import Path
from typing import Any, Final

FILES: Final = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "tokenizer.model",
    "config.json",
)
"""Files that `AutoTokenizer` looks for; not every model has all of them."""


class NoTokenizerError(Exception):
    """The tokenizer cannot be brought; the message says from where and why."""


def bring(address: str, folder: Path, *, region: str, s3: Any = None) -> Path:
    """Return the folder with the tokenizer's files, copied into `folder` unless it is a local one.

    Args:
        address: a path, `s3://bucket/prefix`, or `hf://repository@revision`.
        folder: where files from elsewhere are put.
        region: region of the bucket.
        s3: client for S3; by default boto3's.

    Raises:
        NoTokenizerError: nothing there, or no right to read it.
    """
    if address.startswith("s3://"):
        return _from_s3(address, folder, s3 or _client(region))
    if address.startswith("hf://"):
        return _from_hub(address, folder)
    found = Path(address)
    if not any((found / name).is_file() for name in FILES):
        raise NoTokenizerError(f"`{address}` has none of {', '.join(f'`{name}`' for name in FILES)}")
    return found


def _client(region: str) -> Any:
    import boto3  # noqa: PLC0415 - not where nothing comes from S3

    return boto3.client("s3", region_name=region)


def _from_s3(address: str, folder: Path, s3: Any) -> Path:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    bucket, _, prefix = address.removeprefix("s3://").partition("/")
    folder.mkdir(parents=True, exist_ok=True)
    prefix = prefix.rstrip("/")
    try:
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/", Delimiter="/").get("Contents", [])
        keys = {entry["Key"].rpartition("/")[2]: entry["Key"] for entry in listed}
        for name in keys.keys() & set(FILES):
            s3.download_file(bucket, keys[name], str(folder / name))
    except (BotoCoreError, ClientError) as error:
        raise NoTokenizerError(f"`{address}`: {error}") from error
    if not keys.keys() & {"tokenizer.json", "tokenizer.model"}:
        raise NoTokenizerError(f"`{address}` has neither `tokenizer.json` nor `tokenizer.model`")
    return folder


def _from_hub(address: str, folder: Path) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415

    repository, _, revision = address.removeprefix("hf://").partition("@")
    try:
        snapshot_download(repository, revision=revision or None, allow_patterns=list(FILES), local_dir=folder)
    except (OSError, ValueError) as error:
        raise NoTokenizerError(f"`{address}`: {error}") from error
    return folder
