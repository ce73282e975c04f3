"""Ollama's own API: /api/chat, and /api/generate, which has `response` where chat has `message`. One object a line.

Source: docs.ollama.com (api/chat, api/generate, api/streaming, api/errors) and the types of Ollama's Python client.

Members of a line: model, created_at, message {role, content, thinking, images, tool_calls, tool_name}, logprobs, done,
done_reason (stop, length, load, unload), total_duration, load_duration, prompt_eval_count, prompt_eval_duration,
eval_count, eval_duration; generate: response, thinking, context, image, completed, total; a failure: error.

Arguments are an object by design, and each entry of tool_calls is a whole call. There is no tool reason: a stop with
calls is tool_calls (cases/README). A line with `done: true` is the end.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from harness.dialects.base import Dialect, as_string, integer, looks_like_error, only_a_message
from harness.dialects.chat import FINISH
from harness.events import End, Event, Finish, Item, Reasoning, Start, Text, ToolCall, Unknown, Usage
from harness.jsontext import as_text
from harness.sse import ServerSentEvent

COUNTERS = ("prompt_eval_count", "eval_count")
METRICS = (*COUNTERS, "total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
MEMBERS = frozenset({"message", "response", "thinking", "done", "done_reason", "image", "completed", *COUNTERS})


class Ollama(Dialect):
    """Reads one answer. There is one choice, 0."""

    name: ClassVar[str] = "ollama"
    framing: ClassVar[Literal["sse", "ndjson"]] = "ndjson"

    def __init__(self) -> None:
        super().__init__()
        self.started = False
        self.calls = 0

    def read(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        if type(payload) is not dict:
            self.notes.add("sse.data-not-object", sse.at, sse.length, as_text(payload)[:80])
            return
        message = payload.get("message")
        done = payload.get("done") is True
        if type(message) is dict:
            if not self.started:
                self._start(payload, message, sse, out)
            content = message.get("content")
            if type(content) is str:
                if content:
                    out.append(Text(0, content, False, sse.at, sse.length))
            elif content is not None:
                self._not_text("content", content, sse, out)
            if len(message) > 2 or "content" not in message or "role" not in message:
                self._more(message, done, sse, out)
        elif not self._generated(payload, sse, out):
            return
        if payload.get("error"):
            self.fail(payload, sse, out)
        elif done or "eval_count" in payload or "done_reason" in payload or "prompt_eval_count" in payload:
            self._done(payload, done, sse, out)

    def _generated(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> bool:
        """A line without a message: of /api/generate, or an error, or unknown (false: nothing more to read)."""
        failed = looks_like_error(payload) or only_a_message(payload)  # every line of an answer names its model
        if MEMBERS.isdisjoint(payload) or (failed and isinstance(payload.get("message"), str)):
            if failed:
                self.fail(payload, sse, out)
            else:
                out.append(Unknown(sse.event or "line", payload, sse.at, sse.length))
            return False
        if not self.started and "model" in payload:
            self._start(payload, {}, sse, out)
        if payload.get("message") is not None:
            out.append(Unknown("message", payload["message"], sse.at, sse.length))
        response, thinking = payload.get("response"), payload.get("thinking")
        if thinking is not None:
            self._thinking(thinking, sse, out)
        if type(response) is str:
            if response:
                out.append(Text(0, response, False, sse.at, sse.length))
        elif response is not None:
            self._not_text("response", response, sse, out)
        for name in ("image", "completed"):
            if payload.get(name) is not None:
                out.append(Item(0, name, "whole", None, payload[name], sse.at, sse.length))
        return True

    def _start(
        self, payload: dict[str, Any], message: dict[str, Any], sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        self.started = True
        out.append(Start(None, as_string(payload.get("model")), as_string(message.get("role")), sse.at, sse.length))

    def _more(self, message: dict[str, Any], done: bool, sse: ServerSentEvent, out: list[Event]) -> None:
        """What a message has beside role and content."""
        for key, value in message.items():
            if not value or key == "content" or key == "role":
                continue
            if key == "thinking":
                self._thinking(value, sse, out)
            elif key == "tool_calls":
                if done:
                    self.notes.add("ollama.call-in-done", sse.at, sse.length)
                self._calls(value, sse, out)
            elif key == "images":
                out.append(Item(0, "images", "whole", None, value, sse.at, sse.length))
            elif key != "tool_name":
                out.append(Unknown(f"message.{key}", value, sse.at, sse.length))

    def _thinking(self, value: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        if type(value) is not str:
            self._not_text("thinking", value, sse, out)
        elif value:
            out.append(Reasoning(0, value, False, sse.at, sse.length))

    def _not_text(self, name: str, value: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        self.notes.add("text.not-a-string", sse.at, sse.length, f"{name} is {as_text(value)[:60]}")
        out.append(Unknown(name, value, sse.at, sse.length))

    def _calls(self, value: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        if type(value) is not list:
            self.notes.add("tool.list-wrong-type", sse.at, sse.length, as_text(value)[:80])
            value = [value]
        for entry in value:
            if type(entry) is not dict:
                out.append(Unknown("tool_calls[]", entry, sse.at, sse.length))
                continue
            function = entry.get("function")
            if type(function) is not dict:
                function = entry  # fields one level up: what is there belongs to the call all the same
            arguments = function.get("arguments")
            if type(arguments) is str:
                self.notes.add("ollama.arguments-string", sse.at, sse.length, arguments[:80])
            else:
                arguments = "{}" if arguments is None else as_text(arguments)
            out.append(ToolCall(0, self.calls, function.get("index"), as_string(entry.get("id")),
                                as_string(function.get("name")), arguments, False, sse.at, sse.length))  # fmt: skip
            self.calls += 1

    def _done(self, payload: dict[str, Any], done: bool, sse: ServerSentEvent, out: list[Event]) -> None:
        reason = payload.get("done_reason")
        if reason:
            raw = reason if type(reason) is str else as_text(reason)
            self.finished = True
            normal = FINISH.get(raw, "other")
            out.append(Finish(0, "tool_calls" if normal == "stop" and self.calls else normal, raw, sse.at, sse.length))
        if any(payload.get(name) is not None for name in COUNTERS):
            raw_usage = {name: payload[name] for name in METRICS if name in payload}
            out.append(Usage(integer(payload.get("prompt_eval_count")), integer(payload.get("eval_count")), raw_usage,
                             sse.at, sse.length))  # fmt: skip
        if done:
            self.ended = True
            out.append(End("done", sse.at, sse.length))
