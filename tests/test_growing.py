"""Texts in pieces: each question has the answer that the joined pieces give, whenever and however often it is put."""

from __future__ import annotations

import json
import time

from hypothesis import given
from hypothesis import strategies as st

from harness.growing import Completion, Grown, joined_unless_same
from harness.message import complete_at

JSONISH = st.lists(
    st.sampled_from([*'{}[]"\\,: \u2003\na1', '\\"', "\\u00", '"a"', "{}", '""', '{"a": "]'])
    | st.text(max_size=3),
    max_size=14,
)


@given(JSONISH, st.sets(st.integers(0, 13)))
def test_completion_is_complete_at_of_what_has_come(pieces: list[str], asked: set[int]) -> None:
    """Asked at any of the places, and at the end."""
    completion = Completion()
    for count in sorted({*(place for place in asked if place <= len(pieces)), len(pieces)}):
        assert completion.of(pieces[:count]) is (complete_at("".join(pieces[:count])) is not None), pieces[:count]


@given(st.lists(st.dictionaries(st.text(), st.text() | st.lists(st.text() | st.integers()))), st.booleans())
def test_a_whole_value_is_complete_at_its_last_character(value: object, ascii_only: bool) -> None:
    text = json.dumps([value], ensure_ascii=ascii_only)
    completion, pieces = Completion(), list(text)
    assert not completion.of(pieces[:-1])
    assert completion.of(pieces)
    assert completion.of([*pieces, "}", "no matter"])


@given(st.lists(st.sampled_from(["", "a", "b", "ab", "aa", "aba"])))
def test_a_repeat_of_the_whole_is_none(pieces: list[str]) -> None:
    name = ""
    for piece in pieces:
        if piece and piece != name:
            name += piece
    assert joined_unless_same(pieces) == name


@given(st.lists(st.text(max_size=2)), st.text(max_size=3))
def test_a_text_that_grows_is_the_text(pieces: list[str], other: str) -> None:
    grown = Grown()
    for piece in pieces:
        grown.add(piece)
        assert grown.equals("".join(pieces)) is (str(grown) == "".join(pieces))
    assert str(grown) == "".join(pieces)
    assert bool(grown) is bool("".join(pieces))
    assert grown.equals(other) is (other == "".join(pieces))


def test_a_question_after_each_piece_costs_no_more_than_the_piece() -> None:
    begun = time.process_time()
    pieces, completion, grown = ['{"a": "'], Completion(), Grown()
    for _ in range(100_000):
        pieces.append("[ab\\\\c] " * 10)
        assert not completion.of(pieces)
        grown.add("abc")
        assert not grown.equals("ab")
    assert completion.of([*pieces, '"}'])
    assert time.process_time() - begun < 10
