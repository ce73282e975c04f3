"""Gemini: streamGenerateContent with alt=sse, of the Gemini API and of Vertex AI.

Source: ai.google.dev/api/generate-content, Vertex AI's GenerateContentResponse and FunctionCall references, and the
types of Google's Gen AI Python SDK 3.6.

A payload: candidates, promptFeedback {blockReason, safetyRatings}, usageMetadata, modelVersion, responseId, createTime,
modelStatus; or error {code, message, status, details}. A candidate: content {role, parts}, finishReason, index, and
what is in PLAIN and ITEMS. A part: text (thinking if `thought`), functionCall {id, name, args, partialArgs,
willContinue}, and what is in PARTS. Finish and block reasons: FINISH; those not listed there (OTHER, LANGUAGE,
NO_IMAGE, IMAGE_OTHER, UNEXPECTED_TOOL_CALL, TOO_MANY_TOOL_CALLS, PUP_LIMITED_DISABLED) have no normal form.

There is no end marker: a finish reason, then the end of the body. There is no tool reason: a plain stop with calls is
tool_calls. Arguments are an object by design; each functionCall is a call of its own (cases/README; case 098), but for
one that Vertex streams in pieces (`streamFunctionCallArguments`): its arguments are put together from JSON paths.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from harness.dialects.base import Dialect, as_string, integer, looks_like_error
from harness.dialects.chat import FINISH as COMMON_FINISH
from harness.events import Audio, Error, Event, Finish, Item, Reasoning, Start, Text, ToolCall, Unknown, Usage
from harness.jsontext import as_text
from harness.sse import ServerSentEvent

FINISH = {
    **COMMON_FINISH, "CONTINUATION": "length", "BLOCKLIST": "content_filter", "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter", "IMAGE_SAFETY": "content_filter", "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter", "MODEL_ARMOR": "content_filter", "JAILBREAK": "content_filter",
    "ESCALATION": "content_filter", "MALFORMED_RESPONSE": "error", "MISSING_THOUGHT_SIGNATURE": "error",
}  # fmt: skip
MEMBERS = frozenset({
    "candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId", "createTime", "modelStatus",
})  # fmt: skip
PLAIN = frozenset({
    "content", "finishReason", "index", "safetyRatings", "avgLogprobs", "logprobsResult", "tokenCount",
})  # fmt: skip
ITEMS = frozenset({
    "citationMetadata", "groundingMetadata", "groundingAttributions", "urlContextMetadata", "finishMessage",
    "continuationToken",
})  # fmt: skip
PARTS = frozenset({
    "thoughtSignature", "executableCode", "codeExecutionResult", "inlineData", "fileData", "functionResponse",
    "toolCall", "toolResponse", "audioTranscription", "videoMetadata", "mediaResolution", "mediaProcessing",
    "partMetadata", "speechMetadata", "documentMetadata", "spreadsheetMetadata", "audioMetadata",
})  # fmt: skip
STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\["([^"]*)"\]""")
DEEPEST = 64  # steps of a JSON path
WIDEST_GAP = 64  # array places a path may skip


class StreamedCall:
    """A functionCall that comes in pieces: values by JSON path, strings in pieces of their own."""

    __slots__ = ("at", "id", "index", "length", "name", "root", "strings")

    def __init__(self, index: int, call_id: str | None, name: str | None, args: Any) -> None:
        self.index, self.id, self.name = index, call_id, name
        self.root: dict[str, Any] = args if type(args) is dict else {}
        self.strings: dict[str, tuple[Any, Any, list[str]]] = {}  # path -> where it stands, and its pieces
        self.at = self.length = 0

    def put(self, entry: Any) -> bool:
        """Take one partial argument. False if its path or its place cannot be read."""
        path = entry.get("jsonPath") if type(entry) is dict else None
        if type(path) is not str:
            return False
        member = next((key for key in entry if key.endswith("Value")), None)
        if member is None:
            return True  # nothing but the word that more will come
        value = None if member == "nullValue" else entry[member]
        known = self.strings.get(path)
        if known is not None and type(value) is str:
            known[2].append(value)
            return True
        steps = _steps(path)
        if not steps:
            return False
        node: Any = self.root
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            if type(step) is int:
                if type(node) is not list or step > len(node) + WIDEST_GAP:
                    return False
                node.extend([None] * (step + 1 - len(node)))
            elif type(node) is not dict:
                return False
            if following is None:
                self.strings.pop(path, None)
                if type(value) is str:
                    self.strings[path] = (node, step, [value])
                node[step] = value
            else:
                inner = node[step] if type(step) is int else node.get(step)
                if inner is None:
                    inner = node[step] = [] if type(following) is int else {}
                node = inner
        return True

    def arguments(self) -> str:
        """What the pieces add up to, as JSON text."""
        for node, step, pieces in self.strings.values():
            node[step] = "".join(pieces)
        return as_text(self.root)


class Gemini(Dialect):
    """Reads one response; candidates are choices."""

    name: ClassVar[str] = "gemini"

    def __init__(self) -> None:
        super().__init__()
        self.started = False
        self.calls: dict[int, int] = {}  # choice -> number of calls
        self.streamed: dict[int, StreamedCall] = {}  # choice -> the call whose pieces are still coming
        self.stopped: dict[int, str] = {}  # choice -> raw reason of a plain stop that came before any call

    def read(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        if type(payload) is not dict:
            self.notes.add("sse.data-not-object", sse.at, sse.length, as_text(payload)[:80])
            return
        candidates = payload.get("candidates")
        if type(candidates) is not list:
            if MEMBERS.isdisjoint(payload):
                if looks_like_error(payload):
                    self.fail(payload, sse, out)
                else:
                    out.append(Unknown(as_string(payload.get("type")) or sse.event or "payload", payload,
                                       sse.at, sse.length))  # fmt: skip
                return
            candidates = [] if candidates is None else [candidates]
        if not self.started:
            self.started = True
            out.append(_start(payload, candidates, sse))
        for position, candidate in enumerate(candidates):
            if type(candidate) is dict:
                number = candidate.get("index")
                self._candidate(number if type(number) is int else position, candidate, sse, out)
            else:
                out.append(Unknown("candidates[]", candidate, sse.at, sse.length))
        if "promptFeedback" in payload:
            self._feedback(payload["promptFeedback"], sse, out)
        usage = payload.get("usageMetadata")
        if type(usage) is dict and usage:
            out.append(Usage(integer(usage.get("promptTokenCount")), integer(usage.get("candidatesTokenCount")), usage,
                             sse.at, sse.length))  # fmt: skip
        if payload.get("error"):
            self.fail(payload, sse, out)

    def fail(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        """Google's errors have their type under `status`. What was held back comes first: an error keeps it."""
        self.finish(out)
        super().fail(payload, sse, out)
        failure = out[-1]
        error = payload.get("error") if type(payload) is dict else None
        if isinstance(failure, Error) and failure.type is None and type(error) is dict:
            failure.type = error.get("status") or None

    def finish(self, out: list[Event]) -> None:
        """Calls whose last piece never came keep what they have."""
        for number in list(self.streamed):
            self._close(number, out)

    # -- candidates and parts -------------------------------------------------------------------------------------

    def _candidate(self, number: int, candidate: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> None:
        content = candidate.get("content")
        if type(content) is dict:
            parts = content.get("parts")
            if type(parts) is list:
                for part in parts:
                    if type(part) is dict:
                        self._part(number, part, sse, out)
                    else:
                        out.append(Unknown("parts[]", part, sse.at, sse.length))
            elif parts is not None:
                out.append(Unknown("content.parts", parts, sse.at, sse.length))
        elif content is not None:
            out.append(Unknown("candidate.content", content, sse.at, sse.length))
        for key, value in candidate.items():
            if key in PLAIN or value is None:
                continue
            if key in ITEMS:
                out.append(Item(number, key, "whole", None, value, sse.at, sse.length))
            else:
                out.append(Unknown(f"candidate.{key}", value, sse.at, sse.length))
        reason = candidate.get("finishReason")
        if reason:
            self._close(number, out)
            self._reason(number, reason if type(reason) is str else as_text(reason), sse, out)

    def _part(self, number: int, part: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> None:
        text = part.get("text")
        if type(text) is str:
            if text:
                event = Reasoning if part.get("thought") else Text
                out.append(event(number, text, False, sse.at, sse.length))
            if len(part) == 1:
                return
        elif text is not None:
            self.notes.add("text.not-a-string", sse.at, sse.length, f"text is {as_text(text)[:60]}")
            out.append(Unknown("part.text", text, sse.at, sse.length))
        for key, value in part.items():
            if value is None or key == "text" or key == "thought":
                continue
            if key == "functionCall":
                self._call(number, value, sse, out)
            elif key == "inlineData" and _is_sound(value):
                data = value.get("data")
                out.append(Audio(number, data if type(data) is str else None, None, sse.at, sse.length))
            elif key in PARTS:
                part_id = as_string(value.get("id")) if type(value) is dict else None
                out.append(Item(number, key, "whole", part_id, value, sse.at, sse.length))
            else:
                out.append(Unknown(f"part.{key}", value, sse.at, sse.length))

    def _call(self, number: int, call: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        streamed = self.streamed.get(number)
        if type(call) is not dict or (not call and streamed is None):
            out.append(Unknown("part.functionCall", call, sse.at, sse.length))
            return
        call_id, name = as_string(call.get("id")), as_string(call.get("name"))
        args, partial = call.get("args"), call.get("partialArgs")
        goes_on = call.get("willContinue") is True
        if streamed is not None and not _continues(streamed, call_id, name, args, partial):
            self._close(number, out)
            streamed = None
        if streamed is None and not goes_on and partial is None:
            if type(args) is str:
                self.notes.add("gemini.arguments-string", sse.at, sse.length, args[:80])
            arguments = "{}" if args is None else as_string(args)
            out.append(ToolCall(number, self._count(number), None, call_id, name, arguments, False,
                                sse.at, sse.length))  # fmt: skip
            self._rename_stop(number, sse, out)
            return
        if streamed is None:
            streamed = self.streamed[number] = StreamedCall(self._count(number), call_id, name, args)
        streamed.at, streamed.length = sse.at, sse.length
        for entry in partial if type(partial) is list else [] if partial is None else [partial]:
            if not streamed.put(entry):
                out.append(Unknown("functionCall.partialArgs", entry, sse.at, sse.length))
        whole_text = None
        if not goes_on:
            del self.streamed[number]
            whole_text = streamed.arguments()
        out.append(ToolCall(number, streamed.index, None, call_id, name, whole_text, False, sse.at, sse.length))
        self._rename_stop(number, sse, out)

    def _count(self, number: int) -> int:
        index = self.calls.get(number, 0)
        self.calls[number] = index + 1
        return index

    def _close(self, number: int, out: list[Event]) -> None:
        """The pieces of a streamed call have ended without saying so."""
        call = self.streamed.pop(number, None)
        if call is not None:
            out.append(ToolCall(number, call.index, None, None, None, call.arguments(), False, call.at, call.length))

    # -- reasons --------------------------------------------------------------------------------------------------

    def _reason(self, number: int, raw: str, sse: ServerSentEvent, out: list[Event]) -> None:
        self.finished = True
        reason = FINISH.get(raw, "other")
        if reason == "stop" and self.calls.get(number):
            reason = "tool_calls"
        elif reason == "stop":
            self.stopped[number] = raw
        else:
            self.stopped.pop(number, None)
        out.append(Finish(number, reason, raw, sse.at, sse.length))

    def _rename_stop(self, number: int, sse: ServerSentEvent, out: list[Event]) -> None:
        """A call after a plain stop makes a stop for calls of it; the reason is told again, as sent."""
        raw = self.stopped.pop(number, None)
        if raw is not None:
            out.append(Finish(number, "tool_calls", raw, sse.at, sse.length))

    def _feedback(self, feedback: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        """A blocked prompt has no candidate: its block reason counts as the finish reason (cases/README)."""
        if type(feedback) is not dict:
            if feedback is not None:
                out.append(Unknown("promptFeedback", feedback, sse.at, sse.length))
            return
        reason = feedback.get("blockReason")
        if reason:
            raw = as_string(reason) or ""
            self.notes.add("gemini.prompt-blocked", sse.at, sse.length, raw)
            self._reason(0, raw, sse, out)


def _continues(streamed: StreamedCall, call_id: str | None, name: str | None, args: Any, partial: Any) -> bool:
    """Whether a functionCall is the next piece of the one that is open: nothing in it says otherwise."""
    if args is not None or (call_id and streamed.id and call_id != streamed.id):
        return False
    return not name or (name == streamed.name and partial is not None)


def _steps(path: str) -> list[int | str] | None:
    """The steps of a JSON path such as $.a[0]['b']; None if it is no path of names and places (RFC 9535)."""
    steps: list[int | str] = []
    at = 1
    while at < len(path):
        step = STEP.match(path, at)
        if step is None or len(steps) == DEEPEST:
            return None
        name, place, single, double = step.groups()
        steps.append(int(place) if place is not None else name or single or double or "")
        at = step.end()
    return steps if path[:1] == "$" else None


def _is_sound(value: Any) -> bool:
    kind = value.get("mimeType") if type(value) is dict else None
    return type(kind) is str and kind.startswith("audio/")


def _start(payload: dict[str, Any], candidates: list[Any], sse: ServerSentEvent) -> Start:
    first = candidates[0] if candidates and type(candidates[0]) is dict else {}
    content = first.get("content")
    role = content.get("role") if type(content) is dict else None
    return Start(as_string(payload.get("responseId")), as_string(payload.get("modelVersion")), as_string(role),
                 sse.at, sse.length)  # fmt: skip
