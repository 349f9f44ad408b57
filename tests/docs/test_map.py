"""The map of folders shows every folder that a stranger meets."""

import re
import subprocess

from tests.support.deployments import ROOT

_MAP = (ROOT / "docs/contributing/first-change.md").read_text(encoding="utf-8")
_HIDDEN = {"deployments", "changelog.d", "requirements"}
"""Folders that other parts of the page explain."""


def _tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_every_package_of_the_library_is_on_the_map() -> None:
    packages = {
        found[1] for name in _tracked() if (found := re.match(r"constructs/hyperpod_dpd/(\w+)/", name))
    }
    mapped = set(re.findall(r"`(?:constructs/hyperpod_dpd/)?(\w+)`", _MAP))
    assert packages - mapped == set()


def test_every_folder_of_the_repository_is_on_the_map() -> None:
    folders = {name.split("/", 1)[0] for name in _tracked() if "/" in name and not name.startswith(".")}
    mapped = set(re.findall(r"`([\w.]+)/", _MAP))
    assert folders - mapped - _HIDDEN == set()
