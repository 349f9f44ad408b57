"""What `/metrics` says, as numbers that can be compared."""

import math
from collections.abc import Mapping
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

_Labels = frozenset[tuple[str, str]]


class Samples:
    """Samples of one reading by name and labels."""

    def __init__(self, values: Mapping[tuple[str, _Labels], float]) -> None:
        self._values = dict(values)

    @classmethod
    def read(cls, text: str) -> Self:
        """Read the text format of Prometheus.

        What is no finite number counts nothing and is left out.

        Raises:
            ValueError: it is something else.
        """
        try:
            samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            # over some texts the parser stumbles instead of refusing them
            raise ValueError(f"not the text format of Prometheus: {error}") from None
        return cls(
            {
                (sample.name, frozenset(sample.labels.items())): float(sample.value)
                for sample in samples
                if math.isfinite(sample.value)
            }
        )

    def has(self, prefix: str) -> bool:
        """Whether there is a series whose name begins with `prefix`."""
        return any(name.startswith(prefix) for name, _ in self._values)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the series `name` with `labels`; 0 without one."""
        wanted = set(labels.items())
        return sum(value for (each, given), value in self._values.items() if each == name and wanted <= given)

    def by(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Return the sums of the series `name` by the values of `labels`."""
        found: dict[tuple[str, ...], float] = {}
        for (each, given), value in self._values.items():
            if each == name:
                known = dict(given)
                key = tuple(known.get(label, "") for label in labels)
                found[key] = found.get(key, 0.0) + value
        return found

    def since(self, earlier: "Samples") -> "Samples":
        """Return how much each series has grown; one that has shrunk began anew, with its process."""
        grown = {}
        for key, value in self._values.items():
            before = earlier._values.get(key, 0.0)  # noqa: SLF001 - of the same class
            grown[key] = value - before if value >= before else value
        return Samples(grown)
