"""openai-python, Chat Completions: what `client.chat.completions.stream(...)` accumulates."""

from __future__ import annotations

from typing import Any

from harness.adapters.base import MODEL, asked, normal, numbered, usage
from harness.dialects.chat import FINISH


def read(client: Any) -> dict[str, Any]:
    """The final completion of one stream, as message JSON. Raises what the SDK raises."""
    with client.chat.completions.stream(model=MODEL, messages=asked()) as stream:
        completion = stream.get_final_completion()
    choices = [_choice(choice) for choice in completion.choices]
    first = next((choice for choice in choices if choice["choice"] == 0), {"text": ""})
    return {**first, "choices": choices, "usage": usage(completion.usage, ("prompt_tokens", "completion_tokens"))}


def _choice(choice: Any) -> dict[str, Any]:
    message, raw = choice.message, choice.finish_reason
    extra = message.model_extra or {}  # members the SDK has no type for; applications read reasoning there
    calls = [_call(call) for call in message.tool_calls or []]
    if (legacy := getattr(message, "function_call", None)) is not None:
        calls.append((None, legacy.name, legacy.arguments))
    return {
        "choice": choice.index, "text": message.content, "refusal": message.refusal,
        "reasoning": extra.get("reasoning_content") or extra.get("reasoning"),
        "tool_calls": numbered(calls), "finish_reason": normal(raw, FINISH), "finish_raw": raw,
    }  # fmt: skip


def _call(call: Any) -> tuple[Any, Any, Any]:
    if (custom := getattr(call, "custom", None)) is not None:
        return call.id, custom.name, custom.input
    function = call.function
    return call.id, getattr(function, "name", None), getattr(function, "arguments", None)
