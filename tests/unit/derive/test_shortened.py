"""Names that a service leaves too little room for."""

import pytest

from hyperpod_dpd.derive.bucket import TLS_PREFIX, bucket_name
from hyperpod_dpd.derive.shortened import shortened


@pytest.mark.parametrize("length", [1, 19, 20])
def test_name_that_has_room_stays_whole(length: int) -> None:
    assert shortened("n" * length, 20) == "n" * length


@pytest.mark.parametrize("length", [21, 200])
def test_longer_name_fills_the_room_with_its_beginning_and_eight_digits(length: int) -> None:
    beginning, digits = shortened("n" * length, 20).split("-")
    assert beginning == "n" * (20 - 1 - 8)
    assert len(digits) == 8
    assert set(digits) <= set("0123456789abcdef")


def test_names_that_begin_alike_are_told_apart() -> None:
    assert len({shortened("n" * 30 + end, 20) for end in "abc"}) == 3


def test_beginning_that_ends_in_a_hyphen_gets_no_second_one() -> None:
    assert "--" not in shortened("n" * 10 + "-" + "m" * 20, 20)


@pytest.mark.parametrize("attempt", [None, "0123abcd"])
def test_name_of_a_bucket_fills_the_63_characters_of_s3_and_no_more(attempt: str | None) -> None:
    def name(deployment: str) -> str:
        return bucket_name(
            TLS_PREFIX, deployment, account="111122223333", region="us-east-1", attempt=attempt
        )

    end = "-111122223333-us-east-1" + (f"-{attempt}" if attempt else "")
    assert name("llama") == f"hyperpod-tls-llama{end}"
    assert len(name("n" * 63)) == 63
    assert name("n" * 63).endswith(end)
