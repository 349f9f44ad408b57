"""Start a program that ends with its parent: `python launch.py PARENT-PID PROGRAM ARGUMENT…`.

Run as a file, isolated and without site packages, because it stands before every process of a rehearsal. Standard library
only. Where the kernel knows no parent-death signal, the rehearsal's own clean-up is all there is.
"""

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for SIGKILL at the parent's death, and become the program."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        # it died before the kernel knew
        sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606 -- the command of a container
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()
