import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpd_router.stops import StopMatcher, may_span

_LETTERS = st.text(alphabet="ab", min_size=1, max_size=4)


def direct(pieces: list[str], stops: list[str], *, include: bool, min_tokens: int) -> tuple[str, str | None]:
    """What vLLM's detokenizer does with the same tokens, told as simply as possible."""
    text = ""
    for count, piece in enumerate(pieces, 1):
        before = len(text)
        text += piece
        if count <= min_tokens or not piece:
            continue
        for stop in stops:
            start = text.find(stop, max(0, before - len(stop) + 1))
            if start != -1:
                return text[: start + len(stop)] if include else text[:start], stop
    return text, None


@given(
    pieces=st.lists(st.text(alphabet="ab", max_size=3), min_size=1, max_size=8),
    stops=st.lists(_LETTERS, min_size=1, max_size=3),
    include=st.booleans(),
    min_tokens=st.integers(0, 4),
)
def test_same_text_as_the_engine(pieces: list[str], stops: list[str], include: bool, min_tokens: int) -> None:
    matcher = StopMatcher(stops, include=include, min_tokens=min_tokens)
    shown, found = "", None
    for count, piece in enumerate(pieces, 1):
        result = matcher.push(piece, count, finished=count == len(pieces))
        shown += result.text
        if result.stop is not None:
            found = result.stop
            break
    assert (shown, found) == direct(pieces, stops, include=include, min_tokens=min_tokens)


def test_text_that_may_begin_a_stop_string_is_held_back() -> None:
    matcher = StopMatcher(["END"], include=False, min_tokens=0)
    assert matcher.push("hello E", 1).text == "hello"
    assert matcher.push("N", 2).text == " "
    result = matcher.push("D and more", 3)
    assert (result.text, result.stop) == ("", "END")


def test_included_stop_string_ends_the_text() -> None:
    matcher = StopMatcher(["END"], include=True, min_tokens=0)
    assert matcher.push("x E", 1).text == "x E"
    result = matcher.push("ND more", 2)
    assert (result.text, result.stop) == ("ND", "END")


def test_no_stops_holds_nothing() -> None:
    assert StopMatcher([], include=False, min_tokens=0).push("text", 1).text == "text"


@pytest.mark.parametrize(
    ("text", "stops", "spans"),
    [
        ("hello E", ["END"], True),
        ("hello EN", ["END"], True),
        ("hello", ["END"], False),
        ("hello END", ["END"], False),
        ("E", ["E"], False),
        ("", ["END"], False),
        ("xaa", ["zz", "aab"], True),
    ],
)
def test_where_a_stop_string_may_begin(text: str, stops: list[str], spans: bool) -> None:
    assert may_span(text, stops) == spans


def test_no_span_is_missed() -> None:
    generator = random.Random(0)
    for _ in range(2000):
        first, rest = ("".join(generator.choices("ab", k=generator.randint(1, 4))) for _ in range(2))
        stop = "".join(generator.choices("ab", k=generator.randint(1, 4)))
        starts = [
            i for i in range(len(first)) if (first + rest).startswith(stop, i) and i + len(stop) > len(first)
        ]
        assert not starts or may_span(first, [stop])
