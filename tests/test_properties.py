"""Whatever a server sends and wherever the network cuts it: the reading is the same, and nothing raises."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reading import quirk, quirks
from strategies import ASKED, ENDS, HEADS, PROFILE, SCRIPTS, bent_once, bodies, cut, recording, stream

from harness.asked import Asked
from harness.catalogue import CATALOGUE
from harness.dialects import BUILT_IN
from harness.events import KINDS, Event
from harness.jsontext import to_json
from harness.message import Message
from harness.recording import Recording
from harness.reduce import Reducer
from harness.rules import lint
from harness.sse import LineParser, ServerSentEvent, SSEParser
from harness.structure import Reading, read, signature

# Kinds and notes that no chat stream gives.
OTHER_KINDS = {
    "ping": "heartbeat events: Anthropic",
}
OTHER_NOTES = {
    "end.marker-foreign": "[DONE] is chat's own marker",
    "sse.event-name-missing": "chat has no event names",
    "sse.event-name-differs": "chat has no event names",
    "stream.restarted": "nothing in chat says so but a role, which has a rule of its own",
}
OTHER_FAMILIES = tuple(f"{name}." for name in BUILT_IN if name != "chat")


def parsed(pieces: list[bytes]) -> tuple[str, dict[str, tuple[int, int]], int | None]:
    parser = SSEParser()
    items = [item for piece in pieces for item in parser.feed(piece)] + parser.finish()
    return repr(items), parser.seen, parser.retry


def reduced(pieces: list[bytes]) -> tuple[list[Event], Reducer]:
    reducer = Reducer("chat")
    events: list[Event] = []
    for piece in pieces:
        events += reducer.feed(piece)
    return events + reducer.finish(), reducer


def shown(value: Any) -> Any:
    """The JSON text decoded again: it must be UTF-8, and JSON to the letter (no NaN)."""
    return json.loads(to_json(value).encode(), parse_constant=pytest.fail)


def same(whole: Reading, cuts: Reading) -> None:
    """Compared as text, since a NaN is not equal to itself."""
    assert repr(signature(whole.structure)) == repr(signature(cuts.structure))
    for field in ("where", "notes", "grades", "size", "dialect"):
        assert getattr(whole.structure, field) == getattr(cuts.structure, field), field
    assert repr(whole.message) == repr(cuts.message)


def judge(rec: Recording, asked: Asked | None = None) -> tuple[Reading, list[Event]]:
    """Read a recording as `lint` does, and write out all that comes of it."""
    events: list[Event] = []
    reading = read(rec, "chat", asked, events)
    message: Message = reading.message
    assert isinstance(shown(message), dict)
    assert isinstance(shown(reading.structure.wire), dict)
    for found in lint(reading.structure):
        assert found.message
        assert all(0 <= place.at <= place.at + place.length <= len(rec.body) for place in found.evidence), found
    assert [event["kind"] for event in shown(events)] == [event.__struct_config__.tag for event in events]
    for event in events:
        assert 0 <= event.at <= event.at + event.length <= len(rec.body), event
    return reading, events


def test_any_chat_stream_reads_the_same_however_it_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """The property, and that the streams it was tried on reach every event kind and every note of chat."""
    kinds: Counter[str] = Counter()
    notes: Counter[str] = Counter()

    def count(reading: Reading, events: list[Event]) -> None:
        kinds.update({str(type(event).__struct_config__.tag) for event in events})
        notes.update(list(reading.structure.notes))

    @PROFILE
    @given(st.data(), st.sampled_from(HEADS), st.sampled_from(ENDS), st.sampled_from(ASKED), st.integers(0, 9))
    def run(data: st.DataObject, head: dict[str, Any], end: str, asked: Asked | None, late: int) -> None:
        body = data.draw(bodies())
        pieces = data.draw(cut(body))
        assert b"".join(pieces) == body
        assert parsed(pieces) == parsed([body])
        whole, events = judge(recording([body], head, end, late == 9), asked)
        cuts, cut_events = judge(recording(pieces, head, end, late == 9), asked)
        same(whole, cuts)
        assert to_json(events) == to_json(cut_events)
        count(whole, events)

    run()
    for payloads in SCRIPTS.values():
        for body in (stream(*payloads), stream(*payloads, done=False)):
            for asked in ASKED:
                count(*judge(recording([body], {}, "eof"), asked))
    for spec in quirks():
        case, body = quirk(spec)
        if case["family"] == "chat":
            count(*judge(Recording(body=body, status=200, headers=case.get("headers") or {}, end="eof")))

    kinds_due = KINDS.keys() - OTHER_KINDS.keys()
    notes_due = {
        code for code, rule in CATALOGUE.items()
        if rule.side in ("note", "both", "lint") and code not in OTHER_NOTES and not code.startswith(OTHER_FAMILIES)
    }  # fmt: skip
    missing = sorted(kinds_due - kinds.keys()) + sorted(notes_due - notes.keys())
    line = (
        f"coverage: {len(kinds_due & kinds.keys())}/{len(kinds_due)} event kinds, "
        f"{len(notes_due & notes.keys())}/{len(notes_due)} notes reached"
    )
    with capsys.disabled():
        print(f"\n{line}")  # noqa: T201 - the line is meant to be seen
    assert not missing, (
        f"no stream of tests/strategies.py reaches {', '.join(missing)}: give a script of it the fault, or list it in "
        "OTHER_KINDS or OTHER_NOTES of tests/test_properties.py, with the reason why no chat stream can have it"
    )
    assert not {*OTHER_KINDS, *OTHER_NOTES} & {*kinds, *notes}, "a chat stream reached what is listed as another's"


def test_no_member_of_a_payload_is_taken_on_trust() -> None:
    """Deleted, doubled or of any other type: it is read, judged and written."""
    for number, (what, body) in enumerate(bent_once()):
        try:
            judge(Recording(body=body), ASKED[number % len(ASKED)])
        except Exception as exc:
            raise AssertionError(what) from exc


LINES = st.sampled_from(
    [b"data: a", b"data:", b": c", b"id: 1", b"event: e", b"x", b"retry: 5", b"", b"\xef\xbb\xbf", b"data: \xff", b"\n"]
)


@PROFILE
@given(st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n", b""])), max_size=9), st.data())
def test_the_parser_says_what_the_standard_says(parts: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    """Against the algorithm of the HTML standard written down plainly, over bodies made of line ends above all."""
    body = b"".join(line + end for line, end in parts)
    pieces = data.draw(cut(body))
    parser = SSEParser()
    items = [item for piece in pieces for item in parser.feed(piece)] + parser.finish()
    told = [(item.data, item.event, item.id) for item in items if isinstance(item, ServerSentEvent) and item.terminated]
    assert told == [event for event in standard(body) if event[0].strip()]
    assert parsed(pieces) == parsed([body])


def standard(body: bytes) -> list[tuple[bytes, str, str]]:
    """HTML, "Interpreting an event stream": data, event and last event id of each event that is dispatched."""
    lines = re.split(rb"\r\n|\n|\r", body.removeprefix(b"\xef\xbb\xbf"))[:-1]
    data: list[bytes] = []
    event, last_id, out = "", "", []
    for line in lines:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if data:
                out.append((b"\n".join(data), event, last_id))
            data, event = [], ""
        elif name == b"data":
            data.append(value)
        elif name == b"event":
            event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            last_id = value.decode("utf-8", "replace")
    return out


@pytest.mark.parametrize(
    "body",
    [
        b"\rdata: a\r\rdata: b\r\r", b": ping\r\ndata: a\r\n\r\n", b"x\r\ndata: a\r\n", b"data: a\n\n",
        b"\r\n\r\ndata: a\r\n",
    ],
)
def test_every_way_to_cut_a_small_body(body: bytes) -> None:
    """All pairs of cuts, empty pieces among them."""
    whole = parsed([body])
    for first in range(len(body) + 1):
        for second in range(first, len(body) + 1):
            assert parsed([body[:first], body[first:second], body[second:]]) == whole
            assert parsed([body[:first], b"", body[first:second], b"", body[second:]]) == whole
    assert parsed([piece for byte in body for piece in (bytes([byte]), b"")]) == whole


@PROFILE
@given(st.binary(max_size=400), st.data())
def test_any_bytes_are_read(body: bytes, data: st.DataObject) -> None:
    pieces = data.draw(cut(body))
    assert parsed(pieces) == parsed([body])
    same(judge(recording([body], {}, "eof"))[0], judge(recording(pieces, {}, "eof"))[0])


@PROFILE
@given(bodies(), st.data())
def test_bytes_changed_at_random_are_read(body: bytes, data: st.DataObject) -> None:
    assume(body)
    bent = bytearray(body[:4000])
    for _ in range(data.draw(st.integers(1, 4))):
        bent[data.draw(st.integers(0, len(bent) - 1))] = data.draw(st.integers(0, 255))
    pieces = data.draw(cut(bytes(bent)))
    assert parsed(pieces) == parsed([bytes(bent)])
    same(judge(recording([bytes(bent)], {}, "eof"))[0], judge(recording(pieces, {}, "eof"))[0])


@PROFILE
@given(bodies(), st.data())
def test_a_reducer_says_as_much_at_every_piece_as_at_the_end(body: bytes, data: st.DataObject) -> None:
    """Feeding piece by piece gives the events of the whole, and asking for the message on the way changes nothing."""
    events, whole = reduced([body])
    reducer = Reducer("chat")
    found: list[Event] = []
    for piece in data.draw(cut(body)):
        found += reducer.feed(piece)
        assert isinstance(reducer.message(), Message)
    found += reducer.finish()
    assert to_json(found) == to_json(events)
    assert to_json(reducer.message()) == to_json(whole.message())
    assert reducer.finish() == []
    assert to_json(reducer.message()) == to_json(whole.message())


@PROFILE
@given(st.lists(st.sampled_from([b"{}", b'{"a":1}', b"\n", b"\r\n", b" ", b"\xef\xbb\xbf", b"x", b"\xff"])), st.data())
def test_ndjson_lines_read_the_same_however_they_are_cut(parts: list[bytes], data: st.DataObject) -> None:
    body = b"".join(parts)

    def lines(pieces: list[bytes]) -> tuple[str, dict[str, tuple[int, int]]]:
        parser = LineParser()
        return repr([item for piece in pieces for item in parser.feed(piece)] + parser.finish()), parser.seen

    assert lines(data.draw(cut(body))) == lines([body])
