"""The pipeline: bytes to server-sent events to the dialect's events, notes and message; one pass, incremental, any cut.

Here is also the recovery clause of cases/README, rule 1: what the standard drops without a word is read where it is
unmistakable, and noted. A recovery is a fatal finding, but for an end marker alone.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

from harness.dialects import dialect_named
from harness.dialects.base import Dialect, looks_like_error, only_a_message
from harness.events import Error, Event, Note, Ping, Start, Unknown, Usage
from harness.jsontext import (
    SHALLOW,
    STRICT_ERRORS,
    Undecodable,
    check_depth,
    decode,
    decode_strict,
    decode_tolerant,
)
from harness.message import Message, MessageFold
from harness.sse import LineParser, ServerSentEvent, SSEParser, StrayLine

BARE_LIMIT = 1 << 20  # bytes of stray lines kept in the hope that they make one JSON text
BARE_CLOSINGS = 8  # lines among them that may end it: each is tried, which costs all that is kept
SWALLOWED_TRIES = 4  # places of a stray line at which a data line is looked for: each is tried, which costs the rest
# What stands before a data line: an honest field whose value is one (`debug: data: ...`), and what no field is called.
_NAMED = re.compile(rb"[A-Za-z][A-Za-z0-9_-]*: ?")
_NO_NAME = re.compile(rb"[^\x20-\x7e\t]")


class Observer(Protocol):
    """Sees every payload beside the events it gave: how structure facts are gathered.

    `via` says how the payload was carried: data | glued | unterminated | field | bare.
    """

    def payload(self, payload: Any, sse: ServerSentEvent, events: list[Event], via: str) -> None:
        """One decoded payload, before the end or an error; `events` are those it gave."""

    def text(self, data: bytes, sse: ServerSentEvent, events: list[Event], via: str) -> None:
        """Data that is no JSON: the end marker, or what could not be decoded."""

    def after(self, data: bytes, sse: ServerSentEvent) -> None:
        """Data after the end or an error: it changes nothing any more."""


class Reducer:
    """Feed it the body in pieces. Keeping the events is up to the caller, so memory is bounded by the message.

    Nothing in a body raises. Raises UsageError, when it is made: no such dialect.
    """

    def __init__(self, dialect: str | Dialect = "chat", observer: Observer | None = None) -> None:
        self.dialect: Dialect = dialect_named(dialect)() if isinstance(dialect, str) else dialect
        self.parser: SSEParser | LineParser = SSEParser() if self.dialect.framing == "sse" else LineParser()
        self.fold = MessageFold()
        self.observer = observer
        self.finished = False
        self.milder: set[str] = set()  # notes that came up only where readers are told to ignore what they mark
        self._dispatched = False
        self._stray: list[StrayLine] = []
        self._stray_bytes = 0
        self._stray_closings = 0
        self._first_stray: StrayLine | None = None

    def feed(self, piece: bytes) -> list[Event]:
        """Take the next piece of the body; return the events it completed, in order of their bytes."""
        out: list[Event] = []
        items = self.parser.feed(piece)
        if not items:
            return out
        dialect = self.dialect
        read, decode_one = dialect.read, decode_strict
        # The regular case, short: one JSON payload that the strict decoder takes, before the end. All else goes the
        # long way, which does the same.
        observed = None if self.observer is None else self.observer.payload
        short = not (self._stray or dialect.ended or dialect.failed)
        for item in items:
            if short and type(item) is ServerSentEvent and item.event != "error" and len(item.data) <= SHALLOW:
                try:
                    payload = decode_one(item.data)
                except STRICT_ERRORS:
                    self._event(item, out)
                    short = not (dialect.ended or dialect.failed)
                else:
                    self._dispatched = True
                    if observed is None:
                        read(payload, item, out)
                    else:
                        before = len(out)
                        read(payload, item, out)
                        observed(payload, item, out[before:], "data")
                    if dialect.ended or dialect.failed:
                        short = False
                continue
            if type(item) is ServerSentEvent:
                self._event(item, out)
            else:
                self._stray_line(item, out)  # type: ignore[arg-type]
            short = not (self._stray or dialect.ended or dialect.failed)
        if out:
            self.fold.extend(out)
        return out

    def finish(self) -> list[Event]:
        """The body has ended. Recovers what lay unfinished, numbers the calls, and closes the notes."""
        out: list[Event] = []
        if self.finished:
            return out
        self.finished = True
        for item in self.parser.finish():
            if isinstance(item, StrayLine):
                self._stray_line(item, out)
            else:
                self._unterminated(item, out)
        self._bare(out, at_end=True)
        if not self.dialect.failed:
            self.dialect.finish(out)
        if self._first_stray is not None and not self._dispatched and not self.dialect.failed:
            line = self._first_stray
            self._note("stream.not-a-stream", line.at, line.length, _shown(line.line))
        self.fold.extend(out)
        self.fold.finish()
        return out

    @property
    def notes(self) -> list[Note]:
        """Notes so far, by place in the body."""
        return self.dialect.notes.in_order()

    def message(self) -> Message:
        """What the events so far add up to."""
        return self.fold.message(self.notes)

    def _note(self, code: str, at: int, length: int, detail: str = "") -> None:
        self.dialect.notes.add(code, at, length, detail)

    def _event(self, sse: ServerSentEvent, out: list[Event], via: str = "data") -> None:
        dialect = self.dialect
        self._dispatched = True
        if self._stray:
            self._bare(out)
        data = sse.data
        if data == dialect.marker:
            self._text(data, sse, out, via)
            return
        try:
            payload = decode_strict(data)
            if len(data) > SHALLOW:
                check_depth(data, payload)
        except STRICT_ERRORS:
            try:
                payload, problem = decode_tolerant(data)
            except Undecodable:
                if sse.lines and via == "data" and self._glued(sse, out):
                    return
                self._text(data, sse, out, via)
                return
            if problem:
                self._note(problem, sse.at, sse.length)
        if dialect.ended or dialect.failed:
            if not dialect.ended:
                dialect.after_error(payload, sse, out)
            self._after(data, sse)
            return
        before = len(out)
        if sse.event == "error":
            dialect.fail(payload, sse, out)
        else:
            dialect.read(payload, sse, out)
        if self.observer is not None:
            self.observer.payload(payload, sse, out[before:], via)

    def _text(self, data: bytes, sse: ServerSentEvent, out: list[Event], via: str) -> None:
        """Data that is no JSON: the end marker, an error told in plain text, or a note."""
        dialect = self.dialect
        before = len(out)
        is_marker = data.strip() == dialect.marker
        if dialect.ended or (dialect.failed and not is_marker):
            if dialect.ended and data.strip() == dialect.trailer:
                return
            if is_marker:
                self._note("end.marker-repeated", sse.at, sse.length)
            elif data.strip() == b"[DONE]":
                self._note("end.marker-foreign", sse.at, sse.length, "[DONE]")
            self._after(data, sse)
            return
        if is_marker:
            dialect.end(sse, out)
        elif data.strip() == b"[DONE]":
            self._note("end.marker-foreign", sse.at, sse.length, "[DONE]")
        elif sse.event == "error":
            dialect.fail(data.decode("utf-8", "replace"), sse, out)
        else:
            # RULES: milder in an event whose name the dialect does not know: readers skip it by its name.
            if sse.event and sse.event not in dialect.event_names and dialect.event_names:
                if "sse.data-not-json" not in dialect.notes.by_code:
                    self.milder.add("sse.data-not-json")
            else:
                self.milder.discard("sse.data-not-json")
            self._note("sse.data-not-json", sse.at, sse.length, _shown(data))
        if self.observer is not None:
            self.observer.text(data, sse, out[before:], via)

    def _after(self, data: bytes, sse: ServerSentEvent) -> None:
        code = "end.data-after-marker" if self.dialect.ended else "error.data-after"
        self._note(code, sse.at, sse.length, _shown(data))
        if self.observer is not None:
            self.observer.after(data, sse)

    def _glued(self, sse: ServerSentEvent, out: list[Event]) -> bool:
        """Events without the blank lines between them: each data line whole in itself. All must be, or none is read."""
        parts = self._data_lines(sse)
        if not all(self._readable(part.data) for part in parts):
            return False
        self._note("sse.events-glued", sse.at, sse.length, f"{len(parts)} events in one block")
        for part in parts:
            self._event(part, out, "glued")
        return True

    def _unterminated(self, sse: ServerSentEvent, out: list[Event]) -> None:
        """The last block lacks its blank line: whole data lines that decode are read and noted."""
        if self._readable(sse.data):
            parts = [sse]
        else:
            parts = self._data_lines(sse) if sse.lines else [sse]
        readable = []
        for part in parts:
            if self._readable(part.data):
                readable.append(part)
            else:
                self._note("stream.partial-event", part.at, part.length, _shown(part.data))
        if len(parts) > 1 and len(readable) > 1:
            self._note("sse.events-glued", sse.at, sse.length, f"{len(readable)} events in one block")
        if self.dialect.framing == "ndjson":  # the last line may go without its end
            for part in readable:
                self._event(part, out)
            return
        for part in readable:
            done = self.dialect.ended or self.dialect.failed
            if part.data.strip() == self.dialect.marker and (done or self.dialect.finished):
                self._note("end.marker-unterminated", part.at, part.length)
            elif not done:
                self._note("sse.last-event-unterminated", part.at, part.length, _shown(part.data))
            self._event(part, out, "unterminated")

    def _readable(self, data: bytes) -> bool:
        if data.strip() in (self.dialect.marker, self.dialect.trailer):
            return True
        try:
            return isinstance(decode(data), dict)
        except Undecodable:
            return False

    @staticmethod
    def _data_lines(sse: ServerSentEvent) -> list[ServerSentEvent]:
        """One event for each data line; the lines' values lie in `data`, joined by LF."""
        parts, start = [], 0
        for at, length in sse.lines:
            value = sse.data[start : start + length]
            start += length + 1
            if value.strip():
                parts.append(ServerSentEvent(value, sse.event, sse.id, at, length, (), sse.terminated))
        return parts

    def _stray_line(self, line: StrayLine, out: list[Event]) -> None:
        """A line no standard reader sees: an error told under an unknown field or as bare JSON is recovered."""
        if self._first_stray is None:
            self._first_stray = line
        name, _, value = line.line.partition(b":")
        if name == b"error" and not self._stray:
            try:
                payload = decode(value)
            except Undecodable:
                return
            if isinstance(payload, dict):
                self._recovered(payload, line, out, "field")
            return
        if b"data:" in line.line and (lost := self._swallowed(line.line)):
            self._note("sse.data-swallowed", line.at, line.length, _shown(lost))
        if (self._stray or line.line.lstrip()[:1] == b"{") and self._stray_bytes < BARE_LIMIT:
            self._stray.append(line)
            self._stray_bytes += line.length
            closes = line.line[:1] == b"}"
            self._stray_closings += closes
            if len(self._stray) == 1 or (closes and self._stray_closings <= BARE_CLOSINGS):
                self._bare(out, tentative=True)

    def _swallowed(self, line: bytes) -> bytes:
        """The payload of a data line that noise without a line end has made part of an unknown field, else b"".

        It is not read: no client has it. Before it stands what cannot be a field's name; or else, since an unknown
        field such as `metadata` is allowed, the payload must be one that tells something in this dialect.
        """
        at = line.find(b"data:", 1)
        for _ in range(SWALLOWED_TRIES):
            if at < 0:
                break
            before, data = line[:at], line[at + 5 :].removeprefix(b" ")
            if data.strip() == self.dialect.marker:
                return data
            try:
                payload = decode(data)
            except Undecodable:
                payload = None
            if isinstance(payload, dict) and payload and not _NAMED.fullmatch(before):
                return data if _NO_NAME.search(before) or self._tells(payload) else b""
            at = line.find(b"data:", at + 5)
        return b""

    def _tells(self, payload: dict[str, Any]) -> bool:
        """Whether a stream with this payload alone has content, or an end."""
        out: list[Event] = []
        type(self.dialect)().read(payload, ServerSentEvent(b"", "", "", 0, 0), out)
        return any(not isinstance(event, Unknown | Ping | Start | Usage | Error) for event in out)

    def _bare(self, out: list[Event], *, tentative: bool = False, at_end: bool = False) -> None:
        """Whether the stray lines kept make one JSON text; if it is an error object, it is read."""
        lines = self._stray
        if not lines:
            return
        first, last = lines[0], lines[-1]
        try:
            payload = decode(b"\n".join(line.line for line in lines))
        except Undecodable:
            if not tentative:
                self._drop_stray()
            return
        if tentative and not self._dispatched and isinstance(payload, dict) and only_a_message(payload):
            return  # it tells a failure if nothing more comes
        self._drop_stray()
        whole = StrayLine(b"", first.at, last.at + last.length - first.at)
        if isinstance(payload, dict) and not payload.get("choices") and (
            looks_like_error(payload) or (at_end and not self._dispatched and only_a_message(payload))
        ):
            self._recovered(payload, whole, out, "bare")
        elif at_end or not self._dispatched:
            self._note("stream.not-a-stream", whole.at, whole.length, "one JSON body")

    def _drop_stray(self) -> None:
        self._stray, self._stray_bytes, self._stray_closings = [], 0, 0

    def _recovered(self, payload: dict[str, Any], line: StrayLine, out: list[Event], via: str) -> None:
        sse = ServerSentEvent(b"", "error", "", line.at, line.length, (), line.terminated)
        if self.dialect.ended or self.dialect.failed:
            self._after(b"", sse)
            return
        before = len(out)
        self.dialect.fail(payload, sse, out)
        if self.observer is not None:
            self.observer.payload(payload, sse, out[before:], via)


def _shown(data: bytes) -> str:
    """The first 80 characters of the data, for a note."""
    return data[:80].decode("utf-8", "replace")


def reduce(body: bytes, dialect: str = "chat") -> Reducer:
    """Reduce a whole body; `.message()` of the returned Reducer is what it adds up to, `.notes` what is odd about it.

    Nothing in a body raises. Raises UsageError: no such dialect.
    """
    reducer = Reducer(dialect)
    reducer.feed(body)
    reducer.finish()
    return reducer


def events_of(body: bytes, dialect: str = "chat") -> list[Event]:
    """All events of a body, in order of their bytes. Indexes of calls are final. Raises UsageError: no such dialect."""
    reducer = Reducer(dialect)
    return reducer.feed(body) + reducer.finish()
