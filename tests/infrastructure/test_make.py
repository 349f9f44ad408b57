"""`make` works wherever the repository lies and however the deployment's file is called."""

import os
import re
import shlex
import subprocess

import pytest

from tests.support.deployments import ROOT

NODE_HOME = "/home/a name/node"
DEPLOYMENT = "deployments/my own.yaml"


def _make(*arguments: str) -> str:
    # a make above this one hands its own flags and its depth down, which changes what this one prints
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    }
    run = subprocess.run(
        ["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=True, env=environment
    )
    return run.stdout


@pytest.fixture(scope="module")
def commands() -> list[list[str]]:
    """The words of every command that `make synth` would run on a fresh machine."""
    text = _make("--dry-run", "--always-make", f"NODE_HOME={NODE_HOME}", f"DEPLOYMENT={DEPLOYMENT}", "synth")
    return [shlex.split(line) for line in text.splitlines()]


def test_node_is_found_below_a_folder_with_a_space(commands: list[list[str]]) -> None:
    node = f"{NODE_HOME}/bin/node"
    scripts = {words[words.index(node) + 1] for words in commands if node in words and words[0] != "ln"}
    assert scripts == {
        f"{NODE_HOME}/lib/node_modules/npm/bin/npm-cli.js",
        "node_modules/aws-cdk/bin/cdk",
    }


def test_an_activated_environment_has_the_node_that_came_with_it(commands: list[list[str]]) -> None:
    assert ["ln", "-sf", f"{NODE_HOME}/bin/node", ".venv/bin/node"] in commands


def test_file_with_a_space_in_its_name_stays_one_word(commands: list[list[str]]) -> None:
    last = [words[-1] for words in commands[-2:]]
    assert last == [f"deployment={DEPLOYMENT}", DEPLOYMENT]


def test_help_lists_every_target_that_is_explained_in_one_column() -> None:
    explained = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    lines = _make("help").splitlines()
    assert {line.split()[0] for line in lines} == explained
    assert len({len(re.match(r" *\S+ *", line)[0]) for line in lines}) == 1  # type: ignore[index]


def test_every_target_that_a_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "router").glob("*.md")]
    named = {
        (page.name, target)
        for page in pages
        for command in re.findall(r"(?:`|^\$ )make ([a-z][a-z -]*)", page.read_text(), flags=re.MULTILINE)
        for target in command.split()
    }
    assert named
    assert {(page, target) for page, target in named if target not in targets} == set()
