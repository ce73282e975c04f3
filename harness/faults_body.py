"""Faults in what a stream says: its events, their bytes, their ends. Each is a function from plan to plan. Pure.

As in faults_wire: parameters after the plan are what users may set, the docstring's first line is what they read.
Where no place is given it is after half of the events.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import msgspec

from harness.error_forms import dialect_in, error_event
from harness.faults_wire import Size
from harness.jsontext import Undecodable, as_text, decode
from harness.sse import BOM, ServerSentEvent
from harness.steps import Close, Edit, Head, Send, Step, body_of, edited, events_in, place_of, split

Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]

_FINISH = re.compile(rb'("(?:finish_reason|stop_reason|finishReason|done_reason)"\s*:\s*)"[^"]*"')
# Where texts stand, in whatever dialect: the start of one of a letter or more.
_TEXT = re.compile(
    rb'"(?:content|text|delta|arguments|partial_json|thinking|reasoning_content|response)"\s*:\s*"(?=[^"])'
)
_NOISE_SEED = 1


def _place(steps: Sequence[Step], event: int | None, byte: int | None = None) -> int:
    place = place_of(steps, event, byte)
    if place is None:
        place = place_of(steps, len(events_in(body_of(steps))) // 2, None) or 0
    return place


def drop_marker(steps: Sequence[Step]) -> list[Step]:
    """The event that marks the end ([DONE], message_stop, response.completed, done: true ...) is left out."""
    return edited(steps, [(event.at, end, b"") for event, end in _markers(steps)])


def double_marker(steps: Sequence[Step]) -> list[Step]:
    """The event that marks the end comes twice."""
    body = body_of(steps)
    return edited(steps, [(end, end, body[event.at : end]) for event, end in _markers(steps)])


def _markers(steps: Sequence[Step]) -> Iterator[tuple[ServerSentEvent, int]]:
    return ((event, end) for event, end in events_in(body_of(steps)) if _is_marker(event.data))


def _is_marker(data: bytes) -> bool:
    """Whether the event is its dialect's regular end. Source: DESIGN, table of dialects."""
    if data.strip() == b"[DONE]":
        return True
    try:
        payload = decode(data)
    except Undecodable:
        return False
    ends = ("message_stop", "message-end", "response.completed", "response.incomplete", "response.failed")
    return isinstance(payload, dict) and (payload.get("type") in ends or payload.get("done") is True)


def drop_finish(steps: Sequence[Step]) -> list[Step]:
    """No event says why the answer ended: the reason is null. Responses says it in its end marker, which goes."""
    body = body_of(steps)
    if dialect_in(body) == "responses":
        return drop_marker(steps)
    return edited(steps, [(found.end(1), found.end(), b"null") for found in _FINISH.finditer(body)])


def error(
    steps: Sequence[Step], event: int | None = None, byte: int | None = None, marker: bool = False
) -> list[Step]:  # fmt: skip
    """An error in the dialect's shape after EVENT events or BYTE bytes, then the end (MARKER=true: with its marker)."""
    before = split(steps, _place(steps, event, byte))[0]
    body = body_of(steps)
    ends = [body[found.at : end] for found, end in _markers(steps)][-1:] if marker else []
    return [*before, *map(Send, [_error(steps, len(events_in(body_of(before)))), *ends]), Close()]


def half_event(steps: Sequence[Step], event: int | None = None) -> list[Step]:
    """EVENT events, half of the next one, and right after it an error in the dialect's own shape; then the end."""
    start = _place(steps, event)
    events = events_in(body_of(steps))
    number = sum(end <= start for _, end in events)
    if number == len(events):
        return error(steps, number)
    half = (start + events[number][1]) // 2
    return [*split(steps, half)[0], Send(_error(steps, number)), Close()]


def _error(steps: Sequence[Step], number: int) -> bytes:
    body = body_of(steps)
    return error_event(dialect_in(body), number, b"\r\n" if b"\r\n" in body else b"\n")


def garbage(steps: Sequence[Step], event: int | None = None, byte: int | None = None, size: Size = 64) -> list[Step]:
    """SIZE (64) bytes of noise come after EVENT events or BYTE bytes."""
    rng = random.Random(_NOISE_SEED)  # random() alone is promised to be the same in every version of Python
    place = _place(steps, event, byte)
    return edited(steps, [(place, place, bytes(int(rng.random() * 256) for _ in range(size)))])


def invalid_utf8(steps: Sequence[Step], event: int | None = None, byte: int | None = None) -> list[Step]:
    """A text after EVENT events or BYTE bytes starts with two bytes of a character whose third never comes."""
    place, body = _place(steps, event, byte), body_of(steps)
    found = _TEXT.search(body, place) or _TEXT.search(body)
    at = found.end() if found is not None else place
    return edited(steps, [(at, at, "€".encode()[:2])])


def repeat(steps: Sequence[Step], event: int | None = None, byte: int | None = None) -> list[Step]:
    """After EVENT events or BYTE bytes the stream comes again from its start: a retry that forgot what it had sent."""
    before = split(steps, _place(steps, event, byte))[0]
    return [*before, *(step for step in steps if not isinstance(step, Head))]


def reuse_index(steps: Sequence[Step]) -> list[Step]:
    """All tool calls have the index of the first (chat, Responses, Anthropic, Cohere; the others number none)."""
    body = body_of(steps)
    change = _REUSED.get(dialect_in(body))
    if change is None:
        return list(steps)
    first: dict[Any, Any] = {}
    edits: list[Edit] = []
    for event, _ in events_in(body):
        try:
            payload = decode(event.data)
        except Undecodable:
            continue
        if isinstance(payload, dict) and not event.lines and change(payload, first):
            at = body.index(event.data, event.at)
            edits.append((at, at + len(event.data), as_text(payload).encode()))
    return edited(steps, edits)


def _chat_index(payload: dict[str, Any], first: dict[Any, Any]) -> bool:
    choices = payload.get("choices")
    changed = False
    for choice in choices if isinstance(choices, list) else []:
        delta = choice.get("delta") if isinstance(choice, dict) else None
        calls = delta.get("tool_calls") if isinstance(delta, dict) else None
        for call in calls if isinstance(calls, list) else []:
            changed |= isinstance(call, dict) and _renumbered(call, "index", first)
    return changed


def _block_index(payload: dict[str, Any], first: dict[Any, Any]) -> bool:
    """Anthropic numbers all blocks: those of calls are told by their start, and remembered in `first`."""
    block, index = payload.get("content_block"), payload.get("index")
    if isinstance(block, dict) and block.get("type") == "tool_use":
        first.setdefault("index", index)
        first[index, "call"] = True
    return (index, "call") in first and _renumbered(payload, "index", first)


def _item_index(payload: dict[str, Any], first: dict[Any, Any]) -> bool:
    item = payload.get("item")
    if isinstance(item, dict) and item.get("type") in ("function_call", "custom_tool_call"):
        first.setdefault("output_index", payload.get("output_index"))
        first[payload.get("output_index"), "call"] = True
    return (payload.get("output_index"), "call") in first and _renumbered(payload, "output_index", first)


def _cohere_index(payload: dict[str, Any], first: dict[Any, Any]) -> bool:
    return str(payload.get("type")).startswith("tool-call") and _renumbered(payload, "index", first)


def _renumbered(members: dict[str, Any], name: str, first: dict[Any, Any]) -> bool:
    """Give the member the first value seen; whether that changed it."""
    if name not in members or members[name] == first.setdefault(name, members[name]):
        return False
    members[name] = first[name]
    return True


_REUSED: dict[str, Callable[[dict[str, Any], dict[Any, Any]], bool]] = {
    "chat": _chat_index, "anthropic": _block_index, "responses": _item_index, "cohere": _cohere_index,
}  # fmt: skip


def comments(steps: Sequence[Step], event: int | None = None, count: Count = 1000) -> list[Step]:
    """COUNT (1000) comments come after EVENT events; in NDJSON, which has none, blank lines."""
    place = _place(steps, event)
    one = b"\n" if dialect_in(body_of(steps)) == "ollama" else b": keep-alive\n\n"
    return edited(steps, [(place, place, one * count)])


def bom(steps: Sequence[Step]) -> list[Step]:
    """The body opens with a byte order mark."""
    return edited(steps, [(0, 0, BOM)])


def crlf(steps: Sequence[Step]) -> list[Step]:
    """Every line ends with CR LF."""
    line_ends = re.finditer(rb"(?<!\r)\n", body_of(steps))
    return edited(steps, [(found.start(), found.end(), b"\r\n") for found in line_ends])


def huge_event(steps: Sequence[Step], event: int | None = None, size: Size = 1_000_000) -> list[Step]:
    """The first JSON event after EVENT events has SIZE (1000000) bytes more, in a member that nobody knows."""
    start, body = _place(steps, event), body_of(steps)
    for found, end in events_in(body):
        if end > start and found.data[:1] == b"{" and not found.lines:
            at = body.index(found.data, found.at) + 1
            return edited(steps, [(at, at, b'"padding":"' + b"x" * size + b'",')])
    return list(steps)


BODY_FAULTS: tuple[Callable[..., list[Step]], ...] = (
    drop_marker, double_marker, drop_finish, error, half_event, garbage, invalid_utf8, repeat, reuse_index, comments,
    bom, crlf, huge_event,
)  # fmt: skip
