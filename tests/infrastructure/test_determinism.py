"""Two syntheses of one deployment are the same bytes, whatever the machine's hash seed and folder."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.deployments import ROOT
from tests.support.synth import context

SYNTH = """
import sys
from pathlib import Path
import pytest

from tests.support.deployments import ready
from tests.support.synth import application
app, _ = application(Path(sys.argv[1]), ready())
app.synth()
"""


def _synthesize(outdir: Path, seed: str) -> Mapping[str, bytes]:
    subprocess.run(
        [sys.executable, "-c", SYNTH, str(outdir)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=True,
        capture_output=True,
    )
    return {str(path.relative_to(outdir)): path.read_bytes() for path in outdir.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def syntheses(tmp_path_factory: pytest.TempPathFactory) -> list[Mapping[str, bytes]]:
    """What two processes wrote, each with another hash seed and into another folder."""
    folder = tmp_path_factory.mktemp("syntheses")
    return [_synthesize(folder / "a", "1"), _synthesize(folder / "another" / "b", "2")]


def test_two_syntheses_are_byte_identical(syntheses: list[Mapping[str, bytes]]) -> None:
    first, second = syntheses
    assert first.keys() == second.keys()
    assert len([name for name in first if name.endswith(".template.json")]) == 5
    assert [name for name, content in first.items() if second[name] != content] == []


def test_no_output_names_the_machine(syntheses: list[Mapping[str, bytes]]) -> None:
    for name, content in syntheses[0].items():
        if name.endswith(".json"):
            assert str(ROOT).encode() not in content, name


def test_the_flags_of_the_cli_are_the_flags_of_the_tests() -> None:
    assert context()["@aws-cdk/core:validateAgainstDefaultRules"] is True
    # a producer cannot be deleted while a consumer exists
    assert context()["@aws-cdk/core:defaultCrossStackReferences"] == "strong"
