"""Anthropic Messages, and the servers that speak it (llama.cpp, vLLM, Dynamo, LiteLLM).

Source: "Streaming messages" (platform.claude.com/docs/en/build-with-claude/streaming) and the event types of
Anthropic's Python SDK 2.14, beta types included.

Events: message_start, content_block_start, content_block_delta, content_block_stop, message_delta, message_stop, ping,
error. Blocks: BLOCKS below. Deltas: FITS below, with the kind of block each belongs to. Stop reasons: end_turn,
stop_sequence, max_tokens, model_context_window_exceeded, tool_use, refusal, pause_turn, compaction.

`tool_use` is a call for the application; `server_tool_use` and `mcp_tool_use` run on the server and are items, as are
all other blocks but text and thinking (cases/README, rule 9). A block is found by its index; a block start always
opens a new one (rule 8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from harness.dialects.base import Dialect, as_string, integer, looks_like_error
from harness.dialects.chat import FINISH as COMMON_FINISH
from harness.events import End, Event, Finish, Item, Ping, Reasoning, Start, Text, ToolCall, Unknown, Usage
from harness.jsontext import as_text
from harness.sse import ServerSentEvent

FINISH = {**COMMON_FINISH, "model_context_window_exceeded": "length"}
BLOCKS = frozenset({
    "text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use", "mcp_tool_result",
    "mcp_tool_listing", "web_search_tool_result", "web_fetch_tool_result", "advisor_tool_result",
    "code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result",
    "tool_search_tool_result", "container_upload", "compaction", "fallback",
})  # fmt: skip
INPUT_BLOCKS = ("tool_use", "server_tool_use", "mcp_tool_use")
FITS = {
    "text_delta": ("text",), "citations_delta": ("text",), "input_json_delta": INPUT_BLOCKS,
    "thinking_delta": ("thinking",), "signature_delta": ("thinking",), "compaction_delta": ("compaction",),
}  # fmt: skip
# Delta type, or block type at its start -> the member that holds a piece, and the event that carries it.
PIECES: dict[str, tuple[str, type[Text] | type[Reasoning]]] = {
    "text_delta": ("text", Text), "thinking_delta": ("thinking", Reasoning),
    "text": ("text", Text), "thinking": ("thinking", Reasoning),
}  # fmt: skip


class Block:
    """One block: `key` counts blocks from 0, `call` is our index if the application must answer it."""

    __slots__ = ("call", "given", "id", "key", "kind", "stopped", "wire")

    def __init__(self, kind: str, key: int, wire: Any, block_id: str | None) -> None:
        self.kind, self.key, self.wire, self.id = kind, key, wire, block_id
        self.call: int | None = None
        self.given = False  # the input of the start block was read: a piece that comes later replaces it
        self.stopped = False


class Anthropic(Dialect):
    """Reads one message. There is one choice, 0."""

    name: ClassVar[str] = "anthropic"
    event_names: ClassVar[frozenset[str]] = frozenset({
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
        "message_stop", "ping", "error",
    })  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[Any, Block] = {}  # by index as sent
        self.last: Block | None = None
        self.last_call: Block | None = None
        self.opened = 0
        self.calls = 0
        self.unfilled: dict[int, Block] = {}  # by key: calls that began with {} and have got no piece so far

    def read(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        if type(payload) is not dict:
            self.notes.add("sse.data-not-object", sse.at, sse.length, as_text(payload)[:80])
            return
        kind = payload.get("type") or sse.event
        if kind == "content_block_delta":
            if "usage" in payload:  # Dynamo counts on every delta; usage counts wherever it stands (cases/README, 10)
                _usage(payload["usage"], sse, out)
            # Nearly all deltas are a piece of text, or of the input of a call that is under way.
            delta: Any = payload.get("delta")
            wire = payload.get("index")
            block = self.blocks.get(wire) if type(wire) is int and type(delta) is dict else None
            if block is not None:
                if block.kind == "text":
                    piece = delta.get("text") if delta.get("type") == "text_delta" else None
                    if piece and type(piece) is str:
                        out.append(Text(0, piece, False, sse.at, sse.length, block.key))
                        return
                elif block.call is not None and not block.given and block.key not in self.unfilled:
                    piece = delta.get("partial_json") if delta.get("type") == "input_json_delta" else None
                    if piece and type(piece) is str:
                        out.append(ToolCall(0, block.call, block.wire, None, None, piece, False, sse.at, sse.length))
                        return
            self._delta(payload, sse, out)
            return
        reader = READERS.get(kind) if type(kind) is str else None
        if reader is not None:
            reader(self, payload, sse, out)
            if "usage" in payload and kind != "message_delta":
                _usage(payload["usage"], sse, out)
        elif payload.get("error") or looks_like_error({key: payload[key] for key in payload if key != "type"}):
            self.fail(payload, sse, out)  # an unknown type alone makes no error: readers are told to ignore it
        else:
            out.append(Unknown(as_string(kind) or "payload", payload, sse.at, sse.length))

    # -- the message ----------------------------------------------------------------------------------------------

    def _message_start(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> None:
        message = payload.get("message")
        if type(message) is not dict:
            out.append(Unknown("message_start", payload, sse.at, sse.length))
            return
        out.append(Start(as_string(message.get("id")), as_string(message.get("model")), as_string(message.get("role")),
                         sse.at, sse.length))  # fmt: skip
        _usage(message.get("usage"), sse, out)
        if message.get("content"):  # documented as empty; what comes is announced by block starts
            out.append(Unknown("message_start.content", message["content"], sse.at, sse.length))

    def _message_delta(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> None:
        self._settle(sse, out)
        delta = payload.get("delta")
        if type(delta) is dict:
            reason = delta.get("stop_reason")
            if reason:
                raw = as_text(reason) if type(reason) is not str else reason
                self.finished = True
                out.append(Finish(0, FINISH.get(raw, "other"), raw, sse.at, sse.length))
            for name in ("stop_details", "container"):
                if delta.get(name):
                    out.append(Item(0, name, "whole", None, delta[name], sse.at, sse.length))
        elif delta is not None:
            out.append(Unknown("message_delta.delta", delta, sse.at, sse.length))
        for name in ("context_management", "input_transformations"):
            if payload.get(name):
                out.append(Item(0, name, "whole", None, payload[name], sse.at, sse.length))
        _usage(payload.get("usage"), sse, out)

    def _message_stop(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> None:
        self._settle(sse, out)
        self.ended = True
        out.append(End("message_stop", sse.at, sse.length))

    def _ping(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> None:
        out.append(Ping(sse.at, sse.length))

    # -- blocks ---------------------------------------------------------------------------------------------------

    def _block_start(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> None:
        at, length = sse.at, sse.length
        content = payload.get("content_block")
        wire = payload.get("index")
        if type(content) is not dict:
            out.append(Unknown("content_block_start", payload, at, length))
            return
        kind = as_string(content.get("type")) or "content_block"
        if wire is not None and _key(wire) in self.blocks:
            self.notes.add("anthropic.block-index-reused", at, length, f"index {as_text(wire)}: {kind}")
        block = self._open(kind, wire, as_string(content.get("id")))
        if block.call is not None:
            arguments = None
            given = content.get("input")
            if given:
                # Documented as {}, with the input in deltas; complete here it is read all the same (case 085).
                self.notes.add("anthropic.input-in-start", at, length, as_text(given)[:80])
                arguments = as_string(given)
                block.given = True
            elif type(given) is dict:
                self.unfilled[block.key] = block
            out.append(ToolCall(0, block.call, wire, block.id, as_string(content.get("name")), arguments, False,
                                at, length))  # fmt: skip
            return
        if kind in BLOCKS:
            out.append(Item(0, kind, "start", block.id, content, at, length))
        else:
            out.append(Unknown(f"content_block.{kind}", content, at, length))
        if kind in PIECES:
            self._piece(kind, content, block, sse, out)

    def _open(self, kind: str, wire: Any, block_id: str | None) -> Block:
        block = self.last = Block(kind, self.opened, wire, block_id)
        self.opened += 1
        if wire is not None:
            self.blocks[_key(wire)] = block
        if kind == "tool_use":
            block.call = self.calls
            self.calls += 1
            self.last_call = block
        return block

    def _find(self, payload: dict[str, Any]) -> Block | None:
        """The block an event is about: by index; without one, the block opened last."""
        wire = payload.get("index")
        if type(wire) is int:
            return self.blocks.get(wire)
        return self.last if wire is None else self.blocks.get(_key(wire))

    def _delta(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> None:
        delta = payload.get("delta")
        if type(delta) is not dict:
            out.append(Unknown("content_block_delta", payload, sse.at, sse.length))
            return
        kind: Any = delta.get("type")
        fits = FITS.get(kind) if type(kind) is str else None
        if fits is None:
            out.append(Unknown(f"delta.{as_string(kind)}", delta, sse.at, sse.length))
            return
        block = self._find(payload)
        if block is None or block.kind not in fits:
            found = "no block" if block is None else block.kind
            self.notes.add("anthropic.delta-wrong-block", sse.at, sse.length,
                           f"{kind} at index {as_text(payload.get('index'))}: {found}")  # fmt: skip
        if kind in PIECES:
            self._piece(kind, delta, block, sse, out)
        elif kind == "input_json_delta":
            self._input(payload, delta, block, sse, out)
        elif block is None:
            out.append(Item(0, kind, "delta", None, delta, sse.at, sse.length))
        else:
            out.append(Item(0, block.kind, "delta", block.id, delta, sse.at, sse.length))

    def _piece(
        self, kind: str, holder: dict[str, Any], block: Block | None, sse: ServerSentEvent, out: list[Event]
    ) -> None:  # fmt: skip
        """Text or thinking. Pieces are joined by block, so blocks that overlap do not mix."""
        member, event = PIECES[kind]
        text = holder.get(member)
        if type(text) is str:
            if text:
                out.append(event(0, text, False, sse.at, sse.length, None if block is None else block.key))
        elif text is not None:
            self.notes.add("text.not-a-string", sse.at, sse.length, f"{member} is {as_text(text)[:60]}")
            out.append(Unknown(f"{kind}.{member}", text, sse.at, sse.length))

    def _input(
        self, payload: dict[str, Any], delta: dict[str, Any], block: Block | None, sse: ServerSentEvent,
        out: list[Event],
    ) -> None:  # fmt: skip
        piece = delta.get("partial_json")
        if piece is not None and type(piece) is not str:
            self.notes.add("tool.arguments-object", sse.at, sse.length, as_text(piece)[:80])
            piece = as_text(piece)
        if block is None or block.kind not in INPUT_BLOCKS:
            block = self._owner(payload, block)
        if block is None:
            out.append(Unknown("delta.input_json_delta", delta, sse.at, sse.length))
        elif block.call is None:
            out.append(Item(0, block.kind, "delta", block.id, delta, sse.at, sse.length))
        else:
            whole = False
            if piece:
                self.unfilled.pop(block.key, None)
                whole, block.given = block.given, False
            out.append(ToolCall(0, block.call, block.wire, None, None, piece, whole, sse.at, sse.length))

    def _owner(self, payload: dict[str, Any], block: Block | None) -> Block | None:
        """The call a misplaced piece of input belongs to: the one that is open; else a new one at a new index.

        cases/README, rule 7: a fragment is never thrown away while a call can own it.
        """
        if self.last_call is not None and (block is not None or not self.last_call.stopped):
            return self.last_call
        return self._open("tool_use", payload.get("index"), None) if block is None else None

    def _block_stop(self, payload: dict[str, Any], sse: ServerSentEvent, out: list[Event]) -> None:
        block = self._find(payload)
        if block is None:
            out.append(Item(0, "content_block", "stop", None, payload, sse.at, sse.length))
            return
        block.stopped = True
        if self.unfilled.pop(block.key, None) is not None:
            self._empty_input(block, sse, out)
        out.append(Item(0, block.kind, "stop", block.id, payload, sse.at, sse.length))

    def _settle(self, sse: ServerSentEvent, out: list[Event]) -> None:
        """The message is over: blocks that were never stopped end here."""
        for block in self.unfilled.values():
            self._empty_input(block, sse, out)
        self.unfilled.clear()

    def _empty_input(self, block: Block, sse: ServerSentEvent, out: list[Event]) -> None:
        """A call that got no input keeps the {} of its start (case 084)."""
        if block.call is not None:
            block.given = True
            out.append(ToolCall(0, block.call, block.wire, None, None, "{}", False, sse.at, sse.length))


READERS: dict[str, Callable[[Anthropic, dict[str, Any], ServerSentEvent, list[Event]], None]] = {
    "message_start": Anthropic._message_start,
    "content_block_start": Anthropic._block_start,
    "content_block_stop": Anthropic._block_stop,
    "message_delta": Anthropic._message_delta,
    "message_stop": Anthropic._message_stop,
    "ping": Anthropic._ping,
    "error": Anthropic.fail,
}


def _key(wire: Any) -> Any:
    """An index as a key: 1, 1.0 and "1" are one."""
    if type(wire) is str:
        return int(wire) if wire.isdecimal() and len(wire) < 10 else wire
    return wire if type(wire) is int or type(wire) is float else as_text(wire)


def _usage(usage: Any, sse: ServerSentEvent, out: list[Event]) -> None:
    if type(usage) is dict and usage:
        out.append(Usage(integer(usage.get("input_tokens")), integer(usage.get("output_tokens")), usage,
                         sse.at, sse.length))  # fmt: skip
    elif usage:
        out.append(Unknown("usage", usage, sse.at, sse.length))
