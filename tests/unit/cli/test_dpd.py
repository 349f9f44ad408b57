"""The `dpd` command as a shell sees it."""

import errno
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest
import yaml

from hyperpod_dpd._version import __version__
from hyperpod_dpd.cli.output import print_unwritable
from hyperpod_dpd.rules import rules


class Write(Protocol):
    """Writes a variant of the default deployment."""

    def __call__(
        self, text: str = "", *, replace: Mapping[str, str] | None = None, name: str = "deployment.yaml"
    ) -> Path: ...


_ROOT = Path(__file__).parents[3]
_DEFAULT = _ROOT / "deployments/llama-3.3-70b-p5.yaml"
_CLEAN = f"{_DEFAULT}: 0 errors, 0 warnings, 1 acknowledged"
_DPD = Path(sys.executable).with_name("dpd")
_PROOF = _ROOT / "manifests/rendered/llama-3-3-70b-p5/proof"
_VALUES = (
    *("--set", f"PROOF_IMAGE=proof@sha256:{'0' * 64}"),
    *("--set", "AMP_WORKSPACE_URL=https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-1"),
)

# the day of the catalog: time alone must not turn an old commit red
_ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR"}},
    "SOURCE_DATE_EPOCH": "1796000000",
    "TERM": "xterm",
}


def _dpd(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_DPD, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**_ENVIRONMENT, **environment},
    )


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a variant of the default deployment and return its path."""

    def write(
        text: str = "", *, replace: Mapping[str, str] | None = None, name: str = "deployment.yaml"
    ) -> Path:
        content = text or _DEFAULT.read_text(encoding="utf-8")
        for old, new in (replace or {}).items():
            assert old in content
            content = content.replace(old, new)
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write


def test_clean_file_is_0_and_silent_on_standard_error() -> None:
    done = _dpd("check", _DEFAULT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{_DEFAULT}: 0 errors, 0 warnings, 1 acknowledged\n"


def test_errors_are_1_with_file_line_numbers_and_fix(write: Write) -> None:
    path = write(replace={"  cluster_zone_ids": "  gpu_cidr: 10.1.0.0/25\n  cluster_zone_ids"})
    line = path.read_text(encoding="utf-8").split("\n").index("  gpu_cidr: 10.1.0.0/25") + 1
    done = _dpd("check", path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{path}:{line}: error: DPD-NET-007 ")
    for part in ("10.1.0.0/25", "167 addresses", "128 addresses", "help: "):
        assert part in done.stderr
    assert done.stdout == f"{path}: 1 error, 0 warnings, 1 acknowledged\n"


def test_unacknowledged_warning_is_1(write: Write) -> None:
    path = write(_DEFAULT.read_text(encoding="utf-8").partition("acknowledge:")[0])
    done = _dpd("check", path)
    assert done.returncode == 1
    assert "warning: DPD-EKS-001" in done.stderr
    assert done.stdout.endswith("0 errors, 1 warning, 0 acknowledged\n")


@pytest.mark.parametrize(
    ("entry", "rule", "mentions"),
    [
        ("DPD-EKS-999", "DPD-ACK-001", "DPD-EKS-999"),
        ("DPD-EKS-0001", "DPD-ACK-001", "did you mean `DPD-EKS-001`"),
        ("DPD-EKS-001", "DPD-ACK-004", "twice"),
        ("DPD-HP-003", "DPD-ACK-002", "remove it"),
        ("DPD-NET-003", "DPD-ACK-003", "an error cannot be acknowledged"),
    ],
)
def test_wrong_acknowledgement_is_an_error(write: Write, entry: str, rule: str, mentions: str) -> None:
    path = write(_DEFAULT.read_text(encoding="utf-8") + f"  - rule: {entry}\n    reason: because of a test\n")
    done = _dpd("check", path)
    assert done.returncode == 1
    assert f"error: {rule} " in done.stderr
    assert mentions in done.stderr


def test_unreadable_file_is_2(write: Write, tmp_path: Path) -> None:
    for path in (tmp_path / "absent.yaml", tmp_path, write("[1, 2]", name="list.yaml")):
        done = _dpd("check", path)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith(str(path))
        assert "error: " in done.stderr


def test_several_files_are_all_checked_and_the_worst_decides(write: Write) -> None:
    wrong = write(replace={"region: us-east-1": "region: us-west-2"}, name="wrong.yaml")
    unreadable = write("nothing: else\n", name="unreadable.yaml")
    done = _dpd("check", _DEFAULT, wrong, unreadable)
    assert done.returncode == 2
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [str(_DEFAULT), str(wrong)]
    assert str(unreadable) in done.stderr
    assert _dpd("check", _DEFAULT, wrong).returncode == 1


def test_json_has_everything_on_standard_output(write: Write) -> None:
    wrong = write(replace={"count: 1": "count: 1\n      minimum: 2"}, name="wrong.yaml")
    unreadable = write("version: 1\nnam: x\n", name="unreadable.yaml")
    done = _dpd("check", "--format", "json", _DEFAULT, wrong, unreadable)
    assert (done.returncode, done.stderr) == (2, "")
    clean, found, mistaken = json.loads(done.stdout)
    assert clean["readable"]
    assert clean["findings"] == []
    assert [entry["rule"] for entry in clean["acknowledged"]] == ["DPD-EKS-001"]
    finding = found["findings"][0]
    assert finding["rule"] == "DPD-HP-008"
    assert finding["severity"] == "error"
    assert finding["file"] == str(wrong)
    assert finding["path"] == "hyperpod.instance_groups[0].minimum"
    assert wrong.read_text(encoding="utf-8").split("\n")[finding["line"] - 1].strip() == "minimum: 2"
    assert not mistaken["readable"]
    assert {(entry["path"], entry["line"]) for entry in mistaken["mistakes"]} >= {
        ("nam", 2),
        ("region", None),
    }


def test_findings_are_sorted_by_line(write: Write) -> None:
    path = write(replace={"count: 1": "count: 0\n      minimum: 2", "use1-az4": "use1-az3"})
    done = _dpd("check", path)
    lines = [int(line.removeprefix(f"{path}:").partition(":")[0]) for line in done.stderr.splitlines()]
    assert len(lines) >= 3
    assert lines == sorted(lines)


def test_shared_platform_file_is_named_in_the_message(write: Write) -> None:
    platform = write("log_retention_days: 100\n", name="platform.yaml")
    path = write(_DEFAULT.read_text(encoding="utf-8") + "\nplatform: platform.yaml\n")
    done = _dpd("check", path)
    assert done.returncode == 1
    assert f"{platform}:1: error: DPD-DATA-009" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("chek", "x"), ("check",), ("check", "--colour", "x"), ("check", "--format", "xml", "x")],
)
def test_wrong_command_line_is_2(arguments: tuple[str, ...]) -> None:
    done = _dpd(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: dpd" in done.stderr


@pytest.mark.parametrize(
    "arguments", [("--help",), ("check", "--help"), ("explain", "--help"), ("schema", "--help")]
)
def test_help_documents_the_exit_codes(arguments: tuple[str, ...]) -> None:
    done = _dpd(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    for code in ("0    nothing to mend", "1    something", "2    the input"):
        assert code in done.stdout


def test_version() -> None:
    assert _dpd("--version").stdout == f"{__version__}\n"


def test_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hyperpod_dpd", "check", _DEFAULT],
        capture_output=True,
        text=True,
        check=False,
        env=_ENVIRONMENT,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_explain_says_what_why_and_whence() -> None:
    done = _dpd("explain", "dpd-net-001")
    assert done.returncode == 0
    assert "DPD-NET-001 (error, looks at: template)" in done.stdout
    assert "EFA health check fails" in done.stdout
    assert "source: awslabs/awsome-distributed-ai PR 259" in done.stdout


def test_explain_lists_every_rule() -> None:
    done = _dpd("explain")
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(rules())
    listed = json.loads(_dpd("explain", "--format", "json").stdout)
    assert {entry["id"] for entry in listed} == rules().keys()


def test_unknown_rule_is_2_and_offers_what_was_meant() -> None:
    done = _dpd("explain", "DPD-NETT-001")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown rule `DPD-NETT-001`" in done.stderr
    assert "`DPD-NET-001`" in done.stderr


def test_schema_is_json_and_describes_every_key() -> None:
    schema = json.loads(_dpd("schema").stdout)
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["required"] == ["name", "region", "network", "hyperpod", "model"]


def _on_terminal(*arguments: object, **environment: str) -> str:
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [_DPD, *map(str, arguments)], stdout=follower, stderr=follower, env={**_ENVIRONMENT, **environment}
    ):
        os.close(follower)
        output = b""
        while chunk := _read(leader):
            output += chunk
    os.close(leader)
    return output.decode()


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # Linux reports the end of a terminal as an error
        return b""


def test_colours_are_for_terminals_only(write: Write) -> None:
    path = write(replace={"region: us-east-1": "region: us-west-2"})
    assert "\033[31merror\033[0m" in _on_terminal("check", path)
    assert "\033[" not in _on_terminal("check", path, NO_COLOR="1")
    assert "\033[" not in _on_terminal("check", path, TERM="dumb")
    assert "\033[" not in _dpd("check", path).stderr
    assert "\033[1mDPD-NET-001\033[0m" in _on_terminal("explain", "DPD-NET-001")


def test_closed_pipe_ends_without_a_word() -> None:
    done = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", f"{_DPD} schema | head -c 1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
        env=_ENVIRONMENT,
    )
    assert done.stderr == ""
    assert done.returncode in {0, 141}


def test_pipe_that_is_closed_before_the_start_is_141() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [_DPD, "schema"], stdout=writer, stderr=subprocess.PIPE, env=_ENVIRONMENT
    ) as process:
        os.close(writer)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (141, b"")


@pytest.mark.parametrize("command", [["explain", "DPD-SRV-004"], ["schema"]])
def test_a_full_disk_is_said_in_one_line(command: list[str]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hyperpod_dpd", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 74
    assert done.stderr == (
        "dpd: error: the output cannot be written: No space left on device. help: make room, or write somewhere else\n"
    )


def _in_bash(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-c", command], capture_output=True, text=True, check=False, env=_ENVIRONMENT
    )


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_closed_stream_leads_nowhere(closed: str) -> None:
    done = _in_bash(f"{_DPD} check {_DEFAULT} {closed}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_message_that_cannot_be_written_is_74_as_well(tmp_path: Path) -> None:
    done = _in_bash(f"{_DPD} check {tmp_path}/absent.yaml 2>/dev/full")
    assert done.returncode == 74


@pytest.mark.parametrize("arguments", ["check --help", f"plan {_DEFAULT}"])
def test_whatever_writes_ends_with_141_where_nobody_reads(arguments: str) -> None:
    done = _in_bash(f"exec 9> >(exec true); wait $!; exec {_DPD} {arguments} >&9")
    assert (done.returncode, done.stderr) == (141, "")


def test_a_machine_without_a_temporary_folder_is_said_in_one_line(tmp_path: Path) -> None:
    command = f"ulimit -f 0; exec {_DPD} benchmark {_DEFAULT} --profile self-managed --to {tmp_path / 'out'} 2>&1 | cat"
    done = _in_bash(f"{command}; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == 74
    (line,) = done.stdout.splitlines()
    assert line.startswith("dpd: error: this machine refuses a file: ")
    assert "No usable temporary directory" in line
    assert ". help: " in line


@pytest.mark.parametrize(
    ("handler", "ends"),
    [(signal.SIG_DFL, (-signal.SIGINT, "", "")), (signal.SIG_IGN, (0, f"{_CLEAN}\n", ""))],
    ids=["interrupted", "ignored"],
)
@pytest.mark.parametrize("module", ["hyperpod_dpd.cli.app", "hyperpod_dpd.cli.check"])
def test_interruption_while_modules_are_read_leaves_no_traceback(
    handler: signal.Handlers, ends: tuple[int, str, str], module: str
) -> None:
    interrupted = f"""
import os, signal, sys
from hyperpod_dpd.cli import main
class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv[1:] = ["check", "{_DEFAULT}"]
main()
"""
    before = signal.signal(signal.SIGINT, handler)
    try:
        done = subprocess.run(
            [sys.executable, "-c", interrupted], capture_output=True, text=True, check=False, env=_ENVIRONMENT
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.returncode, done.stdout, done.stderr) == ends


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["chekc", "x"], "dpd: error: unknown command `chekc`. help: did you mean `check`?"),
        (["xyzzy"], "dpd: error: unknown command `xyzzy`. help: see `dpd --help`"),
        (["check", "x", "--formt", "json"], "unknown argument `--formt`. help: did you mean `--format`?"),
        (
            ["explain", "--hlep"],
            "dpd explain: error: unknown argument `--hlep`. help: did you mean `--help`?",
        ),
        (["schema", "x"], "dpd schema: error: unknown argument `x`. help: see `dpd schema --help`"),
    ],
)
def test_a_misspelled_word_is_told_what_was_meant(arguments: list[str], says: str) -> None:
    done = _dpd(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"{says}\n")


def test_standard_input_is_checked_like_a_file() -> None:
    text = _DEFAULT.read_text(encoding="utf-8").replace("region: us-east-1", "region: us-west-2")
    done = subprocess.run(
        [_DPD, "check", "-"], input=text, capture_output=True, text=True, check=False, env=_ENVIRONMENT
    )
    assert done.returncode == 1
    assert "-:11: error: DPD-NET-008" in done.stderr


def test_what_cannot_be_written_is_2_with_path_reason_and_help(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = _dpd("bind", _PROOF, "--to", tmp_path / "file", *_VALUES)
    assert done.returncode == 2
    assert done.stderr == (
        f"{tmp_path}/file: error: cannot be written: file exists. help: name a place that may be written\n"
    )


def test_a_full_disk_is_74_for_a_named_file_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_unwritable("plan.html", OSError(errno.ENOSPC, "No space left on device")) == 74
    assert capsys.readouterr().err == (
        "plan.html: error: cannot be written: no space left on device. help: make room, or write somewhere else\n"
    )


@pytest.mark.parametrize("command", ["check", "compare"])
def test_an_input_that_cannot_be_read_is_told_what_to_name(command: str, tmp_path: Path) -> None:
    done = _dpd(command, *[tmp_path / "absent.yaml"] * (2 if command == "compare" else 1))
    assert done.returncode == 2
    for line in done.stderr.splitlines():
        assert line.startswith(
            f"{tmp_path}/absent.yaml: error: cannot be read: no such file or directory. help: "
        )


def test_terminal_without_unicode_gets_escapes(write: Write) -> None:
    path = write(replace={"  cluster_zone_ids": "  gpu_cidr: 10.1.0.0/25\n  cluster_zone_ids"})
    done = _dpd("check", path, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert done.returncode == 1
    assert "DPD-NET-007" in done.stderr
    assert "Traceback" not in done.stderr


def test_bad_inputs_of_every_kind_are_no_traceback(tmp_path: Path) -> None:
    data = yaml.safe_load(_DEFAULT.read_text(encoding="utf-8"))
    for key in [*data, "unknown"]:
        path = tmp_path / f"{key}.yaml"
        path.write_text(yaml.safe_dump({**data, key: [{"a": None}]}), encoding="utf-8")
    done = _dpd("check", *sorted(tmp_path.glob("*.yaml")))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
