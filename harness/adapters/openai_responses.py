"""openai-python, Responses: what `client.responses.stream(...)` accumulates."""

from __future__ import annotations

from typing import Any

from harness.adapters.base import MODEL, PROMPT, joined, normal, numbered, usage
from harness.dialects.chat import FINISH


def read(client: Any) -> dict[str, Any]:
    """The final response of one stream, as message JSON. Raises what the SDK raises."""
    with client.responses.stream(model=MODEL, input=PROMPT) as stream:
        response = stream.get_final_response()
    text: list[Any] = []
    refusal: list[Any] = []
    reasoning: list[Any] = []
    calls: list[tuple[Any, Any, Any]] = []
    for item in response.output or []:
        if item.type == "message":
            for part in item.content or []:
                (refusal if part.type == "refusal" else text).append(getattr(part, part.type.removeprefix("output_")))
        elif item.type == "reasoning":
            reasoning += [part.text for part in [*(item.summary or []), *(item.content or [])]]
        elif item.type in ("function_call", "custom_tool_call"):
            calls.append((item.call_id, item.name, item.arguments if item.type == "function_call" else item.input))
    incomplete = response.incomplete_details
    raw = (incomplete.reason if incomplete is not None else None) or response.status
    return {
        "text": joined(text), "refusal": joined(refusal), "reasoning": joined(reasoning), "tool_calls": numbered(calls),
        "finish_reason": "tool_calls" if raw == "completed" and calls else normal(raw, FINISH), "finish_raw": raw,
        "usage": usage(response.usage, ("input_tokens", "output_tokens")),
    }  # fmt: skip
