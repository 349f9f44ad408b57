"""`dpd init` as a shell and a terminal see it."""

import contextlib
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hyperpod_dpd.draft.questions import _SHIPPED_REVISIONS, QUESTIONS
from hyperpod_dpd.spec.load import load
from tests.support.terminal import on_terminal

_ROOT = Path(__file__).parents[3]
_DPD = Path(sys.executable).with_name("dpd")
_ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR"}},
    "TERM": "xterm",
    "COLUMNS": "200",
}
_ENOUGH = ("--defaults", "--zone-id", "use1-az6")


def _init(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_DPD, "init", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=_ENVIRONMENT,
    )


def test_flags_alone_write_a_file_that_passes_check(tmp_path: Path) -> None:
    done = _init("My Chat.yaml", *_ENOUGH, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    written = load(tmp_path / "My Chat.yaml").deployment
    assert written.name == "my-chat"
    assert "verdict: " in done.stdout
    assert "price: $" in done.stdout
    assert "DPD-EKS-001" in done.stdout
    checked = subprocess.run(
        [_DPD, "check", tmp_path / "My Chat.yaml"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["My Chat.yaml"]


def test_without_a_terminal_every_missing_answer_names_its_flag(tmp_path: Path) -> None:
    done = _init("chat.yaml", folder=tmp_path)
    assert done.returncode == 2
    independent = {"model", "instance_type", "region", "concurrency", "ttft_p95_seconds", "tpot_p95_seconds"}
    for question in QUESTIONS:
        if question.name in independent:
            assert f"`{question.flag}` is missing" in done.stderr
    assert "`ml.p5en.48xlarge`" in done.stderr
    assert not list(tmp_path.iterdir())


def test_default_that_nobody_can_know_stays_an_error(tmp_path: Path) -> None:
    done = _init("chat.yaml", "--defaults", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("is missing") == 1
    assert "`--zone-id` is missing" in done.stderr
    assert "`use1-az6`" in done.stderr


@pytest.mark.parametrize(
    ("flag", "value", "reason"),
    [
        ("--model", "llama-3.3-70b", "did you mean `llama-3.3-70b-instruct`"),
        ("--revision", "main", "a branch name moves"),
        ("--instance-type", "p5.48xlarge", "did you mean `ml.p5"),
        ("--region", "us-east-9", "did you mean `us-"),
        ("--zone-id", "usw2-az1", "unknown zone id of the region"),
        ("--input-tokens", "130900", "130,900 + answer 256 = 131,156 tokens > 131,072"),
        ("--output-tokens", "many", "not a whole number"),
        ("--concurrency", "0", "should be at least 1"),
        ("--concurrency", "5000", "limit 4,096"),
        ("--ttft-p95-seconds", "nan", "more than 0 and less than 3600"),
        ("--tpot-p95-seconds", "fast", "not a number of seconds"),
    ],
)
def test_wrong_answer_is_refused_with_its_reason(tmp_path: Path, flag: str, value: str, reason: str) -> None:
    done = _init("chat.yaml", *_ENOUGH, flag, value, folder=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr
    assert not list(tmp_path.iterdir())


def test_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    file = tmp_path / "chat.yaml"
    file.write_text("mine\n", encoding="utf-8")
    done = _init("chat.yaml", *_ENOUGH, folder=tmp_path)
    assert done.returncode == 2
    assert "`--force`" in done.stderr
    assert file.read_text(encoding="utf-8") == "mine\n"
    assert _init("chat.yaml", *_ENOUGH, "--force", folder=tmp_path).returncode == 0
    assert load(file).deployment.name == "chat"


@pytest.mark.parametrize(
    ("file", "mentions"),
    [("absent/chat.yaml", "no folder `absent`"), (".", "is a folder"), ("___.yaml", "give `--name`")],
)
def test_impossible_file_is_refused_before_anything_is_planned(
    tmp_path: Path, file: str, mentions: str
) -> None:
    done = _init(file, *_ENOUGH, folder=tmp_path)
    assert done.returncode == 2
    assert mentions in done.stderr


def test_model_that_fits_nowhere_is_refused_with_the_rules_reasons(tmp_path: Path) -> None:
    done = _init("chat.yaml", *_ENOUGH, "--model", "deepseek-v3", "--revision", "0" * 40, folder=tmp_path)
    assert done.returncode == 1
    assert "`chat.yaml` was not written" in done.stderr
    assert "DPD-SRV-003" in done.stderr
    assert not list(tmp_path.iterdir())


def test_offered_revision_is_the_one_of_the_shipped_deployments() -> None:
    shipped = [load(path).deployment.model for path in (_ROOT / "deployments").glob("*.yaml")]
    assert {model.name: model.revision for model in shipped} == _SHIPPED_REVISIONS


class _Terminal:
    """A person at a terminal: waits for a text, then types."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._process, self._file = on_terminal(
            [_DPD, "init", *arguments], environment=_ENVIRONMENT, folder=folder
        )
        self.shown = ""
        self._read_up_to = 0

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while (found := self._plain.find(text, self._read_up_to)) < 0:
            assert select.select([self._file], [], [], deadline - time.monotonic())[0], self.shown
            self.shown += os.read(self._file, 4096).decode()
        self._read_up_to = found + len(text)

    @property
    def _plain(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.shown)

    def type(self, text: str) -> None:
        os.write(self._file, text.encode())

    def press_until_it_ends(self, key: str) -> int:
        """Press `key` as a person does, again when nothing happens: one that comes before the line is read is lost."""
        for _ in range(12):
            with contextlib.suppress(OSError):  # it may have ended meanwhile
                self.type(key)
            if self._ends_within(5):
                return self.end()
        self._process.kill()
        self.end()
        raise AssertionError(f"still there after a minute: {self.shown}")

    def _ends_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and select.select([self._file], [], [], left)[0]:
            try:
                chunk = os.read(self._file, 4096)
            except OSError:  # how Linux says that the other side is closed
                return True
            if not chunk:
                return True
            self.shown += chunk.decode()
        return False

    def end(self) -> int:
        try:
            while chunk := os.read(self._file, 4096):
                self.shown += chunk.decode()
        except OSError:  # how Linux says that the other side is closed
            pass
        os.close(self._file)
        return self._process.wait()


def test_terminal_asks_shows_defaults_and_asks_again_after_a_wrong_answer(tmp_path: Path) -> None:
    terminal = _Terminal(tmp_path, "chat.yaml", "--concurrency", "8", "--tpot-p95-seconds", "slow")
    terminal.wait_for("model (llama-3.3-70b-instruct): ")
    terminal.type("llama\r")
    terminal.wait_for("unknown model: given `llama`")
    terminal.wait_for("model (llama-3.3-70b-instruct): ")
    terminal.type("\r")
    for asked, answer in (
        ("commit of the model's repository", ""),
        ("prefill nodes (ml.p5.48xlarge)", ""),
        ("decode nodes (ml.p5.48xlarge)", "ml.p5en.48xlarge"),
        ("region (us-east-1)", ""),
        ("zone id of the GPU nodes: ", ""),
        ("zone id of the GPU nodes: ", "use1-az4"),
        ("prompt, tokens (4096)", "1,000"),
        ("answer, tokens (256)", ""),
        ("first token, 95th percentile, seconds (3.0)", ""),
        ("output token, 95th percentile, seconds (0.05)", ""),
    ):
        terminal.wait_for(asked)
        terminal.type(f"{answer}\r")
    assert terminal.end() == 0, terminal.shown
    assert "--tpot-p95-seconds not a number of seconds: given `slow`" in terminal.shown
    written = load(tmp_path / "chat.yaml").deployment
    assert [group.instance_type for group in written.hyperpod.instance_groups] == [
        "ml.p5.48xlarge",
        "ml.p5en.48xlarge",
    ]
    assert written.network.gpu_zone_id == "use1-az4"
    assert (written.traffic.input_tokens, written.traffic.concurrency) == (1000, 8)


@pytest.mark.parametrize(("key", "code"), [("\x04", 2), ("\x03", 130)])
def test_leaving_the_questions_writes_nothing_and_no_traceback(tmp_path: Path, key: str, code: int) -> None:
    terminal = _Terminal(tmp_path, "chat.yaml")
    terminal.wait_for("model (")
    assert terminal.press_until_it_ends(key) == code
    assert "Traceback" not in terminal.shown
    assert not list(tmp_path.iterdir())
