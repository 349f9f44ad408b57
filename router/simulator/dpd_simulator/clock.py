"""Time as the simulated engines see it."""

import asyncio
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Real time, or real time compressed by a factor.

    The base is the machine's monotonic clock, so all processes of one machine that use the same `compression` share
    one timeline without talking to each other.

    Attributes:
        compression: simulated seconds that pass in one real second (1.0: real time).
    """

    compression: float = 1.0

    def __post_init__(self) -> None:
        if not self.compression > 0:
            raise ValueError(f"`compression` must be greater than 0, given {self.compression}")

    def now(self) -> float:
        """Simulated seconds since an arbitrary start."""
        return time.monotonic() * self.compression

    async def sleep(self, seconds: float) -> None:
        """Wait for simulated `seconds`; zero or less only yields to other tasks."""
        await asyncio.sleep(max(0.0, seconds / self.compression))

    async def sleep_until(self, deadline_seconds: float) -> None:
        """Wait until `now()` reaches `deadline_seconds`; a deadline in the past only yields."""
        await self.sleep(deadline_seconds - self.now())
