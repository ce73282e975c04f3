from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cases import QUIRKS
from harness.cuts import EDGE, FAMILIES, PLAIN, STRIDE, offsets, pieces, shrink, written
from harness.errors import UsageError

BODY = 'data: {"a":"é😀"}\r\n\r\nid:7\ndata:{"b":"\\u00e9\\\\n\\ud83d\\ude00"}\n\n'.encode()


def around(family: str, body: bytes = BODY) -> list[tuple[bytes, bytes]]:
    """Up to three bytes on both sides of each cut."""
    return [(body[max(cut - 3, 0) : cut], body[cut : cut + 3]) for cut in offsets(body, family)]


def test_whole_has_no_cut_and_bytes_every_one() -> None:
    assert offsets(BODY, "whole") == []
    assert offsets(BODY, "bytes") == list(range(1, len(BODY)))
    assert [len(piece) for piece in pieces(BODY, offsets(BODY, "bytes"))] == [1] * len(BODY)


def test_a_long_run_of_plain_characters_is_cut_coarsely_in_its_middle_and_everything_else_byte_by_byte() -> None:
    for odd in ("\n", "\r", "\\n", "é", '"', ":"):
        body = f"data: {'x' * PLAIN}{odd}{'y' * (PLAIN + 2 * STRIDE)}\n\n".encode()
        cuts = set(offsets(body, "bytes"))
        second = body.index(b"y")
        assert set(range(1, 6 + EDGE)) <= cuts
        assert set(range(second - EDGE, second + EDGE)) <= cuts
        assert set(range(len(body) - EDGE - 2, len(body))) <= cuts
        assert max(map(len, pieces(body, sorted(cuts)))) == STRIDE
    short = b"data: " + b"x" * (PLAIN - 7)
    assert offsets(short, "bytes") == list(range(1, len(short)))


def test_a_reader_that_searches_its_whole_buffer_at_each_piece_is_through_the_longest_quirk_soon() -> None:
    body = (QUIRKS / "009-line-longer-than-128k.sse").read_bytes()
    searched, rest = 0, b""
    for piece in pieces(body, offsets(body, "bytes")):
        searched += len(rest) + len(piece)
        *_, rest = (rest + piece).split(b"\n")
    assert searched < 200 * len(body)


def test_recorded_cuts_are_where_the_reads_ended() -> None:
    assert offsets(b"abcdef", "recorded", [2, 2, 4, 6]) == [2, 4]
    assert offsets(b"abcdef", "recorded") == []


def test_line_ends_come_after_the_whole_line_end() -> None:
    assert pieces(b"a\r\n\r\nb\rc\n\nd", offsets(b"a\r\n\r\nb\rc\n\nd", "line-ends")) == [
        b"a\r\n", b"\r\n", b"b\r", b"c\n", b"\n", b"d",
    ]  # fmt: skip


def test_inside_crlf() -> None:
    assert around("inside-crlf") == [(b'"}\r', b"\n\r\n"), (b"\r\n\r", b"\nid")]


def test_inside_characters_is_before_every_continuation_byte() -> None:
    e, face = "é".encode(), "😀".encode()
    body = b"x" + e + face
    assert offsets(body, "inside-characters") == [2, 4, 5, 6]


def test_inside_escapes_cuts_escapes_and_pairs_but_not_the_text_after_an_escaped_backslash() -> None:
    body = rb'"a\u00e9b\\n\ud83d\ude00"'
    cuts = offsets(body, "inside-escapes")
    escape, backslash, pair = body.index(rb"\u00e9"), body.index(rb"\\n"), body.index(rb"\ud83d")
    assert cuts == [*range(escape + 1, escape + 6), backslash + 1, *range(pair + 1, pair + 12)]


def test_after_colon_is_before_and_after_the_space() -> None:
    assert around("after-colon") == [
        (b"ta:", b' {"'), (b"a: ", b'{"a'), (b"id:", b"7\nd"), (b"ta:", b'{"b'),
    ]  # fmt: skip
    assert around("after-colon", b"\xef\xbb\xbfdata:x") == [(b"ta:", b"x")]
    assert around("after-colon", b'{"data: ":1}') == []


def test_seeded_is_the_same_for_the_same_seed() -> None:
    body = bytes(2000)
    assert offsets(body, "seeded:1") == offsets(body, "seeded:1") != offsets(body, "seeded:2")
    sizes = [len(piece) for piece in pieces(body, offsets(body, "seeded:1"))]
    assert min(sizes) == 1
    assert max(sizes) > 30


@given(st.binary(max_size=200), st.sampled_from([*FAMILIES, "seeded:99"]))
def test_cuts_ascend_lie_within_and_lose_no_byte(body: bytes, family: str) -> None:
    cuts = offsets(body, family, [0, 5, 5, 300])
    assert cuts == sorted(set(cuts))
    assert all(0 < cut < len(body) for cut in cuts)
    assert b"".join(pieces(body, cuts)) == body
    assert b"" not in pieces(body, cuts)
    assert offsets(body, written(cuts)) == cuts


@pytest.mark.parametrize(
    ("family", "says"),
    [
        ("byte", "no family of cuts 'byte': use one of whole, recorded, bytes, .*seeded:N, at:A,B"),
        ("seeded", "no family"),
        ("seeded:x", "'x' is not a number from 0 to 1000000000; write it as seeded:1"),
        ("at:1,", "'' is not a number .*at:12,40"),
        ("at:0", r"0 is not within the body; use offsets from 1 to \d+"),
        ("at:99999", "99999 is not within the body"),
        ("", "no family"),
    ],
)
def test_an_unknown_family_is_a_usage_error_that_says_what_there_is(family: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        offsets(BODY, family)


def test_shrink_finds_the_one_cut_that_matters_in_few_steps() -> None:
    asked = 0

    def fails(cuts: list[int]) -> bool:
        nonlocal asked
        asked += 1
        return 1234 in cuts

    assert shrink(fails, range(1, 5000)) == [1234]
    assert asked < 30


@given(st.sets(st.integers(0, 60), max_size=60), st.integers(0, 4), st.randoms(use_true_random=False))
def test_shrink_leaves_nothing_that_can_be_taken_away(cuts: set[int], need: int, rng: random.Random) -> None:
    needed = set(rng.sample(sorted(cuts), min(need, len(cuts))))
    assert shrink(lambda some: needed <= set(some), sorted(cuts), limit=10_000) == sorted(needed)


def test_shrink_stops_at_its_limit_with_what_it_has() -> None:
    calls: list[list[int]] = []

    def fails(cuts: list[int]) -> bool:
        calls.append(cuts)
        return set(range(0, 100, 7)) <= set(cuts)

    kept = shrink(fails, range(100), limit=20)
    assert len(calls) == 20
    assert set(range(0, 100, 7)) <= set(kept)


def test_a_failure_without_any_cut_shrinks_to_none() -> None:
    assert shrink(lambda cuts: True, [3, 4]) == []
    assert written([]) == "whole"
    assert written([3, 4]) == "at:3,4"
