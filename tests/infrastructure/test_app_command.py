"""`app.py` as the CDK CLI runs it: summary, refusals, exit codes, and no word to AWS."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any

import pytest

from tests.support.deployments import ROOT
from tests.support.synth import READY, context

DEFAULT = ROOT / "deployments" / "llama-3.3-70b-p5.yaml"


class Run:
    """One run of `app.py`."""

    def __init__(
        self,
        outdir: Path,
        *,
        deployment: Path | str | None = None,
        profile: str | None = None,
        **environment: str,
    ) -> None:
        flags = context()
        if profile is not None:
            flags["profile"] = profile
        if deployment is not None:
            flags["deployment"] = str(deployment)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self.outdir = outdir
        self.result = subprocess.run(
            [sys.executable, "app.py"],
            cwd=ROOT,
            env={
                **clean,
                "CDK_OUTDIR": str(outdir),
                "CDK_CONTEXT_JSON": json.dumps(flags),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def manifest(self) -> Mapping[str, Any]:
        manifest: Mapping[str, Any] = json.loads((self.outdir / "manifest.json").read_text())
        return manifest


@pytest.fixture(scope="module")
def default_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("default"))


PARTS = ("network", "cluster", "hyperpod", "platform", "serving")
"""Stacks of a deployment in the order in which they are deployed."""


def test_writes_the_templates_of_five_stacks(default_run: Run) -> None:
    assert default_run.result.returncode == 0, default_run.result.stderr
    assert {path.name for path in default_run.outdir.glob("*.template.json")} == {
        f"llama-3-3-70b-p5-{part}.template.json" for part in PARTS
    }


def test_says_how_large_the_stacks_are_and_what_the_groups_cost(default_run: Run) -> None:
    lines = default_run.result.stdout.splitlines()
    assert lines[0] == "llama-3-3-70b-p5 in us-east-1"
    for part in PARTS:
        template = json.loads((default_run.outdir / f"llama-3-3-70b-p5-{part}.template.json").read_text())
        (line,) = [line for line in lines if f"stack llama-3-3-70b-p5-{part} " in line]
        assert f" {len(template['Resources'])} resources " in line
    prices = [line for line in lines if line.lstrip().startswith("group ")]
    assert [line.split()[1:5] for line in prices] == [
        ["prefill", "1", "x", "ml.p5.48xlarge"],
        ["decode", "1", "x", "ml.p5.48xlarge"],
    ]
    assert all("$63.30/h (list, derived, 2026-11-09)" in line for line in prices)
    assert lines[-1] == "  instance groups at list price: $126.60/h, $92,418/month"


def test_says_in_which_order_stacks_are_deployed_how_long_they_take_and_how_that_is_known(
    default_run: Run,
) -> None:
    rows = [
        re.split(r" {2,}", line.strip())
        for line in default_run.result.stdout.splitlines()
        if " stack " in line
    ]
    assert [row[0] for row in rows] == [
        f"{number}. stack llama-3-3-70b-p5-{part}" for number, part in enumerate(PARTS, start=1)
    ]
    assert all(re.fullmatch(r"(\d+ to|at most) \d+ min", row[2]) for row in rows)
    assert all(len(row[3].split()) >= 4 for row in rows)


def test_order_in_which_the_cli_deploys_is_the_one_that_is_said(default_run: Run) -> None:
    artifacts = default_run.manifest["artifacts"]
    for number, part in enumerate(PARTS):
        needed = artifacts[f"llama-3-3-70b-p5-{part}"].get("dependencies", [])
        later = {f"llama-3-3-70b-p5-{each}" for each in PARTS[number:]}
        assert not later & set(needed)
        if number:
            assert f"llama-3-3-70b-p5-{PARTS[number - 1]}" in _transitive(artifacts, part)


def _transitive(artifacts: Mapping[str, Any], part: str) -> set[str]:
    found: set[str] = set()
    pending = [f"llama-3-3-70b-p5-{part}"]
    while pending:
        for needed in artifacts[pending.pop()].get("dependencies", []):
            if needed not in found:
                found.add(needed)
                pending.append(needed)
    return found


def test_says_which_secrets_are_empty_after_the_deployment(default_run: Run) -> None:
    assert (
        "secret to fill: `dpd secret set hyperpod-dpd/llama-3-3-70b-p5/huggingface --region us-east-1`"
        in default_run.result.stdout
    )


def test_says_that_versions_of_addons_are_not_confirmed(default_run: Run) -> None:
    said = (
        "versions of 8 add-ons are from public records: `dpd preflight` asks EKS whether us-east-1 has them"
    )
    assert said in default_run.result.stdout


def test_says_where_alerts_would_be_heard_by_nobody(default_run: Run) -> None:
    assert "alerts reach nobody: give `platform.alerts.email_addresses`" in default_run.result.stdout
    assert "kubectl lets nobody in: give `cluster.administrators`" in default_run.result.stdout


def test_stacks_are_protected_against_deletion(default_run: Run) -> None:
    stacks = [
        artifact["properties"]
        for artifact in default_run.manifest["artifacts"].values()
        if artifact["type"] == "aws:cloudformation:stack"
    ]
    assert len(stacks) == len(PARTS)
    assert all(stack["terminationProtection"] for stack in stacks)
    # a stack's own tags would reach the HyperPod cluster
    assert not any(stack.get("tags") for stack in stacks)


@contextmanager
def _aws() -> Iterator[tuple[str, socket]]:
    """Yield an address at which every AWS API would be, and the socket that listens there."""
    with socket(AF_INET, SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", listener


@pytest.mark.parametrize("account", [None, "123456789012"])
def test_nothing_is_asked_of_aws_with_or_without_an_account(tmp_path: Path, account: str | None) -> None:
    text = DEFAULT.read_text()
    if account:
        text += f'\naccount: "{account}"\n'
    file = tmp_path / "deployment.yaml"
    file.write_text(text)
    with _aws() as (address, listener):
        run = Run(tmp_path / "out", deployment=file, AWS_ENDPOINT_URL=address)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert run.result.returncode == 0, run.result.stderr
    # what the CLI would look up before it calls the application again
    assert not run.manifest.get("missing")


@pytest.mark.parametrize("name", READY[1:])
def test_the_other_ready_deployments_synthesize_from_their_files(tmp_path: Path, name: str) -> None:
    run = Run(tmp_path, deployment=ROOT / "deployments" / f"{name}.yaml")
    assert run.result.returncode == 0, run.result.stderr
    assert len(list(tmp_path.glob("*.template.json"))) == len(PARTS)


def _deployment(folder: Path, old: str, new: str) -> Path:
    text = DEFAULT.read_text()
    assert old in text
    file = folder / "deployment.yaml"
    file.write_text(text.replace(old, new))
    return file


def test_a_deployment_with_errors_is_refused_with_every_finding_and_its_line(tmp_path: Path) -> None:
    file = _deployment(tmp_path, "gpu_zone_id: use1-az6", "gpu_zone_id: usw2-az2")
    file.write_text(
        file.read_text().replace("      count: 1\n", "      count: 1\n      zone_id: use1-az4\n", 1)
    )
    run = Run(tmp_path / "out", deployment=file)
    assert run.result.returncode == 1
    findings = run.result.stderr.splitlines()
    assert len(findings) >= 2
    assert any("DPD-NET-003" in finding for finding in findings)
    for finding in findings:
        assert finding.startswith(f"{file}:")
        assert ": error: DPD-" in finding
        assert " help: " in finding
    assert run.result.stdout == ""
    assert not list((tmp_path / "out").glob("*.template.json"))


def test_a_file_that_cannot_be_read_is_refused_without_a_traceback(tmp_path: Path) -> None:
    file = _deployment(tmp_path, "region:", "regoin:")
    run = Run(tmp_path / "out", deployment=file)
    assert run.result.returncode == 2
    assert f"{file}:" in run.result.stderr
    assert "unknown key" in run.result.stderr
    assert "Traceback" not in run.result.stderr


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path / "out", deployment=tmp_path / "nowhere.yaml")
    assert run.result.returncode == 2
    assert "nowhere.yaml: error: cannot be read: no such file or directory" in run.result.stderr


@pytest.fixture(scope="module")
def shared_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second model on a cluster that another deployment owns."""
    file = tmp_path_factory.mktemp("shared") / "deployment.yaml"
    existing = "\ncluster:\n  existing:\n    eks_name: theirs\n    hyperpod_name: theirs\n"
    file.write_text(DEFAULT.read_text().partition("\nacknowledge:")[0] + existing)
    return file


def test_on_a_cluster_of_somebody_else_only_what_is_its_own_is_built(
    tmp_path: Path, shared_file: Path
) -> None:
    run = Run(tmp_path, deployment=shared_file)
    assert run.result.returncode == 0, run.result.stderr
    assert {path.name for path in tmp_path.glob("*.template.json")} == {
        "llama-3-3-70b-p5-platform.template.json",
        "llama-3-3-70b-p5-serving.template.json",
    }
    types = {
        body["Type"]
        for path in tmp_path.glob("*.template.json")
        for body in json.loads(path.read_text())["Resources"].values()
    }
    assert not types & {"AWS::EKS::Cluster", "AWS::SageMaker::Cluster", "AWS::EC2::VPC", "AWS::EKS::Addon"}
    assert run.result.stdout.splitlines()[-1] == (
        "  instance groups at list price: those of the cluster's owner"
    )


def test_a_baseline_is_installed_instead_to_measure_against(tmp_path: Path) -> None:
    run = Run(tmp_path, profile="baseline")
    assert run.result.returncode == 0, run.result.stderr
    template = (tmp_path / "llama-3-3-70b-p5-serving.template.json").read_text()
    assert '\\"name\\":\\"colocated-prefill\\"' in template
    assert '\\"name\\":\\"prefill\\"' not in template


@pytest.mark.parametrize("name", ["operator", "fastest"])
def test_a_profile_of_the_other_backend_or_of_none_is_refused(tmp_path: Path, name: str) -> None:
    run = Run(tmp_path, profile=name)
    assert run.result.returncode == 1
    assert f"no profile `{name}` of `backend: self-managed`. help: its profiles are " in run.result.stderr
    assert "`baseline-tuned`" in run.result.stderr


def test_an_output_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = Run(tmp_path / "file" / "out")
    assert run.result.returncode == 1
    (line,) = run.result.stderr.splitlines()
    assert line.startswith("error: cannot write the templates: ENOTDIR: ")
    assert " help: " in line
