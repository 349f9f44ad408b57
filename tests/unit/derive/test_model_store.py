"""Where weights come from before workers start."""

from typing import Any

import pytest

from hyperpod_dpd.derive.model_store import import_origin
from hyperpod_dpd.derive.secret_names import own_token_secret
from hyperpod_dpd.spec import FolderOrigin, FsxSource, HubOrigin, HuggingFaceSource, S3Source
from tests.support.deployments import changed, ready

_FOLDER = FolderOrigin(type="s3", uri="s3://mine/llama")


def test_a_bucket_of_its_own_is_filled_from_the_hub_with_a_token_where_the_model_is_gated() -> None:
    gated = changed(ready(), model__source=S3Source(), model__imported_from=None)
    assert import_origin(gated) == HubOrigin(token_secret=own_token_secret(gated))
    open_to_all = changed(gated, model__name="qwen2.5-72b-instruct")
    assert import_origin(open_to_all) == HubOrigin(token_secret=None)


@pytest.mark.parametrize(
    ("source", "given", "origin"),
    [
        (S3Source(), _FOLDER, _FOLDER),
        (S3Source(bucket="mine"), _FOLDER, _FOLDER),
        # what lies there already is not copied over
        (S3Source(bucket="mine"), None, None),
        (HuggingFaceSource(type="huggingface"), None, None),
        (FsxSource(type="fsx", file_system_id="fs-0123456789abcdef0"), None, None),
        (FsxSource(type="fsx"), _FOLDER, _FOLDER),
    ],
)
def test_a_model_is_copied_where_there_is_a_bucket_and_an_origin(
    source: Any, given: Any, origin: Any
) -> None:
    deployment = changed(ready(), model__source=source, model__imported_from=given)
    assert import_origin(deployment) == origin
