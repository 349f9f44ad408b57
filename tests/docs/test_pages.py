"""Whatever a page shows, works: commands are run, or parsed by their own programs where they need an account."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore import xform_name

from hyperpod_dpd.cli.app import full_parser
from hyperpod_dpd.rules.check import check
from hyperpod_dpd.spec.load import load
from tests.support.deployments import ROOT
from tests.support.pages import ELISION, Block, blocks, commands, lines_of_script, matches, pages, programs
from tools import docs_synth

_BLOCKS = {page: blocks(page) for page in pages()}
_LANGUAGES = {"bash", "console", "json", "promql", "py", "python", "text", "yaml"}
_BIN = Path(sys.executable).parent
_RUN = {"dpd", "python", "cat", "sed", "cp", "grep", "diff", "head", "ls", "echo"}
"""Programs that a page may start on a reader's machine without anything else."""


def _ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _pages_with(*languages: str) -> list[Path]:
    return [page for page, found in _BLOCKS.items() if any(block.language in languages for block in found)]


def test_there_is_something_to_run() -> None:
    assert sum(len(commands(block)) for block in _of("console")) > 20


def _of(language: str) -> list[Block]:
    return [block for found in _BLOCKS.values() for block in found if block.language == language]


@pytest.mark.parametrize("page", _BLOCKS, ids=_ids)
def test_every_block_says_what_it_is(page: Path) -> None:
    assert [str(block) for block in _BLOCKS[page] if block.language not in _LANGUAGES] == []


# -- what is run --------------------------------------------------------------------------------------------------


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    """A folder that looks like the repository, in which a page may change deployments and write files."""
    for entry in ROOT.iterdir():
        if entry.name in {".git", "deployments", "build", "cdk.out"}:
            continue
        (tmp_path / entry.name).symlink_to(entry)
    shutil.copytree(ROOT / "deployments", tmp_path / "deployments")
    return tmp_path


@pytest.mark.parametrize("page", _pages_with("console", "python"), ids=_ids)
def test_commands_print_what_the_page_shows(page: Path, sandbox: Path) -> None:
    for block in _BLOCKS[page]:
        if block.needs:
            continue
        if block.language == "python":
            _python(block, sandbox)
        elif block.language == "console":
            _console(block, sandbox)


def _python(block: Block, sandbox: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block.text],
        cwd=sandbox,
        env={**os.environ, "CDK_OUTDIR": str(sandbox / "cdk.out")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block}: {done.stderr}"


def _console(block: Block, sandbox: Path) -> None:
    for command in commands(block):
        started = {words[0].removeprefix(".venv/bin/") for words in programs(command.text)}
        if started <= {"make"}:
            continue
        assert started <= _RUN, f"{block}: say what `{command.text}` needs"
        done = subprocess.run(
            ["/bin/sh", "-c", command.text],
            cwd=sandbox,
            env={**os.environ, "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if command.output:
            assert matches(command.output, done.stdout), f"{block}: `{command.text}` prints\n{done.stdout}"
        else:
            assert done.returncode in {0, 1}, f"{block}: `{command.text}` prints\n{done.stdout}"


# -- what is parsed -----------------------------------------------------------------------------------------------


def _typed() -> list[tuple[str, list[str]]]:
    found = []
    for block in (*_of("console"), *_of("bash")):
        lines = (
            [command.text for command in commands(block)]
            if block.language == "console"
            else lines_of_script(block)
        )
        found += [(str(block), words) for line in lines for words in programs(line)]
    return found


@pytest.mark.parametrize("block", _of("bash"), ids=str)
def test_scripts_are_shell(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{block}: {done.stderr}"


@pytest.mark.parametrize(("place", "words"), _typed())
def test_every_command_line_is_one_that_its_program_takes(place: str, words: list[str]) -> None:
    parse = _PARSERS.get(Path(words[0]).name)
    assert parse is not None, f"{place}: nothing here knows `{words[0]}`"
    refused = parse(words[1:])
    assert refused is None, f"{place}: `{' '.join(words)}`: {refused}"


def _dpd(words: list[str]) -> str | None:
    try:
        full_parser().parse_args(words)
    except SystemExit as stopped:
        return None if stopped.code == 0 else "dpd does not take this"
    return None


def _make(words: list[str]) -> str | None:
    targets = [word for word in words if "=" not in word and not word.startswith("-")]
    known = set(re.findall(r"^([a-z-]+):(?!=)", _makefile(), flags=re.MULTILINE))
    settings = {word.split("=")[0] for word in words if "=" in word}
    unknown = (set(targets) - known) | {
        name for name in settings if not re.search(rf"^{name} \?=", _makefile(), flags=re.MULTILINE)
    }
    return f"unknown {sorted(unknown)}" if unknown else None


@cache
def _makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def _aws(words: list[str]) -> str | None:
    """Compare with the service's own model; what the AWS CLI adds of its own is listed."""
    plain = [word for word in words if not word.startswith("-")]
    service, operation = plain[0], plain[1]
    options = {word[2:].split("=")[0] for word in words if word.startswith("--")}
    options -= {"region", "profile", "query", "output", "no-cli-pager"}
    own = {
        ("s3", "cp"): {"recursive"},
        ("s3", "sync"): set(),
        ("s3", "ls"): set(),
        ("s3", "rm"): {"recursive"},
        ("eks", "update-kubeconfig"): {"name", "alias"},
    }
    if (service, operation) in own:
        return None if options <= own[service, operation] else f"unknown {options}"
    model = botocore.session.get_session().get_service_model(
        {"configservice": "config"}.get(service, service)
    )
    operations = {xform_name(name, "-"): name for name in model.operation_names}
    if operation not in operations:
        return f"`{service}` has no `{operation}`"
    shape = model.operation_model(operations[operation]).input_shape
    members = {xform_name(name, "-") for name in (shape.members if shape else ())}
    unknown = {option for option in options if option.removeprefix("no-") not in members}
    return f"unknown {unknown}" if unknown else None


def _cdk(words: list[str]) -> str | None:
    known = _cdk_help(words[0])
    options = {word.split("=")[0] for word in words[1:] if word.startswith("-")}
    unknown = {option for option in options if not re.search(rf"(?<![\w-]){re.escape(option)}\b", known)}
    return f"unknown {unknown}" if unknown else None


@cache
def _cdk_help(command: str) -> str:
    assert command in {"bootstrap", "deploy", "destroy", "diff", "synth", "list"}
    done = subprocess.run(
        [os.environ["JSII_NODE"], "node_modules/aws-cdk/bin/cdk", command, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


_KUBECTL_VERBS = {
    "apply", "create", "delete", "describe", "exec", "get", "logs", "port-forward", "rollout", "top", "wait",
}  # fmt: skip


def _kubectl(words: list[str]) -> str | None:
    """Find the verb; what follows only a cluster's kubectl can judge."""
    options_with_value = {"-n", "--namespace", "--context"}
    plain = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and before not in options_with_value
    ]
    return None if plain and plain[0] in _KUBECTL_VERBS else f"unknown verb in `{' '.join(words)}`"


def _python_program(words: list[str]) -> str | None:
    if words[:1] in (["-c"], ["-m"]):
        return None
    return None if (ROOT / words[0]).exists() else f"no `{words[0]}`"


def _plain(words: list[str]) -> str | None:
    return None


_PARSERS: Mapping[str, Callable[[list[str]], str | None]] = {
    "aws": _aws,
    "cdk": _cdk,
    "dpd": _dpd,
    "kubectl": _kubectl,
    "make": _make,
    "python": _python_program,
    **dict.fromkeys(
        (
            "cat",
            "cp",
            "curl",
            "diff",
            "git",
            "grep",
            "head",
            "ls",
            "echo",
            "pip",
            "sed",
            "source",
            "export",
            "cd",
            "uv",
        ),
        _plain,
    ),
}


# -- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", _of("json"), ids=str)
def test_json_is_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", _of("yaml"), ids=str)
def test_yaml_is_a_deployment_or_a_piece_of_one(block: Block, tmp_path: Path) -> None:
    documents = [entry for entry in yaml.safe_load_all(block.text) if entry is not None]
    default = yaml.safe_load((ROOT / "deployments/llama-3.3-70b-p5.yaml").read_text(encoding="utf-8"))
    for document in documents:
        if "apiVersion" in document or block.needs:
            continue
        file = tmp_path / "deployment.yaml"
        whole = document if "version" in document else _merged(default, document)
        file.write_text(yaml.safe_dump(whole), encoding="utf-8")
        report = check(load(file).deployment)
        assert [str(finding) for finding in report.findings] == [], str(block)


def _merged(default: Any, given: Any) -> Any:
    if (
        isinstance(default, dict)
        and isinstance(given, dict)
        and default.get("type") == given.get("type", default.get("type"))
    ):
        return {**default, **{key: _merged(default.get(key), value) for key, value in given.items()}}
    return given


@pytest.mark.parametrize("page", docs_synth.PAGES, ids=_ids)
def test_a_page_shows_the_stacks_and_the_price_that_make_synth_prints(page: Path, summary: str) -> None:
    """`make generate` brings the numbers up to date, `make drift` says when they are not."""
    (shown,) = [
        command.output
        for block in _BLOCKS[page]
        if block.language == "console"
        for command in commands(block)
        if command.text == "make synth" and command.output
    ]
    assert shown.startswith(f"{ELISION}\n")
    assert _stacks_and_price(shown)
    assert _stacks_and_price(shown) == _stacks_and_price(summary)


@pytest.fixture(scope="module")
def summary() -> str:
    return docs_synth.printed()


def _stacks_and_price(text: str) -> list[str]:
    return re.findall(r"stack \S+|instance groups at list price: .+", text)
