"""Which files of the repository an image is built from."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_SCRIPTS: Final = ("images/buildspec.yml", "images/build.sh", "images/repository.sh")
_COPY: Final = re.compile(r"^COPY +(?!--from=)(?P<arguments>.+?)$", re.MULTILINE)


def sources_of(image: str, sources: Path) -> tuple[str, ...]:
    """Return what the Dockerfile of `image` copies, the Dockerfile, and the scripts that build it, relative to `sources`.

    Another file is no reason to build the image again, and the build takes half an hour for the workers.

    Raises:
        FileNotFoundError: there is no such image below `sources`.
    """
    dockerfile = f"images/{image}/Dockerfile"
    if not (sources / dockerfile).is_file():
        raise FileNotFoundError(
            f"no sources of the image `{image}`: given `{sources}`, which has no `{dockerfile}`. help: give the root of "
            "a checkout of this project"
        )
    text = (sources / dockerfile).read_text(encoding="utf-8").replace("\\\n", " ")
    copied = [
        source.rstrip("/")
        for match in _COPY.finditer(text)
        for source in _without_flags(match["arguments"].split())[:-1]
    ]
    return tuple(sorted({dockerfile, *_SCRIPTS, *copied}))


def excluded(sources: Path) -> list[str]:
    """Return what never reaches a builder of what is copied, from `.dockerignore`."""
    lines = (sources / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and line != "*" and not line.startswith(("#", "!"))]


def stage(paths: Sequence[str], sources: Path, target: Path) -> None:
    """Copy `paths` below `target`, at the place that they have below `sources`."""
    for path in paths:
        origin, copy = sources / path, target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        if origin.is_dir():
            shutil.copytree(origin, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy2(origin, copy)


def _without_flags(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("--")]
