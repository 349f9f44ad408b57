"""`dpd diff` as a shell sees it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_DEFAULT = _ROOT / "deployments/llama-3.3-70b-p5.yaml"
_DPD = Path(sys.executable).with_name("dpd")


def _diff(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([_DPD, "diff", *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture
def changed_file(tmp_path: Path) -> Path:
    path = tmp_path / "new.yaml"
    text = _DEFAULT.read_text(encoding="utf-8")
    assert "threshold_tokens: 4096" in text
    path.write_text(text.replace("threshold_tokens: 4096", "threshold_tokens: 2048"), encoding="utf-8")
    return path


def test_same_files_are_0_with_one_line(tmp_path: Path) -> None:
    copy = tmp_path / "copy.yaml"
    copy.write_text(f"# a comment changes nothing\n{_DEFAULT.read_text(encoding='utf-8')}", encoding="utf-8")
    done = _diff(_DEFAULT, copy)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{_DEFAULT} → {copy}: 0 differences\n", "")


def test_difference_is_1_and_names_consequence_and_objects(changed_file: Path) -> None:
    done = _diff(_DEFAULT, changed_file)
    assert (done.returncode, done.stderr) == (1, "")
    assert "\nthe router is replaced without a gap: " in done.stdout
    assert "\n  routing.threshold_tokens: 4096 → 2048\n" in done.stdout
    assert done.stdout.endswith(
        "\nKubernetes objects:\n  changed, pods replaced: Deployment llama-3-3-70b-p5-system/router\n"
    )


def test_json_says_the_same(changed_file: Path) -> None:
    done = _diff(_DEFAULT, changed_file, "--format", "json")
    data = json.loads(done.stdout)
    assert done.returncode == 1
    assert data["differences"] == [
        {"path": "routing.threshold_tokens", "change": "4096 → 2048", "consequences": ["router"]}
    ]
    assert list(data["consequences"]) == ["router"]
    assert [entry["fate"] for entry in data["objects"]] == ["changed, pods replaced"]
    assert data["cost"]["old"] == data["cost"]["new"]


def test_side_that_the_rules_refuse_is_said_and_still_compared(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    text = _DEFAULT.read_text(encoding="utf-8").replace("region: us-east-1", "region: us-west-2")
    wrong.write_text(text, encoding="utf-8")
    done = _diff(_DEFAULT, wrong)
    assert done.returncode == 1
    assert "region: us-east-1 → us-west-2" in done.stdout
    assert f"{wrong}: warning: does not pass the rules" in done.stderr


def test_unreadable_file_is_2(tmp_path: Path) -> None:
    done = _diff(_DEFAULT, tmp_path / "absent.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be read" in done.stderr
