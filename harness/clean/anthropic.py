"""Anthropic Messages, as "Streaming messages" documents it: start, blocks one after the other, delta, stop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.clean.answer import ID, MODEL, Answer, Said, data, pieces

SIGNATURE = "Y2xlYW4="  # what signs a thinking block; a reader keeps it as it is
STOP = "STOP"  # the sequence that a finish of stop_sequence names


def encode(answer: Answer) -> bytes:
    """The body. An error is the last event."""
    (said,) = answer.choices
    counts = answer.usage or (None, None)
    message: dict[str, Any] = {
        "id": f"msg_{ID}", "type": "message", "role": "assistant", "model": MODEL, "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": counts[0], "output_tokens": 1},
    }  # fmt: skip
    if answer.usage is None:
        del message["usage"]
    elif answer.error is not None or said.finish is None:
        message["usage"] = {"input_tokens": counts[0], "output_tokens": counts[1]}  # no later event counts
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    events += [{"type": "ping"}, *_blocks(said)]
    if answer.error is not None:
        events.append({"type": "error", "error": {name: answer.error.get(name) for name in ("type", "message")}})
    elif said.finish is not None:
        sequence = STOP if said.finish == "stop_sequence" else None
        end: dict[str, Any] = {"stop_reason": said.finish, "stop_sequence": sequence}
        usage = {"usage": {"output_tokens": counts[1]}} if answer.usage is not None else {}
        events.append({"type": "message_delta", "delta": end, **usage})
    if answer.ended and answer.error is None:
        events.append({"type": "message_stop"})
    return b"".join(data(event, str(event["type"])) for event in events)


def _blocks(said: Said) -> Iterator[dict[str, Any]]:
    for index, (block, deltas) in enumerate(_contents(said)):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}


def _contents(said: Said) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if said.reasoning:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(said.reasoning)]
        signed = {"type": "signature_delta", "signature": SIGNATURE}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
    if said.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(said.text)]
    for call in said.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(call.arguments))]
