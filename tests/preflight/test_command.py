"""`dpd preflight` as a shell, a program and a person at a terminal see it."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyperpod_dpd.cli.app import run
from hyperpod_dpd.preflight import account as account_module
from hyperpod_dpd.preflight.checks import ALL
from tests.preflight.aws import ACCOUNT_ID, Answers, Refusal, TableAccount
from tests.preflight.healthy import healthy, quota, web
from tests.support.deployments import ROOT

_FILE = ROOT / "deployments/llama-3.3-70b-p5.yaml"
_DPD = Path(sys.executable).with_name("dpd")

Use = Callable[[Answers], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Let the command ask an account that answers from a table."""

    def use(answers: Answers) -> None:
        def make(*, region: str, profile: str | None = None) -> TableAccount:
            assert profile is None
            return TableAccount(answers, web=web, region=region)

        monkeypatch.setattr(account_module, "AwsAccount", make)

    return use


def test_account_that_has_everything_is_0(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    use(healthy())
    assert run(["preflight", str(_FILE)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{_FILE}: account {ACCOUNT_ID} in us-east-1: 20 checks, 20 ok\n"
    lines = captured.err.splitlines()
    assert len(lines) == 20
    assert lines[0].startswith("ok      PRE-ACC-001 the credentials belong to")
    assert all(re.fullmatch(r"ok      PRE-[A-Z]+-\d{3} .* \(\d+\.\d s\)", line) for line in lines)


def test_findings_are_1_with_file_line_numbers_and_fix(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    use({**healthy(), ("service-quotas", "GetServiceQuota"): quota(L_8762A75F=0.0)})
    assert run(["preflight", str(_FILE)]) == 1
    captured = capsys.readouterr()
    line = _FILE.read_text(encoding="utf-8").split("\n").index("      count: 1") + 1
    (finding,) = [text for text in captured.err.splitlines() if "error" in text]
    assert finding.startswith(f"{_FILE}:{line}: error: PRE-QUO-001 ")
    assert "limit 0" in finding
    assert "help: " in finding
    assert captured.out.endswith("20 checks, 19 ok, 1 wrong\n")


def test_what_could_not_be_looked_at_is_3_and_names_the_permission(
    use: Use, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = Refusal(code="AccessDeniedException", status=403)
    use({**healthy(), ("service-quotas", "GetServiceQuota"): denied})
    assert run(["preflight", str(_FILE)]) == 3
    captured = capsys.readouterr()
    assert f"{_FILE}: unknown: PRE-QUO-001 could not check that quotas allow" in captured.err
    assert "needs `servicequotas:GetServiceQuota`" in captured.err
    assert "Traceback" not in captured.err
    assert captured.out.endswith("20 checks, 14 ok, 6 unknown\n")


def test_findings_outweigh_what_is_unknown(use: Use) -> None:
    denied = Refusal(code="AccessDeniedException", status=403)
    use(
        {
            **healthy(),
            ("service-quotas", "GetServiceQuota"): denied,
            ("ec2", "DescribeAvailabilityZones"): {"AvailabilityZones": []},
        }
    )
    assert run(["preflight", str(_FILE)]) == 1


def test_json_has_every_check_on_standard_output(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    use(
        {
            **healthy(),
            ("service-quotas", "GetServiceQuota"): quota(L_8762A75F=0.0),
            ("amp", "ListWorkspaces"): Refusal(
                code="AccessDeniedException", message="explicit deny in a service control policy", status=403
            ),
        }
    )
    assert run(["preflight", "--format", "json", str(_FILE)]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    data = json.loads(captured.out)
    assert (data["file"], data["account"], data["region"]) == (str(_FILE), ACCOUNT_ID, "us-east-1")
    assert data["counts"] == {"ok": 18, "wrong": 1, "unknown": 1, "skipped": 0}
    assert data["denied_by_organization"] == ["aps:ListWorkspaces"]
    checks: dict[str, dict[str, Any]] = {check["id"]: check for check in data["checks"]}
    assert list(checks) == sorted(checks)
    (finding,) = checks["PRE-QUO-001"]["findings"]
    assert (finding["severity"], finding["path"]) == ("error", "hyperpod.instance_groups[0].count")
    assert finding["file"] == str(_FILE)
    (gap,) = checks["PRE-OBS-001"]["gaps"]
    assert (gap["needs"], gap["by_organization"]) == ("aps:ListWorkspaces", True)


def test_deployment_that_the_rules_refuse_is_not_asked_about(
    use: Use, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use({})
    path = tmp_path / "wrong.yaml"
    path.write_text(_FILE.read_text(encoding="utf-8").replace("region: us-east-1", "region: us-west-2"))
    assert run(["preflight", str(path)]) == 1
    captured = capsys.readouterr()
    assert "error: DPD-" in captured.err
    assert captured.out == f"{path}: not asked, because `dpd check` refuses the deployment\n"
    assert run(["preflight", "--format", "json", str(path)]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["asked"] is False
    assert data["errors"]


def test_unreadable_file_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["preflight", str(tmp_path / "absent.yaml")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert run(["preflight", "--format", "json", str(tmp_path / "absent.yaml")]) == 2
    data = json.loads(capsys.readouterr().out)
    assert (data["asked"], len(data["mistakes"])) == (False, 1)


def test_region_of_another_deployment_is_refused(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    use(healthy())
    assert run(["preflight", str(_FILE), "--region", "eu-west-1"]) == 1
    captured = capsys.readouterr()
    assert "given `region: us-east-1`; computed asked about `eu-west-1`" in captured.err
    assert captured.out.endswith("20 checks, 1 wrong, 19 skipped\n")


def test_unknown_profile_is_2(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    assert run(["preflight", str(_FILE), "--profile", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "inf"])
def test_timeout_that_is_none_is_2(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(["preflight", str(_FILE), f"--timeout={seconds}"])
    assert f"`{seconds}` is not a number of seconds" in capsys.readouterr().err


def test_policy_is_printed_without_asking_anybody(use: Use, capsys: pytest.CaptureFixture[str]) -> None:
    use({})
    assert run(["preflight", str(_FILE), "--policy"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {statement["Effect"] for statement in document["Statement"]} == {"Allow"}


_ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("AWS_") and key != "NO_COLOR"},
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
    # the day of the catalog: time alone must not turn an old commit red
    "SOURCE_DATE_EPOCH": "1796000000",
    "TERM": "xterm",
}


def _on_terminal(**environment: str) -> str:
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [_DPD, "preflight", str(_FILE)],
        stdout=follower,
        stderr=follower,
        env={**_ENVIRONMENT, **environment},
    ):
        os.close(follower)
        output = b""
        while True:
            try:
                chunk = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            output += chunk
    os.close(leader)
    return output.decode()


def test_terminal_shows_what_is_being_waited_for() -> None:
    shown = _on_terminal()
    assert "0 of 20 checks, waiting for PRE-ACC-001" in shown
    assert "\x1b[33munknown" in shown
    # the live line is gone at the end
    assert shown.rstrip().endswith("20 checks, 1 unknown, 19 skipped")


def test_terminal_without_colours() -> None:
    assert "\x1b[3" not in re.sub(r"\x1b\[(\?25[lh]|2K|1A)", "", _on_terminal(NO_COLOR="1"))


def test_dumb_terminal_gets_lines() -> None:
    shown = _on_terminal(TERM="dumb")
    assert "\x1b" not in shown
    assert shown.startswith("unknown PRE-ACC-001")


def test_pipe_gets_plain_lines_and_no_traceback() -> None:
    done = subprocess.run(
        [_DPD, "preflight", str(_FILE)], capture_output=True, text=True, check=False, env=_ENVIRONMENT
    )
    assert done.returncode == 3
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr.splitlines()[0].startswith("unknown PRE-ACC-001")
    assert "no AWS credentials were found" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_and_policy_load_no_aws_library() -> None:
    for arguments in (["preflight", "--help"], ["preflight", str(_FILE), "--policy"]):
        code = (
            "import sys\nfrom hyperpod_dpd.cli.app import run\n"
            f"try:\n    run({arguments!r})\nexcept SystemExit:\n    pass\n"
            "print(sorted({'boto3', 'rich', 'aws_cdk'} & set(sys.modules)), file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stderr.strip() == "[]"


def test_check_loads_nothing_of_the_preflight() -> None:
    code = (
        "import sys\nfrom hyperpod_dpd.cli.app import run\n"
        f"run(['check', {str(_FILE)!r}])\n"
        "print([name for name in sys.modules if 'preflight' in name or name == 'rich'], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_ENVIRONMENT
    )
    assert done.stderr.strip() == "[]"


def test_check_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "pre-quo-003", "DPD-NET-003"]) == 0
    out = capsys.readouterr().out
    assert "PRE-QUO-003 (error, looks at: account)" in out
    assert "  asks with: ec2:DescribeVpcs\n" in out
    assert "DPD-NET-003" in out
    assert run(["explain", "PRE-QUO-003", "--format", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert "servicequotas:GetServiceQuota" in entry["actions"]
    assert run(["explain", "PRE-QUO-999"]) == 2
    assert "did you mean `PRE-QUO-" in capsys.readouterr().err


def test_ids_are_well_formed_and_titles_are_statements() -> None:
    for check in ALL:
        assert re.fullmatch(r"PRE-[A-Z]{2,3}-\d{3}", check.id)
        assert not check.title.endswith(".")
