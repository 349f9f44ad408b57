"""DPD-DATA-012: FSx makes a file system of this size."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.derive.model_store import makes_file_system
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, FsxSource

_SMALLEST_GIB: Final = 1200
_STEP_GIB: Final = 2400


@deployment_rule(
    "DPD-DATA-012",
    severity=Severity.ERROR,
    title="a new file system has a size that FSx for Lustre makes",
    sources=("FSx API CreateFileSystem StorageCapacity, PERSISTENT_2 on SSD",),
)
def file_system_has_a_size_that_is_made(deployment: Deployment) -> Iterator[Problem]:
    """FSx refuses every other size in the middle of the deployment."""
    source = deployment.model.source
    if not isinstance(source, FsxSource) or not makes_file_system(deployment):
        return
    given = source.storage_gib
    if given != _SMALLEST_GIB and given % _STEP_GIB:
        larger = _SMALLEST_GIB if given < _SMALLEST_GIB else -(-given // _STEP_GIB) * _STEP_GIB
        yield Problem(
            path="model.source.storage_gib",
            says="no file system of this size is made by FSx for Lustre",
            given=f"`storage_gib: {given}`",
            limit=f"{_SMALLEST_GIB}, or a multiple of {_STEP_GIB}",
            fix=f"set `storage_gib: {larger}`",
        )
