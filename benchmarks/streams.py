"""Deterministic streams of four families, made and not recorded: the same arguments give the same bytes everywhere.

chat_text: Chat Completions, one text delta a chunk. chat_tools: five parallel calls whose fragments take turns.
responses: Responses API, four fifths text, one fifth arguments. messages: Anthropic Messages, likewise, with pings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

CALLS = 5
CREATED = 1_760_000_000
TEXT = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which "
    "one you were all her she there would their we him been has when who will no more if out so up said what its about "
    "than into them can only other time new some could these two may first then do any like my now over such our man "
    "me even most made after also did many off before must well back through years where much your way down should "
    "because long each just state those people too mr how little good world make very year still"
)
WORDS = TEXT.split()
# Now and then a token that strains UTF-8, JSON escapes and line handling.
SPICE = ("é", " naïve", " 日本", "語", "🙂", "\n", "\n\n", '"', " \\", "\t", " \u2028", "```py\n", " data:", "{", "}")


class Chance:
    """A 64-bit linear congruential generator (Knuth's MMIX constants), of which the high bits are used."""

    def __init__(self, seed: int) -> None:
        self.state = (seed * 0x9E3779B97F4A7C15 + 0x1234567) & 0xFFFFFFFFFFFFFFFF

    def below(self, limit: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        return (self.state >> 33) % limit

    def token(self) -> str:
        return SPICE[self.below(len(SPICE))] if self.below(25) == 0 else " " + WORDS[self.below(len(WORDS))]

    def digits(self, count: int) -> str:
        return "".join("0123456789abcdef"[self.below(16)] for _ in range(count))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))  # raw U+2028 stays in the bytes, as servers do


def _fragments(chance: Chance, count: int) -> list[str]:
    """Fragments that make one JSON object."""
    middle = [
        '","' if number % 8 == 7 else WORDS[chance.below(len(WORDS))] + (" " if chance.below(2) else "é")
        for number in range(count - 2)
    ]
    return ['{"items":["', *middle, '"]}']


def _head(chance: Chance) -> dict[str, Any]:
    return {
        "id": "chatcmpl-" + chance.digits(24), "object": "chat.completion.chunk", "created": CREATED,
        "model": "synthetic-1", "service_tier": "default", "system_fingerprint": "fp_" + chance.digits(10),
    }  # fmt: skip


def _chunk(head: dict[str, Any], delta: dict[str, Any], finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return f"data: {_json({**head, 'choices': [choice], 'usage': None, **more})}\n\n".encode()


def _counted(head: dict[str, Any], count: int) -> bytes:
    usage = {"prompt_tokens": 42, "completion_tokens": count, "total_tokens": count + 42}
    return f"data: {_json({**head, 'choices': [], 'usage': usage})}\n\n".encode() + b"data: [DONE]\n\n"


def chat_text(count: int) -> Iterator[bytes]:
    chance = Chance(7)
    head = _head(chance)

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _chunk(head, delta, finish, obfuscation=chance.digits(4 + chance.below(12)))

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for _ in range(count):
        yield chunk({"content": chance.token()})
    yield chunk({}, "stop")
    yield _counted(head, count)


def chat_tools(count: int) -> Iterator[bytes]:
    chance = Chance(8)
    head = _head(chance)
    yield _chunk(head, {"role": "assistant", "content": None})
    left = [_fragments(chance, max(2, count // CALLS))[::-1] for _ in range(CALLS)]
    for index in range(CALLS):
        function = {"name": f"tool_{index}", "arguments": ""}
        call = {"index": index, "id": "call_" + chance.digits(20), "type": "function", "function": function}
        yield _chunk(head, {"tool_calls": [call]})
    live = list(range(CALLS))
    while live:
        index = live[chance.below(len(live))]
        yield _chunk(head, {"tool_calls": [{"index": index, "function": {"arguments": left[index].pop()}}]})
        if not left[index]:
            live.remove(index)
    yield _chunk(head, {}, "tool_calls")
    yield _counted(head, count)


def responses(count: int) -> Iterator[bytes]:
    chance = Chance(9)
    number = -1

    def event(kind: str, **members: object) -> bytes:
        nonlocal number
        number += 1
        return f"event: {kind}\ndata: {_json({'type': kind, **members, 'sequence_number': number})}\n\n".encode()

    response, message, function = (prefix + chance.digits(32) for prefix in ("resp_", "msg_", "fc_"))

    def state(status: str, output: list[Any], usage: dict[str, Any] | None = None) -> dict[str, Any]:
        return {
            "id": response, "object": "response", "created_at": CREATED, "status": status, "error": None,
            "incomplete_details": None, "instructions": None, "max_output_tokens": None, "model": "synthetic-1",
            "output": output, "parallel_tool_calls": True, "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None}, "store": False, "temperature": 1.0,
            "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": 1.0,
            "truncation": "disabled", "usage": usage, "metadata": {},
        }  # fmt: skip

    yield event("response.created", response=state("in_progress", []))
    yield event("response.in_progress", response=state("in_progress", []))
    item: dict[str, Any] = {
        "id": message, "type": "message", "status": "in_progress", "content": [], "role": "assistant",
    }  # fmt: skip
    yield event("response.output_item.added", output_index=0, item=item)
    place = {"item_id": message, "output_index": 0, "content_index": 0}
    part: dict[str, Any] = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    yield event("response.content_part.added", **place, part=part)
    passed, said = max(2, count // 5), []
    for _ in range(count - passed):
        said.append(chance.token())
        yield event("response.output_text.delta", **place, delta=said[-1], logprobs=[],
                    obfuscation=chance.digits(4 + chance.below(12)))  # fmt: skip
    part = {**part, "text": "".join(said)}
    yield event("response.output_text.done", **place, text=part["text"], logprobs=[])
    yield event("response.content_part.done", **place, part=part)
    item = {**item, "status": "completed", "content": [part]}
    yield event("response.output_item.done", output_index=0, item=item)
    call: dict[str, Any] = {
        "id": function, "type": "function_call", "status": "in_progress", "arguments": "",
        "call_id": "call_" + chance.digits(20), "name": "tool_0",
    }  # fmt: skip
    yield event("response.output_item.added", output_index=1, item=call)
    fragments = _fragments(chance, passed)
    for fragment in fragments:
        yield event("response.function_call_arguments.delta", item_id=function, output_index=1, delta=fragment,
                    obfuscation=chance.digits(4 + chance.below(12)))  # fmt: skip
    arguments = "".join(fragments)
    yield event("response.function_call_arguments.done", item_id=function, name="tool_0", output_index=1,
                arguments=arguments)  # fmt: skip
    call = {**call, "status": "completed", "arguments": arguments}
    yield event("response.output_item.done", output_index=1, item=call)
    yield event("response.completed", response=state("completed", [item, call], {
        "input_tokens": 42, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": count,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": count + 42,
    }))  # fmt: skip


def messages(count: int) -> Iterator[bytes]:
    chance = Chance(10)

    def event(kind: str, **members: object) -> bytes:
        return f"event: {kind}\ndata: {_json({'type': kind, **members})}\n\n".encode()

    usage = {"input_tokens": 42, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
    yield event("message_start", message={
        "id": "msg_" + chance.digits(24), "type": "message", "role": "assistant", "model": "synthetic-1",
        "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
    })  # fmt: skip
    passed = max(2, count // 5)
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for number in range(count - passed):
        if number % 2000 == 0:
            yield event("ping")
        yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": chance.token()})
    yield event("content_block_stop", index=0)
    block = {"type": "tool_use", "id": "toolu_" + chance.digits(22), "name": "tool_0", "input": {}}
    yield event("content_block_start", index=1, content_block=block)
    for fragment in _fragments(chance, passed):
        yield event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": fragment})
    yield event("content_block_stop", index=1)
    yield event("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None},
                usage={"output_tokens": count})  # fmt: skip
    yield event("message_stop")


FAMILIES: dict[str, Callable[[int], Iterator[bytes]]] = {
    "chat_text": chat_text, "chat_tools": chat_tools, "responses": responses, "messages": messages,
}  # fmt: skip
CHAT = ("chat_text", "chat_tools")
DIALECTS = {"chat_text": "chat", "chat_tools": "chat", "responses": "responses", "messages": "anthropic"}


def stream(family: str, count: int) -> bytes:
    """The body: `count` deltas, and what stands around them."""
    return b"".join(FAMILIES[family](count))


def huge(megabytes: int) -> bytes:
    """A chat stream with one delta of that many MB."""
    head = _head(Chance(7))
    long = _chunk(head, {"content": "0123456789abcdef" * (megabytes * 62_500)})
    return _chunk(head, {"content": "start"}) + long + _chunk(head, {}, "stop") + b"data: [DONE]\n\n"


def cut(body: bytes, pieces: str) -> list[bytes]:
    """The body in pieces of 4096 bytes ("4k"), or one event each ("event")."""
    if pieces == "event":
        return [block + b"\n\n" for block in body.split(b"\n\n") if block]
    return [body[at : at + 4096] for at in range(0, len(body), 4096)]
