"""Answers that were not streamed: one JSON body to a message, by the dialect's own reading.

The body is told as the stream its dialect would have sent at once, and reduced: so both answers are read by one reader,
and what differs between their messages differs between the answers. Source: the vendors' references of both forms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.jsontext import Undecodable, decode
from harness.message import Message
from harness.reduce import Reducer

Body = Mapping[str, Any]


def message_of_whole(body: bytes, dialect: str) -> Message:
    """What a whole answer adds up to.

    Raises ValueError, with the reason, for what is no JSON object, and for a dialect without a row below.
    """
    told = _TOLD.get(dialect)
    if told is None:
        raise ValueError(f"answers of dialect {dialect} are read as streams only")
    try:
        value = decode(body)
    except Undecodable:
        value = None
    if not isinstance(value, dict):
        raise ValueError("the answer is no JSON object")
    reducer = Reducer(dialect)
    before, after = ("", "\n") if reducer.dialect.framing == "ndjson" else ("data: ", "\n\n")
    for payload in told(value):
        reducer.feed(f"{before}{json.dumps(payload)}{after}".encode())
    if reducer.dialect.marker is not None:
        reducer.feed(before.encode() + reducer.dialect.marker + after.encode())
    reducer.finish()
    return reducer.message()


def _as_it_is(body: Body) -> Iterator[Body]:
    """Completions, Gemini and Ollama answer with one object of the form they stream."""
    yield body


def _chat(body: Body) -> Iterator[Body]:
    """Each choice's message becomes its delta, the calls numbered as they stand."""
    choices = [
        {**{name: value for name, value in choice.items() if name != "message"}, "delta": _delta(choice["message"])}
        if isinstance(choice, dict) and isinstance(choice.get("message"), dict) else choice
        for choice in _list(body.get("choices"))
    ]  # fmt: skip
    yield {**body, "choices": choices} if choices else body


def _delta(message: dict[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    numbered = [{**call, "index": index} if isinstance(call, dict) else call for index, call in enumerate(calls)]
    return {**message, "tool_calls": numbered}


def _responses(body: Body) -> Iterator[Body]:
    """The response object is the one that the terminal event carries."""
    status = body.get("status")
    kind = status if status in ("completed", "incomplete", "failed") else "failed" if body.get("error") else "completed"
    yield {"type": f"response.{kind}", "response": body}


def _anthropic(body: Body) -> Iterator[Body]:
    """Blocks that start with all they hold."""
    if body.get("type") == "error" or "content" not in body:
        yield body
        return
    yield {"type": "message_start", "message": {**body, "content": [], "usage": None, "stop_reason": None}}
    for index, block in enumerate(_list(body.get("content"))):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    reason = {"stop_reason": body.get("stop_reason"), "stop_sequence": body.get("stop_sequence")}
    yield {"type": "message_delta", "delta": reason, "usage": body.get("usage")}
    yield {"type": "message_stop"}


def _cohere(body: Body) -> Iterator[Body]:
    """The message's plan, parts and calls, one event each."""
    message = body.get("message")
    if not isinstance(message, dict):
        yield body
        return
    yield {"type": "message-start", "id": body.get("id"), "delta": {"message": {"role": message.get("role")}}}
    if message.get("tool_plan"):
        yield {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": message["tool_plan"]}}}
    for index, part in enumerate(_list(message.get("content"))):
        yield {"type": "content-delta", "index": index, "delta": {"message": {"content": part}}}
    for index, call in enumerate(_list(message.get("tool_calls"))):
        yield {"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": call}}}
    yield {"type": "message-end", "delta": {"finish_reason": body.get("finish_reason"), "usage": body.get("usage")}}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_TOLD: dict[str, Callable[[Body], Iterator[Body]]] = {
    "chat": _chat, "completions": _as_it_is, "responses": _responses, "anthropic": _anthropic, "gemini": _as_it_is,
    "ollama": _as_it_is, "cohere": _cohere,
}  # fmt: skip
