"""The program as the import build gets it."""

import shutil
from pathlib import Path, PurePosixPath
from typing import Final

_PROGRAM: Final = Path(__file__).parent / "program"
_PACKAGE: Final = PurePosixPath("hyperpod_dpd/storage/model_import/program")


def stage(target: Path) -> None:
    """Copy the program below `target` under the name by which it imports itself, and what the build needs beside it.

    The packages above it are empty there: the library imports CDK, which a build does not have.
    """
    package = target / _PACKAGE
    package.mkdir(parents=True)
    for above in list(_PACKAGE.parents)[:-1]:
        (target / above / "__init__.py").touch()
    for module in _PROGRAM.glob("*.py"):
        shutil.copy(module, package)
    for beside in ("buildspec.yml", "requirements.txt"):
        shutil.copy(_PROGRAM / beside, target)
