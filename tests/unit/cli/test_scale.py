"""`dpd scale` as a shell sees it, against an account on loopback."""

import os
import pty
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployments import ROOT, ready
from tests.support.status_account import StatusAccount, running

_DEFAULT = ROOT / "deployments/llama-3.3-70b-p5.yaml"
_DPD = Path(sys.executable).with_name("dpd")


@pytest.fixture
def account() -> Iterator[StatusAccount]:
    with running() as account:
        reset = urllib.request.Request(f"{account.url}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset).close()
        account.deploy(ready())
        yield account


def _scale(
    account: StatusAccount | None, *arguments: str, file: Path = _DEFAULT
) -> subprocess.CompletedProcess[str]:
    environment = account.environment() if account else {"AWS_EC2_METADATA_DISABLED": "true"}
    return subprocess.run(
        [_DPD, "scale", file, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def test_every_group_goes_to_zero_with_its_settings(account: StatusAccount) -> None:
    done = _scale(account, "--to", "0", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "prefill (ml.p5.48xlarge): 1 → 0",
        "decode (ml.p5.48xlarge): 1 → 0",
        "instance groups at list price: $126.60/h → $0.00/h",
        f"asked for. help: `dpd status {_DEFAULT} --watch` shows the nodes come or go",
        (
            "in the file `prefill` has `count: 1`, `decode` has `count: 1`: the next deployment that changes the "
            "HyperPod cluster brings that back"
        ),
    ]
    (update,) = account.updates
    assert update["ClusterName"] == "llama-3-3-70b-p5"
    assert [group["InstanceCount"] for group in update["InstanceGroups"]] == [0, 0]
    assert all(group["ThreadsPerCore"] == 2 for group in update["InstanceGroups"])
    assert all(group["LifeCycleConfig"]["OnCreate"] == "on_create.sh" for group in update["InstanceGroups"])


def test_only_the_named_group_changes(account: StatusAccount) -> None:
    done = _scale(account, "--to", "2", "--group", "decode", "--yes")
    assert done.returncode == 0, done.stderr
    counts = {
        group["InstanceGroupName"]: group["InstanceCount"] for group in account.updates[0]["InstanceGroups"]
    }
    assert counts == {"prefill": 1, "decode": 2}
    assert "$126.60/h → $189.90/h" in done.stdout


def test_what_is_there_already_is_left_alone(account: StatusAccount) -> None:
    done = _scale(account, "--to", "file")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "nothing to change"
    assert account.updates == []


def test_nothing_changes_where_nobody_can_be_asked(account: StatusAccount) -> None:
    done = _scale(account, "--to", "0")
    assert done.returncode == 1
    assert "nobody is there to be asked. help: give `--yes`" in done.stderr
    assert account.updates == []


@pytest.mark.parametrize(("answer", "changes"), [(b"y\n", 1), (b"\n", 0), (b"no\n", 0)])
def test_a_terminal_is_asked(account: StatusAccount, answer: bytes, changes: int) -> None:
    controller, terminal = pty.openpty()
    try:
        os.write(controller, answer)
        done = subprocess.run(
            [_DPD, "scale", _DEFAULT, "--to", "0"],
            stdin=terminal,
            capture_output=True,
            text=True,
            check=False,
            env=account.environment(),
        )
    finally:
        os.close(controller)
        os.close(terminal)
    assert "go ahead? [y/N]" in done.stdout
    assert len(account.updates) == changes
    assert done.returncode == (0 if changes else 1)


def test_a_number_that_the_rules_refuse_is_refused_before_anything_is_asked() -> None:
    done = _scale(None, "--to", "6758", "--yes")
    assert done.returncode == 1
    assert "DPD-NET-" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("to", ["-1", "6759", "two", "1.5", "", "٣"])
def test_what_is_no_number_of_nodes_is_refused(to: str) -> None:
    done = _scale(None, f"--to={to}")
    assert done.returncode == 2
    assert "neither a number from 0 to 6758 nor `file`" in done.stderr


def test_an_unknown_group_is_refused_with_those_that_exist() -> None:
    done = _scale(None, "--to", "0", "--group", "Decode")
    assert done.returncode == 2
    assert "no instance group `Decode`. help: the groups are `prefill`, `decode`" in done.stderr


def test_groups_of_somebody_elses_cluster_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "second.yaml"
    text = _DEFAULT.read_text().partition("\nacknowledge:")[0]
    file.write_text(f"{text}\ncluster:\n  existing:\n    eks_name: theirs\n    hyperpod_name: theirs\n")
    done = _scale(None, "--to", "0", file=file)
    assert done.returncode == 2
    assert "belong to the owner of the cluster" in done.stderr


def test_a_missing_right_is_named(account: StatusAccount) -> None:
    account.denied = {"UpdateCluster"}
    done = _scale(account, "--to", "0", "--yes")
    assert done.returncode == 1
    assert "needs `sagemaker:UpdateCluster`" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cluster_that_does_not_exist_is_said_in_one_line(account: StatusAccount) -> None:
    account.client("sagemaker").delete_cluster(ClusterName="llama-3-3-70b-p5")
    done = _scale(account, "--to", "0", "--yes")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("llama-3-3-70b-p5: error: ")
    assert " help: " in line
