"""R, the denominator of every ratio: the least that gets from pieces to a message, and what peers fold with.

R splits at blank lines, decodes each payload with msgspec into typed records that name only what is needed, and joins
the pieces. It is no correct reader: one form of line, one line end, no notes, no events kept. Nothing that keeps what
was sent can be as fast; how many times R a reader costs is comparable from machine to machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

Folded = dict[str, Any]  # {"text": str, "tools": [[name, arguments], ...], "finish": str}


class Fn(msgspec.Struct, gc=False):
    arguments: str | None = None
    name: str | None = None


class Call(msgspec.Struct, gc=False):
    index: int
    function: Fn


class Delta(msgspec.Struct, gc=False):
    content: str | None = None
    tool_calls: list[Call] | None = None


class Choice(msgspec.Struct, gc=False):
    index: int
    delta: Delta
    finish_reason: str | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice]


class Named(msgspec.Struct, gc=False):
    type: str | None = None
    name: str | None = None
    status: str | None = None


class ResponsesEvent(msgspec.Struct, gc=False):
    type: str
    output_index: int = 0
    delta: str | None = None
    item: Named | None = None
    response: Named | None = None


class MessageDelta(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class MessageEvent(msgspec.Struct, gc=False):
    type: str
    index: int = 0
    delta: MessageDelta | None = None
    content_block: Named | None = None


class _Fold:
    __slots__ = ("finish", "text", "tools")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.tools: dict[int, tuple[str, list[str]]] = {}
        self.finish: str | None = None

    def done(self) -> Folded:
        tools = [[name, "".join(pieces)] for _, (name, pieces) in sorted(self.tools.items())]
        return {"text": "".join(self.text), "tools": tools, "finish": self.finish}


class Typed(_Fold):
    """Folds the typed records."""

    __slots__ = ()

    def chat(self, chunk: Any) -> None:
        for choice in chunk.choices:
            delta = choice.delta
            if delta.content:
                self.text.append(delta.content)
            elif delta.tool_calls:
                for call in delta.tool_calls:
                    slot = self.tools.get(call.index)
                    if slot is None:
                        slot = self.tools[call.index] = (call.function.name, [])
                    slot[1].append(call.function.arguments)
            if choice.finish_reason:
                self.finish = choice.finish_reason

    def responses(self, event: Any) -> None:
        kind = event.type
        if kind == "response.output_text.delta":
            self.text.append(event.delta)
        elif kind == "response.function_call_arguments.delta":
            self.tools[event.output_index][1].append(event.delta)
        elif kind == "response.output_item.added":
            if event.item.type == "function_call":
                self.tools[event.output_index] = (event.item.name, [])
        elif kind == "response.completed":
            self.finish = event.response.status

    def messages(self, event: Any) -> None:
        kind = event.type
        if kind == "content_block_delta":
            delta = event.delta
            if delta.text is not None:
                self.text.append(delta.text)
            elif delta.partial_json is not None:
                self.tools[event.index][1].append(delta.partial_json)
        elif kind == "content_block_start":
            if event.content_block.type == "tool_use":
                self.tools[event.index] = (event.content_block.name, [])
        elif kind == "message_delta":
            self.finish = event.delta.stop_reason


DECODE: dict[str, Callable[[bytes], Any]] = {
    "chat_text": msgspec.json.Decoder(Chunk).decode, "chat_tools": msgspec.json.Decoder(Chunk).decode,
    "responses": msgspec.json.Decoder(ResponsesEvent).decode, "messages": msgspec.json.Decoder(MessageEvent).decode,
}  # fmt: skip


def reference(pieces: list[bytes], family: str) -> Folded:
    """R."""
    fold, decode, tail = Typed(), DECODE[family], b""
    take = fold.chat if family.startswith("chat") else getattr(fold, family)
    for piece in pieces:
        blocks = (tail + piece).split(b"\n\n") if tail else piece.split(b"\n\n")
        tail = blocks.pop()
        for block in blocks:
            data = block[6:] if block[:6] == b"data: " else block[block.index(b"data: ") + 6 :]
            if data != b"[DONE]":
                take(decode(data))
    return fold.done()


class Plain(_Fold):
    """Folds decoded dicts: what one writes by hand behind a library that only parses."""

    __slots__ = ()

    def take(self, family: str, payload: Any) -> None:
        if family.startswith("chat"):
            for choice in payload["choices"]:
                delta = choice["delta"]
                if delta.get("content"):
                    self.text.append(delta["content"])
                for call in delta.get("tool_calls") or ():
                    slot = self.tools.setdefault(call["index"], (call["function"].get("name"), []))
                    slot[1].append(call["function"]["arguments"])
                self.finish = choice["finish_reason"] or self.finish
            return
        kind, delta = payload["type"], payload.get("delta")
        if kind == "response.output_text.delta":
            self.text.append(delta)
        elif kind == "response.function_call_arguments.delta":
            self.tools[payload["output_index"]][1].append(delta)
        elif kind == "response.output_item.added" and payload["item"]["type"] == "function_call":
            self.tools[payload["output_index"]] = (payload["item"]["name"], [])
        elif kind == "response.completed":
            self.finish = payload["response"]["status"]
        elif kind == "content_block_delta" and delta["type"] == "text_delta":
            self.text.append(delta["text"])
        elif kind == "content_block_delta":
            self.tools[payload["index"]][1].append(delta["partial_json"])
        elif kind == "content_block_start" and payload["content_block"]["type"] == "tool_use":
            self.tools[payload["index"]] = (payload["content_block"]["name"], [])
        elif kind == "message_delta":
            self.finish = delta["stop_reason"]


def same(found: Folded | None, pieces: list[bytes], family: str) -> bool:
    """Whether the message is R's: text, and names and arguments of the calls. What folds nothing passes."""
    if found is None:
        return True
    due = reference(pieces, family)

    def calls(message: Folded) -> list[list[Any]]:
        return [[name, json.loads(passed) if isinstance(passed, str) else passed] for name, passed in message["tools"]]

    return bool(found["text"] == due["text"] and calls(found) == calls(due))
