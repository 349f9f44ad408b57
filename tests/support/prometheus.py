"""`promtool` and other programs of Debian over rules and expressions of this project."""

import re
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
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": list(tests)}
    path = folder / "tests.yaml"
    path.write_text(yaml.safe_dump(document, width=10_000, sort_keys=False), encoding="utf-8")
    done = promtool("test", "rules", path)
    return "" if done.returncode == 0 else done.stdout + done.stderr


_DURATION = re.compile(r"(?<=\[)(\d+)([smhd])(?=\])|(?<=offset )(\d+)([smhd])\b")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def faster(rules: str, factor: int) -> str:
    """Return a rule file in which every window, offset, interval and `for` is `factor` times shorter.

    Thresholds stay as they are: a rate per second means the same in a window of 5 seconds as in one of 5 minutes.
    """

    def shorter(count: str, unit: str) -> str:
        return f"{int(count) * _UNIT_SECONDS[unit] * 1000 // factor}ms"

    def replaced(match: re.Match[str]) -> str:
        return shorter(*(part for part in match.groups() if part))

    document = yaml.safe_load(rules)
    for group in document["groups"]:
        group["interval"] = shorter(group["interval"][:-1], group["interval"][-1])
        for rule in group["rules"]:
            rule["expr"] = _DURATION.sub(replaced, rule["expr"])
            if "for" in rule:
                rule["for"] = shorter(rule["for"][:-1], rule["for"][-1])
    return yaml.safe_dump(document, width=10_000, sort_keys=False)
