"""For how long a rehearsal's Prometheus knew nothing of a pod."""

from collections.abc import Sequence
from typing import Any

import pytest

from hyperpod_dpd.rehearsal.prometheus import SCRAPED_EVERY_SECONDS, longest_blind_seconds

REFUSED = ("0", "0.002")
ANSWERED = ("1", "0.02")
LATE = ("1", "0.98")
GIVEN_UP = ("0", "1.0004")


def _matrix(name: str, pod: str, samples: Sequence[tuple[float, str]]) -> dict[str, Any]:
    return {"metric": {"__name__": name, "job": "dpd-decode", "pod": pod}, "values": list(map(list, samples))}


def _blind(*pods: Sequence[tuple[float, tuple[str, str]]]) -> float:
    return longest_blind_seconds(
        [_matrix("up", f"decode-{n}", [(at, up) for at, (up, _) in pod]) for n, pod in enumerate(pods)],
        # in another order: the API promises none
        [
            _matrix("scrape_duration_seconds", f"decode-{n}", [(at, took) for at, (_, took) in pod])
            for n, pod in reversed(list(enumerate(pods)))
        ],
        of_seconds=30.0,
    )


@pytest.mark.parametrize(
    ("scrapes", "blind_seconds"),
    [
        ([ANSWERED, LATE, ANSWERED], 1.0),
        # a decoder that has crashed refuses: that is known, and an alert is right
        ([ANSWERED, REFUSED, REFUSED, REFUSED, ANSWERED], 1.0),
        ([ANSWERED, GIVEN_UP, ANSWERED], 2.0),
        ([ANSWERED, GIVEN_UP, GIVEN_UP, REFUSED], 3.0),
        ([ANSWERED, GIVEN_UP, GIVEN_UP, GIVEN_UP], 3.0),
        ([GIVEN_UP, GIVEN_UP, ANSWERED], 2.0),
        ([GIVEN_UP], 0.0),
    ],
)
def test_scrapes_that_were_given_up_leave_a_gap(scrapes: list[tuple[str, str]], blind_seconds: float) -> None:
    assert SCRAPED_EVERY_SECONDS == 1.0
    assert _blind([(100.0 + n, scrape) for n, scrape in enumerate(scrapes)]) == blind_seconds


def test_scrapes_that_never_began_leave_a_gap_too() -> None:
    assert _blind([(100.0, ANSWERED), (101.0, ANSWERED), (104.5, ANSWERED)]) == 3.5


def test_the_worst_pod_decides_and_none_is_mistaken_for_another() -> None:
    well = [(100.0 + n, ANSWERED) for n in range(5)]
    stuck = [(100.0, ANSWERED), *((101.0 + n, GIVEN_UP) for n in range(3)), (104.0, ANSWERED)]
    refusing = [(100.0 + n, REFUSED) for n in range(5)]
    assert _blind(well, stuck, refusing) == 4.0
    assert _blind(well, refusing) == 1.0


def test_without_a_scrape_nothing_was_known_at_all() -> None:
    assert _blind() == 30.0
