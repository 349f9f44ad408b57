"""`dpd status` as a shell sees it, against an account on loopback."""

import json
import os
import pty
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperpod_dpd.preflight.account import READ_TIMEOUT_SECONDS
from tests.support.deployments import ROOT, ready
from tests.support.status_account import StatusAccount, running

_DEFAULT = ROOT / "deployments/llama-3.3-70b-p5.yaml"
_DPD = Path(sys.executable).with_name("dpd")
_LIMIT_SECONDS = 120
"""Ends a test that would hang."""


@pytest.fixture
def account() -> Iterator[StatusAccount]:
    with running() as account:
        reset = urllib.request.Request(f"{account.url}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset).close()
        account.deploy(ready())
        yield account


def _environment(account: StatusAccount, folder: Path) -> dict[str, str]:
    # an empty PATH has no kubectl, whatever this machine has
    return {**account.environment(), "PATH": str(folder), "TERM": "xterm", "COLUMNS": "160"}


def _status(account: StatusAccount, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_DPD, "status", _DEFAULT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(account, folder),
    )


def test_pipe_gets_one_plain_line_for_each_thing(account: StatusAccount, tmp_path: Path) -> None:
    done = _status(account, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "well     node      prefill/prefill-0  Running  message" in lines
    assert lines[-1] == "llama-3-3-70b-p5 in us-east-1: 20 well, 0 busy, 0 ill, 0 things unseen"
    assert "\x1b" not in done.stdout


def test_what_is_ill_is_1_and_what_is_denied_is_3(account: StatusAccount, tmp_path: Path) -> None:
    account.denied = {"ListClusterEvents"}
    done = _status(account, tmp_path)
    assert done.returncode == 3
    assert "unseen             events: needs `" in done.stdout
    account.addons["coredns"]["status"] = "DEGRADED"
    assert _status(account, tmp_path).returncode == 1


def test_json_is_one_document(account: StatusAccount, tmp_path: Path) -> None:
    done = _status(account, tmp_path, "--format", "json")
    data = json.loads(done.stdout)
    assert data["deployment"] == "llama-3-3-70b-p5"
    sections = {section["title"]: section for section in data["sections"]}
    assert [row["state"] for row in sections["stacks"]["seen"]] == ["well"] * 3
    assert sections["pods"]["unseen"][0]["skipped"]


def test_terminal_gets_a_table(account: StatusAccount, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [_DPD, "status", _DEFAULT], stdout=theirs, stderr=theirs, env=_environment(account, tmp_path)
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # how Linux says that the other side is closed
            pass
        os.close(ours)
    assert process.returncode == 0
    text = shown.decode()
    assert "─────" in text
    assert "\x1b[32mwell" in text


def test_watch_in_a_pipe_prints_what_changed_until_it_is_interrupted(
    account: StatusAccount, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [_DPD, "status", _DEFAULT, "--watch", "--interval", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(account, tmp_path),
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            first: list[str] = []
            while not first or "unseen" not in first[-1]:
                first.append(process.stdout.readline())
            assert len(first) > 10
            account.addons["coredns"]["status"] = "DEGRADED"
            changed = [process.stdout.readline() for _ in range(2)]
            assert changed[0].split()[1:5] == ["ill", "add-on", "coredns", "DEGRADED"]
            assert "19 well, 0 busy, 1 ill" in changed[1]
            process.send_signal(signal.SIGINT)
            assert process.wait(_LIMIT_SECONDS) == 130
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_an_interruption_does_not_wait_for_what_is_not_answered(
    account: StatusAccount, tmp_path: Path
) -> None:
    account.hanging = "ListClusterEvents"
    with subprocess.Popen(
        [_DPD, "status", _DEFAULT],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_environment(account, tmp_path),
    ) as process:
        assert account.asked.wait(_LIMIT_SECONDS)
        process.send_signal(signal.SIGINT)
        # the SDK would wait this long several times
        _, said = process.communicate(timeout=2 * READ_TIMEOUT_SECONDS)
    assert (process.returncode, said) == (130, b"")


def test_unreadable_file_wrong_interval_and_unknown_profile_are_2(
    account: StatusAccount, tmp_path: Path
) -> None:
    environment = _environment(account, tmp_path)
    for arguments in (
        [tmp_path / "absent.yaml"],
        [_DEFAULT, "--watch", "--interval", "0.1"],
        [_DEFAULT, "--profile", "nobody"],
    ):
        done = subprocess.run(
            [_DPD, "status", *arguments], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 2, done.stdout
        assert "Traceback" not in done.stderr
