"""Exit codes, the same for every command."""

from enum import IntEnum


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
