"""What the parts say about themselves on `/metrics`."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import aiohttp

from hyperpod_dpd.spec.value import record

_SAMPLE: Final = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@record
class Samples:
    """All samples of one exposition, by name and labels."""

    values: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    def sum(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of `name` with these labels; 0 where there is none."""
        wanted = frozenset(labels.items())
        return sum(
            value for (found, given), value in self.values.items() if found == name and wanted <= given
        )

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return the sums of the samples of `name` by the value of `label`."""
        sums: dict[str, float] = {}
        for (found, given), value in self.values.items():
            if found == name:
                key = dict(given).get(label, "")
                sums[key] = sums.get(key, 0.0) + value
        return sums

    def since(self, before: "Samples") -> "Samples":
        """Return what was counted since `before`; a counter that started again counts from 0."""
        return Samples(
            values={
                key: value - before.values.get(key, 0.0) if value >= before.values.get(key, 0.0) else value
                for key, value in self.values.items()
            }
        )

    def plus(self, other: "Samples") -> "Samples":
        """Return the sums of both."""
        keys = {**self.values, **other.values}
        return Samples(values={key: self.values.get(key, 0.0) + other.values.get(key, 0.0) for key in keys})


NOTHING: Final = Samples(values={})


def parse(text: str) -> Samples:
    """Read an exposition in Prometheus' text format."""
    return Samples(values=dict(_samples(text)))


def _samples(text: str) -> Iterator[tuple[tuple[str, frozenset[tuple[str, str]]], float]]:
    for name, labels, value in _SAMPLE.findall(text):
        yield (name, frozenset(_LABEL.findall(labels))), float(value)


async def scrape(session: aiohttp.ClientSession, url: str) -> Samples | None:
    """Return the samples of `url/metrics`; None where nobody answers."""
    try:
        async with session.get(f"{url}/metrics", timeout=aiohttp.ClientTimeout(total=2)) as response:
            return parse(await response.text()) if response.status == 200 else None
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None
