"""What the pages about `init` and `diff` show is what the commands say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_SHOWN = [
    (page, *shown)
    for page in ("init", "diff")
    for shown in re.findall(
        r"```console\n\$ ([^\n]+)\n(.+?)\n```",
        (_ROOT / f"docs/how-to/{page}.md").read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
]


def test_every_page_shows_something() -> None:
    assert {page for page, *_ in _SHOWN} == {"init", "diff"}


@pytest.mark.parametrize(("page", "command", "output"), _SHOWN)
def test_shown_commands_say_what_is_shown(page: str, command: str, output: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=_ROOT,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout + done.stderr).strip() == output, page
