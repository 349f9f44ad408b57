"""`promtool` and other programs of Debian over rules and expressions of this project."""

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

_MISSING = "`{name}` is not installed. help: install the Debian packages of .ci/packages.txt, as .ci/run does"


def program(name: str) -> str:
    """Return the path of a program that a Debian package brings, or skip the test."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(_MISSING.format(name=name))
    return path


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `promtool` and return what it said."""
    return subprocess.run(
        [program("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )


def check_rules(text: str, folder: Path) -> None:
    """Fail unless `promtool` accepts a rule file, warnings included."""
    path = folder / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", path)
    assert done.returncode == 0, done.stdout + done.stderr


def check_expressions(expressions: Iterable[str], folder: Path) -> None:
    """Fail unless `promtool` parses every expression."""
    rules = [{"record": f"expression:number{n}", "expr": each} for n, each in enumerate(expressions)]
    check_rules(yaml.safe_dump({"groups": [{"name": "expressions", "rules": rules}]}, width=10_000), folder)


def unit_test(rules: str, tests: Iterable[Mapping[str, Any]], folder: Path) -> str:
    """Run `promtool test rules` over `rules` and return what failed, an empty text when nothing did."""
    (folder / "rules.yaml").write_text(rules, encoding="utf-8")
    document = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "30s",
        # in an order by chance, an alert reads a recording of this evaluation or of the one before
        "group_eval_order": [group["name"] for group in yaml.safe_load(rules)["groups"]],
        "tests": list(tests),
    }
    path = folder / "tests.yaml"
    path.write_text(yaml.safe_dump(document, width=10_000, sort_keys=False), encoding="utf-8")
    done = promtool("test", "rules", path)
    return "" if done.returncode == 0 else done.stdout + done.stderr
