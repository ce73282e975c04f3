from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import BODY, EVENTS, HEAD, recorded

from harness.errors import UsageError
from harness.faults import Fault
from harness.recording import Read, Recording
from harness.sse import ServerSentEvent, SSEParser
from harness.steps import (
    RESET_SECONDS,
    STALL_SECONDS,
    Close,
    Edit,
    Head,
    Reset,
    Send,
    Step,
    Wait,
    body_of,
    edited,
    event_ends,
    heard,
    plan,
)


def test_each_read_is_a_send_and_an_eof_a_clean_close() -> None:
    steps = plan(recorded(5, 20, len(BODY)))
    assert steps == [HEAD, Send(BODY[:5]), Send(BODY[5:20]), Send(BODY[20:]), Close()]


def test_recorded_pace_waits_as_long_as_the_client_did() -> None:
    steps = plan(recorded(5, 20, len(BODY), step=250_000), pace="recorded")
    assert steps == [
        HEAD, Wait(0.25), Send(BODY[:5]), Wait(0.25), Send(BODY[5:20]), Wait(0.25), Send(BODY[20:]), Close(),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("end", "last"),
    [
        ("eof", [Close()]),
        ("unknown", [Close()]),
        ("cut", [Close(clean=False)]),
        ("protocol-error", [Close(clean=False)]),
        ("client-closed", [Close(clean=False)]),
        ("too-large", [Close(clean=False)]),
        ("incomplete", [Close(clean=False)]),
        ("reset", [Wait(RESET_SECONDS), Reset()]),
        ("timeout:first-event", [Wait(STALL_SECONDS), Close(clean=False)]),
        ("timeout:idle", [Wait(STALL_SECONDS), Close(clean=False)]),
        ("timeout:total", [Wait(STALL_SECONDS), Close(clean=False)]),
    ],
)
def test_the_end_is_played_again(end: str, last: list[Step]) -> None:
    assert plan(recorded(len(BODY), end=end)) == [HEAD, Send(BODY), *last]


@pytest.mark.parametrize(
    "reads", [[], [Read(3, 5)], [Read(9, 9), Read(4, 3), Read(9, 8), Read(1000, 1)], [Read(-4, -9)]]
)
@pytest.mark.parametrize("pace", ["fast", "recorded"])
def test_a_wrong_sidecar_changes_no_byte_and_no_wait_is_negative(
    reads: list[Read], pace: Literal["fast", "recorded"]
) -> None:
    steps = plan(Recording(body=BODY, reads=reads), pace=pace)
    assert body_of(steps) == BODY
    assert all(step.seconds > 0 for step in steps if isinstance(step, Wait))


def test_an_empty_body() -> None:
    assert plan(Recording(body=b"", status=429), pieces="events") == [
        Head(429, {"content-type": "text/event-stream"}), Close(),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "dialect", "status", "media_type"),
    [
        (BODY, None, None, "text/event-stream"),
        (b'{"error": "no"}', "chat", 400, "application/json"),
        (b'{"done": true}\n', "ollama", None, "application/x-ndjson"),
        (b'{"error": "no"}', "ollama", 400, "application/json"),
        (b"\n<html>", None, 502, "text/html"),
    ],
)
def test_a_media_type_is_told_even_if_none_was_recorded(
    body: bytes, dialect: str | None, status: int | None, media_type: str
) -> None:
    head = plan(Recording(body=body, dialect=dialect, status=status))[0]
    assert head == Head(status or 200, {"content-type": media_type})


def test_headers_of_the_connection_and_such_as_cannot_be_sent_are_not_replayed() -> None:
    headers = {
        "content-type": "text/plain", "x-request-id": "r1", "content-encoding": "gzip", "content-length": "3",
        "transfer-encoding": "chunked", "connection": "keep-alive", "x-split": "a\r\nset-cookie: b", "b ad": "x",
        "x-wide": "\u2028",
    }  # fmt: skip
    head = plan(Recording(body=BODY, headers=headers, status=99))[0]
    assert head == Head(200, {"content-type": "text/plain", "x-request-id": "r1"})


def test_pieces_by_event_and_by_size_wait_for_their_last_byte() -> None:
    recording = recorded(5, 20, len(BODY), step=1_000_000)
    first, second = len(EVENTS[0]), len(EVENTS[0] + EVENTS[1])
    assert plan(recording, pace="recorded", pieces="events") == [
        HEAD, Wait(1), Wait(1), Send(EVENTS[0]), Wait(1), Send(EVENTS[1]), Send(EVENTS[2]), Close(),
    ]  # fmt: skip
    assert event_ends(BODY) == [first, second, len(BODY)]
    sends = [step.data for step in plan(recording, pieces=7) if isinstance(step, Send)]
    assert [len(data) for data in sends] == [7] * (len(BODY) // 7) + [len(BODY) % 7]
    assert b"".join(sends) == BODY


def test_pieces_of_no_size_are_refused() -> None:
    with pytest.raises(UsageError, match="pieces: 0"):
        plan(recorded(4), pieces=0)


def test_a_speed_divides_the_recorded_waits() -> None:
    waits = [step.seconds for step in plan(recorded(5, 20, 40, step=100_000), pace="recorded", speed=4)
             if isinstance(step, Wait)]  # fmt: skip
    assert waits == pytest.approx([0.025, 0.025, 0.025])
    for speed in (0.0, -1.0, float("nan")):
        with pytest.raises(UsageError, match="speed"):
            plan(recorded(4), speed=speed)


def test_edits_stay_in_their_piece() -> None:
    steps = plan(recorded(5, 20, len(BODY)))
    sends = [step for step in edited(steps, [(0, 1, b"D"), (3, 3, b"+"), (5, 20, b""), (len(BODY), len(BODY), b"end")])
             if isinstance(step, Send)]  # fmt: skip
    assert sends == [Send(b"Dat+a:"), Send(BODY[20:]), Send(b"end")]
    assert edited(steps, []) == steps
    reset = plan(recorded(len(BODY), end="reset"))
    assert edited(reset, [(len(BODY), len(BODY), b"x")]) == [HEAD, Send(BODY), Send(b"x"), Wait(RESET_SECONDS), Reset()]


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)).map(sorted), st.lists(st.integers(0, 60)).map(sorted))
def test_edits_are_edits_whatever_the_pieces(body: bytes, ends: list[int], places: list[int]) -> None:
    places = [min(place, len(body)) for place in places]
    edits: list[Edit] = [(a, b, b"<%d>" % a) for a, b in zip(places[::2], places[1::2], strict=False)]
    expected = body
    for start, stop, new in reversed(edits):
        expected = expected[:start] + new + expected[stop:]
    assert body_of(edited(plan(recorded(*ends, body=body)), edits)) == expected


@pytest.mark.parametrize(
    ("recording", "end", "reads"),
    [
        (recorded(5, len(BODY), step=250_000), "eof", [Read(5, 250_000), Read(len(BODY), 500_000)]),
        (recorded(len(BODY), end="cut"), "cut", [Read(len(BODY), 1000)]),
        (recorded(len(BODY), end="reset"), "reset", [Read(len(BODY), 1000)]),
        (recorded(5, body=BODY[:5], end="timeout:idle"), "timeout:idle", [Read(5, 1000)]),
        (recorded(body=b"", end="timeout:first-event"), "timeout:first-event", []),
        (recorded(5, len(BODY), step=31_000_000), "timeout:idle", [Read(5, 31_000_000)]),
        (recorded(5, step=61_000_000), "timeout:first-event", []),
    ],
)
def test_a_plan_is_heard_without_a_socket(recording: Recording, end: str, reads: list[Read]) -> None:
    found = heard(plan(recording, pace="recorded"), recording)
    assert (found.end, found.reads, found.status) == (end, reads, 200)
    assert found.body == BODY[: found.reads[-1].end if reads else 0]
    assert found.headers == recording.headers


LINES = st.sampled_from([b"data: x", b": c", b"id: 1", b"event: e", b"", b"{}", b"data: [DONE]"])
BODIES = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]))).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(BODIES, st.lists(st.integers(0, 80)).map(sorted), st.integers(1, 9), st.integers(-3, 9))
def test_any_recording_is_reproduced_and_cut_where_it_is_due(
    body: bytes, ends: list[int], size: int, place: int
) -> None:
    recording = recorded(*ends, body=body)
    ways: list[int | Literal["events"] | None] = [None, size, "events"]
    for pieces in ways:
        steps = plan(recording, pace="recorded", pieces=pieces)
        assert body_of(steps) == body
        assert all(step.data for step in steps if isinstance(step, Send))
        assert [step.seconds for step in steps if isinstance(step, Wait)] == [
            step.seconds for step in plan(recording, pace="recorded") if isinstance(step, Wait)
        ]
        by_byte = body_of(Fault("cut", {"byte": place}).apply(steps))
        assert by_byte == body[:place] if place >= 0 else by_byte == body[: max(len(body) + place, 0)]
        assert body_of(Fault("stall", {"event": place}).apply(steps)) == body
        assert body_of(Fault("pieces").apply(steps)) == body


@given(BODIES)
def test_an_event_ends_where_a_parser_dispatches_it(body: bytes) -> None:
    if body.lstrip()[:1] == b"{":
        return
    for number, end in enumerate(event_ends(body), 1):
        parser = SSEParser()
        told = [e for e in parser.feed(body[:end]) + parser.finish() if isinstance(e, ServerSentEvent)]
        assert len(told) == number
        if end < len(body):
            assert told[-1].terminated
