"""A repository on the Hugging Face Hub as the origin of a model."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from hyperpod_dpd.storage.model_import.program.model_files import File, ImportFailedError


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


@contextlib.contextmanager
def _said_in_words(repository: str, revision: str) -> Iterator[None]:
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
