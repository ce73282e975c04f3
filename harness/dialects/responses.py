"""OpenAI Responses, and all that calls itself compatible.

Source: OpenAI API reference, "Streaming events" of the Responses API (platform.openai.com/docs/api-reference/
responses-streaming), as generated into openai-python 3.57.0, `types/responses/response_stream_event.py`; the two
`apply_patch_call_operation_diff` events as OpenRouter documents them; old names as earlier versions of that page and
the Realtime beta had them.

`key` of text, reasoning and refusal is the number of the content part, in the order in which parts appeared. Calls are
function_call and custom_tool_call. Every other item is an item event: also computer_call, local_shell_call, shell_call,
apply_patch_call and mcp_approval_request, which some application answers, but which have no name and no arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from harness.dialects.base import Dialect, as_string, first_integer, looks_like_error
from harness.dialects.chat import FINISH
from harness.dialects.responses_output import (
    CALL_VALUE,
    PART_CHANNEL,
    REASONING,
    REFUSAL,
    SUMMARY,
    TEXT,
    Channel,
    ItemState,
    Output,
    Part,
    text_in,
)
from harness.events import Audio, End, Event, Finish, Item, Start, Text, ToolCall, Unknown, Usage
from harness.jsontext import as_text
from harness.sse import ServerSentEvent

# Events about one kind of item: the item's type, and what follows it in the event's name.
ITEM_EVENTS = {
    "file_search_call": (".in_progress", ".searching", ".completed"),
    "web_search_call": (".in_progress", ".searching", ".completed"),
    "code_interpreter_call": (".in_progress", ".interpreting", ".completed", "_code.delta", "_code.done"),
    "image_generation_call": (".in_progress", ".generating", ".partial_image", ".completed"),
    "mcp_call": (".in_progress", ".completed", ".failed", "_arguments.delta", "_arguments.done"),
    "mcp_list_tools": (".in_progress", ".completed", ".failed"),
    "shell_call": (
        "_command.added", "_command.delta", "_command.done", "_output_content.delta", "_output_content.done",
    ),
    "apply_patch_call": ("_operation_diff.delta", "_operation_diff.done"),
    "compaction": (".compacting",),
}  # fmt: skip
# `response.audio.*` still stands in the vendor's union of events; `response.output_audio.*` is what followed it.
OLD_NAMES = {
    "response.text.delta": "response.output_text.delta",
    "response.text.done": "response.output_text.done",
    "response.output_text_annotation.added": "response.output_text.annotation.added",
    "response.audio.delta": "response.output_audio.delta",
    "response.audio.done": "response.output_audio.done",
    "response.audio.transcript.delta": "response.output_audio_transcript.delta",
    "response.audio.transcript.done": "response.output_audio_transcript.done",
    "response.audio_transcript.delta": "response.output_audio_transcript.delta",
    "response.audio_transcript.done": "response.output_audio_transcript.done",
    "response.reasoning.delta": "response.reasoning_text.delta",
    "response.reasoning.done": "response.reasoning_text.done",
    "response.reasoning_summary.delta": "response.reasoning_summary_text.delta",
    "response.reasoning_summary.done": "response.reasoning_summary_text.done",
    "response.mcp_call.arguments_delta": "response.mcp_call_arguments.delta",
    "response.mcp_call.arguments_done": "response.mcp_call_arguments.done",
    "response.mcp_call.arguments.delta": "response.mcp_call_arguments.delta",
    "response.mcp_call.arguments.done": "response.mcp_call_arguments.done",
}
# Where a piece is looked for when the member it is due in holds none.
TEXT_MEMBERS = ("delta", "text", "part", "content", "refusal", "transcript")
CALL_MEMBERS = ("delta", "arguments", "input", "part", "text")


class Responses(Dialect):
    """Reads `response.*` events. The end is `response.completed` or `response.incomplete`; failed is an error."""

    name: ClassVar[str] = "responses"

    def __init__(self) -> None:
        super().__init__()
        self.started = False
        self.output = Output(self.notes)
        self.transcribed = False  # a piece of a transcript was read
        # Where the last piece of text, or of arguments, went, and the members that say so.
        self.last_part: Part | None = None
        self.last_part_at: tuple[Any, Any, Any] = (None, None, None)
        self.last_call: ItemState | None = None
        self.last_call_at: tuple[Any, Any] = (None, None)

    def read(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        if type(payload) is not dict:
            self.notes.add("sse.data-not-object", sse.at, sse.length, as_text(payload)[:80])
            return
        get = payload.get
        kind = get("type")
        # Nearly all events are of two types, and most go where the one before went.
        if kind == "response.output_text.delta":
            part, piece = self.last_part, get("delta")
            if (part is not None and piece and type(piece) is str
                    and self.last_part_at == (get("item_id"), get("output_index"), get("content_index"))):  # fmt: skip
                part.pieces.append(piece)
                out.append(Text(0, piece, False, sse.at, sse.length, part.key))
                return
        elif kind == "response.function_call_arguments.delta":
            call, piece = self.last_call, get("delta")
            if (call is not None and piece and type(piece) is str
                    and self.last_call_at == (get("item_id"), get("output_index"))):  # fmt: skip
                call.pieces.append(piece)
                out.append(ToolCall(0, call.number, self.last_call_at[1], None, None, piece, False,
                                    sse.at, sse.length, call.call_type()))  # fmt: skip
                return
        if not kind and sse.event and not get("error"):
            kind = sse.event  # the payload's own type decides where it has one
        reader = READERS.get(kind) if type(kind) is str else None
        if reader is None:
            self._unlisted(kind, payload, sse, out)
        else:
            reader[0](self, payload, sse, out, reader[1])

    def fail(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        """The error stands under `error`, in the response object, or at top level, where `type` is the event's own."""
        if type(payload) is dict and not payload.get("error"):
            response, kind = payload.get("response"), payload.get("type")
            if type(response) is dict and response.get("error"):
                payload = {"error": response["error"]}
            elif type(kind) is str and (kind == "error" or kind.startswith("response.")):
                payload = {key: value for key, value in payload.items() if key not in ("type", "response")}
        super().fail(payload, sse, out)

    def _unlisted(self, kind: Any, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> None:
        """An old name, an error under a type of its own or none, or what nobody documents."""
        if type(kind) is not str or not kind:
            if looks_like_error(payload):
                self.fail(payload, sse, out)
                return
            kind = as_text(kind)[:80] if kind else as_string(payload.get("object")) or "payload"
        elif kind in OLD_NAMES or kind == "message":
            self.notes.add("responses.deprecated-event", sse.at, sse.length, kind)
            reader = READERS[OLD_NAMES[kind]] if kind in OLD_NAMES else (Responses._message, None)
            reader[0](self, payload, sse, out, reader[1])
            return
        elif kind.endswith("error"):
            self.fail(payload, sse, out)
            return
        out.append(Unknown(kind, payload, sse.at, sse.length))

    def _status(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], _: None) -> None:
        """created, queued, in_progress: who it is. Output counts only before anything was streamed."""
        response = payload.get("response")
        if type(response) is dict:
            self._start(response, sse, out)
            _usage(response.get("usage"), sse, out)
            if not self.output.items:
                self.output.final(response.get("output"), sse, out)

    def _terminal(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], status: str) -> None:
        """completed, incomplete, failed: the values of the response object, then usage, finish, and end or error.

        The event's type decides, not the object's `status`: that they disagree is a fact of the lifecycle.
        """
        response = payload.get("response")
        if type(response) is not dict:
            response = payload
        self._start(response, sse, out)
        self.output.final(response.get("output"), sse, out)
        usage = response.get("usage")
        _usage(payload.get("usage") if usage is None else usage, sse, out)
        raw = status
        if status == "incomplete":
            details = response.get("incomplete_details")
            raw = as_string(details.get("reason") if type(details) is dict else details) or status
        reason = "tool_calls" if status == "completed" and self.output.calls else FINISH.get(raw, "other")
        out.append(Finish(0, reason, raw, sse.at, sse.length))
        self.finished = True
        error = response.get("error") or payload.get("error")
        if status == "failed" or error:
            self.fail({"error": error}, sse, out)
        else:
            self.ended = True
            out.append(End(f"response.{status}", sse.at, sse.length))

    def _error(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], _: None) -> None:
        self.fail(payload, sse, out)

    def _start(self, response: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> None:
        if not self.started:
            self.started = True
            out.append(Start(as_string(response.get("id")), as_string(response.get("model")), None,
                             sse.at, sse.length))  # fmt: skip

    def _item(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], phase: str) -> None:
        """output_item.added and .done."""
        item, place = payload.get("item"), payload.get("output_index")
        kind = item.get("type") if type(item) is dict else None
        if type(item) is not dict or type(kind) is not str:
            out.append(Unknown(f"response.output_item.{phase}", payload, sse.at, sse.length))
            return
        state = (self.output.added if phase == "added" else self.output.closed)(item, kind, place)
        self.last_part = self.last_call = None  # ids may mean another item from here on
        if kind not in CALL_VALUE:
            out.append(Item(0, kind, phase, as_string(item.get("id")), item, sse.at, sse.length))
        self.output.settle_item(state, item, place, sse, out)

    def _part(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], about: tuple[str, str]) -> None:
        """content_part and reasoning_summary_part, added and done: a part opens, or says what it holds."""
        part, (usual, phase) = payload.get("part"), about
        named = part.get("type") if type(part) is dict else None
        kind = named if type(named) is str else usual
        item_id = as_string(payload.get("item_id"))
        out.append(Item(0, kind, f"part.{phase}", item_id, part, sse.at, sse.length))
        text, channel = text_in(part), PART_CHANNEL.get(kind)
        if part is None and type(payload.get("text")) is str:
            self.notes.add("responses.piece-elsewhere", sse.at, sse.length, "text rather than part")
            text = payload["text"]
        if channel is None:
            if text and kind in ("output_audio", "audio"):
                self._transcript(text, sse, out)
        elif text:
            self.output.settle_part(payload, channel, text, sse, out)
        elif phase == "added":
            self.output.part(self.output.find(payload, channel.item_type), channel, payload.get(channel.numbered_by))

    def _delta(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], channel: Channel) -> None:
        piece = self._text(payload, "delta", sse, out)
        if piece:
            state = self.output.find(payload, channel.item_type)
            part = self.output.part(state, channel, payload.get(channel.numbered_by))
            self.output.append(part, piece, sse, out)
            if channel is TEXT:
                self.last_part = part
                self.last_part_at = (payload.get("item_id"), payload.get("output_index"), payload.get("content_index"))

    def _done(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], channel: Channel) -> None:
        text = self._text(payload, "refusal" if channel is REFUSAL else "text", sse, out)
        if text:
            self.output.settle_part(payload, channel, text, sse, out)

    def _text(self, payload: dict[str, Any], due: str, sse: ServerSentEvent, out: list[Event]) -> str | None:
        """The text of an event, from the member it is due in or another; what is no text is unknown."""
        value = payload.get(due)
        if type(value) is str:
            return value
        for name in TEXT_MEMBERS:
            text = text_in(payload.get(name))
            if text:
                self.notes.add("responses.piece-elsewhere", sse.at, sse.length, f"{name} rather than {due}")
                return text
        if value is not None:
            self.notes.add("text.not-a-string", sse.at, sse.length, f"{due} is {as_text(value)[:60]}")
            out.append(Unknown(as_string(payload.get("type")) or sse.event, payload, sse.at, sse.length))
        return None

    def _call_delta(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], kind: str) -> None:
        piece = self._passed(payload, "delta", sse)
        if piece:
            state = self.output.find(payload, kind)
            place = payload.get("output_index")
            state.pieces.append(piece)
            out.append(ToolCall(0, state.number, place, None, None, piece, False,
                                sse.at, sse.length, state.call_type()))  # fmt: skip
            if kind == "function_call":
                self.last_call, self.last_call_at = state, (payload.get("item_id"), place)

    def _call_done(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], kind: str) -> None:
        member = CALL_VALUE[kind]
        call = {**payload, member: self._passed(payload, member, sse)}
        self.output.settle_call(self.output.find(payload, kind), call, member, payload.get("output_index"), sse, out)

    def _passed(self, payload: dict[str, Any], due: str, sse: ServerSentEvent) -> str | None:
        """What is passed to a call, from the member it is due in or another."""
        name, value = due, payload.get(due)
        if value is None:
            name, value = next(((n, payload[n]) for n in CALL_MEMBERS if payload.get(n) is not None), (due, None))
        if name != due:
            self.notes.add("responses.piece-elsewhere", sse.at, sse.length, f"{name} rather than {due}")
            inner = text_in(value) if name == "part" else None
            value = value if inner is None else inner
        return self.output.passed(value, sse)

    def _audio(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], what: str) -> None:
        piece = self._text(payload, "delta", sse, out)
        if piece and what == "sound":
            out.append(Audio(0, piece, None, sse.at, sse.length))
        elif piece:
            self.transcribed = True
            out.append(Audio(0, None, piece, sse.at, sse.length))

    def _audio_done(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], _: None) -> None:
        text = text_in(payload.get("transcript"))
        if text:
            self._transcript(text, sse, out)

    def _transcript(self, text: str, sse: ServerSentEvent, out: list[Event]) -> None:
        """A transcript as a whole counts only if no piece of one came."""
        if not self.transcribed:
            self.transcribed = True
            out.append(Audio(0, None, text, sse.at, sse.length))

    def _annotation(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], _: None) -> None:
        item_id = as_string(payload.get("item_id"))
        out.append(Item(0, "annotation", "added", item_id, payload.get("annotation"), sse.at, sse.length))

    def _progress(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], what: tuple[str, str]) -> None:
        """What a tool that the server runs itself is doing."""
        out.append(Item(0, what[0], what[1], as_string(payload.get("item_id")), payload, sse.at, sse.length))

    def _message(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event], _: None) -> None:
        """A plain `message`: an item in full (its content is a list), or a piece of text."""
        if type(payload.get("content")) is list:
            item = {**payload, "type": "message"}
            state = self.output.added(item, "message", None)
            self.last_part = None
            out.append(Item(0, "message", "done", as_string(payload.get("id")), payload, sse.at, sse.length))
            self.output.settle_item(state, item, None, sse, out)
        elif any(text_in(payload.get(name)) for name in TEXT_MEMBERS):
            self._delta(payload, sse, out, TEXT)
        else:
            out.append(Unknown("message", payload, sse.at, sse.length))


Reader = tuple[Callable[[Responses, dict[str, Any], ServerSentEvent, list[Event], Any], None], Any]
READERS: dict[str, Reader] = {
    "response.created": (Responses._status, None),
    "response.queued": (Responses._status, None),
    "response.in_progress": (Responses._status, None),
    "response.completed": (Responses._terminal, "completed"),
    "response.incomplete": (Responses._terminal, "incomplete"),
    "response.failed": (Responses._terminal, "failed"),
    "error": (Responses._error, None),
    "response.output_item.added": (Responses._item, "added"),
    "response.output_item.done": (Responses._item, "done"),
    "response.content_part.added": (Responses._part, ("output_text", "added")),
    "response.content_part.done": (Responses._part, ("output_text", "done")),
    "response.reasoning_summary_part.added": (Responses._part, ("summary_text", "added")),
    "response.reasoning_summary_part.done": (Responses._part, ("summary_text", "done")),
    "response.output_text.delta": (Responses._delta, TEXT),
    "response.output_text.done": (Responses._done, TEXT),
    "response.output_text.annotation.added": (Responses._annotation, None),
    "response.refusal.delta": (Responses._delta, REFUSAL),
    "response.refusal.done": (Responses._done, REFUSAL),
    "response.reasoning_text.delta": (Responses._delta, REASONING),
    "response.reasoning_text.done": (Responses._done, REASONING),
    "response.reasoning_summary_text.delta": (Responses._delta, SUMMARY),
    "response.reasoning_summary_text.done": (Responses._done, SUMMARY),
    "response.function_call_arguments.delta": (Responses._call_delta, "function_call"),
    "response.function_call_arguments.done": (Responses._call_done, "function_call"),
    "response.custom_tool_call_input.delta": (Responses._call_delta, "custom_tool_call"),
    "response.custom_tool_call_input.done": (Responses._call_done, "custom_tool_call"),
    "response.output_audio.delta": (Responses._audio, "sound"),
    "response.output_audio.done": (Responses._audio_done, None),
    "response.output_audio_transcript.delta": (Responses._audio, "transcript"),
    "response.output_audio_transcript.done": (Responses._audio_done, None),
    **{
        f"response.{item_type}{ending}": (Responses._progress, (item_type, ending[1:]))
        for item_type, endings in ITEM_EVENTS.items() for ending in endings
    },
}  # fmt: skip
Responses.event_names = frozenset(READERS)


def _usage(usage: Any, sse: ServerSentEvent, out: list[Event]) -> None:
    if type(usage) is dict and usage:
        out.append(Usage(
            first_integer(usage, "input_tokens", "prompt_tokens"),
            first_integer(usage, "output_tokens", "completion_tokens"), usage, sse.at, sse.length,
        ))  # fmt: skip
