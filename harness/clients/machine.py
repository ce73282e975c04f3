"""A right client, incremental: a state machine over bytes, one method for each dialect's payloads.

It is the base of most wrong ones: each replaces one method. Rules: cases/README, 4 to 9.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.clients.drafting import Call, Draft
from harness.clients.framing import fields_of, listed, parses, texts_of
from harness.clients.machine_items import Items


class Machine(Items):
    """Feed it pieces, finish, and ask for the answer; `run` does all three."""

    def __init__(self, dialect: str) -> None:
        super().__init__(dialect)
        self.blocks: list[tuple[Any, dict[str, Any], list[str]]] = []  # index, block start, pieces

    @classmethod
    def run(cls, body: Iterable[bytes], dialect: str) -> dict[str, Any]:
        """Message JSON, with the next request's `messages`."""
        machine = cls(dialect)
        for piece in body:
            machine.feed(piece)
        machine.finish()
        return machine.answer()

    # -- chat completions

    def chat(self, chunk: dict[str, Any]) -> None:
        """One chunk."""
        self.counted(chunk)
        for choice in self.choices_of(chunk):
            self.choice(choice)

    def choices_of(self, chunk: dict[str, Any]) -> list[Any]:
        return listed(chunk.get("choices"))

    def choice(self, choice: dict[str, Any]) -> None:
        """One choice of a chunk."""
        draft = self.draft(choice.get("index"))
        self.delta(self.delta_of(choice, draft), draft)
        self.finished(draft, choice.get("finish_reason"))
        if choice.get("error"):
            self.fail(fields_of(choice["error"]))

    def delta_of(self, choice: dict[str, Any], draft: Draft) -> dict[str, Any]:
        """The delta; a whole message counts only where no delta was sent before it."""
        delta = choice.get("delta")
        if delta is None and not (draft.text or draft.calls or draft.refusal):
            delta = choice.get("message")
        return delta if isinstance(delta, dict) else {}

    def delta(self, delta: dict[str, Any], draft: Draft) -> None:
        """One delta, channel by channel."""
        self.content(delta.get("content"), draft)
        thought = next((delta[name] for name in self.reasoning_names if delta.get(name)), None)
        if isinstance(thought, str):
            self.think(thought, draft)
        if isinstance(delta.get("refusal"), str):
            self.refuse(delta["refusal"], draft)
        self.fragments(listed(delta.get("tool_calls")), draft)
        if isinstance(delta.get("function_call"), dict):
            self.legacy(delta["function_call"], draft)

    reasoning_names: tuple[str, ...] = ("reasoning_content", "reasoning", "thinking")

    def content(self, content: Any, draft: Draft) -> None:
        """A text, or a list of parts."""
        if isinstance(content, str):
            self.say(content, draft)
        for part in listed(content):
            if part.get("type") == "thinking":
                self.think(texts_of(part.get("thinking")), draft)
            else:
                self.say(texts_of(part), draft)

    def fragments(self, entries: list[Any], draft: Draft) -> None:
        """The entries of one delta's `tool_calls`."""
        for entry in entries:
            self.fragment(entry, draft)

    def fragment(self, entry: dict[str, Any], draft: Draft) -> None:
        """One fragment of a call."""
        body = entry.get("function") or entry.get("custom")
        body = body if isinstance(body, dict) else {}
        call = self.call_for(entry, body.get("name"), draft)
        if entry.get("type") == "custom" or "custom" in entry:
            call.kind = "custom"
        self.identify(call, entry.get("id"))
        self.title(call, body.get("name"))
        self.argue(call, body.get("arguments", body.get("input")))

    def call_for(self, entry: dict[str, Any], name: Any, draft: Draft) -> Call:
        """The call a fragment belongs to: by index; an id with a name on an index in use, or no index, tells more."""
        index, sent = self.index_of(entry), entry.get("id")
        if isinstance(index, int):
            same = [call for call in draft.calls if call.wire == index]
            if same and not (sent and name and same[-1].id and sent != same[-1].id):
                return same[-1]
            return draft.opened(index)
        last = draft.calls[-1] if draft.calls else None
        if last is None or (sent and last.id and sent != last.id):
            return draft.opened(None)
        if not sent and name and last.name and parses("".join(last.pieces)):
            return draft.opened(None)
        return last

    def index_of(self, entry: dict[str, Any]) -> Any:
        return entry.get("index")

    def legacy(self, body: dict[str, Any], draft: Draft) -> None:
        """The deprecated `function_call`: one call without an id."""
        call = draft.calls[0] if draft.calls else draft.opened(None)
        self.title(call, body.get("name"))
        self.argue(call, body.get("arguments"))

    def counted(self, chunk: dict[str, Any]) -> None:
        """The usage of a chunk, wherever it stands."""
        vendor = chunk.get("x_groq")
        holders = [vendor if isinstance(vendor, dict) else {}, *listed(chunk.get("choices")), chunk]
        for holder in holders:
            self.use(holder.get("usage"), "prompt_tokens", "completion_tokens")

    # -- anthropic

    def anthropic(self, payload: dict[str, Any]) -> None:
        """One event of the Messages API, by its type."""
        kind = payload.get("type")
        delta = payload.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        if kind == "message_start":
            message = payload.get("message")
            self.start_usage(message.get("usage") if isinstance(message, dict) else None)
        elif kind == "content_block_start" and isinstance(payload.get("content_block"), dict):
            self.block_start(payload.get("index"), payload["content_block"])
        elif kind == "content_block_delta":
            self.block_delta(payload.get("index"), delta)
        elif kind == "message_delta":
            self.finished(self.draft(), delta.get("stop_reason"))
        elif kind == "message_stop":
            self.end()
        self.end_usage(payload.get("usage"))  # in message_delta, as documented, and wherever else a server counts

    def start_usage(self, usage: Any) -> None:
        self.use(usage, "input_tokens", "output_tokens")

    def end_usage(self, usage: Any) -> None:
        self.use(usage, "input_tokens", "output_tokens")

    def block_start(self, index: Any, block: dict[str, Any]) -> None:
        """A start always opens a new block."""
        self.blocks.append((index, block, []))

    def block_delta(self, index: Any, delta: dict[str, Any]) -> None:
        """A piece for the last block of this index."""
        member = {"text_delta": "text", "input_json_delta": "partial_json", "thinking_delta": "thinking"}
        piece = delta.get(member.get(str(delta.get("type")), ""))
        pieces = next((pieces for number, _, pieces in reversed(self.blocks) if number == index), None)
        if pieces is not None and isinstance(piece, str):
            pieces.append(piece)

    def block(self, block: dict[str, Any], pieces: list[str]) -> None:
        """A block that is whole."""
        kind, draft = block.get("type"), self.draft()
        if kind == "text":
            self.say(block.get("text", "") + "".join(pieces), draft)
        elif kind == "thinking":
            self.think(block.get("thinking", "") + "".join(pieces), draft)
        elif kind == "tool_use":
            call = draft.opened()
            self.identify(call, block.get("id"))
            self.title(call, block.get("name"))
            for piece in pieces if any(pieces) else [self.start_input(block)]:
                self.argue(call, piece)

    def start_input(self, block: dict[str, Any]) -> Any:
        """The input in the block's start: it counts if no delta has any."""
        return block.get("input")

    # -- gemini and ollama

    def gemini(self, payload: dict[str, Any]) -> None:
        """One chunk."""
        self.use(payload.get("usageMetadata"), "promptTokenCount", "candidatesTokenCount")
        blocked = payload.get("promptFeedback")
        if isinstance(blocked, dict):
            self.finished(self.draft(), blocked.get("blockReason"))
        for candidate in self.candidates_of(payload):
            draft = self.draft(candidate.get("index"))
            for part in self.parts_of(candidate):
                self.part(part, draft)
            self.finished(draft, candidate.get("finishReason"))

    def candidates_of(self, payload: dict[str, Any]) -> list[Any]:
        return listed(payload.get("candidates"))

    def parts_of(self, candidate: dict[str, Any]) -> list[Any]:
        content = candidate.get("content")
        return listed(content.get("parts")) if isinstance(content, dict) else []

    def part(self, part: dict[str, Any], draft: Draft) -> None:
        """One part: a thought, a text, or a call."""
        call = part.get("functionCall")
        if isinstance(call, dict):
            self.whole_call(draft, call.get("id"), call.get("name"), call.get("args") or {})
        elif isinstance(part.get("text"), str):
            (self.think if part.get("thought") is True else self.say)(part["text"], draft)

    def whole_call(self, draft: Draft, id: Any, name: Any, arguments: Any) -> None:
        """A call in one piece is a call of its own."""
        call = draft.opened()
        self.identify(call, id)
        self.title(call, name)
        self.argue(call, arguments)

    def ollama(self, payload: dict[str, Any]) -> None:
        """One line."""
        message, draft = payload.get("message"), self.draft()
        message = message if isinstance(message, dict) else {}
        self.content(message.get("content"), draft)
        self.think(texts_of(message.get("thinking")), draft)
        for call in self.calls_of(payload, message):
            body = call.get("function")
            body = body if isinstance(body, dict) else {}
            self.whole_call(draft, call.get("id"), body.get("name"), body.get("arguments") or {})
        if payload.get("done") is True:
            self.finished(draft, payload.get("done_reason"))
            self.use(payload, "prompt_eval_count", "eval_count")
            self.end()

    def calls_of(self, payload: dict[str, Any], message: dict[str, Any]) -> list[Any]:
        return listed(message.get("tool_calls"))

    # -- the end

    def close(self) -> None:
        """Blocks, too, become text, reasoning and calls."""
        super().close()
        for _, block, pieces in self.blocks:
            self.block(block, pieces)
