"""DPD-K8S-004: the model is pinned to a commit."""

import re
from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, FsxSource, HubOrigin, HuggingFaceSource, Model, S3Source

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


@deployment_rule(
    "DPD-K8S-004",
    severity=Severity.ERROR,
    title="a model that comes from a repository is pinned to a commit",
    sources=("Hugging Face Hub: a branch moves", "OWASP LLM03 supply chain"),
)
def model_is_pinned(deployment: Deployment) -> Iterator[Problem]:
    """A branch moves: two workers that start on different days would serve different weights."""
    model = deployment.model
    if model.revision is None and not _comes_from_repository(model):
        return
    if model.revision is None or not _COMMIT.fullmatch(model.revision):
        yield Problem(
            path="model.revision",
            says="the model is not pinned to a commit",
            given=f"`revision: {model.revision}`" if model.revision else "no `revision`",
            limit="40 hexadecimal digits",
            fix="give the commit of the repository that you want to serve",
        )


def _comes_from_repository(model: Model) -> bool:
    match model.source:
        case HuggingFaceSource() | S3Source(bucket=None) | FsxSource(file_system_id=None):
            return True
        case _:
            return isinstance(model.imported_from, HubOrigin)
