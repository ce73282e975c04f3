"""Ollama's /api/chat, as docs.ollama.com documents it: a JSON object a line, the counts in the done line."""

from __future__ import annotations

from typing import Any

from harness.clean.answer import MODEL, Answer, arguments_object, pieces
from harness.errors import UsageError
from harness.jsontext import as_text

AT = "2024-01-01T00:00:00Z"


def encode(answer: Answer) -> bytes:
    """The body. An error is a line with its message alone. Raises UsageError for one with a type or code."""
    (said,) = answer.choices
    messages: list[dict[str, Any]] = [{"content": "", "thinking": piece} for piece in pieces(said.reasoning)]
    messages += [{"content": piece} for piece in pieces(said.text)]
    for index, call in enumerate(said.calls):
        function = {"index": index, "name": call.name, "arguments": arguments_object("ollama", call)}
        messages.append({"content": "", "tool_calls": [{"id": call.id, "function": function} if call.id else
                                                       {"function": function}]})  # fmt: skip
    lines = [_line(message, done=False) for message in messages]
    if answer.error is not None:
        if answer.error.get("type") is not None or answer.error.get("code") is not None:
            raise UsageError("expect: dialect ollama has no place for an error's type or code, only for its message")
        lines.append({"error": answer.error.get("message")})
    elif said.finish is not None or answer.ended:
        counts = dict(zip(("prompt_eval_count", "eval_count"), answer.usage or (None, None), strict=True))
        known = {name: count for name, count in counts.items() if count is not None}
        reason = {} if said.finish is None else {"done_reason": said.finish}
        lines.append({**_line({"content": ""}, done=answer.ended), **reason, **known})
    return b"".join(f"{as_text(line)}\n".encode() for line in lines)


def _line(message: dict[str, Any], *, done: bool) -> dict[str, Any]:
    return {"model": MODEL, "created_at": AT, "message": {"role": "assistant", **message}, "done": done}
