"""A program on a terminal of its own, as a person starts it."""

import fcntl
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

_TAKE_THE_TERMINAL = (
    f"import fcntl, os, sys; fcntl.ioctl(0, {termios.TIOCSCTTY}, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Ctrl-C reaches the program only through a terminal that is its session's. `pty.fork` would do it in a copy of this
process, which has threads: Python warns of that since 3.12."""


def on_terminal(
    command: Sequence[str | Path], *, environment: Mapping[str, str], folder: Path | None = None
) -> "tuple[subprocess.Popen[bytes], int]":
    """Start `command`; return it and the file at which a person sits."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-IS", "-c", _TAKE_THE_TERMINAL, *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
    )
    os.close(theirs)
    # the side of the person is no business of what is started later
    fcntl.fcntl(ours, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    return process, ours
