"""The few pieces of PromQL that many rules are made of."""

from hyperpod_dpd.spec.value import record


@record
class Scope:
    """The series of one deployment."""

    deployment: str

    def series(self, metric: str, *matchers: str, window: str | None = None) -> str:
        """Return a selector of `metric` in this deployment, over `window` when given."""
        labels = ",".join((f'deployment="{self.deployment}"', *matchers))
        return f"{metric}{{{labels}}}" + (f"[{window}]" if window else "")

    def rate(self, metric: str, *matchers: str, window: str = "5m") -> str:
        """Return the increase per second of the counter `metric`."""
        return f"rate({self.series(metric, *matchers, window=window)})"

    def total_rate(self, metric: str, *matchers: str, window: str = "5m") -> str:
        """Return the sum of the increases per second, without labels."""
        return f"sum({self.rate(metric, *matchers, window=window)})"

    def quantile(
        self, share: float, metric: str, *matchers: str, by: str = "role", window: str = "5m"
    ) -> str:
        """Return a quantile of the histogram `metric`."""
        buckets = self.rate(f"{metric}_bucket", *matchers, window=window)
        labels = f"le,{by}" if by else "le"
        return f"histogram_quantile({share:g}, sum by ({labels}) ({buckets}))"


def role(*values: str) -> str:
    """Return the matcher of one or several roles."""
    return f'role="{values[0]}"' if len(values) == 1 else f'role=~"{"|".join(values)}"'
