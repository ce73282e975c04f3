"""Facts of a Gemini stream: candidates, how arguments come, when it finishes, where the counts are.

Source: RULES, sections 1 and 3. The documented form is ai.google.dev/api/generate-content: a finish reason beside the
last text, CRLF and a usageMetadata that grows from chunk to chunk belong to it. There is no end marker.
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.asked import Asked
from harness.dialects.base import JSON_TYPES
from harness.dialects.gemini import FINISH
from harness.events import Event, Finish, Item, Reasoning, Text, ToolCall
from harness.facts.counted import CountedFacts
from harness.jsontext import as_text
from harness.message import Message
from harness.sse import ServerSentEvent

# Failures that have no normal form: the model's call was thrown away.
FAILURES = frozenset({"UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"})
CONTENT = frozenset({"inlineData", "fileData", "executableCode", "codeExecutionResult", "functionResponse"})
FORMS = {type(None): "null", list: "list"}


class GeminiFacts(CountedFacts):
    """Watches one response; candidates are choices."""

    documented_finish: ClassVar[frozenset[str]] = frozenset({
        "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "LANGUAGE", "OTHER", "NO_IMAGE", "IMAGE_OTHER",
        "MALFORMED_FUNCTION_CALL", "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "PUP_LIMITED_DISABLED",
        *FAILURES, *(reason for reason in FINISH if reason.isupper()),
    })  # fmt: skip
    documented_endings: ClassVar[frozenset[str]] = frozenset({"lf", "crlf"})
    due_marker: ClassVar[bool] = False
    stop_means_calls: ClassVar[bool] = True
    object_arguments: ClassVar[bool] = True
    running_total: ClassVar[bool] = True
    base_counters: ClassVar[tuple[str, ...]] = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")

    def __init__(self) -> None:
        super().__init__()
        self.finished: set[int] = set()  # candidates with a reason in an earlier chunk
        self.forms: set[str] = set()
        self.usage_last = False  # whether the chunk read last has counts
        self.opening: tuple[bytes, Any] | None = None  # the first chunk, and its responseId
        self.held = 0  # chunks under that id
        self.output = 0  # candidatesTokenCount so far, a running total

    def whole_call(self, fragment: ToolCall) -> None:
        """Each functionCall is a whole call, as documented."""

    def chunk(self, payload: dict[str, Any], sse: ServerSentEvent, events: list[Event]) -> None:
        place = (sse.at, sse.length)
        candidates = payload.get("candidates")
        form = "absent" if "candidates" not in payload else FORMS.get(type(candidates), "other")
        if candidates == []:
            form = "empty"
        if form not in self.forms:
            self.forms.add(form)
            self.member("gemini.candidates", form, place)
            if form == "other":
                self.note("gemini.list-wrong-type", *place, f"candidates is {as_text(candidates)[:60]}")
        carried: dict[int, str] = {}
        for event in events:
            kind = type(event)
            if kind is Text or kind is Reasoning or kind is ToolCall:
                self._content(event, carried, place)
            elif kind is Item and event.item_type in CONTENT:  # type: ignore[union-attr]
                self.content_seen = True
        for position, candidate in enumerate(candidates if type(candidates) is list else ()):
            if type(candidate) is dict:
                number = candidate.get("index")
                self._candidate(number if type(number) is int else position, candidate, carried, sse)
        usage = payload.get("usageMetadata")
        self.usage_last = self.count(usage, place)
        self._restart(payload, usage if type(usage) is dict else {}, sse)

    def _restart(self, payload: dict[str, Any], usage: dict[Any, Any], sse: ServerSentEvent) -> None:
        """A running total that falls, on the first chunk come again or under another responseId: a second answer.

        It alone proves nothing: a relay may count each chunk by itself, and name each by an id of its own. So an id
        tells only if the first one had held over several chunks.
        """
        if self.opening is None:
            self.opening = sse.data, payload.get("responseId")
        same = payload.get("responseId") == self.opening[1]
        self.held += same
        output = usage.get("candidatesTokenCount")
        if type(output) is not int or output < 0:
            return
        if output < self.output and (sse.data == self.opening[0] or not (same or self.held < 2)):
            shown = f"candidatesTokenCount falls from {self.output} to {output}" if self.output < 10**9 else ""
            self.note("stream.restarted", sse.at, sse.length, shown)
        self.output = output

    def _content(self, event: Any, carried: dict[int, str], place: tuple[int, int]) -> None:
        kind = type(event)
        if kind is ToolCall:
            carried[event.choice] = "with-call"
        elif kind is Text:
            carried.setdefault(event.choice, "with-text")
            self.where.setdefault("text", place)
        elif "reasoning" not in self.tree:
            self.member("reasoning.field", "thought", place)
        if event.choice in self.finished:
            self.note("finish.content-after", *place)

    def _candidate(self, number: int, candidate: dict[str, Any], carried: dict[int, str], sse: ServerSentEvent) -> None:
        place = (sse.at, sse.length)
        if candidate.get("logprobsResult"):
            self.logprobs = True
            self.where.setdefault("logprobs", place)
        content = candidate.get("content")
        parts = content.get("parts") if type(content) is dict else None
        if type(parts) is list:
            if carried.get(number) == "with-call":
                self._calls(parts, place)
        elif parts is not None:
            self.note("gemini.list-wrong-type", *place, f"parts is {as_text(parts)[:60]}")
        reason = candidate.get("finishReason")
        if reason:
            if number not in self.finished:
                self.member("finish.place", carried.get(number, "alone"), place)
            self.finished.add(number)
        elif reason == "":
            self.note("finish.empty-string", *place)

    def _calls(self, parts: list[Any], place: tuple[int, int]) -> None:
        for part in parts:
            call = part.get("functionCall") if type(part) is dict else None
            if type(call) is not dict:
                continue
            if "partialArgs" in call or "willContinue" in call:
                form = "pieces"
            else:
                form = JSON_TYPES.get(type(call.get("args")), "other") if "args" in call else "absent"
            self.member("tool.arguments-type", form, place)
            self.member("tool.id.first", "string" if call.get("id") else "absent", place)

    def _reason(self, event: Finish, sse: ServerSentEvent) -> None:
        reasons = self.reasons.get(event.choice)
        if reasons and reasons[-1] == ("stop", event.raw) and event.reason == "tool_calls":
            reasons[-1] = (event.reason, event.raw)  # the dialect tells the one reason again: a call came after it
            return
        super()._reason(event, sse)
        if event.raw in FAILURES:
            self.note("error.finish-reason", sse.at, sse.length, event.raw)

    def closing(self, message: Message, asked: Asked | None) -> None:
        self.close_usage()
        if self.usage_place is not None:
            self.member("usage.position", "last" if self.usage_last else "not-last", self.usage_place)
        if self.reasons:
            repeated = any(len(reasons) > 1 for reasons in self.reasons.values())
            self.fact("finish.times", "repeated" if repeated else "once")
        if message.terminal == "finish":
            for choice in message.choices:
                if choice.choice not in self.reasons:
                    self.note("finish.missing", self.last_at, 0, f" in candidate {choice.choice}")
