"""What `/metrics` says, as numbers that can be compared."""

import math
from collections.abc import Mapping
from typing import Final, Self

from prometheus_client.parser import text_string_to_metric_families

_Labels = frozenset[tuple[str, str]]

_BEGIN: Final = "process_start_time_seconds"
"""When a process began. An engine whose ranks count together does not say it."""


class Samples:
    """Samples of one reading.

    Attributes:
        values: by name and labels.
    """

    def __init__(self, values: Mapping[tuple[str, _Labels], float]) -> None:
        self.values: Mapping[tuple[str, _Labels], float] = dict(values)

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
        return any(name.startswith(prefix) for name, _ in self.values)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the series `name` with `labels`; 0 without one."""
        wanted = set(labels.items())
        return sum(value for (each, given), value in self.values.items() if each == name and wanted <= given)

    def by(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Return the sums of the series `name` by the values of `labels`."""
        found: dict[tuple[str, ...], float] = {}
        for (each, given), value in self.values.items():
            if each == name:
                known = dict(given)
                key = tuple(known.get(label, "") for label in labels)
                found[key] = found.get(key, 0.0) + value
        return found

    def since(self, earlier: "Samples") -> "Samples":
        """Return how much each series has grown; one that has shrunk began anew, with its process."""
        grown = {}
        for key, value in self.values.items():
            before = earlier.values.get(key, 0.0)
            grown[key] = value - before if value >= before else value
        return Samples(grown)

    def only(self, other: "Samples") -> "Samples":
        """Return the series that `other` has, too."""
        common = self.values.keys() & other.values.keys()
        return Samples({key: self.values[key] for key in common})

    def lost(self, earlier: "Samples") -> int:
        """Return how many series of `earlier` are no longer there."""
        return len(earlier.values.keys() - self.values.keys())

    def began_anew(self, earlier: "Samples", counter: str) -> bool:
        """Whether the process is another one than at `earlier`: it began at another time, or `counter` went back."""
        begin, before = self.of(_BEGIN), earlier.of(_BEGIN)
        if begin and before and begin != before:
            return True
        now = self.of(counter)
        return any(now.get(labels, 0.0) < value for labels, value in earlier.of(counter).items())

    def of(self, name: str) -> dict[_Labels, float]:
        """Return the series `name` by their labels."""
        return {labels: value for (each, labels), value in self.values.items() if each == name}
