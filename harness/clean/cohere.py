"""Cohere Chat, version 2, as "A Guide to Streaming Responses" documents it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.clean.answer import ID, Answer, Said, data, pieces


def encode(answer: Answer) -> bytes:
    """The body. A failure stands in message-end; nothing is sent after it."""
    (said,) = answer.choices
    head = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    events: list[dict[str, Any]] = [{"id": ID, "type": "message-start", "delta": {"message": head}}, *_contents(said)]
    end: dict[str, Any] = {} if said.finish is None else {"finish_reason": said.finish}
    if answer.error is not None:
        end = {"finish_reason": "ERROR", "error": answer.error.get("message"), **end}
    if answer.usage is not None:
        counts = dict(zip(("input_tokens", "output_tokens"), answer.usage, strict=True))
        known = {name: count for name, count in counts.items() if count is not None}
        end["usage"] = {"billed_units": known, "tokens": known}
    if answer.ended or said.finish is not None or answer.error is not None:
        events.append({"type": "message-end", "delta": end})
    return b"".join(data(event, str(event["type"])) for event in events)


def _contents(said: Said) -> Iterator[dict[str, Any]]:
    index = 0
    for kind, text in (("thinking", said.reasoning), ("text", said.text)):
        if text:
            yield _event("content-start", index, {"content": {"type": kind, kind: ""}})
            for piece in pieces(text):
                yield _event("content-delta", index, {"content": {kind: piece}})
            yield {"type": "content-end", "index": index}
            index += 1
    for number, call in enumerate(said.calls):
        function = {"name": call.name, "arguments": ""}
        opening = {"id": call.id, "type": "function", "function": function}
        yield _event("tool-call-start", number, {"tool_calls": opening})
        for piece in pieces(call.arguments):
            yield _event("tool-call-delta", number, {"tool_calls": {"function": {"arguments": piece}}})
        yield {"type": "tool-call-end", "index": number}


def _event(kind: str, index: int, message: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "index": index, "delta": {"message": message}}
