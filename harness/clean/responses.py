"""Responses, as OpenAI's "Streaming events" documents the lifecycle of a response and its items."""

from __future__ import annotations

from typing import Any

from harness.clean.answer import CREATED, ID, MODEL, Answer, Call, Said, data, pieces
from harness.dialects.responses_output import CALL_VALUE

# Of an item's kind of text: the part's type, its member, and how its events are called.
PARTS = {"text": ("output_text", "text"), "refusal": ("refusal", "refusal")}


def encode(answer: Answer) -> bytes:
    """The body. A failure is `response.failed` if the finish says so, else an `error` event."""
    (said,) = answer.choices
    stream = _Stream()
    stream.send("response.created", response=_response("in_progress", []))
    stream.send("response.in_progress", response=_response("in_progress", []))
    if said.reasoning:
        stream.reasoning(said.reasoning)
    if said.text or said.refusal:
        stream.message(said)
    for call in said.calls:
        stream.call(call)
    usage = _usage(answer.usage)
    if answer.error is not None and said.finish == "failed":
        error = {name: answer.error.get(name) for name in ("code", "message")}
        stream.send("response.failed", response=_response("failed", stream.output, error=error, usage=usage))
    elif answer.error is not None:
        error = {name: answer.error.get(name) for name in ("type", "code", "message")}
        stream.send("error", error={**error, "param": None})
    elif said.finish is not None:
        status = "completed" if said.finish == "completed" else "incomplete"
        details = None if status == "completed" else {"reason": said.finish}
        response = _response(status, stream.output, usage=usage, incomplete_details=details)
        stream.send(f"response.{status}", response=response)
    return b"".join(stream.parts)


def _response(status: str, output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "id": f"resp_{ID}", "object": "response", "created_at": CREATED, "status": status, "error": None,
        "incomplete_details": None, "model": MODEL, "output": list(output), "usage": None, **more,
    }  # fmt: skip


def _usage(usage: tuple[int | None, int | None] | None) -> dict[str, int] | None:
    if usage is None:
        return None
    counts = dict(zip(("input_tokens", "output_tokens"), usage, strict=True))
    known = {name: count for name, count in counts.items() if count is not None}
    return {**known, "total_tokens": sum(known.values())}


class _Stream:
    """The events so far, numbered, and the items that are done."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.output: list[dict[str, Any]] = []

    def send(self, kind: str, **members: Any) -> None:
        """One event."""
        self.parts.append(data({"type": kind, **members, "sequence_number": len(self.parts)}, kind))

    def _item(self, phase: str, item: dict[str, Any]) -> None:
        """An item opens (`added`) or closes (`done`): its place is the number of those closed before."""
        self.send(f"response.output_item.{phase}", output_index=len(self.output), item=item)
        if phase == "done":
            self.output.append(item)

    def reasoning(self, text: str) -> None:
        """A reasoning item with one summary."""
        item = {"id": f"rs_{ID}", "type": "reasoning", "summary": []}
        self._item("added", item)
        here = {"item_id": item["id"], "output_index": len(self.output), "summary_index": 0}
        part = {"type": "summary_text", "text": text}
        self.send("response.reasoning_summary_part.added", **here, part={**part, "text": ""})
        for piece in pieces(text):
            self.send("response.reasoning_summary_text.delta", **here, delta=piece)
        self.send("response.reasoning_summary_text.done", **here, text=text)
        self.send("response.reasoning_summary_part.done", **here, part=part)
        self._item("done", {**item, "summary": [part]})

    def message(self, said: Said) -> None:
        """A message item: a part of text, a part of refusal, or both."""
        item = {"id": f"msg_{ID}", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        self._item("added", item)
        content: list[dict[str, Any]] = []
        for name, text in (("text", said.text), ("refusal", said.refusal)):
            if not text:
                continue
            kind, member = PARTS[name]
            more: dict[str, Any] = {"annotations": [], "logprobs": []} if name == "text" else {}
            here = {"item_id": item["id"], "output_index": len(self.output), "content_index": len(content)}
            self.send("response.content_part.added", **here, part={"type": kind, member: "", **more})
            for piece in pieces(text):
                self.send(f"response.{kind}.delta", **here, delta=piece)
            self.send(f"response.{kind}.done", **here, **{member: text})
            content.append({"type": kind, member: text, **more})
            self.send("response.content_part.done", **here, part=content[-1])
        self._item("done", {**item, "status": "completed", "content": content})

    def call(self, call: Call) -> None:
        """A call of a function, or of a custom tool."""
        kind = "custom_tool_call" if call.type == "custom" else "function_call"
        event, member = (kind + "_input" if call.type == "custom" else kind + "_arguments"), CALL_VALUE[kind]
        number = len(self.output)
        item = {"id": f"fc_{ID}_{number}", "type": kind, "status": "in_progress", "call_id": call.id,
                "name": call.name, member: ""}  # fmt: skip
        self._item("added", item)
        here = {"item_id": item["id"], "output_index": number}
        for piece in pieces(call.arguments):
            self.send(f"response.{event}.delta", **here, delta=piece)
        self.send(f"response.{event}.done", **here, **{member: call.arguments})
        self._item("done", {**item, "status": "completed", member: call.arguments})
