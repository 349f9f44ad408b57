"""`dpd completion`, and that every command explains itself."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hyperpod_dpd.cli.app import COMMANDS

_DPD = Path(sys.executable).with_name("dpd")


def _dpd(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([_DPD, *arguments], capture_output=True, text=True, check=False)


def _completed(line: str) -> list[str]:
    """Return what bash offers for the last word of `line`."""
    script = (
        'source <("$DPD" completion bash); words=($LINE); [[ $LINE == *" " ]] && words+=("");'
        'COMP_WORDS=("${words[@]}"); COMP_CWORD=$((${#words[@]} - 1));'
        '_shtab_dpd; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"DPD": str(_DPD), "LINE": line, "PATH": "/usr/bin:/bin"},
    )
    return done.stdout.split()


def test_bash_completes_commands() -> None:
    assert set(COMMANDS) <= set(_completed("dpd "))
    assert _completed("dpd che") == ["check"]


def test_bash_completes_options_and_their_choices() -> None:
    assert _completed("dpd status --wa") == ["--watch"]
    assert _completed("dpd check --format ") == ["text", "json"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_every_shell_gets_a_script(shell: str) -> None:
    done = _dpd("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "check" in done.stdout


def test_checking_does_not_load_the_library_of_completions() -> None:
    code = (
        "import sys; from hyperpod_dpd.cli.app import run; run(['explain', 'DPD-NET-003']);"
        "sys.exit('shtab' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example_and_the_exit_codes(command: str) -> None:
    done = _dpd(command, "--help")
    assert done.returncode == 0
    assert "example" in done.stdout
    assert f"dpd {command}" in done.stdout.partition("example")[2]
    assert "exit codes:" in done.stdout
