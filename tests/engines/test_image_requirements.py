"""The images' packages as the image gets them: every pin exists for its platform, and the router's steps run.

Needs the package index, as an image build does.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.deployments import ROOT

pytestmark = [pytest.mark.engines, pytest.mark.slow]

UV = Path(sys.executable).with_name("uv")


@pytest.mark.parametrize("name", ["worker", "router", "proof", "benchmark"])
def test_every_pin_has_a_wheel_for_the_images_platform(name: str, tmp_path: Path) -> None:
    """The worker's GPUs want x86-64; Ubuntu 24.04 and Debian 12 have at least glibc 2.35."""
    requirements = ROOT / "images" / name / "requirements.txt"
    command: list[str | Path] = [
        *(UV, "pip", "install", "--dry-run", "--no-deps", "--require-hashes", "--only-binary", ":all:"),
        *("--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_35"),
        *("--target", tmp_path / "target", "--requirement", requirements),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    pins = re.findall(r"^[A-Za-z0-9._-]+==", requirements.read_text(encoding="utf-8"), re.MULTILINE)
    (installed,) = re.findall(r"Would install (\d+) packages", ran.stderr)
    # the router's file is for every platform, and Linux needs all but a few of it
    assert len(pins) - 4 <= int(installed) <= len(pins)


def test_the_install_steps_of_the_routers_image_give_a_router(tmp_path: Path) -> None:
    def step(*command: str | Path, cwd: Path = ROOT) -> str:
        ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    build, venv, wheels = tmp_path / "build", tmp_path / "venv", tmp_path / "wheels"
    source = tmp_path / "source"
    step("cp", "-r", ROOT / "router", source)
    step("cp", ROOT / "LICENSE", source)
    step(sys.executable, "-m", "venv", build)
    step(
        build / "bin/pip",
        "install",
        "--quiet",
        "--require-hashes",
        "--requirement",
        ROOT / "requirements/bootstrap.txt",
    )
    step(sys.executable, "-m", "venv", "--without-pip", venv)
    uv = (build / "bin/uv", "pip", "install", "--quiet", "--python", venv / "bin/python", "--no-deps")
    step(*uv, "--require-hashes", "--requirement", ROOT / "images/router/requirements.txt")
    step(build / "bin/hatchling", "build", "-t", "wheel", "-d", wheels, cwd=source)
    (wheel,) = wheels.glob("dpd_router-*.whl")
    step(*uv, wheel)
    # outside of the checkout, so that nothing but the environment can be imported
    assert "--threshold" in step(venv / "bin/dpd-router", "--help", cwd=tmp_path)
    step(venv / "bin/python", "-c", "import dpd_router.tracing, opentelemetry.sdk", cwd=tmp_path)
    listed = step(UV, "pip", "check", "--python", venv / "bin/python")
    assert "incompatib" not in listed
