"""OpenAI Chat Completions, and all that calls itself compatible.

Source: OpenAI API reference, "The chat completion chunk object"; vendors' own additions as seen on the wire
(reasoning under several names, content as parts, usage in a choice or under x_groq). Keyed by index, never by arrival.
"""

from __future__ import annotations

from typing import Any, ClassVar

from harness.dialects.base import Dialect, error_event, first_integer, looks_like_error
from harness.events import Audio, Event, Finish, Item, Reasoning, Refusal, Start, Text, ToolCall, Unknown, Usage
from harness.growing import Completion, Grown
from harness.jsontext import as_text
from harness.sse import ServerSentEvent

FINISH = {
    "stop": "stop", "end_turn": "stop", "stop_sequence": "stop", "eos": "stop", "STOP": "stop", "completed": "stop",
    "length": "length", "max_tokens": "length", "MAX_TOKENS": "length", "max_output_tokens": "length",
    "tool_calls": "tool_calls", "tool_use": "tool_calls", "function_call": "tool_calls",
    "content_filter": "content_filter", "SAFETY": "content_filter", "RECITATION": "content_filter",
    "refusal": "content_filter", "error": "error", "failed": "error", "MALFORMED_FUNCTION_CALL": "error",
}  # fmt: skip
REASONING_NAMES = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
# Members of a delta that are no answer but stand beside it: sources (OpenAI), calls the server ran (Groq), pictures
# (OpenRouter). Those in PLAIN are read elsewhere.
ITEMS = frozenset({"annotations", "executed_tools", "images"})
PLAIN = frozenset({"role", "reasoning_details"})


class Slot:
    """One call of one choice, as known so far."""

    __slots__ = ("completion", "id", "index", "name", "pieces")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = Grown()
        self.pieces: list[str] = []  # read only when a fragment could open another call
        self.completion: Completion | None = None  # of the pieces, from the first time that is asked


class ChoiceState:
    """The calls of one choice: by wire index, and the one opened last for fragments that have none."""

    __slots__ = ("by_wire", "last", "legacy", "opened")

    def __init__(self) -> None:
        self.by_wire: dict[Any, Slot] = {}
        self.last: Slot | None = None
        self.legacy: Slot | None = None
        self.opened = 0


class Chat(Dialect):
    """Reads `chat.completion.chunk` payloads."""

    name: ClassVar[str] = "chat"
    marker: ClassVar[bytes | None] = b"[DONE]"

    def __init__(self) -> None:
        super().__init__()
        self.started = False
        self.choices: dict[int, ChoiceState] = {}
        self.texted: set[int] = set()  # choices that had text in a delta

    def read(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        if type(payload) is not dict:
            self.notes.add("sse.data-not-object", sse.at, sse.length, as_text(payload)[:80])
            return
        at, length = sse.at, sse.length
        choices = payload.get("choices")
        if type(choices) is not list:
            if self._not_a_chunk(payload, sse, out):
                return
            if choices is not None:
                self.notes.add("chunk.choices-wrong-type", at, length, as_text(choices)[:80])
                out.append(Unknown("choices", choices, at, length))
            choices = ()
        if not self.started:
            self.started = True
            out.append(_start(payload, choices, at, length))
        for position, choice in enumerate(choices):
            if type(choice) is not dict:
                out.append(Unknown("choices[]", choice, at, length))
                continue
            number = choice.get("index")
            if type(number) is not int:
                number = position
            delta = choice.get("delta")
            if type(delta) is dict:
                # Most deltas hold one piece of text, or of one call, and nothing else.
                if len(delta) != 1:
                    self._delta(number, delta, at, length, out)
                elif "content" in delta and (content := delta["content"]) and type(content) is str:
                    out.append(Text(number, content, False, at, length))
                    if number not in self.texted:
                        self.texted.add(number)
                elif "tool_calls" not in delta or not self._fragment(number, delta["tool_calls"], at, length, out):
                    self._delta(number, delta, at, length, out)
            elif delta is not None:
                self.notes.add("chunk.delta-wrong-type", at, length, as_text(delta)[:80])
                out.append(Unknown("delta", delta, at, length))
            if "message" in choice and type(choice["message"]) is dict:
                self._message(number, delta, choice["message"], sse, out)
            if "finish_reason" in choice and (reason := choice["finish_reason"]):
                raw = reason if type(reason) is str else as_text(reason)
                self.finished = True
                out.append(Finish(number, FINISH.get(raw, "other"), raw, at, length))
            if "usage" in choice:
                _usage(choice["usage"], at, length, out)
            if choice.get("error"):
                self.failed = True
                out.append(error_event(choice, sse))
        if "usage" in payload and payload["usage"] is not None:
            _usage(payload["usage"], at, length, out)
        elif "x_groq" in payload and type(payload["x_groq"]) is dict:
            _usage(payload["x_groq"].get("usage"), at, length, out)
            if payload["x_groq"].get("error") and not payload.get("error"):
                self.fail(payload["x_groq"], sse, out)
        if payload.get("error"):
            self.fail(payload, sse, out)

    def after_error(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        """Tokens are billed whatever failed: OpenRouter sends usage in a chunk after the one with the error."""
        if type(payload) is dict:
            _usage(payload.get("usage"), sse.at, sse.length, out)

    def _not_a_chunk(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> bool:
        """A payload without a list of choices: an error, a usage-only chunk (false: read on), or unknown."""
        if sse.event == "error" or looks_like_error(payload):
            usage = payload.get("usage")
            if usage is not None:
                _usage(usage, sse.at, sse.length, out)
            self.fail(payload, sse, out)
            return True
        if payload.get("usage") or "choices" in payload or payload.get("object") == "chat.completion.chunk":
            return False
        name = payload.get("object") or payload.get("type") or sse.event or "payload"
        out.append(Unknown(str(name), payload, sse.at, sse.length))
        return True

    def _delta(self, number: int, delta: dict[str, Any], at: int, length: int, out: list[Event]) -> None:
        thinking: str | None = None
        for key, value in delta.items():
            if not value:
                continue
            if key == "content":
                if type(value) is str:
                    out.append(Text(number, value, False, at, length))
                    self.texted.add(number)
                else:
                    self._parts(number, value, at, length, out)
            elif key == "tool_calls":
                self._calls(number, value, at, length, out)
            elif key in REASONING_NAMES:
                # One value under two names in one delta counts once (cases/README, rule 4).
                if type(value) is str:
                    if value != thinking:
                        out.append(Reasoning(number, value, False, at, length))
                    thinking = value
                else:
                    self._parts(number, value, at, length, out, thinking=True)
                    thinking = ""
            elif key == "refusal":
                if type(value) is str:
                    out.append(Refusal(number, value, False, at, length))
                else:
                    self.notes.add("text.not-a-string", at, length, f"refusal is {as_text(value)[:60]}")
                    out.append(Unknown("delta.refusal", value, at, length))
            elif key == "function_call":
                if not _told_in(delta.get("tool_calls"), value):
                    self._legacy(number, value, at, length, out)
            elif key == "audio" and type(value) is dict:
                data, transcript = value.get("data"), value.get("transcript")
                if data or transcript:
                    out.append(Audio(number, data if type(data) is str else None,
                                     transcript if type(transcript) is str else None, at, length))  # fmt: skip
            elif key in ITEMS:
                out.append(Item(number, key, "whole", None, value, at, length))
            elif key not in PLAIN:
                out.append(Unknown(f"delta.{key}", value, at, length))
        if thinking is None and delta.get("reasoning_details"):
            texts = detail_texts(delta["reasoning_details"])
            for text in texts:
                out.append(Reasoning(number, text, False, at, length))
            if not texts:  # encrypted: state for the next turn
                out.append(Item(number, "reasoning_details", "whole", None, delta["reasoning_details"], at, length))

    def _choice(self, number: int) -> ChoiceState:
        state = self.choices.get(number)
        if state is None:
            state = self.choices[number] = ChoiceState()
        return state

    def _parts(
        self, number: int, value: Any, at: int, length: int, out: list[Event], thinking: bool = False
    ) -> None:  # fmt: skip
        """Content as a list of parts (Mistral): text parts are text, thinking parts are reasoning (case 057)."""
        self.notes.add("text.not-a-string", at, length, f"content is {as_text(value)[:60]}")
        for part in value if type(value) is list else [value]:
            kind: Any = None
            text: Any = None
            if type(part) is str:
                kind, text = "text", part
            elif type(part) is dict:
                kind = part.get("type")
                inner = part.get(kind) if type(kind) is str else None
                text = inner if inner is not None else part.get("text")
            if type(text) is list:
                text = "".join(p["text"] for p in text if type(p) is dict and type(p.get("text")) is str)
            if type(text) is not str or kind not in ("text", "output_text", "thinking", "reasoning", "refusal"):
                out.append(Unknown(f"content.{kind}", part, at, length))
            elif not text:
                continue
            elif thinking or kind in ("thinking", "reasoning"):
                out.append(Reasoning(number, text, False, at, length))
            elif kind == "refusal":
                out.append(Refusal(number, text, False, at, length))
            else:
                out.append(Text(number, text, False, at, length))
                self.texted.add(number)

    def _message(
        self, number: int, delta: Any, message: dict[str, Any], sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        """A message beside or after deltas is a copy (cases/README, rule 4); alone it is all there is."""
        state = self._choice(number)
        if (type(delta) is dict and delta) or number in self.texted or state.opened:
            return
        text = message.get("content")
        if text and type(text) is str:
            out.append(Text(number, text, True, sse.at, sse.length))
        for position, entry in enumerate(_dicts(message.get("tool_calls"))):
            function = entry.get("function")
            if type(function) is dict:
                arguments = function.get("arguments")
                call_id, name = _text(entry.get("id")), _text(function.get("name"))
                out.append(ToolCall(number, position, entry.get("index"), call_id, name, _text(arguments), True,
                                    sse.at, sse.length))  # fmt: skip

    def _fragment(self, number: int, calls: Any, at: int, length: int, out: list[Event]) -> bool:
        """The regular fragment: arguments, and nothing else, for one call that is known. False: it is another."""
        if type(calls) is not list or len(calls) != 1 or number not in self.choices:
            return False
        entry = calls[0]
        if type(entry) is not dict or len(entry) != 2:
            return False
        wire, body = entry.get("index"), entry.get("function")
        if type(wire) is not int or type(body) is not dict or len(body) != 1:
            return False
        state, arguments = self.choices[number], body.get("arguments")
        slot = state.by_wire.get(wire)
        if slot is None or type(arguments) is not str:
            return False
        state.last = slot
        if arguments:
            slot.pieces.append(arguments)
        out.append(ToolCall(number, slot.index, wire, None, None, arguments, False, at, length))
        return True

    def _calls(self, number: int, value: Any, at: int, length: int, out: list[Event]) -> None:
        state = self._choice(number)
        if type(value) is not list:
            self.notes.add("tool.list-wrong-type", at, length, as_text(value)[:80])
            value = [value]
        for entry in value:
            if type(entry) is not dict:
                out.append(Unknown("tool_calls[]", entry, at, length))
                continue
            body = entry.get("function")
            kind = "function"
            arguments: Any
            if type(body) is dict:
                arguments = body.get("arguments")
            elif type(entry.get("custom")) is dict:
                body, kind = entry["custom"], "custom"
                arguments = body.get("input")
            else:
                # fields one level up (no function object): what is there belongs to the call all the same
                body, arguments = entry, entry.get("arguments")
            wire, call_id, name = entry.get("index"), entry.get("id"), body.get("name")
            if type(wire) is not int:
                self.notes.add("tool.index-missing", at, length, f"index is {as_text(wire)}")
                if type(wire) is float and wire.is_integer():
                    wire = int(wire)
                elif wire is not None and not isinstance(wire, str):
                    wire = as_text(wire)
            if arguments is not None and type(arguments) is not str:
                self.notes.add("tool.arguments-object", at, length, as_text(arguments)[:80])
                arguments = as_text(arguments)
            call_id, name = _text(call_id), _text(name)
            slot = state.by_wire.get(wire) if wire is not None else state.last
            if slot is None or ((call_id or name) and self._opens(slot, wire, call_id, name, arguments, at, length)):
                slot = Slot(state.opened)
                state.opened += 1
                if wire is not None:
                    state.by_wire[wire] = slot
            state.last = slot
            if call_id and not slot.id:
                slot.id = call_id
            if name and not slot.name.equals(name):
                if slot.name and "tool.name-split" not in self.notes.by_code:  # to show it copies the whole name
                    self.notes.add("tool.name-split", at, length, f"{str(slot.name)!r} + {name!r}")
                slot.name.add(name)
            if arguments:
                slot.pieces.append(arguments)
            out.append(ToolCall(number, slot.index, wire, call_id, name, arguments, False, at, length, kind))

    def _opens(
        self, slot: Slot, wire: Any, call_id: str | None, name: str | None, arguments: str | None, at: int, length: int
    ) -> bool:  # fmt: skip
        """Whether a fragment that says who it is opens another call (cases/README, rule 7; DESIGN).

        Another id with a name is a new call; another id without a name is the same call with its first id kept. With
        no new id, a name on a call whose arguments are complete opens one too, unless it only repeats what is there.
        """
        if call_id and slot.id and call_id != slot.id:
            if name or wire is None:
                if wire is not None:
                    self.notes.add("tool.index-reused", at, length, f"index {as_text(wire)}: {slot.id!r}, {call_id!r}")
                return True
            if "tool.id-changes" not in self.notes.by_code:  # to show it copies the first id
                self.notes.add("tool.id-changes", at, length, f"{slot.id!r} became {call_id!r}")
            return False
        if call_id and slot.id:
            return False
        if name and slot.name and arguments:
            if slot.completion is None:
                slot.completion = Completion()
            if slot.completion.of(slot.pieces) and "".join(slot.pieces).strip() != arguments.strip():
                if wire is not None:
                    names = f"{str(slot.name)!r}, {name!r}"
                    self.notes.add("tool.index-reused", at, length, f"index {as_text(wire)}: {names}")
                return True
        # A first id on a call that has none, arguments under way: nothing says that it is another call.
        return wire is None and bool(call_id) and bool(slot.pieces) and bool(name)

    def _legacy(self, number: int, value: Any, at: int, length: int, out: list[Event]) -> None:
        """The deprecated `function_call`: one call, no id, no index (case 032)."""
        if type(value) is not dict:
            out.append(Unknown("delta.function_call", value, at, length))
            return
        self.notes.add("tool.legacy-function-call", at, length)
        state = self._choice(number)
        if state.legacy is None:
            state.legacy = Slot(state.opened)
            state.opened += 1
        arguments = value.get("arguments")
        if arguments is not None and type(arguments) is not str:
            self.notes.add("tool.arguments-object", at, length, as_text(arguments)[:80])
            arguments = as_text(arguments)
        out.append(ToolCall(number, state.legacy.index, None, None, _text(value.get("name")), arguments, False,
                            at, length))  # fmt: skip


def _start(payload: dict[str, Any], choices: Any, at: int, length: int) -> Start:
    role = None
    for choice in choices:
        delta = choice.get("delta") if type(choice) is dict else None
        if type(delta) is dict and role is None:
            role = delta.get("role")
    return Start(_text(payload.get("id")), _text(payload.get("model")), _text(role), at, length)


def _usage(usage: Any, at: int, length: int, out: list[Event]) -> None:
    if type(usage) is dict and usage:
        out.append(Usage(
            first_integer(usage, "prompt_tokens", "input_tokens"),
            first_integer(usage, "completion_tokens", "output_tokens"), usage, at, length,
        ))  # fmt: skip


def detail_texts(details: Any) -> list[str]:
    """Thinking in OpenRouter's reasoning_details: text or summary of each entry."""
    texts = [entry.get("text") or entry.get("summary") for entry in _dicts(details)]
    return [text for text in texts if type(text) is str and text]


def _told_in(entries: Any, function: Any) -> bool:
    """Whether `tool_calls` of the same delta holds this very function: one value under two names counts once.

    llama-cpp-python sends a forced call under both (cases/README, rule 4).
    """
    return any(entry.get("function") == function for entry in _dicts(entries))


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if type(entry) is dict] if type(value) is list else []


def _text(value: Any) -> str | None:
    """The value as a string: null stays null, another type is written as JSON."""
    return value if value is None or type(value) is str else as_text(value)
