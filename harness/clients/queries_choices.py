"""The questions that `queries.py` asks of a list of payloads: what is each choice's text, what are its calls ...

One function a dialect: payloads to choices by number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

Payload = dict[str, Any]


def json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def last(values: Iterable[Any]) -> Any:
    """The last value that says anything."""
    return next((value for value in reversed(list(values)) if value not in (None, "")), None)


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def objects(value: Any) -> list[Payload]:
    return [entry for entry in value if is_object(entry)] if isinstance(value, list) else []


def inner(holder: Payload, name: str) -> Payload:
    """A member that is an object; an empty one instead of anything else."""
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def _strings(values: Iterable[Any]) -> str:
    """The texts among the values, joined; written as JSON and read again, two halves of a character become one."""
    joined = "".join(value for value in values if isinstance(value, str))
    return joined if joined.isascii() else str(json.loads(json.dumps(joined)))


def _numbered(calls: Iterable[tuple[Any, Any, str]]) -> list[Payload]:
    """Id, name and arguments of each call, in order."""
    return [
        {"index": index, "id": id or "", "name": name or "", "arguments": arguments}
        for index, (id, name, arguments) in enumerate(calls)
    ]


def _text(value: Any) -> str:
    """Arguments as text."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


# -- chat


def _chat(payloads: list[Payload]) -> dict[int, Payload]:
    sent = [choice for payload in payloads for choice in objects(payload.get("choices"))]
    numbers = {0} | {choice["index"] for choice in sent if isinstance(choice.get("index"), int)}
    return {number: _chat_choice([one for one in sent if (one.get("index") or 0) == number]) for number in numbers}


def _chat_choice(sent: list[Payload]) -> Payload:
    deltas = [inner(choice, "delta") for choice in sent if choice.get("delta") is not None]
    deltas = deltas or [inner(choice, "message") for choice in sent][-1:]
    parts = [part for delta in deltas for part in _parts(delta.get("content"))]
    reasoning = [
        delta.get("reasoning_content") or delta.get("reasoning") or delta.get("thinking") or _strings(
            _strings(inner.get("text") for inner in objects(part.get("thinking")))
            for part in objects(delta.get("content"))
        )
        for delta in deltas
    ]  # fmt: skip
    refusals = [delta["refusal"] for delta in deltas if delta.get("refusal")]
    return {
        "text": _strings(part.get("text") for part in parts), "reasoning": _strings(reasoning),
        "refusal": _strings(refusals) or None, "tool_calls": _chat_calls(deltas),
        "finish_raw": last(choice.get("finish_reason") for choice in sent),
    }  # fmt: skip


def _parts(content: Any) -> list[Payload]:
    return [{"text": content}] if isinstance(content, str) else objects(content)


def _chat_calls(deltas: list[Payload]) -> list[Payload]:
    """First every fragment is given the number of its call, then each call is read off its fragments."""
    entries = [entry for delta in deltas for entry in objects(delta.get("tool_calls"))]
    entries += [{"function": delta["function_call"]} for delta in deltas if delta.get("function_call")]
    owners: list[int] = []
    for at, entry in enumerate(entries):
        owners.append(_owner(entry, [(owner, entries[before]) for before, owner in enumerate(owners[:at])]))
    groups = [[entry for owner, entry in zip(owners, entries, strict=True) if owner == n] for n in sorted(set(owners))]
    return _numbered(_chat_call(fragments) for fragments in sorted(groups, key=_wire_place))


def _wire_place(fragments: list[Payload]) -> tuple[bool, int]:
    """Sort key: by index, those without one last."""
    place = fragments[0].get("index")
    return (False, place) if isinstance(place, int) else (True, 0)


def _owner(entry: Payload, before: list[tuple[int, Payload]]) -> int:
    """The number of the call that a fragment belongs to, given the fragments before it with theirs."""
    place, id, name = entry.get("index"), entry.get("id"), _body(entry).get("name")
    fresh = max((owner for owner, _ in before), default=-1) + 1
    if isinstance(place, int):
        owner = next((owner for owner, other in reversed(before) if other.get("index") == place), None)
        if owner is None:
            return fresh
        known = next((other["id"] for number, other in before if number == owner and other.get("id")), None)
        return fresh if id and name and known not in (None, id) else owner
    if not before:
        return fresh
    owner = before[-1][0]
    mine = [other for number, other in before if number == owner]
    known = next((other["id"] for other in mine if other.get("id")), None)
    if id:
        return fresh if known not in (None, id) else owner
    # A name once more, after arguments that are complete, can only be the next call.
    again = name and any(_body(other).get("name") for other in mine)
    return fresh if again and json_of(_strings(_body(other).get("arguments") for other in mine)) is not None else owner


def _body(entry: Payload) -> Payload:
    return inner(entry, "function") or inner(entry, "custom")


def _chat_call(fragments: list[Payload]) -> tuple[Any, Any, str]:
    bodies = [_body(fragment) for fragment in fragments]
    name = ""
    for body in bodies:
        name = name if body.get("name") in (None, name) else name + body["name"]
    pieces = [_text(body.get("arguments", body.get("input"))) for body in bodies]
    again = len(pieces) > 1 and pieces[-1] and pieces[-1] == _strings(pieces[:-1]) and json_of(pieces[-1]) is not None
    id = next((one["id"] for one in fragments if one.get("id")), None)
    return id, name, _strings(pieces[:-1] if again else pieces)


# -- responses


def _responses(payloads: list[Payload]) -> dict[int, Payload]:
    known: list[Payload] = []  # items: kind, id, place
    facts: list[tuple[int, str, Any, bool, str]] = []  # item, channel, part, whole value, text
    names: dict[int, list[Payload]] = {}
    for payload in payloads:
        for number, channel, part, whole, text in _response_facts(payload, known, names):
            if isinstance(text, str) and (text or not whole):
                facts.append((number, channel, part, whole, text))
    order = sorted(range(len(known)), key=lambda n: (not isinstance(known[n]["place"], int), known[n]["place"] or 0))

    def value(number: int, channel: str) -> str:
        mine = [fact for fact in facts if fact[:2] == (number, channel)]
        values = []
        for part in dict.fromkeys(fact[2] for fact in mine):
            told = [fact for fact in mine if fact[2] == part]
            start = max((at for at, fact in enumerate(told) if fact[3]), default=0)
            values.append(_strings(fact[4] for fact in told[start:]))
        return "".join(values)

    calls = _numbered(
        (last(item.get("call_id") for item in names.get(n, [])), last(i.get("name") for i in names.get(n, [])),
         value(n, "arguments"))
        for n in order if str(known[n]["kind"]) in ("function_call", "custom_tool_call")
    )  # fmt: skip
    ends = [payload for payload in payloads if payload.get("type") in _TERMINALS]
    raw = None
    if ends:
        raw = inner(inner(ends[-1], "response"), "incomplete_details").get("reason") or ends[-1]["type"][9:]
    return {0: {
        **{channel: "".join(value(n, channel) for n in order) for channel in ("text", "reasoning", "refusal")},
        "tool_calls": calls, "finish_raw": raw,
    }}  # fmt: skip


_TERMINALS = ("response.completed", "response.incomplete", "response.failed")
_STREAMED = {  # event: kind of item, channel, member of the whole value
    "output_text": ("message", "text", "text"), "text": ("message", "text", "text"),
    "refusal": ("message", "refusal", "refusal"),
    "reasoning_summary_text": ("reasoning", "reasoning", "text"), "reasoning_text": ("reasoning", "reasoning", "text"),
    "function_call_arguments": ("function_call", "arguments", "arguments"),
    "custom_tool_call_input": ("custom_tool_call", "arguments", "input"),
}  # fmt: skip


def _response_facts(
    payload: Payload, known: list[Payload], names: dict[int, list[Payload]]
) -> Iterator[tuple[int, str, Any, bool, Any]]:  # fmt: skip
    """What one event says of which item; `known` and `names` grow by the items it opens."""
    kind = str(payload.get("type"))
    name, _, phase = kind.removeprefix("response.").rpartition(".")
    if name in _STREAMED and phase in ("delta", "done"):
        item_kind, channel, member = _STREAMED[name]
        number = _item(known, item_kind, payload.get("item_id"), payload.get("output_index"))
        part = payload.get("content_index", payload.get("summary_index")) or 0  # some servers leave a 0 out
        if channel == "arguments":
            part = None
        text = payload.get(member) if phase == "done" else payload.get("delta", payload.get(member))
        yield number, channel, part, phase == "done", text
    elif kind == "response.content_part.done":
        part = inner(payload, "part")
        number = _item(known, "message", payload.get("item_id"), payload.get("output_index"))
        if part.get("type") in ("output_text", "refusal"):
            channel = "refusal" if part["type"] == "refusal" else "text"
            yield number, channel, payload.get("content_index") or 0, True, part.get(channel)
    items = [(payload.get("output_index"), payload.get("item"))]
    if kind in _TERMINALS:
        items = list(enumerate(objects(inner(payload, "response").get("output"))))
    for place, item in items:
        if isinstance(item, dict):
            number = _item(known, item.get("type"), item.get("id"), place, opens=kind.endswith("added"))
            names.setdefault(number, []).append(item)
            yield number, "arguments", None, True, item.get("arguments") or item.get("input")
            for at, part in enumerate(objects(item.get("content") or item.get("summary"))):
                channel = "refusal" if part.get("type") == "refusal" else "text"
                yield number, "reasoning" if item.get("type") == "reasoning" else channel, at, True, part.get(channel)


def _item(known: list[Payload], kind: Any, id: Any, place: Any, opens: bool = False) -> int:
    """The number of the item: the one of this id, else of this kind at this place, else a new one."""
    by_id = [n for n, item in enumerate(known) if id and item["id"] == id]
    by_place = [n for n, item in enumerate(known) if (item["kind"], item["place"]) == (kind, place)]
    found = by_id or ([] if opens else by_place)
    if not found:
        known.append({"kind": kind, "id": id, "place": place})
        return len(known) - 1
    return found[-1]


# -- anthropic, gemini, ollama


def _anthropic(payloads: list[Payload]) -> dict[int, Payload]:
    starts = [at for at, payload in enumerate(payloads) if payload.get("type") == "content_block_start"]
    texts, thoughts, calls = list[str](), list[str](), list[tuple[Any, Any, str]]()
    for at in starts:
        block, place = inner(payloads[at], "content_block"), payloads[at].get("index")
        until = next((later for later in starts if later > at and payloads[later].get("index") == place), None)
        deltas = [
            inner(payload, "delta") for payload in payloads[at:until]
            if payload.get("type") == "content_block_delta" and payload.get("index") == place
        ]  # fmt: skip
        match block.get("type"):
            case "text":
                texts.append(_strings([block.get("text"), *(delta.get("text") for delta in deltas)]))
            case "thinking":
                thoughts.append(_strings([block.get("thinking"), *(delta.get("thinking") for delta in deltas)]))
            case "tool_use":
                streamed = _strings(delta.get("partial_json") for delta in deltas)
                calls.append((block.get("id"), block.get("name"), streamed or _text(block.get("input"))))
    reasons = [inner(payload, "delta").get("stop_reason") for payload in payloads]
    return {0: {
        "text": "".join(texts), "reasoning": "".join(thoughts), "tool_calls": _numbered(calls),
        "finish_raw": last(reasons),
    }}  # fmt: skip


def _gemini(payloads: list[Payload]) -> dict[int, Payload]:
    sent = [one for payload in payloads for one in objects(payload.get("candidates"))]
    blocked = [inner(payload, "promptFeedback").get("blockReason") for payload in payloads]
    out = {}
    for number in {0} | {one["index"] for one in sent if isinstance(one.get("index"), int)}:
        mine = [one for one in sent if (one.get("index") or 0) == number]
        parts = [part for one in mine for part in objects(inner(one, "content").get("parts"))]
        asked = [inner(part, "functionCall") for part in parts if part.get("functionCall")]
        out[number] = {
            "text": _strings(part.get("text") for part in parts if not part.get("thought")),
            "reasoning": _strings(part.get("text") for part in parts if part.get("thought")),
            "tool_calls": _numbered((one.get("id"), one.get("name"), _text(one.get("args", {}))) for one in asked),
            "finish_raw": last([*blocked, *(one.get("finishReason") for one in mine)]),
        }
    return out


def _ollama(payloads: list[Payload]) -> dict[int, Payload]:
    messages = [inner(payload, "message") for payload in payloads]
    asked = [call for message in messages for call in objects(message.get("tool_calls"))]
    bodies = [(call.get("id"), inner(call, "function")) for call in asked]
    return {0: {
        "text": _strings(message.get("content") for message in messages),
        "reasoning": _strings(message.get("thinking") for message in messages),
        "tool_calls": _numbered((id, body.get("name"), _text(body.get("arguments", {}))) for id, body in bodies),
        "finish_raw": last(payload.get("done_reason") for payload in payloads),
    }}  # fmt: skip


CHOICES = {
    "chat": _chat, "responses": _responses, "anthropic": _anthropic, "gemini": _gemini, "ollama": _ollama,
}  # fmt: skip
