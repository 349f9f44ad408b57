"""`dpd rehearse` before anything starts, and how a running one looks."""

import importlib.util
import io
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from rich.console import Console

from hyperpod_dpd.cli.app import run
from hyperpod_dpd.cli.rehearse_view import _picture, showing
from hyperpod_dpd.rehearsal.view import RoleView, View
from hyperpod_dpd.spec import Role
from tests.rehearsal.support import copied
from tests.support.deployments import ROOT

FILE = str(ROOT / "deployments/llama-3.3-70b-p5.yaml")


def test_troubles_are_said_with_their_place_and_nothing_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edits = {
        "router.yaml": [("--decode-service=decode", "--decode-service=decoder")],
        "decode.yaml": [("  lmcache.yaml: |", "  lmcache-pd.yaml: |")],
    }
    copied(tmp_path, edits)
    code = run(["rehearse", FILE, "--manifests", str(tmp_path), "--profile", "self-managed"])
    out, err = capsys.readouterr()
    assert code == 1
    assert f"{tmp_path}/self-managed/router.yaml:" in err
    assert "which does not exist (it starts and does not work). help: name one of `decode`, `prefill`" in err
    assert f"{tmp_path}/self-managed/decode.yaml:" in err
    assert out.endswith("troubles, nothing was measured\n")
    assert list(tmp_path.iterdir()) == [tmp_path / "self-managed"]


def test_a_deployment_with_errors_is_refused_with_its_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.yaml"
    text = Path(FILE).read_text(encoding="utf-8").replace("ml.p5.48xlarge", "ml.g5.xlarge")
    file.write_text(text, encoding="utf-8")
    assert run(["rehearse", str(file)]) == 1
    assert "`instance_type: ml.g5.xlarge`" in capsys.readouterr().err
    file.write_text("nothing: else\n", encoding="utf-8")
    assert run(["rehearse", str(file)]) == 2
    assert run(["rehearse", str(tmp_path / "absent.yaml")]) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--fault", "decoder-crash", "--results", "results"],
            "results: error: would stay empty: with `--fault` nothing is run that can be compared",
        ),
        (
            ["--manifests", "/nowhere"],
            "/nowhere/self-managed: error: no such folder. help: render the deployment",
        ),
        (["--keep", str(ROOT / "deployments")], "not empty. help: name a new folder for `--keep`"),
        (["--keep", FILE], "is no folder"),
        (
            ["--json", "/nowhere/out.json"],
            "/nowhere/out.json: error: cannot be written: there is no folder `/nowhere`",
        ),
        (["--html", str(ROOT / "docs")], "is a folder. help: name a file"),
        (["--results", f"{FILE}/results"], f"cannot be made: `{FILE}` is no folder"),
    ],
)
def test_what_cannot_be_used_is_refused(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rendered = ["--manifests", str(ROOT / "manifests/rendered/llama-3-3-70b-p5")]
    assert run(["rehearse", FILE, *rendered, *arguments]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--json", "--html", "--results", "--keep"])
def test_a_folder_without_the_right_to_write_is_said_before_anything_starts(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # who runs the tests may have every right
    rendered = ["--manifests", str(ROOT / "manifests/rendered/llama-3-3-70b-p5")]
    assert run(["rehearse", FILE, *rendered, option, str(tmp_path / "out")]) == 2
    assert f"{tmp_path}/out: error: cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--fault", "decoder-explodes"], "`decoder-explodes` is no fault"),
        (["--users", "8,0"], "`8,0` is no list of numbers from 1 to 512"),
        (["--users", "8,,16"], "is no list of numbers"),
        (["--compression", "nan"], "`nan` is no factor between 0.01 and 100"),
        (["--compression", "0"], "`0` is no factor"),
        (["--requests-per-user", "-1"], "`-1` is no number from 1 to 1000"),
        (["--fault-seconds", "1"], "`1` is not a number of seconds between 5 and 3600"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["rehearse", FILE, *arguments])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


VIEW = View(
    profile="self-managed",
    phase="8 users",
    done=12,
    total=50,
    left_seconds=9.4,
    roles=(
        RoleView(role=Role.PREFILL, ready=1, pods=1, queue=3, batch=2, ttft_seconds=0.4, tpot_seconds=None),
        RoleView(role=Role.DECODE, ready=0, pods=2, queue=0, batch=5, ttft_seconds=None, tpot_seconds=0.0121),
    ),
    decisions={"direct": 1.0, "disaggregated": 11.0, "fallback": 0.0},
    events=("decode-abcde lost with decode-0",),
)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--fault", "prefill-slow"], "`prefill-slow=4@10s` needs simulated engines. help: add `--simulate`"),
        (["--compression", "2"], "`--compression 2` needs simulated engines"),
        (["--results", "RESULTS"], "`--results` needs simulated engines"),
    ],
)
def test_what_real_engines_cannot_do_is_said_where_there_are_some(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, line in (("nvidia-smi", "echo 0, GPU-x, 143771"), ("python", "exit 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "vllm").write_text(f"#!{tmp_path / 'python'}\n", encoding="utf-8")
    (tmp_path / "vllm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    given = [str(tmp_path / "results") if word == "RESULTS" else word for word in arguments]
    rendered = ["--manifests", str(ROOT / "manifests/rendered/llama-3-3-70b-p5")]
    assert run(["rehearse", FILE, *rendered, *given]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_terminal_shows_roles_decisions_progress_and_time_left() -> None:
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(_picture(VIEW))
    shown = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert "self-managed: 8 users, 12 of 50 requests, about 9 s left" in shown
    assert "role ready queue batch TTFT ms TPOT ms" in shown
    assert "prefill 1/1 3 2 400 –" in shown
    assert "decode 0/2 0 5 – 12.1" in shown
    assert "router: 1 direct, 11 disaggregated" in shown
    assert "decode-abcde lost with decode-0" in shown


def test_a_pipe_gets_a_line_when_a_phase_begins() -> None:
    stream = io.StringIO()
    with showing(stream) as show:
        show(VIEW)
        show(VIEW)
    assert stream.getvalue() == "self-managed: 8 users (50 requests, about 9 s)\n"


def test_without_the_containers_programs_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in ("aiohttp", "dpd_router") else found(name, package)

    monkeypatch.setattr("importlib.util.find_spec", find)
    rendered = ["--manifests", str(ROOT / "manifests/rendered/llama-3-3-70b-p5")]
    assert run(["rehearse", FILE, *rendered, "--simulate"]) == 1
    assert "`aiohttp` and `dpd_router` cannot be imported" in capsys.readouterr().err


def test_help_and_completion_need_nothing_of_what_containers_run() -> None:
    code = (
        "import sys, hyperpod_dpd.cli.rehearse, hyperpod_dpd.cli.rehearse_view\n"
        "print(sorted({'aiohttp', 'dpd_router', 'dpd_simulator'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
