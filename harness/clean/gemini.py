"""Gemini, as ai.google.dev/api/generate-content documents it: parts, a call whole, the counts in the last chunk."""

from __future__ import annotations

from typing import Any

from harness.clean.answer import ID, MODEL, Answer, Said, arguments_object, data, pieces


def encode(answer: Answer) -> bytes:
    """The body. There is no end marker; an error is the last event."""
    candidates = [candidate for said in answer.choices for candidate in _candidates(said)]
    chunks: list[dict[str, Any]] = [{"candidates": [candidate]} for candidate in candidates]
    if answer.usage is not None:
        counts = {"promptTokenCount": answer.usage[0], "candidatesTokenCount": answer.usage[1]}
        known = {name: count for name, count in counts.items() if count is not None}
        if not chunks:
            chunks.append({})
        chunks[-1]["usageMetadata"] = {**known, "totalTokenCount": sum(known.values())}
    events = [{**chunk, "modelVersion": MODEL, "responseId": ID} for chunk in chunks]
    if answer.error is not None:
        error = {name: answer.error.get(name) for name in ("code", "message")}
        events.append({"error": {**error, "status": answer.error.get("type")}})
    return b"".join(map(data, events))


def _candidates(said: Said) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in pieces(said.reasoning)]
    parts += [{"text": piece} for piece in pieces(said.text)]
    for call in said.calls:
        named = {"name": call.name, "args": arguments_object("gemini", call)}
        parts.append({"functionCall": {**named, "id": call.id} if call.id else named})
    found: list[dict[str, Any]] = [
        {"content": {"parts": [part], "role": "model"}, "index": said.choice} for part in parts
    ]
    if said.finish is not None:
        found.append({"finishReason": said.finish, "index": said.choice})
    return found
