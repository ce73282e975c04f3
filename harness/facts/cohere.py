"""Facts of a Cohere Chat (version 2) stream: what is opened and closed, how calls come, where the counts are.

Source: RULES, section 1, the lifecycle by analogy with Anthropic's; the documented form is
docs.cohere.com/v2/docs/streaming. Cohere's SDK accumulates nothing and goes by the payload's type; what other readers
make of a missing start or end was read off the cohere provider of Vercel's AI SDK.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from harness.asked import Asked
from harness.events import Event, Reasoning, Text, Unknown
from harness.facts.base import Place
from harness.facts.counted import CountedFacts
from harness.findings import Severity
from harness.jsontext import as_text
from harness.message import Message
from harness.sse import ServerSentEvent

CALL, CONTENT = "tool call", "content"
Key = tuple[str, Any]  # what is open: its kind, and its index as sent


class CohereFacts(CountedFacts):
    """Watches one message."""

    documented_finish: ClassVar[frozenset[str]] = frozenset(
        {"COMPLETE", "STOP_SEQUENCE", "MAX_TOKENS", "TOOL_CALL", "ERROR", "TIMEOUT"}
    )
    base_counters: ClassVar[tuple[str, ...]] = ("tokens/input_tokens", "tokens/output_tokens")

    def __init__(self) -> None:
        super().__init__()
        self.start = ""  # first, late or "" so far
        self.open: dict[Key, Place] = {}
        self.text_seen = self.thinking_seen = False

    def end_name(self) -> str:
        return "message-end"

    def error_delivery(self, payload: dict[str, Any], delivery: str) -> str:
        return "terminal-event" if self.nested_error(payload) else delivery

    def nested_error(self, payload: dict[str, Any]) -> Any:
        """A failure stands in message-end: its text under `error`."""
        delta = payload.get("delta")
        return delta.get("error") if type(delta) is dict else None

    def chunk(self, payload: dict[str, Any], sse: ServerSentEvent, events: list[Event]) -> None:
        kind = payload.get("type")
        if kind != sse.event:
            if not kind:
                # The SDK tells events apart by it: a delta without one is read as a start, and its text is lost.
                kind = sse.event
                if kind in READERS:
                    self.note("cohere.type-missing", sse.at, sse.length, kind)
            elif sse.event:
                shown = kind if type(kind) is str else as_text(kind)
                if shown in READERS or sse.event in READERS:
                    self.note("sse.event-name-differs", sse.at, sse.length, f"{sse.event}, {shown}")
        reader = READERS.get(kind) if type(kind) is str else None
        if reader is not None:
            self.where.setdefault("cohere.start", (sse.at, sse.length))
            reader(self, payload, (sse.at, sse.length), events)
            if not self.start:
                self.start = "late"
                self.note("cohere.start-missing", sse.at, sse.length, f"first comes {kind}")
        if events:
            first = events[0]
            if type(first) is Unknown:
                self.note("cohere.unknown-event", sse.at, sse.length, first.name)
            elif type(first) is Text and not self.text_seen:
                self.text_seen = True
                self.where["text"] = (sse.at, sse.length)

    def _message_start(self, payload: dict[str, Any], place: Place, events: list[Event]) -> None:
        if self.start == "first":
            self.note("stream.restarted", *place, "message-start comes twice")
        self.start = self.start or "first"

    # -- contents and calls ---------------------------------------------------------------------------------------

    def _opens(self, kind: str, payload: dict[str, Any], place: Place) -> None:
        key = (kind, _index(payload))
        if key in self.open:
            self.note("cohere.not-ended", *self.open[key], _named(key))
        elif kind is CALL:
            other = next((other for other in self.open if other[0] is CALL), None)
            if other is not None:
                self.note("cohere.calls-overlap", *place, f"{_named(key)} starts while {_named(other)} is open")
        self.open[key] = place

    def _goes_on(self, kind: str, payload: dict[str, Any], place: Place) -> None:
        key = (kind, _index(payload))
        if key not in self.open and (key[1] is not None or not any(other[0] is kind for other in self.open)):
            self.note("cohere.not-open", *place, _named(key))

    def _content_start(self, payload: dict[str, Any], place: Place, events: list[Event]) -> None:
        self._opens(CONTENT, payload, place)

    def _content_delta(self, payload: dict[str, Any], place: Place, events: list[Event]) -> None:
        self._goes_on(CONTENT, payload, place)
        if payload.get("logprobs"):
            self.logprobs = True
            self.where.setdefault("logprobs", place)
        # A plan before calls is a channel of its own: whether the model plans or thinks is its choice.
        if not self.thinking_seen and events and type(events[0]) is Reasoning:
            self.thinking_seen = True
            self.member("reasoning.field", "thinking", place)

    def _call_start(self, payload: dict[str, Any], place: Place, events: list[Event]) -> None:
        self._opens(CALL, payload, place)
        self.member("tool.index", "present" if type(payload.get("index")) is int else "absent", place)
        calls = _calls(payload)
        if type(calls) is list:
            self.note("cohere.calls-list", *place)
        for call in calls if type(calls) is list else [calls]:
            if type(call) is not dict:
                continue
            function = call.get("function")
            function = function if type(function) is dict else call
            for name, holder in (("id", call), ("name", function)):
                value = holder.get(name)
                form = "string" if value else "empty" if value == "" else "null" if name in holder else "absent"
                self.member(f"tool.{name}.first", form, place)

    def _call_delta(self, payload: dict[str, Any], place: Place, events: list[Event]) -> None:
        self._goes_on(CALL, payload, place)

    def _content_end(self, payload: dict[str, Any], place: Place, events: list[Event]) -> None:
        self._ends(CONTENT, payload, place)

    def _call_end(self, payload: dict[str, Any], place: Place, events: list[Event]) -> None:
        self._ends(CALL, payload, place)

    def _ends(self, kind: str, payload: dict[str, Any], place: Place) -> None:
        self._goes_on(kind, payload, place)
        wire = _index(payload)
        for key in [key for key in self.open if key[0] is kind and wire in (None, key[1])]:
            del self.open[key]

    # -- the end --------------------------------------------------------------------------------------------------

    def _message_end(self, payload: dict[str, Any], place: Place, events: list[Event]) -> None:
        for key, opened in self.open.items():
            self.note("cohere.not-ended", *opened, _named(key))
        delta = payload.get("delta")
        delta = delta if type(delta) is dict else {}
        if delta.get("finish_reason"):
            self.member("finish.place", "alone", place)
        if self.count(delta.get("usage"), place):
            self.member("usage.position", "message-end", place)

    def _other(self, payload: dict[str, Any], place: Place, events: list[Event]) -> None:
        """Plans and citations are open to nothing and close nothing."""

    def closing(self, message: Message, asked: Asked | None) -> None:
        self.close_usage()
        if "tool.id-missing" in self.notes:
            self.grades["tool.id-missing"] = Severity.FATAL  # the SDK skips the start of such a call
        if self.start:
            self.fact("cohere.start", self.start)
            for fact, code in (("ended", "cohere.not-ended"), ("opened", "cohere.not-open")):
                self.fact(f"cohere.{fact}", code not in self.notes)
            self.fact("cohere.overlap", "cohere.calls-overlap" in self.notes)


def _index(payload: dict[str, Any]) -> Any:
    wire = payload.get("index")
    return wire if wire is None or type(wire) is int else as_text(wire)


def _named(key: Key) -> str:
    return key[0] if key[1] is None else f"{key[0]} {key[1]}"


def _calls(payload: dict[str, Any]) -> Any:
    """What stands for the call of an event: one object, as documented, or whatever else was sent."""
    delta = payload.get("delta")
    message = delta.get("message") if type(delta) is dict else None
    return message.get("tool_calls") if type(message) is dict else None


READERS: dict[str, Callable[[CohereFacts, dict[str, Any], Place, list[Event]], None]] = {
    "message-start": CohereFacts._message_start,
    "content-start": CohereFacts._content_start,
    "content-delta": CohereFacts._content_delta,
    "content-end": CohereFacts._content_end,
    "tool-plan-delta": CohereFacts._other,
    "tool-call-start": CohereFacts._call_start,
    "tool-call-delta": CohereFacts._call_delta,
    "tool-call-end": CohereFacts._call_end,
    "citation-start": CohereFacts._other,
    "citation-end": CohereFacts._other,
    "message-end": CohereFacts._message_end,
}
