"""From payloads to facts: one function a dialect, which gives the function that reads one payload after another."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from harness.clients.pipeline_fold import Fact

Payload = dict[str, Any]

BROKEN = object()


def decoded(text: str) -> Any:
    """The JSON value, or BROKEN."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return BROKEN


def failure(told: Any) -> Fact:
    if not isinstance(told, dict):
        told = {"message": told}
    kind = told.get("type", told.get("status"))
    return Fact("error", {"type": kind, "code": told.get("code"), "message": told.get("message")})


def usage_in(usage: Any, inputs: str, outputs: str) -> Iterator[Fact]:
    if isinstance(usage, dict):
        yield Fact("input_tokens", usage.get(inputs))
        yield Fact("output_tokens", usage.get(outputs))


def each(value: Any) -> Iterator[Payload]:
    """The objects of a list."""
    yield from (entry for entry in (value if isinstance(value, list) else ()) if isinstance(entry, dict))


def member(holder: Any, name: str) -> Payload:
    """A member that is an object; an empty one instead of anything else."""
    value = holder.get(name) if isinstance(holder, dict) else None
    return value if isinstance(value, dict) else {}


_Say = Callable[[Payload], Iterator[Fact]]


def _chat() -> _Say:
    calls: dict[int, list[_Slot]] = {}

    def said(chunk: Payload) -> Iterator[Fact]:
        for holder in (member(chunk, "x_groq"), *each(chunk.get("choices")), chunk):
            yield from usage_in(holder.get("usage"), "prompt_tokens", "completion_tokens")
        for choice in each(chunk.get("choices")):
            number = choice.get("index") or 0
            yield from (fact._replace(choice=number) for fact in delta_facts(choice, calls.setdefault(number, [])))
            yield Fact("finish", choice.get("finish_reason"), choice=number)
            if choice.get("error"):
                yield failure(choice["error"])

    return said


class _Slot:
    """A call of which fragments have come."""

    def __init__(self, wire: int | None, number: int) -> None:
        self.wire, self.id, self.named, self.arguments = wire, "", False, ""
        self.place = (wire is None, wire or 0, number)


def delta_facts(choice: Payload, slots: list[_Slot]) -> Iterator[Fact]:
    delta = member(choice, "delta")
    content = delta.get("content")
    for part in [{"text": content}] if isinstance(content, str) else each(content):
        yield Fact("text", part.get("text"))
        yield from (Fact("reasoning", thought.get("text")) for thought in each(part.get("thinking")))
    yield Fact("reasoning", delta.get("reasoning_content") or delta.get("reasoning") or delta.get("thinking"))
    yield Fact("refusal", delta.get("refusal"))
    for entry in each(delta.get("tool_calls")):
        body = member(entry, "function") or member(entry, "custom")
        slot = _slot(slots, entry.get("index"), entry.get("id"), body.get("name"))
        yield from call_facts(slot, entry.get("id"), body.get("name"), body.get("arguments", body.get("input")))
    if legacy := member(delta, "function_call"):
        yield from call_facts(_slot(slots, 0, None, None), None, legacy.get("name"), legacy.get("arguments"))
    if "message" in choice and choice.get("delta") is None:  # the whole message, where no delta was sent before it
        message = member(choice, "message")
        yield Fact("text", message.get("content"), whole=True)
        yield Fact("reasoning", message.get("reasoning_content"), whole=True)


def call_facts(slot: _Slot, id: Any, name: Any, arguments: Any) -> Iterator[Fact]:
    text = text_of(arguments)
    slot.id, slot.named, slot.arguments = slot.id or id or "", slot.named or bool(name), slot.arguments + text
    yield from spelled(id, name, text, slot.place)


def spelled(id: Any, name: Any, arguments: str, place: tuple[Any, ...], choice: int = 0) -> Iterator[Fact]:
    """What a fragment says of its call, or a whole call of itself."""
    for channel, value in (("id", id), ("name", name), ("arguments", arguments)):
        yield Fact(channel, value, place, choice)


def text_of(arguments: Any) -> str:
    """Arguments as text: an object is written as JSON."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments, ensure_ascii=False)


def _slot(slots: list[_Slot], wire: Any, id: Any, name: Any) -> _Slot:
    """The slot of a fragment: by index, else the last; another id (on an index in use: with a name) is a new call."""
    candidates = [slot for slot in slots if not isinstance(wire, int) or slot.wire == wire]
    if candidates:
        slot = candidates[-1]
        other = id and slot.id and id != slot.id and (name or not isinstance(wire, int))
        after = not isinstance(wire, int) and not id and name and slot.named and decoded(slot.arguments) is not BROKEN
        if not other and not after:
            return slot
    slots.append(_Slot(wire if isinstance(wire, int) else None, len(slots)))
    return slots[-1]


_STREAMS = {
    "response.output_text": "text", "response.text": "text", "response.refusal": "refusal",
    "response.reasoning_summary_text": "reasoning", "response.reasoning_text": "reasoning",
    "response.function_call_arguments": "arguments", "response.custom_tool_call_input": "arguments",
}  # fmt: skip
_KINDS = {"function_call": "arguments", "custom_tool_call": "arguments", "reasoning": "reasoning", "message": "text"}


def _responses() -> _Say:
    places: list[tuple[str | None, str, tuple[bool, int, int]]] = []  # id, channel, place of each item

    def place_of(id: Any, channel: str, index: Any, opens: bool = False) -> tuple[bool, int, int]:
        """An item's place: that of its id, else of its sort at its output index, else a new one."""
        channel = "text" if channel == "refusal" else channel
        for known, _, place in places:
            if id and known == id:
                return place
        for _, sort, place in [] if opens else reversed(places):
            if sort == channel and place[:2] == (index is None, index or 0):
                return place
        new = (index is None, index if isinstance(index, int) else 0, len(places))
        places.append((id, channel, new))
        return new

    def item(sent: Payload, index: Any, opens: bool = False) -> Iterator[Fact]:
        channel = _KINDS.get(str(sent.get("type")), "")
        place = place_of(sent.get("id"), channel, index, opens)
        if channel == "arguments":
            yield from (Fact(name, sent.get(key), place) for name, key in (("id", "call_id"), ("name", "name")))
            yield Fact("arguments", sent.get("arguments") or sent.get("input"), place, whole=True)
        for at, part in enumerate(each(sent.get("content") or sent.get("summary"))):
            kind = "refusal" if part.get("type") == "refusal" else channel
            yield Fact(kind, part.get("text") or part.get("refusal"), (*place, at), whole=True)

    def said(payload: Payload) -> Iterator[Fact]:
        kind = str(payload.get("type"))
        stem, _, phase = kind.rpartition(".")
        id, index = payload.get("item_id"), payload.get("output_index")
        at = payload.get("content_index", payload.get("summary_index", 0))
        if stem in _STREAMS and phase in ("delta", "done"):
            channel = _STREAMS[stem]
            place: tuple[Any, ...] = place_of(id, channel, index)
            place = place if channel == "arguments" else (*place, at)
            names = ("delta", "text", "arguments", "input", "refusal")
            value = next((payload[name] for name in names if isinstance(payload.get(name), str)), None)
            yield Fact(channel, value, place, whole=phase == "done")
        elif stem == "response.output_item":
            yield from item(member(payload, "item"), index, phase == "added")
        elif kind == "response.content_part.done":
            part = member(payload, "part")
            for channel in ("text", "refusal") if part.get("type") in ("output_text", "refusal") else ():
                yield Fact(channel, part.get(channel), (*place_of(id, "text", index), at), whole=True)
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            response = member(payload, "response")
            for number, sent in enumerate(each(response.get("output"))):
                yield from item(sent, number)
            yield from usage_in(response.get("usage"), "input_tokens", "output_tokens")
            yield Fact("finish", member(response, "incomplete_details").get("reason") or phase or kind)
            yield failure(member(response, "error")) if kind.endswith("failed") else Fact("end", True)

    return said


def _anthropic() -> _Say:
    blocks: dict[Any, tuple[int, str]] = {}  # the last block of each index: its number, its type
    opened = 0

    def said(payload: Payload) -> Iterator[Fact]:
        nonlocal opened
        index, delta = payload.get("index"), member(payload, "delta")
        for holder in (member(payload, "message"), payload):
            yield from usage_in(holder.get("usage"), "input_tokens", "output_tokens")
        match payload.get("type"):
            case "content_block_start":
                block = member(payload, "content_block")
                blocks[index] = opened, str(block.get("type"))
                if block.get("type") == "tool_use":
                    for channel in ("id", "name"):
                        yield Fact(channel, block.get(channel), (opened,))
                    yield Fact("default", text_of(block.get("input")), (opened,))
                yield from spoken(block, opened)
                opened += 1
            case "content_block_delta" if index in blocks:
                number, kind = blocks[index]
                yield from spoken(delta, number)
                if kind == "tool_use":
                    yield Fact("arguments", delta.get("partial_json"), (number,))
            case "message_delta":
                yield Fact("finish", delta.get("stop_reason"))
            case "message_stop":
                yield Fact("end", True)

    def spoken(holder: Payload, number: int) -> Iterator[Fact]:
        if holder.get("type") in ("text", "text_delta", "thinking", "thinking_delta"):
            yield Fact("text", holder.get("text"), (number,))
            yield Fact("reasoning", holder.get("thinking"), (number,))

    return said


def _gemini() -> _Say:
    calls = 0

    def said(payload: Payload) -> Iterator[Fact]:
        nonlocal calls
        yield from usage_in(payload.get("usageMetadata"), "promptTokenCount", "candidatesTokenCount")
        yield Fact("finish", member(payload, "promptFeedback").get("blockReason"))
        for candidate in each(payload.get("candidates")):
            number = candidate.get("index") or 0
            for part in each(member(candidate, "content").get("parts")):
                call = part.get("functionCall")
                if isinstance(call, dict):
                    calls += 1
                    arguments = text_of(call.get("args", {}))
                    yield from spelled(call.get("id"), call.get("name"), arguments, (calls,), number)
                else:
                    yield Fact("reasoning" if part.get("thought") else "text", part.get("text"), choice=number)
            yield Fact("finish", candidate.get("finishReason"), choice=number)

    return said


def _ollama() -> _Say:
    calls = 0

    def said(payload: Payload) -> Iterator[Fact]:
        nonlocal calls
        message = member(payload, "message")
        yield Fact("text", message.get("content"))
        yield Fact("reasoning", message.get("thinking"))
        for call in each(message.get("tool_calls")):
            calls += 1
            body = member(call, "function")
            arguments = text_of(body.get("arguments", {}))
            yield from spelled(call.get("id"), body.get("name"), arguments, (calls,))
        if payload.get("done") is True:
            yield Fact("finish", payload.get("done_reason"))
            yield from usage_in(payload, "prompt_eval_count", "eval_count")
            yield Fact("end", True)

    return said


SAID: dict[str, Callable[[], _Say]] = {
    "chat": _chat, "responses": _responses, "anthropic": _anthropic, "gemini": _gemini, "ollama": _ollama,
}  # fmt: skip
