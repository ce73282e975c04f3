"""A right client made of generators: pieces → text → lines → events → facts, folded as they come.

Every dialect comes down to the same facts, and the fold knows none of them. Rules: cases/README.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from harness.clients.pipeline_facts import BROKEN, SAID, Payload, decoded, failure
from harness.clients.pipeline_fold import Fact, Fold


class _Event(NamedTuple):
    """An event: its name, and its payload; `done` if it was `[DONE]`."""

    name: str
    payload: Payload
    done: bool = False


def read(body: Iterable[bytes], dialect: str) -> Payload:
    """Message JSON."""
    texts = _texts(body)
    events = _events(_lines(texts)) if dialect != "ollama" else _json_lines(texts)
    fold = Fold(reasons_name_tools=dialect in ("chat", "anthropic"))
    for fact in _facts(events, dialect):
        fold.take(fact)
        if fact.channel in ("end", "error"):
            break
    return fold.message()


# -- pieces to events


def _texts(body: Iterable[bytes]) -> Iterator[str]:
    """The text as it comes: a character cut by the network waits for its rest."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in body:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """Lines without their ends; the last may lack one. Then a blank line, as the body has ended."""
    begun: list[str] = []
    after_cr, first = False, True
    for text in filter(None, texts):
        if first:
            text, first = text.removeprefix("\ufeff"), False
        if after_cr:  # the line has ended with the CR
            text = text.removeprefix("\n")
        after_cr = text.endswith("\r")
        *whole, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in whole:
            yield "".join([*begun, line])
            begun.clear()
        begun.append(rest)
    yield "".join(begun)
    yield ""


def _events(lines: Iterable[str]) -> Iterator[_Event]:
    """The events of the lines, and failures that stand where a standard reader looks for none."""
    name, data = "", list[str]()
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            yield from _dispatched(name, data)
            name, data = "", []
        elif field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif field == "error":
            yield from _dispatched("error", [value])
        elif line.startswith("{"):
            yield from (event for event in _dispatched("", [line]) if event.payload.get("error"))


def _dispatched(name: str, data: list[str]) -> Iterator[_Event]:
    """The event of these data lines; several, if blank lines are missing and only each line by itself is whole."""
    joined = "\n".join(data)
    if joined.strip() == "[DONE]":
        yield _Event(name, {}, done=True)
        return
    value = decoded(joined)
    if isinstance(value, dict):
        yield _Event(name, value)
    elif value is BROKEN and len(data) > 1 and all(decoded(line) is not BROKEN or "[DONE]" in line for line in data):
        for line in data:
            yield from _dispatched(name, [line])


def _json_lines(texts: Iterable[str]) -> Iterator[_Event]:
    begun = ""
    for text in texts:
        *whole, begun = (begun + text).split("\n")
        for line in whole:
            yield from _dispatched("", [line])
    yield from _dispatched("", [begun])


# -- events to facts


def _facts(events: Iterable[_Event], dialect: str) -> Iterator[Fact]:
    """What each event says, in order; an error after what stands beside it."""
    said = SAID[dialect]()
    for event in events:
        if event.done and dialect == "chat":
            yield Fact("end", True)
        yield from said(event.payload)
        payload, kind = event.payload, event.payload.get("type")
        if payload.get("error"):
            yield failure(payload["error"])
        elif event.name == "error" or kind == "error" or payload.get("object") == "error":
            yield failure({**payload, "type": kind if kind != "error" else None})
