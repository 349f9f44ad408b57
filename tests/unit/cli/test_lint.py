"""`dpd lint` as a shell sees it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_DPD = Path(sys.executable).with_name("dpd")
_OURS = _ROOT / "manifests/rendered/llama-3-3-70b-p5/self-managed"
_AWS = _ROOT / "tests/unit/lint/sets/aws-dpd-example.yaml"
_FAULT = _ROOT / "tests/unit/lint/faults/01-one-port-for-eight-ranks.yaml"


def _lint(*arguments: object, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([_DPD, "lint", *map(str, arguments)], capture_output=True, check=False, input=given)


def test_clean_manifests_are_0_and_assumptions_are_notes() -> None:
    done = _lint(_OURS)
    assert done.returncode == 0
    assert b"0 errors, 0 warnings, 0 accepted, 2 notes" in done.stdout
    assert done.stderr.count(b": note: ") == 2
    assert b"assumed vLLM 0.25.1 and LMCache 0.5.3" in done.stderr


def test_findings_are_1_with_file_line_rule_numbers_and_fix() -> None:
    done = _lint(_FAULT)
    assert done.returncode == 1
    first = done.stderr.decode().splitlines()[0]
    assert first.startswith(f"{_FAULT}:100: error: DPD-LINT-101 ")
    for part in ("`pd_peer_init_port: [7300]`", "1 of 8 ports", "limit 8", "help: name 8 ports"):
        assert part in first


def test_unreadable_files_are_2_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\nb: [\n", encoding="utf-8")
    (tmp_path / "b.yaml").write_bytes(b"\x89PNG\r\n\xff")
    done = _lint(tmp_path)
    assert done.returncode == 2
    assert done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert lines[0].startswith(f"{tmp_path}/a.yaml:3: error: not YAML")
    assert lines[1].startswith(f"{tmp_path}/b.yaml:1: error: not UTF-8")


def test_standard_input_takes_what_helm_renders() -> None:
    done = _lint("-", given=_FAULT.read_bytes())
    assert done.returncode == 1
    assert done.stderr.startswith(b"-:100: error: DPD-LINT-101")


def test_several_paths_are_one_set(tmp_path: Path) -> None:
    files = sorted(_OURS.glob("*.yaml"))
    assert _lint(*files).returncode == 0
    alone = _lint(_OURS / "prefill.yaml")
    assert alone.returncode == 1
    assert b"no decode worker" in alone.stderr


def test_json_holds_findings_notes_and_what_was_recognised() -> None:
    done = _lint(_AWS, "--format", "json")
    assert (done.returncode, done.stderr) == (1, b"")
    data = json.loads(done.stdout)
    assert data["readable"] is True
    assert {finding["severity"] for finding in data["findings"]} == {"warning"}
    assert all(finding["file"] == str(_AWS) and finding["line"] for finding in data["findings"])
    assert [(each["role"], each["tensor_parallel"], each["lmcache"]) for each in data["recognised"]] == [
        ("prefill", 8, "0.4.3"),
        ("decode", 8, "0.4.3"),
    ]


def test_json_of_unreadable_files(tmp_path: Path) -> None:
    done = _lint(tmp_path / "missing.yaml", "--format", "json")
    assert done.returncode == 2
    data = json.loads(done.stdout)
    assert data["readable"] is False
    assert data["mistakes"][0]["message"] == "cannot be read: no such file or directory"


def test_warnings_can_be_accepted_and_errors_cannot() -> None:
    rules = ("DPD-LINT-414", "DPD-LINT-416", "DPD-LINT-508", "dpd-lint-512")
    done = _lint(_AWS, *(f"--accept={rule}" for rule in rules))
    assert done.returncode == 0
    assert b"0 errors, 0 warnings, 6 accepted" in done.stdout
    refused = _lint(_AWS, "--accept", "DPD-LINT-101")
    assert refused.returncode == 2
    assert b"an error cannot be accepted" in refused.stderr
    unknown = _lint(_AWS, "--accept", "DPD-NET-003")
    assert unknown.returncode == 2
    assert b"unknown rule `DPD-NET-003`" in unknown.stderr


@pytest.mark.parametrize("rule", ["DPD-LINT-101", "DPD-LINT-501"])
def test_a_rule_about_manifests_can_be_explained(rule: str) -> None:
    done = subprocess.run([_DPD, "explain", rule], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "looks at: manifest" in done.stdout
