"""Exit codes, the same for every command."""

import errno
from enum import IntEnum
from typing import Final

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Exit(IntEnum):
    """What a shell script can rely on."""

    OK = 0
    """Nothing to mend."""

    FINDINGS = 1
    """The input was understood and something in it has to be mended or acknowledged."""

    UNREADABLE = 2
    """The input or the command line could not be understood."""

    UNDECIDED = 3
    """Nothing to mend was found, and not everything could be looked at."""

    UNWRITABLE = 74
    """There is no room for the output, or this machine refuses a file that every command needs (EX_IOERR)."""


def is_full(error: OSError) -> bool:
    """Whether there is no room: on the disk, in the quota, or in what one file may have."""
    return error.errno in _FULL
