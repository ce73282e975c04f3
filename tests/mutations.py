"""Streams with faults for property tests: payloads with deleted, doubled, retyped and moved members; and the check.

Whatever a server sends, reading it does not raise, cutting the bytes elsewhere changes nothing, and what comes out can
be written as JSON.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from harness.events import Event
from harness.jsontext import to_json
from harness.reduce import Reducer

VALUES: list[Any] = [
    None, "", "x", "STOP", "7", 0, 1, -1, 2.0, 1.5, True, False, [], {}, [1], [None], [{}], [[]], {"a": 1}, "{}",
    {"type": []}, {"type": "text", "text": "t"}, [{"text": "t"}], "\ud83d", {"message": "m", "code": 1},
]  # fmt: skip


def sse(payloads: Sequence[Any], names: bool = False) -> bytes:
    """The payloads as an event stream; `names` adds the event lines, from each payload's type."""
    events = []
    for payload in payloads:
        name = payload.get("type") if isinstance(payload, dict) else None
        event = f"event: {name}\n" if names and isinstance(name, str) else ""
        events.append(f"{event}data: {json.dumps(payload)}\n\n")
    return "".join(events).encode("utf-8", "replace")  # half a character in a name


def ndjson(payloads: Sequence[Any]) -> bytes:
    """The payloads as one JSON text a line."""
    return "".join(json.dumps(payload) + "\n" for payload in payloads).encode()


def members(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key or place) in a JSON value."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from members(value[key])


@st.composite
def faulty(draw: st.DrawFn, payloads: Sequence[Any]) -> list[Any]:
    """The payloads with one to four faults."""
    stream = copy.deepcopy(list(payloads))
    for _ in range(draw(st.integers(1, 4))):
        places = list(members(stream))
        if not places:
            break
        container, key = draw(st.sampled_from(places))
        fault = draw(st.sampled_from(("delete", "double", "retype", "move")))
        if fault == "retype":
            container[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
        elif fault == "delete":
            del container[key]
        elif isinstance(container, list):
            value = copy.deepcopy(container[key]) if fault == "double" else container.pop(key)
            container.insert(draw(st.integers(0, len(container))), value)
        else:
            other, place = draw(st.sampled_from(places))
            value = copy.deepcopy(container[key])
            if isinstance(other, dict) or place < len(other):
                other[place] = value
    return stream


def read(body: bytes, dialect: str, piece: int = 0) -> tuple[list[Event], Reducer]:
    """All events of a body fed in pieces of that many bytes (0: whole), and the reducer."""
    reducer = Reducer(dialect)
    events: list[Event] = []
    for at in range(0, len(body), piece or len(body) or 1):
        events += reducer.feed(body[at : at + (piece or len(body))])
    return events + reducer.finish(), reducer


def check(body: bytes, dialect: str, piece: int) -> list[Event]:
    """The events of the body, read without raising, the same whole and in pieces, and writable as UTF-8 JSON."""
    whole, reducer = read(body, dialect)
    cut, other = read(body, dialect, piece)
    assert cut == whole
    assert other.notes == reducer.notes
    assert other.message() == reducer.message()
    for value in (whole, reducer.message()):
        assert to_json(value).encode()
    return whole
