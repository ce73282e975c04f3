"""Chat Completions, as OpenAI's API reference documents "The chat completion chunk object".

A role and empty content first, deltas, an empty delta with the reason, the chunk without choices that counts, `[DONE]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.clean.answer import CREATED, ID, MODEL, Answer, Said, data, pieces


def encode(answer: Answer) -> bytes:
    """The body. An error is an event of its own; no marker follows it."""
    head = {"id": f"chatcmpl-{ID}", "object": "chat.completion.chunk", "created": CREATED, "model": MODEL}
    counted: dict[str, Any] = {} if answer.usage is None else {"usage": None}
    parts = [data({**head, "choices": [choice], **counted}) for said in answer.choices for choice in _choices(said)]
    if answer.error is not None:
        return b"".join([*parts, data({"error": {**answer.error}})])
    if answer.usage is not None:
        parts.append(data({**head, "choices": [], "usage": usage_of(answer.usage)}))
    return b"".join([*parts, b"data: [DONE]\n\n" if answer.ended else b""])


def _choices(said: Said) -> Iterator[dict[str, Any]]:
    for delta in _deltas(said):
        yield {"index": said.choice, "delta": delta, "logprobs": None, "finish_reason": None}
    if said.finish is not None:
        yield {"index": said.choice, "delta": {}, "logprobs": None, "finish_reason": said.finish}


def _deltas(said: Said) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for member, text in (("reasoning_content", said.reasoning), ("content", said.text), ("refusal", said.refusal)):
        for piece in pieces(text or ""):
            yield {member: piece}
    for index, call in enumerate(said.calls):
        function = {"name": call.name, "arguments": ""} if call.name else {"arguments": ""}
        opening: dict[str, Any] = {"index": index, "id": call.id} if call.id else {"index": index}
        yield {"tool_calls": [{**opening, "type": "function", "function": function}]}
        for piece in pieces(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def usage_of(usage: tuple[int | None, int | None]) -> dict[str, int]:
    """Counts under OpenAI's older names; what is not known is left out."""
    counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    known = {name: count for name, count in counts.items() if count is not None}
    return {**known, "total_tokens": sum(known.values())}
