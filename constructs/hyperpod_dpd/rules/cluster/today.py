"""The date on which rules judge dates."""

import os
import time


def today() -> str:
    """Return the current date in UTC as ISO 8601 text, which compares like a date.

    `SOURCE_DATE_EPOCH` (reproducible-builds.org) replaces the clock, so that a check can be repeated.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return time.strftime("%Y-%m-%d", time.gmtime(int(epoch) if epoch.isdecimal() else None))
