"""What the page about lint shows is what the command says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hyperpod_dpd.rules import rules

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs/how-to/lint.md").read_text(encoding="utf-8")
_SHOWN = re.findall(r"```console\n\$ (.+)\n(.+)\n```", _PAGE)


def test_the_page_shows_something() -> None:
    assert len(_SHOWN) == 2


@pytest.mark.parametrize(("command", "line"), _SHOWN)
def test_shown_commands_say_what_is_shown(command: str, line: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=_ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert line in (done.stdout + done.stderr).splitlines()


def test_rules_that_the_page_names_exist() -> None:
    assert set(re.findall(r"DPD-LINT-\d+", _PAGE)) <= rules().keys()
