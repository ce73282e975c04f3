"""Rewrites of chat streams that leave the structure as it is (RULES, section 1): bytes -> bytes.

A relay may split and merge deltas; ids, times and wording differ with every answer. Only whole events that hold one
JSON object on one data line are rewritten; everything else of the body, framing included, stays byte for byte.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from harness.events import ToolCall
from harness.reduce import events_of
from harness.sse import ServerSentEvent, SSEParser

TEXTS = ("content", "reasoning_content", "reasoning", "reasoning_text", "thinking", "refusal")
# Where every letter is wording: texts, and what stands in the parts of a content or of reasoning_details.
WORDING = (*TEXTS, "text", "summary")
TIMES = re.compile(r"created|(^|_)time|_ms$|_at$|timings|_per_second$")


class Chunk:
    """One event of the body whose data line holds a JSON object: its place, and the payload to change."""

    def __init__(self, event: ServerSentEvent, payload: dict[str, Any]) -> None:
        self.at, self.length, self.data = event.at, event.length, event.data
        self.payload = payload


def chunks(body: bytes) -> list[Chunk]:
    """The events that can be rewritten, in order."""
    parser = SSEParser()
    found = []
    for event in parser.feed(body):
        if isinstance(event, ServerSentEvent) and not event.lines:
            try:
                payload = json.loads(event.data, object_pairs_hook=_members)
            except (ValueError, RecursionError):
                continue
            if isinstance(payload, dict):
                found.append(Chunk(event, payload))
    return found


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object, unless it names a member twice: written again it would have lost one."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a member twice")
    return dict(pairs)


def written(body: bytes, chunk: Chunk, payloads: list[dict[str, Any]]) -> bytes:
    """The bytes of the chunk's event with these payloads in place of its own: one event each, none for none."""
    block = body[chunk.at : chunk.at + chunk.length]
    ending = next(end for end in (b"\r\n", b"\n", b"\r") if block.endswith(end))
    blocks = [block.replace(chunk.data, _json(payload)) for payload in payloads]
    return ending.join(blocks)


def _json(payload: dict[str, Any]) -> bytes:
    try:
        return json.dumps(payload, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a character
        return json.dumps(payload).encode()


def rewrite(body: bytes, change: Callable[[Chunk], list[dict[str, Any]] | None]) -> bytes:
    """The body with every chunk replaced by what `change` returns; None leaves it as it is, byte for byte."""
    out, at = [], 0
    for chunk in chunks(body):
        payloads = change(chunk)
        if payloads is not None:
            out += [body[at : chunk.at], written(body, chunk, payloads)]
            at = chunk.at + chunk.length
    return b"".join([*out, body[at:]])


# -- shared views of a payload ------------------------------------------------------------------------------------


def _only_choice(payload: dict[str, Any]) -> dict[str, Any] | None:
    """The one choice of a chunk that goes on: it has a delta and no finish reason."""
    choices = payload.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    goes_on = isinstance(choice.get("delta"), dict) and not choice.get("finish_reason") and not choice.get("message")
    return choice if goes_on and not payload.get("error") and not choice.get("error") else None


def _continuations(body: bytes) -> set[int]:
    """Offsets of the events whose fragments all go on with open calls: no id or name is told for the first time."""
    told: dict[tuple[int, int], tuple[str, str]] = {}  # id and name so far
    found: dict[int, bool] = {}
    for event in events_of(body):
        if isinstance(event, ToolCall):
            key = event.choice, event.index
            call_id, name = told.get(key, ("", ""))
            goes_on = key in told and event.id in (None, "", call_id) and event.name in (None, "", name)
            found[event.at] = found.get(event.at, True) and goes_on
            told[key] = call_id or event.id or "", name if event.name == name else name + (event.name or "")
    return {at for at, goes_on in found.items() if goes_on}


def _entries(delta: dict[str, Any]) -> list[dict[str, Any]]:
    entries = delta.get("tool_calls")
    return entries if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries) else []


def _holder(entry: dict[str, Any]) -> tuple[dict[str, Any], str] | None:
    """Where the fragment's piece stands: the object and the member, if it is a string."""
    for name, member in (("function", "arguments"), ("custom", "input")):
        inner = entry.get(name)
        if isinstance(inner, dict) and isinstance(inner.get(member), str):
            return inner, member
    return None


def _piece(delta: dict[str, Any]) -> str:
    """The text of the delta's last fragment, "" if there is none."""
    entries = _entries(delta)
    held = _holder(entries[-1]) if entries else None
    return str(held[0][held[1]]) if held else ""


def _set_piece(delta: dict[str, Any], text: str) -> None:
    held = _holder(_entries(delta)[-1])
    if held is not None:
        held[0][held[1]] = text


def _mirror(delta: dict[str, Any], *rewritten: dict[str, Any]) -> None:
    """Where the last fragment stood under the old name `function_call` too, it does so again."""
    entries = _entries(delta)
    if entries and "function" in entries[-1] and delta.get("function_call") == entries[-1]["function"]:
        for half in rewritten:
            half["function_call"] = _entries(half)[-1]["function"]


# -- the rewrites -------------------------------------------------------------------------------------------------


def split(body: bytes) -> bytes:
    """Each text delta, and each arguments delta that continues a call, in two.

    The second half says what the first must not be told again: neither a role nor an empty list. A fragment that opens
    a call stays whole: whether all arguments came with it is a fact. So does a chunk with a finish reason.
    """
    goes_on = _continuations(body)

    def change(chunk: Chunk) -> list[dict[str, Any]] | None:
        choice = _only_choice(chunk.payload)
        if choice is None:
            return None
        delta = choice["delta"]
        texts = {name: delta[name] for name in TEXTS if isinstance(delta.get(name), str) and len(delta[name]) > 1}
        if texts and not _entries(delta):
            first, second = copy.deepcopy(delta), {}
            for name, text in texts.items():
                first[name], second[name] = text[: len(text) // 2], text[len(text) // 2 :]
        elif chunk.at in goes_on and len(_piece(delta)) > 1:
            # Of several fragments the last: a second one of the same call must not come between its halves.
            first, second = copy.deepcopy(delta), {"tool_calls": [copy.deepcopy(_entries(delta)[-1])]}
            text = _piece(delta)
            _set_piece(first, text[: len(text) // 2])
            _set_piece(second, text[len(text) // 2 :])
            _mirror(delta, first, second)
        else:
            return None
        return [{**chunk.payload, "choices": [{**choice, "delta": half}]} for half in (first, second)]

    return rewrite(body, change)


def merge(body: bytes, keep: int = 4) -> bytes:
    """Neighbouring deltas of the same kind in one: of text alone, or of arguments that continue one call.

    Two chunks are neighbours if only a blank line is between them, and merge if they differ in nothing else (`created`
    aside). At least `keep` chunks of the stream stay: under four, whether usage is repeated is undecided.
    """
    goes_on = _continuations(body)
    found = chunks(body)
    room = len(found) - keep
    groups: list[list[Chunk]] = []
    for chunk in found:
        last = groups[-1][-1] if groups else None
        if last is not None and room > 0 and _alike(body, goes_on, last, chunk):
            groups[-1].append(chunk)
            room -= 1
        else:
            groups.append([chunk])
    out, at = [], 0
    for group in groups:
        if len(group) > 1:
            payload = copy.deepcopy(group[0].payload)
            for other in group[1:]:
                _join(payload["choices"][0]["delta"], other.payload["choices"][0]["delta"])
            out += [body[at : group[0].at], written(body, group[0], [payload])]
            at = group[-1].at + group[-1].length
    return b"".join([*out, body[at:]])


def _alike(body: bytes, goes_on: set[int], one: Chunk, other: Chunk) -> bool:
    if any(len(body[chunk.at : chunk.at + chunk.length].splitlines()) > 1 for chunk in (one, other)):
        return False  # the second's name would be lost
    if body[one.at + one.length : other.at].strip(b"\r\n"):
        return False
    shapes = [_shape(chunk, goes_on) for chunk in (one, other)]
    return shapes[0] is not None and shapes[0] == shapes[1]


def _shape(chunk: Chunk, goes_on: set[int]) -> Any:
    """The payload without its piece and its time, None if it is no plain delta."""
    choice = _only_choice(chunk.payload)
    if choice is None or chunk.payload.get("usage") or choice.get("logprobs") or choice.get("usage"):
        return None
    payload = copy.deepcopy(chunk.payload)
    payload.pop("created", None)
    delta = payload["choices"][0]["delta"]
    if list(delta) == ["content"] and isinstance(delta["content"], str) and delta["content"]:
        delta["content"] = "text"
        return payload
    entries = _entries(delta)
    held = _holder(entries[0]) if list(delta) == ["tool_calls"] and len(entries) == 1 and chunk.at in goes_on else None
    if held is None or list(held[0]) != [held[1]] or not held[0][held[1]]:
        return None
    held[0][held[1]] = "arguments"
    return payload


def _join(delta: dict[str, Any], more: dict[str, Any]) -> None:
    if "content" in delta:
        delta["content"] += more["content"]
    else:
        _set_piece(delta, _piece(delta) + _piece(more))


def rename(body: bytes) -> bytes:
    """Every id another one, the same for the same: of responses and of calls. Also where no chunk can be rewritten."""
    named = [node.get("id") for chunk in chunks(body) for node in _objects(chunk.payload)]
    found = {name for name in named if isinstance(name, str) and name}
    for number, name in enumerate(sorted(found)):
        body = body.replace(json.dumps(name).encode(), json.dumps(f"renamed-{number}").encode())
    return body


def shift(body: bytes) -> bytes:
    """Every time another one: `created`, and what vendors add."""

    def moved(node: dict[str, Any], inside: bool) -> None:
        for key, value in node.items():
            timed = inside or bool(TIMES.search(key))
            if isinstance(value, dict):
                moved(value, timed)
            elif timed and isinstance(value, int | float) and not isinstance(value, bool):
                node[key] = value + 3

    def change(chunk: Chunk) -> list[dict[str, Any]]:
        payload = copy.deepcopy(chunk.payload)
        moved(payload, False)
        return [payload]

    return rewrite(body, change)


def _objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from _objects(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _objects(inner)


class Masker:
    """Replaces the letters inside the JSON strings of a call's arguments, piece by piece; escapes stay as they are."""

    def __init__(self) -> None:
        self.inside = False
        self.escape = 0  # characters of an escape still to come

    def mask(self, piece: str) -> str:
        out = []
        for character in piece:
            if not self.inside:
                self.inside = character == '"'
            elif self.escape:
                self.escape = 4 if self.escape == -1 and character == "u" else max(self.escape - 1, 0)
            elif character == "\\":
                self.escape = -1
            elif character == '"':
                self.inside = False
            elif character.isalpha():
                character = "q"
            out.append(character)
        return "".join(out)


def letters(body: bytes) -> bytes:
    """Every letter of text and arguments a `q`; JSON stays JSON."""
    maskers: dict[tuple[int, int], Masker] = {}
    fragments: dict[int, list[ToolCall]] = {}
    for event in events_of(body):
        if isinstance(event, ToolCall):
            fragments.setdefault(event.at, []).append(event)

    def masked(node: Any, wording: bool = False) -> Any:
        if isinstance(node, dict):
            return {key: masked(value, key in WORDING) for key, value in node.items()}
        if isinstance(node, list):
            return [masked(value, wording) for value in node]
        return re.sub(r"[^\W\d_]", "q", node) if wording and isinstance(node, str) else node

    def change(chunk: Chunk) -> list[dict[str, Any]]:
        payload: dict[str, Any] = copy.deepcopy(chunk.payload)
        told = iter(fragments.get(chunk.at, []))
        for choice in _dicts(payload.get("choices")):
            for name in ("delta", "message"):
                if isinstance(choice.get(name), dict):
                    choice[name] = {
                        key: value if key in ("tool_calls", "function_call") else masked(value, key in TEXTS)
                        for key, value in choice[name].items()
                    }
            delta = next(iter(_dicts([choice.get("delta")])), {})
            before = copy.deepcopy(delta)
            for entry in [*_dicts(delta.get("tool_calls")), *_dicts([delta.get("function_call")])]:
                event = next(told, None)
                if event is None:
                    continue
                masker = maskers.setdefault((event.choice, event.index), Masker())
                if "custom" in entry and (held := _holder(entry)):
                    held[0][held[1]] = masked(held[0][held[1]], True)
                    continue
                inner = entry["function"] if isinstance(entry.get("function"), dict) else entry
                if isinstance(inner.get("arguments"), str):
                    inner["arguments"] = masker.mask(inner["arguments"])
            _mirror(before, delta)
        return [payload]

    return rewrite(body, change)


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
