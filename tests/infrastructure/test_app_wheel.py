"""The library, installed from a wheel, builds a stack outside the repository."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.deployments import ROOT

STACK = """
import sys
from pathlib import Path
import aws_cdk as cdk
import hyperpod_dpd
from hyperpod_dpd import (
    AccessLogs,
    DpdCluster,
    DpdNetwork,
    HyperPodCluster,
    HyperPodDependencies,
    LifecycleScripts,
    load,
    logs_key,
)

deployment = load(sys.argv[1]).deployment
keep = cdk.RemovalPolicy.RETAIN
app = cdk.App(outdir=sys.argv[2])
stack = cdk.Stack(app, "Mine", env=cdk.Environment(region=deployment.region))
network = DpdNetwork(stack, "Network", spec=deployment.network, name="mine")
cluster = DpdCluster(stack, "Cluster", spec=deployment.cluster, network=network, name="mine")
key = logs_key(stack, "Key", removal_policy=keep)
HyperPodCluster(
    stack,
    "HyperPod",
    name="mine",
    spec=deployment.hyperpod,
    cluster=cluster.cluster,
    network=network,
    scripts=LifecycleScripts(
        stack, "Scripts", name="mine", log_key=key, removal_policy=keep,
        access_logs=AccessLogs(stack, "AccessLogs", removal_policy=keep),
    ),
    chart=HyperPodDependencies(stack, "Chart", cluster=cluster.cluster, network=network, log_key=key),
    removal_policy=keep,
)
app.synth()
print(Path(hyperpod_dpd.__file__).parent)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment into which the wheel was installed; what it depends on comes from this one."""
    folder = tmp_path_factory.mktemp("wheel")
    tools = Path(sys.executable).parent
    environment = {**os.environ, "HATCH_BUILD_CLEAN": "true"}
    subprocess.run(
        [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "sdist",
            "--target",
            "wheel",
            "--directory",
            str(folder / "dist"),
        ],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
    )
    (wheel,) = (folder / "dist").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run(
        [
            str(tools / "uv"),
            "pip",
            "install",
            "--quiet",
            "--offline",
            "--no-deps",
            "--python",
            str(python),
            str(wheel),
        ],
        check=True,
        cwd=folder,
    )
    # a plain path line: unlike an installation it does not bring the editable checkout along
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_a_stack_is_built_from_the_installed_wheel(installed: Path) -> None:
    script = installed / "stack.py"
    script.write_text(STACK)
    result = subprocess.run(
        [
            str(installed / "venv" / "bin" / "python"),
            str(script),
            str(ROOT / "deployments" / "llama-3.3-70b-p5.yaml"),
            str(installed / "out"),
        ],
        cwd=installed,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()).is_relative_to(installed)
    template = (installed / "out" / "Mine.template.json").read_text()
    assert "AWS::SageMaker::Cluster" in template
    assert "ml.p5.48xlarge" in template


def test_the_wheel_carries_scripts_and_type_marker_and_nothing_of_the_application(installed: Path) -> None:
    site = next((installed / "venv" / "lib").glob("python*/site-packages"))
    package = site / "hyperpod_dpd"
    assert (package / "py.typed").exists()
    assert (package / "storage" / "lifecycle" / "on_create.sh").exists()
    assert {path.name for path in (package / "cluster" / "dependencies_chart" / "scripts").iterdir()} == {
        "buildspec.yml",
        "dependencies.sh",
        "values.yaml",
    }
    assert not (site / "stacks").exists()
    assert not (site / "tests").exists()


def test_the_command_is_installed_and_judges_a_deployment(installed: Path) -> None:
    done = subprocess.run(
        [
            str(installed / "venv" / "bin" / "dpd"),
            "check",
            str(ROOT / "deployments" / "llama-3.3-70b-p5.yaml"),
        ],
        cwd=installed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("llama-3.3-70b-p5.yaml: 0 errors, 0 warnings, 1 acknowledged\n")


def test_a_wheel_made_from_the_source_distribution_is_the_same(installed: Path, tmp_path: Path) -> None:
    (source,) = (installed / "dist").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "constructs"} <= {
        path.name for path in unpacked.iterdir()
    }
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=unpacked,
        check=True,
        capture_output=True,
    )
    (again,) = tmp_path.glob("*.whl")
    (first,) = (installed / "dist").glob("*.whl")
    assert _contents(again) == _contents(first)


def _contents(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


def test_the_wheel_says_what_it_is(installed: Path) -> None:
    site = next((installed / "venv" / "lib").glob("python*/site-packages"))
    (metadata,) = site.glob("hyperpod_dpd-*.dist-info/METADATA")
    said = metadata.read_text(encoding="utf-8")
    assert "License-Expression: Apache-2.0" in said
    assert "Requires-Python: >=3.11" in said
    assert "Classifier: Typing :: Typed" in said
