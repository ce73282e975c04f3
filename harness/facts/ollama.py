"""Facts of an Ollama stream (/api/chat and /api/generate): members of a line, calls, the done line and its counts.

Source: RULES, sections 1 and 3. The documented form is docs.ollama.com (api/chat, api/generate, api/streaming); what
raises was tried on Ollama's Python client 0.6.
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.asked import Asked
from harness.dialects.base import JSON_TYPES
from harness.dialects.ollama import METRICS
from harness.events import Event, Reasoning, Text, ToolCall
from harness.facts.counted import CountedFacts
from harness.jsontext import as_text
from harness.message import Message
from harness.sse import ServerSentEvent


class OllamaFacts(CountedFacts):
    """Watches one answer."""

    documented_finish: ClassVar[frozenset[str]] = frozenset({"stop", "length", "load", "unload"})
    stop_means_calls: ClassVar[bool] = True
    object_arguments: ClassVar[bool] = True
    base_counters: ClassVar[tuple[str, ...]] = ("prompt_eval_count", "eval_count")

    def __init__(self) -> None:
        super().__init__()
        self.form = ""  # chat or generate
        self.text_seen = self.thinking_seen = self.reasoned = False
        self.opened: Any = None  # created_at of the first line
        self.moved_on = False  # whether a line had another one

    def media_types(self) -> tuple[str, ...]:
        return ("application/x-ndjson",)

    def end_name(self) -> str:
        return "done: true"

    def whole_call(self, fragment: ToolCall) -> None:
        """Each entry of tool_calls is a whole call, as documented."""

    def chunk(self, payload: dict[str, Any], sse: ServerSentEvent, events: list[Event]) -> None:
        created = payload.get("created_at")
        if not created:
            pass
        elif created != self.opened:
            self.moved_on = self.opened is not None
            self.opened = self.opened or created
        elif self.moved_on and any(type(event) in (Text, ToolCall, Reasoning) for event in events):
            # Time runs on, and says so to the nanosecond. An end without content may tell when the answer began.
            self.note("stream.restarted", sse.at, sse.length, f"created_at is {as_text(created)[:60]} again")
        message = payload.get("message")
        if type(message) is dict:
            if not self.form:
                self.form = "chat"
                self.where["ollama.form"] = (sse.at, sse.length)
            if not message.get("role"):
                self._member("a message has no role", sse)
        elif self.form == "chat":
            self._member("a line has no message", sse)
        elif "response" in payload:
            self.form = "generate"
        kind = type(events[-1]) if events else None
        if kind is Text:
            if not self.text_seen:
                self.text_seen = True
                self.where["text"] = (sse.at, sse.length)
        elif kind is Reasoning and not self.thinking_seen:
            self.thinking_seen = True
            self.member("reasoning.field", "thinking", (sse.at, sse.length))
        if (kind is not Text and kind is not Reasoning) or payload.get("done") is not False or len(payload) > 4:
            self._more(payload, message if type(message) is dict else {}, sse, events)

    def _more(
        self, payload: dict[str, Any], message: dict[str, Any], sse: ServerSentEvent, events: list[Event]
    ) -> None:  # fmt: skip
        """What a line has beside a piece of text or thinking."""
        place = (sse.at, sse.length)
        calls = message.get("tool_calls")
        for call in calls if type(calls) is list else ():
            if type(call) is dict:
                self._call(call, sse)
        if payload.get("logprobs"):
            self.logprobs = True
            self.where.setdefault("logprobs", place)
        reason = payload.get("done_reason")
        if self.count({name: payload[name] for name in METRICS if name in payload}, place):
            self.member("usage.position", "done" if reason or payload.get("done") is True else "line", place)
        if reason and not self.reasoned:
            self.reasoned = True
            kinds = {type(event) for event in events}
            where = "with-call" if ToolCall in kinds else "with-text" if Text in kinds else "alone"
            self.member("finish.place", where, place)
            if where == "with-text":
                self.note("finish.with-content", *place)
        elif self.reasoned and any(type(event) is Text or type(event) is ToolCall for event in events):
            self.note("finish.content-after", *place)

    def _call(self, call: dict[str, Any], sse: ServerSentEvent) -> None:
        place = (sse.at, sse.length)
        function = call.get("function")
        function = function if type(function) is dict else call
        arguments = function.get("arguments")
        form = JSON_TYPES.get(type(arguments), "other") if "arguments" in function else "absent"
        self.member("tool.arguments-type", form, place)
        self.member("tool.id.first", "string" if call.get("id") else "absent", place)
        if arguments is None:
            self._member("a call has no arguments", sse)

    def _member(self, what: str, sse: ServerSentEvent) -> None:
        self.note("ollama.message-members", sse.at, sse.length, what)

    def after(self, data: bytes, sse: ServerSentEvent) -> None:
        if not self.error_seen and data.strip() != b"[DONE]":
            self.note("ollama.data-after-done", sse.at, sse.length, data[:80].decode("utf-8", "replace"))

    def closing(self, message: Message, asked: Asked | None) -> None:
        self.close_usage()
        if self.form:
            self.fact("ollama.form", self.form)
            for code in ("ollama.call-in-done", "ollama.data-after-done"):
                self.fact(code, code in self.notes)
