"""Legacy Completions, as OpenAI's API reference documents "The completion object": text only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.clean.answer import CREATED, ID, MODEL, Answer, Said, data, pieces
from harness.clean.chat import usage_of


def encode(answer: Answer) -> bytes:
    """The body. An error is an event of its own; no marker follows it."""
    head = {"id": f"cmpl-{ID}", "object": "text_completion", "created": CREATED, "model": MODEL}
    counted: dict[str, Any] = {} if answer.usage is None else {"usage": None}
    parts = [data({**head, "choices": [choice], **counted}) for said in answer.choices for choice in _choices(said)]
    if answer.error is not None:
        return b"".join([*parts, data({"error": {**answer.error}})])
    if answer.usage is not None:
        parts.append(data({**head, "choices": [], "usage": usage_of(answer.usage)}))
    return b"".join([*parts, b"data: [DONE]\n\n" if answer.ended else b""])


def _choices(said: Said) -> Iterator[dict[str, Any]]:
    for piece in pieces(said.text):
        yield {"index": said.choice, "text": piece, "logprobs": None, "finish_reason": None}
    if said.finish is not None:
        yield {"index": said.choice, "text": "", "logprobs": None, "finish_reason": said.finish}
