"""What a client sees of one request, planned or measured."""

import math
from dataclasses import dataclass


@dataclass(slots=True, eq=False, kw_only=True)
class RequestTimes:
    """One request and when it was issued and answered, in seconds of its client's clock."""

    input_tokens: int
    output_tokens: int
    issued: float
    first_token: float = math.nan
    finished: float = math.nan

    @property
    def ttft(self) -> float:
        """Time to first token."""
        return self.first_token - self.issued

    @property
    def e2e(self) -> float:
        """Time to last token."""
        return self.finished - self.issued

    @property
    def tpot(self) -> float:
        """Time per output token after the first; NaN for a single token."""
        tokens = self.output_tokens - 1
        return (self.finished - self.first_token) / tokens if tokens else math.nan
