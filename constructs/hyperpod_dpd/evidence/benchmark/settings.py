"""What a benchmark is told: a JSON file beside the programs."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from hyperpod_dpd.evidence.proof.api_key import first_key
from hyperpod_dpd.evidence.results import System, read_as


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is measured, with what, and where the result goes."""

    url: str
    """Base URL of the endpoint, without a slash at the end."""
    model: str
    """Name under which the model is served."""
    tokenizer: str
    """Folder of the tokenizer's files: a path, `s3://bucket/prefix`, or `hf://repository@revision`."""
    region: str
    """Region of the buckets."""
    input_tokens: int
    output_tokens: int
    concurrencies: tuple[int, ...]
    seeds: tuple[int, ...]
    requests_per_user: int
    run_minutes: int
    """A run that has not enough answers by then is ended with what it has."""
    reads_router: bool
    """Whether `<url>/metrics` is this project's router."""
    api_keys_file: str | None
    """File with bearer keys, one a line; the first is used."""
    results: str
    """Where the result goes: a folder, or `s3://bucket/prefix`."""
    system: System

    def as_json(self) -> str:
        """Return the text of the file."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def api_key(self) -> str | None:
        """Return the bearer key.

        Raises:
            UnreadableSettingsError: the file has none.
        """
        if self.api_keys_file is None:
            return None
        try:
            return first_key(Path(self.api_keys_file))
        except OSError as error:
            raise UnreadableSettingsError(f"the keys cannot be read: {error}") from None


class UnreadableSettingsError(ValueError):
    """The settings cannot be read."""


def read_settings(path: Path) -> Settings:
    """Return the settings in the file `path`.

    Raises:
        UnreadableSettingsError: there is no such file, or it says something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        settings = read_as(Settings, data)
    except OSError as error:
        raise UnreadableSettingsError(f"`{path}`: {error.strerror}") from None
    except ValueError as error:
        raise UnreadableSettingsError(f"`{path}`: {error}") from None
    if not _is_address(settings.url):
        raise UnreadableSettingsError(f"`{path}`: `url` is `{settings.url}`, wanted `http://host:port`")
    if not settings.concurrencies or not settings.seeds:
        raise UnreadableSettingsError(f"`{path}`: no concurrency or no seed, so nothing to measure")
    return settings


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
