"""The program as its image holds it: one folder of the library, and nothing that the image has not."""

import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.support.deployments import ROOT

DOCKERFILE = (ROOT / "images/proof/Dockerfile").read_text(encoding="utf-8")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """What the Dockerfile copies of the library, where it puts it."""
    folder = tmp_path / "image"
    for source, target in re.findall(
        r"^COPY (constructs/\S+) (/opt/programs/\S+)$", DOCKERFILE, re.MULTILINE
    ):
        shutil.copytree(
            ROOT / source,
            folder / target.removeprefix("/opt/programs/"),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    # the libraries, without what an editable installation puts beside them
    for name in ("prometheus_client",):
        place = distribution(name.replace("_", "-")).locate_file(name)
        shutil.copytree(str(place), folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(programs: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    # without site-packages, so that nothing of this checkout can be imported
    return subprocess.run(
        [sys.executable, "-S", "-B", *arguments],
        env={"PYTHONPATH": str(programs), "PATH": "/nowhere"},
        cwd=programs,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_program_runs_with_what_the_image_has_and_says_why_it_could_not_try(programs: Path) -> None:
    assert "PYTHONPATH=/opt/programs" in DOCKERFILE
    done = run(
        programs, "-m", "hyperpod_dpd.evidence.proof", "--url=http://127.0.0.1:1", "--model=m", "--threshold=512",
        "--workers-namespace=w", "--prefill-selector=a=b", "--decode-selector=a=c",
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "this does not run on a cluster" in done.stderr


def test_an_endpoint_that_is_not_there_is_a_verdict(programs: Path) -> None:
    done = run(
        programs, "-m", "hyperpod_dpd.evidence.proof", "--url=http://127.0.0.1:1", "--model=m", "--threshold=512",
        "--prefiller=http://127.0.0.1:1", "--decoder=http://127.0.0.1:1",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == "failed"
    assert "no-decoder" in done.stderr


def test_no_cdk_is_loaded(programs: Path) -> None:
    code = (
        "import sys, hyperpod_dpd.evidence.proof.__main__, hyperpod_dpd\n"
        "print(hyperpod_dpd.__file__, [name for name in sys.modules if name.split('.')[0] in ('aws_cdk', 'cdk8s', 'jsii')])"
    )
    done = run(programs, "-c", code)
    assert done.stdout.strip() == "None []", done.stderr
