"""The library, installed from a wheel, builds a stack outside the repository."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.deployments import ROOT

STACK = """
import sys
from pathlib import Path
import aws_cdk as cdk
import hyperpod_dpd
from hyperpod_dpd.cluster import DpdCluster
from hyperpod_dpd.cluster.dependencies_chart import HyperPodDependencies
from hyperpod_dpd.hyperpod import HyperPodCluster
from hyperpod_dpd.network import DpdNetwork
from hyperpod_dpd.security.logs import logs_key
from hyperpod_dpd.spec.load import load
from hyperpod_dpd.storage import AccessLogs, LifecycleScripts

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
        stack, "Scripts", deployment="mine", log_key=key, removal_policy=keep,
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
