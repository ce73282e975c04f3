"""Cohere Chat, version 2.

Source: "A Guide to Streaming Responses" and "Streaming for tool use" (docs.cohere.com/v2/docs/streaming,
/docs/tool-use-streaming), and `V2ChatStreamResponse` of Cohere's Python SDK 7.3.

Events: message-start, content-start, content-delta, content-end, tool-plan-delta, tool-call-start, tool-call-delta,
tool-call-end, citation-start, citation-end, message-end, debug. Finish reasons: COMPLETE, STOP_SEQUENCE, MAX_TOKENS,
TOOL_CALL, ERROR, TIMEOUT. The server sends `[DONE]` after message-end, which is the end; it is in no documentation.

`tool_plan` is reasoning, and the counts are those under `tokens`, not the billed units (cases/README, rule 10). A
failure stands in message-end: `error` is its text, `error_type` its type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from harness.dialects.base import Dialect, as_string, integer, looks_like_error, only_a_message
from harness.dialects.chat import FINISH as COMMON_FINISH
from harness.events import End, Event, Finish, Item, Reasoning, Start, Text, ToolCall, Unknown, Usage
from harness.jsontext import as_text
from harness.sse import ServerSentEvent

FINISH = {
    **COMMON_FINISH, "COMPLETE": "stop", "STOP_SEQUENCE": "stop", "MAX_TOKENS": "length", "TOOL_CALL": "tool_calls",
    "ERROR": "error", "TIMEOUT": "error",
}  # fmt: skip
CONTENT: dict[str, type[Text] | type[Reasoning]] = {"text": Text, "thinking": Reasoning}


class Cohere(Dialect):
    """Reads one message. There is one choice, 0; calls are found by the index of their event."""

    name: ClassVar[str] = "cohere"
    trailer: ClassVar[bytes | None] = b"[DONE]"
    event_names: ClassVar[frozenset[str]] = frozenset({
        "message-start", "content-start", "content-delta", "content-end", "tool-plan-delta", "tool-call-start",
        "tool-call-delta", "tool-call-end", "citation-start", "citation-end", "message-end", "debug",
    })  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[Any, int] = {}  # index as sent -> ours
        self.ids: dict[Any, str] = {}
        self.last: tuple[int, Any] | None = None  # our index and the wire's of the call opened last
        self.opened = 0

    def read(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        if type(payload) is not dict:
            self.notes.add("sse.data-not-object", sse.at, sse.length, as_text(payload)[:80])
            return
        kind = payload.get("type") or sse.event
        reader = READERS.get(kind) if type(kind) is str else None
        if reader is not None:
            delta = payload.get("delta")
            message = delta.get("message") if type(delta) is dict else None
            reader(self, payload, message if type(message) is dict else {}, sse, out)
        elif (
            payload.get("error")
            or looks_like_error({key: payload[key] for key in payload if key != "type"})
            or (not kind and only_a_message(payload))
        ):
            self.fail(payload, sse, out)
        else:
            out.append(Unknown(as_string(kind) or "payload", payload, sse.at, sse.length))

    def _message_start(
        self, payload: dict[str, Any], message: dict[str, Any], sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        out.append(Start(as_string(payload.get("id")), None, as_string(message.get("role")), sse.at, sse.length))

    def _content_start(
        self, payload: dict[str, Any], message: dict[str, Any], sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        out.append(Item(0, "content", "start", None, payload, sse.at, sse.length))
        if message.get("content"):
            self._content(payload, message, sse, out)

    def _content(
        self, payload: dict[str, Any], message: dict[str, Any], sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        content = message.get("content")
        if type(content) is not dict:
            out.append(Unknown("content-delta", payload, sse.at, sse.length))
            return
        for key, value in content.items():
            event = CONTENT.get(key)
            if event is not None:
                self._piece(key, event, value, sse, out)
            elif key != "type" and value is not None:
                out.append(Unknown(f"content.{key}", value, sse.at, sse.length))

    def _plan(
        self, payload: dict[str, Any], message: dict[str, Any], sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        self._piece("tool_plan", Reasoning, message.get("tool_plan"), sse, out)

    def _piece(
        self, name: str, event: type[Text] | type[Reasoning], text: Any, sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        if type(text) is str:
            if text:
                out.append(event(0, text, False, sse.at, sse.length))
        elif text is not None:
            self.notes.add("text.not-a-string", sse.at, sse.length, f"{name} is {as_text(text)[:60]}")
            out.append(Unknown(name, text, sse.at, sse.length))

    def _call_start(
        self, payload: dict[str, Any], message: dict[str, Any], sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        self._call(payload, message, sse, out, opens=True)

    def _call_delta(
        self, payload: dict[str, Any], message: dict[str, Any], sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        self._call(payload, message, sse, out, opens=False)

    def _call(
        self, payload: dict[str, Any], message: dict[str, Any], sse: ServerSentEvent, out: list[Event], *, opens: bool
    ) -> None:  # fmt: skip
        """A start always opens a call. A delta goes to the call of its index; without one, to the call opened last."""
        entries = message.get("tool_calls")
        wire = payload.get("index")
        for entry in entries if type(entries) is list else [entries]:
            if type(entry) is not dict:
                out.append(Unknown("tool-call-start" if opens else "tool-call-delta", payload, sse.at, sse.length))
                continue
            function = entry.get("function")
            if type(function) is not dict:
                function = entry  # fields one level up: what is there belongs to the call all the same
            call_id, arguments = as_string(entry.get("id")), function.get("arguments")
            if arguments is not None and type(arguments) is not str:
                self.notes.add("tool.arguments-object", sse.at, sse.length, as_text(arguments)[:80])
                arguments = as_text(arguments)
            index, sent = self._slot(wire, call_id, opens, sse)
            out.append(ToolCall(0, index, sent, call_id, as_string(function.get("name")), arguments, False,
                                sse.at, sse.length))  # fmt: skip

    def _slot(self, wire: Any, call_id: str | None, opens: bool, sse: ServerSentEvent) -> tuple[int, Any]:
        """Our index of the call, and the index on the wire."""
        number = integer(wire)
        key = as_text(wire) if number is None else number
        if not opens:
            if wire is None and self.last is not None:
                return self.last
            if key in self.calls:
                return self.calls[key], wire
        elif wire is not None and key in self.calls:
            detail = f"index {as_text(wire)}: {self.ids.get(key)!r}, {call_id!r}"
            self.notes.add("tool.index-reused", sse.at, sse.length, detail)
        index = self.opened
        self.opened += 1
        self.calls[key], self.ids[key] = index, call_id or ""
        self.last = (index, wire)
        return self.last

    def _item(
        self, payload: dict[str, Any], message: dict[str, Any], sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        kind = payload.get("type") or sse.event
        name, _, phase = kind.rpartition("-")
        out.append(Item(0, name or kind, {"end": "stop", "start": "start"}.get(phase, "whole"), None, payload,
                        sse.at, sse.length))  # fmt: skip

    def _message_end(
        self, payload: dict[str, Any], message: dict[str, Any], sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        at, length = sse.at, sse.length
        delta = payload.get("delta")
        if type(delta) is not dict:
            delta = {}
        reason = delta.get("finish_reason")
        if reason:
            raw = reason if type(reason) is str else as_text(reason)
            self.finished = True
            out.append(Finish(0, FINISH.get(raw, "other"), raw, at, length))
        usage = delta.get("usage")
        if type(usage) is dict and usage:
            tokens = usage.get("tokens")
            counts = tokens if type(tokens) is dict else {}
            out.append(Usage(integer(counts.get("input_tokens")), integer(counts.get("output_tokens")), usage,
                             at, length))  # fmt: skip
        if delta.get("error") or payload.get("error"):
            self.fail(delta if delta.get("error") else payload, sse, out)
        self.ended = True
        out.append(End("message-end", at, length))


READERS: dict[str, Callable[[Cohere, dict[str, Any], dict[str, Any], ServerSentEvent, list[Event]], None]] = {
    "message-start": Cohere._message_start,
    "content-start": Cohere._content_start,
    "content-delta": Cohere._content,
    "content-end": Cohere._item,
    "tool-plan-delta": Cohere._plan,
    "tool-call-start": Cohere._call_start,
    "tool-call-delta": Cohere._call_delta,
    "tool-call-end": Cohere._item,
    "citation-start": Cohere._item,
    "citation-end": Cohere._item,
    "debug": Cohere._item,
    "message-end": Cohere._message_end,
}
