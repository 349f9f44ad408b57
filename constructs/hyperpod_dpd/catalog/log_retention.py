"""How long CloudWatch Logs keeps a log group."""

from typing import Final

# fmt: off
RETENTION_DAYS: Final = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653
)
# fmt: on
"""The periods that `AWS::Logs::LogGroup` takes as `RetentionInDays`; it refuses all others."""


def retention_of_at_least(days: int) -> int:
    """Return the shortest period that is no shorter than `days`, or the longest one."""
    return next((known for known in RETENTION_DAYS if known >= days), RETENTION_DAYS[-1])
