"""Control streams: a documented stream of the same make as a quirk, to tell what its fault does from what any does.

The make is which channels, how many calls and choices, whether usage, which line ends; the words are always the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from harness.answers import Expected

TEXT, THOUGHT, REFUSAL = ("Hello", " wörld."), ("Two plus", " two."), ("I can't", " help.")
ARGUMENTS = ('{"city":', '"Paris"}')
USAGE = (9, 4)  # input and output tokens
STOP = {"responses": "completed", "anthropic": "end_turn", "gemini": "STOP"}
TOOLS = {"chat": "tool_calls", "anthropic": "tool_use"}


class Make:
    """What the control of an expected message is made of. `whole`: chat calls come in one piece, not in fragments."""

    def __init__(self, expected: Expected, dialect: str, *, usage: bool, whole: bool = False) -> None:
        self.calls = [(f"call_{n}", call["name"] or f"tool_{n}") for n, call in enumerate(expected.tool_calls)]
        self.thought = THOUGHT if expected.reasoning else ()
        self.refusal = REFUSAL if expected.refusal else ()
        self.text = TEXT if expected.text or not (self.calls or self.refusal) else ()
        self.others = [choice["choice"] for choice in expected.other_choices]
        self.usage = usage or dialect != "chat"  # in chat it must be asked for
        self.whole = whole
        self.raw = (TOOLS.get(dialect) if self.calls else None) or STOP.get(dialect, "stop")
        self.dialect = dialect

    def expected(self) -> Expected:
        """The right reading of the control."""
        ids = self.dialect not in ("gemini", "ollama")
        return Expected(
            text="".join(self.text), reasoning="".join(self.thought), refusal="".join(self.refusal) or None,
            tool_calls=[
                {"index": index, "id": id if ids else None, "name": name, "arguments": "".join(ARGUMENTS)}
                for index, (id, name) in enumerate(self.calls)
            ],
            finish_reason="tool_calls" if self.calls else "stop", finish_raw=self.raw,
            terminal="finish" if self.dialect == "gemini" else "done",
            usage=dict(zip(("input_tokens", "output_tokens"), USAGE, strict=True)) if self.usage else None,
            other_choices=[{"choice": number, "text": "".join(TEXT), "tool_calls": []} for number in self.others],
        )  # fmt: skip


def control(make: Make, crlf: bool = False) -> bytes:
    """The body."""
    body = b"".join(_WRITERS[make.dialect](make))
    return body.replace(b"\n", b"\r\n") if crlf else body


def _event(payload: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def _chat(make: Make) -> Iterator[bytes]:
    def chunk(choices: list[Any], **more: Any) -> bytes:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m-1"}
        return _event({**head, "choices": choices, **more})

    def delta(delta: Any, finish: Any = None, number: int = 0) -> bytes:
        return chunk([{"index": number, "delta": delta, "finish_reason": finish}])

    for number in (0, *make.others):
        yield delta({"role": "assistant", "content": ""}, number=number)
    yield from (delta({"reasoning_content": piece}) for piece in make.thought)
    yield from (delta({"content": piece}) for piece in make.text)
    yield from (delta({"refusal": piece}) for piece in make.refusal)
    for index, (id, name) in enumerate(make.calls):
        first, *rest = ["".join(ARGUMENTS)] if make.whole else ["", *ARGUMENTS]
        opened = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": first}}
        yield delta({"tool_calls": [opened]})
        yield from (delta({"tool_calls": [{"index": index, "function": {"arguments": one}}]}) for one in rest)
    yield from (delta({"content": piece}, number=number) for number in make.others for piece in TEXT)
    yield from (delta({}, "stop", number) for number in make.others)
    yield delta({}, make.raw)
    if make.usage:
        yield chunk([], usage={"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": sum(USAGE)})
    yield b"data: [DONE]\n\n"


def _responses(make: Make) -> Iterator[bytes]:
    count = iter(range(1000))
    output: list[Any] = []

    def event(kind: str, **members: Any) -> bytes:
        return _event({"type": f"response.{kind}", "sequence_number": next(count), **members}, f"response.{kind}")

    def response(status: str, **more: Any) -> dict[str, Any]:
        head = {"id": "resp_1", "object": "response", "status": status, "model": "m-1"}
        return {"response": {**head, "output": output, **more}}

    def message(id: str, channel: str, member: str, pieces: tuple[str, ...]) -> Iterator[bytes]:
        at = {"item_id": id, "output_index": len(output), "content_index": 0}
        item: dict[str, Any] = {"id": id, "type": "message", "role": "assistant"}
        part: dict[str, Any] = {"type": channel, member: ""} | ({"annotations": []} if member == "text" else {})
        whole = {**part, member: "".join(pieces)}
        opened = {**item, "status": "in_progress", "content": []}
        yield event("output_item.added", output_index=len(output), item=opened)
        yield event("content_part.added", **at, part=part)
        yield from (event(f"{channel}.delta", **at, delta=piece) for piece in pieces)
        yield event(f"{channel}.done", **at, **{member: "".join(pieces)})
        yield event("content_part.done", **at, part=whole)
        done = {**item, "status": "completed", "content": [whole]}
        yield event("output_item.done", output_index=len(output), item=done)
        output.append(done)

    yield event("created", **response("in_progress"))
    yield event("in_progress", **response("in_progress"))
    if make.thought:
        at = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
        text = "".join(make.thought)
        yield event("output_item.added", output_index=0, item={"id": "rs_1", "type": "reasoning", "summary": []})
        yield event("reasoning_summary_part.added", **at, part={"type": "summary_text", "text": ""})
        yield from (event("reasoning_summary_text.delta", **at, delta=piece) for piece in make.thought)
        yield event("reasoning_summary_text.done", **at, text=text)
        whole = {"type": "summary_text", "text": text}
        yield event("reasoning_summary_part.done", **at, part=whole)
        output.append({"id": "rs_1", "type": "reasoning", "summary": [whole]})
        yield event("output_item.done", output_index=0, item=output[-1])
    if make.text:
        yield from message("msg_1", "output_text", "text", make.text)
    if make.refusal:
        yield from message("msg_2", "refusal", "refusal", make.refusal)
    for number, (id, name) in enumerate(make.calls):
        place, arguments = len(output), "".join(ARGUMENTS)
        item = {"id": f"fc_{number}", "type": "function_call", "call_id": id, "name": name}
        at = {"item_id": f"fc_{number}", "output_index": place}
        opened = {**item, "status": "in_progress", "arguments": ""}
        yield event("output_item.added", output_index=place, item=opened)
        yield from (event("function_call_arguments.delta", **at, delta=piece) for piece in ARGUMENTS)
        yield event("function_call_arguments.done", **at, arguments=arguments)
        output.append({**item, "status": "completed", "arguments": arguments})
        yield event("output_item.done", output_index=place, item=output[-1])
    usage = {"input_tokens": USAGE[0], "output_tokens": USAGE[1], "total_tokens": sum(USAGE)}
    yield event("completed", **response("completed", usage=usage))


def _anthropic(make: Make) -> Iterator[bytes]:
    def event(kind: str, **members: Any) -> bytes:
        return _event({"type": kind, **members}, kind)

    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": list[Any]()}
    usage = {"input_tokens": USAGE[0], "output_tokens": 1}
    yield event("message_start", message={**start, "stop_reason": None, "stop_sequence": None, "usage": usage})
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if make.thought:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in make.thought]
        signature = {"type": "signature_delta", "signature": "c2ln"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]))
    if make.text:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in make.text]))
    for id, name in make.calls:
        inputs = [{"type": "input_json_delta", "partial_json": piece} for piece in ARGUMENTS]
        blocks.append(({"type": "tool_use", "id": id, "name": name, "input": {}}, inputs))
    for index, (block, deltas) in enumerate(blocks):
        yield event("content_block_start", index=index, content_block=block)
        yield from (event("content_block_delta", index=index, delta=delta) for delta in deltas)
        yield event("content_block_stop", index=index)
    yield event("message_delta", delta={"stop_reason": make.raw, "stop_sequence": None},
                usage={"output_tokens": USAGE[1]})  # fmt: skip
    yield event("message_stop")


def _gemini(make: Make) -> Iterator[bytes]:
    def chunk(part: dict[str, Any], **more: Any) -> bytes:
        candidate = {"content": {"role": "model", "parts": [part]}, "index": 0, **more}
        usage = {"promptTokenCount": USAGE[0], "candidatesTokenCount": USAGE[1], "totalTokenCount": sum(USAGE)}
        ends = {"usageMetadata": usage} if more else {}
        return _event({"candidates": [candidate], **ends, "modelVersion": "m-1"})

    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in make.thought]
    parts += [{"text": piece} for piece in make.text]
    parts += [{"functionCall": {"name": name, "args": json.loads("".join(ARGUMENTS))}} for _, name in make.calls]
    for part in parts[:-1]:
        yield chunk(part)
    yield chunk(parts[-1], finishReason=make.raw)


def _ollama(make: Make) -> Iterator[bytes]:
    def line(message: dict[str, Any], **more: Any) -> bytes:
        head = {"model": "m-1", "created_at": "2024-01-01T00:00:00Z"}
        payload = {**head, "message": {"role": "assistant", "content": "", **message}, "done": False, **more}
        return json.dumps(payload).encode() + b"\n"

    yield from (line({"thinking": piece}) for piece in make.thought)
    yield from (line({"content": piece}) for piece in make.text)
    for _, name in make.calls:
        arguments = json.loads("".join(ARGUMENTS))
        yield line({"tool_calls": [{"function": {"name": name, "arguments": arguments}}]})
    counts = dict(zip(("prompt_eval_count", "eval_count"), USAGE, strict=True))
    yield line({}, done=True, done_reason=make.raw, **counts)


_WRITERS: dict[str, Callable[[Make], Iterator[bytes]]] = {
    "chat": _chat, "responses": _responses, "anthropic": _anthropic, "gemini": _gemini, "ollama": _ollama,
}  # fmt: skip
