"""Aligned comparison: one event more is one difference, cuts and ids are none, and nothing takes long."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from commandline import harness
from hypothesis import given
from hypothesis import strategies as st
from test_schemas import problems

from harness.align import Difference, align
from harness.events import End, Event, Finish, Item, Ping, Start, Text, ToolCall, Usage


def text(said: str, at: int = 0, key: str | None = None) -> Text:
    return Text(0, said, False, at, 10, key)


def fragment(arguments: str, index: int = 0, at: int = 0) -> ToolCall:
    return ToolCall(0, index, index, None, None, arguments, False, at, 10)


def opened(name: str, call_id: str, index: int = 0) -> ToolCall:
    return ToolCall(0, index, index, call_id, name, "", False, 0, 10)


def kinds(found: list[Difference]) -> list[str]:
    return [difference.kind for difference in found]


def sides(found: Difference) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """(first, count) of both sides."""
    ours, theirs = found.baseline, found.candidate
    return (
        None if ours is None else (ours.first, ours.count),
        None if theirs is None else (theirs.first, theirs.count),
    )


ANSWER: list[Event] = [
    Start("chatcmpl-1", "m", "assistant", 0, 10), text("Hel", 10), text("lo ", 20), text("you", 30),
    opened("look", "call_1"), fragment('{"a"', at=50), fragment(":1}", at=60),
    Finish(0, "tool_calls", "tool_calls", 70, 10), Usage(1, 2, {"n": 1}, 80, 10), End("[DONE]", 90, 10),
]  # fmt: skip


def test_equal_sequences_have_no_difference() -> None:
    assert align(ANSWER, ANSWER) == []
    assert align([], []) == []


def test_ids_and_cuts_are_no_difference() -> None:
    other: list[Event] = [
        Start("chatcmpl-2", "m", "assistant", 5, 11), text("He"), text("llo"), text(" you"), opened("look", "call_2"),
        fragment('{"a":1}'), *ANSWER[7:],
    ]  # fmt: skip
    assert align(ANSWER, other) == []
    assert kinds(align(ANSWER, [*other[:4], ToolCall(0, 0, 0, "", "look", "", False, 0, 1), *other[5:]])) == ["changed"]


def test_item_ids_count_by_the_order_they_come_in() -> None:
    one = [text("a", key="msg_1"), text("b", key="msg_2"), text("c", key="msg_1")]
    assert align(one, [text("a", key="x"), text("b", key="y"), text("c", key="x")]) == []
    assert align(one, [text("a", key="x"), text("b", key="y"), text("c", key="y")]) != []
    raw = {"id": "msg_1", "type": "message", "content": []}
    item = Item(0, "message", "added", "msg_1", raw, 0, 9)
    assert align([item], [Item(0, "message", "added", "msg_2", {**raw, "id": "msg_2"}, 0, 9)]) == []
    assert align([item], [Item(0, "message", "added", "msg_1", {**raw, "content": [1]}, 0, 9)]) != []


def test_one_event_dropped_is_one_difference_with_its_bytes() -> None:
    (found,) = align(ANSWER, ANSWER[:2] + ANSWER[3:])
    assert found.kind == "missing"
    assert found.candidate is None
    assert found.baseline is not None
    assert (found.baseline.first, found.baseline.count, found.baseline.at, found.baseline.length) == (2, 1, 20, 10)
    assert (found.baseline.kinds, found.baseline.shown) == (["text"], "lo ")
    (found,) = align(ANSWER[:2] + ANSWER[3:], ANSWER)
    assert found.kind == "added"
    assert sides(found) == (None, (2, 1))


def test_what_differs_in_a_run_is_narrowed_to_its_events() -> None:
    one: list[Event] = [text(said) for said in ("one ", "two ", "three ", "four")]
    other: list[Event] = [text(said) for said in ("one two", " 2", " three", " four")]
    (found,) = align(one, other)
    assert found.kind == "changed"
    assert sides(found) == ((2, 1), (1, 2))


def test_several_differences_stay_apart() -> None:
    other: list[Event] = [
        ANSWER[0], text("Hi "), text("you"), Ping(40, 5), opened("look", "call_1"), fragment('{"a":2}'), *ANSWER[7:9],
    ]  # fmt: skip
    assert kinds(align(ANSWER, other)) == ["changed", "added", "changed", "missing"]


EVENTS = st.lists(
    st.one_of(
        st.builds(text, st.sampled_from(["a", "b", "ab", ""])),
        st.builds(fragment, st.sampled_from(["1", "2", ""]), st.integers(0, 1)),
        st.just(Ping(0, 1)),
        st.builds(lambda name: opened(name, "id", 0), st.sampled_from(["f", "g"])),
    ),
    max_size=12,
)


@given(EVENTS, EVENTS)
def test_differences_are_in_order_within_bounds_and_turn_round(one: list[Event], other: list[Event]) -> None:
    found = align(one, other)
    assert bool(found) == bool(align(other, one))
    for name, events in (("baseline", one), ("candidate", other)):
        end = 0
        for difference in found:
            span = getattr(difference, name)
            if span is not None:
                assert end <= span.first < span.first + span.count <= len(events)
                end = span.first + span.count
    if [repr(event) for event in one] == [repr(event) for event in other]:
        assert found == []


def calls(count: int) -> list[Event]:
    """Fragments of two calls in turns: the runs are short and say little that is unique."""
    return [fragment("abcdefg"[number * 7919 % 7], number * 31 % 5 % 2, number * 10) for number in range(count)]


LONG = {"text": [text(f"{n} ", n * 10) for n in range(20_000)], "calls": calls(20_000)}


@pytest.mark.parametrize("events", LONG.values(), ids=LONG)
def test_an_insert_in_a_long_stream_is_one_difference(events: list[Event]) -> None:
    (found,) = align(events, [*events[:9_000], Item(0, "x", "whole", None, 1, 90_000, 5), *events[9_000:]])
    assert found.kind == "added"
    assert sides(found) == (None, (9_000, 1))


def test_streams_with_nothing_in_common_do_not_take_long() -> None:
    """Bounded: without the bound this takes minutes."""
    one, other = calls(20_000), calls(20_001)[::-1]
    started = time.process_time()
    assert align(one, other)
    assert time.process_time() - started < 20


# -- harness diff --events -----------------------------------------------------------------------------------------


def body(*pieces: str) -> bytes:
    deltas = [{"role": "assistant"}, *({"content": piece} for piece in pieces)]
    chunks = [{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
               "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]  # fmt: skip
    chunks.append({**chunks[0], "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks) + b"data: [DONE]\n\n"


def test_diff_events(tmp_path: Path) -> None:
    one, other, cut = tmp_path / "a.sse", tmp_path / "b.sse", tmp_path / "c.sse"
    one.write_bytes(body("one ", "two ", "three"))
    other.write_bytes(body("one ", "three"))
    cut.write_bytes(body("one t", "wo th", "ree"))
    done = harness("diff", "--events", one, other)
    assert done.code == 0, "wording is no finding, with --events or without"
    assert "events: 1 difference\n  missing\n    A event 2 at byte " in done.out
    assert done.out.rstrip().endswith("text: 'two '")
    assert "events: no difference" in harness("diff", "--events", one, cut).out
    shown = harness("diff", "--events", "--json", one, other).one
    assert problems("diff", shown) == []
    assert [difference["kind"] for difference in shown["events"]] == ["missing"]
    span = shown["events"][0]["baseline"]
    assert b'"two "' in one.read_bytes()[span["at"] : span["at"] + span["length"]]
    assert harness("diff", "--json", one, other).one["events"] is None
