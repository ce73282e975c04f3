"""google-genai: the chunks of `client.models.generate_content_stream(...)`, joined as its documentation does.

The SDK itself accumulates nothing: a reader goes through the parts of each chunk's candidates.
"""

from __future__ import annotations

from typing import Any

from google import genai
from google.genai import types

from harness.adapters.base import KEY, MODEL, PROMPT, Read, Sdk, joined, normal, numbered, usage
from harness.dialects.gemini import FINISH
from harness.jsontext import as_text


def opened(sdk: Sdk, seconds: float) -> Read:
    """A reader whose requests may take so many seconds."""
    milliseconds = max(int(seconds * 1000), 1)
    client = genai.Client(api_key=KEY, vertexai=False, http_options=types.HttpOptions(
        base_url="http://127.0.0.1", timeout=milliseconds, client_args={"trust_env": False},
    ))  # fmt: skip

    def read(url: str, dialect: str) -> Any:
        here = types.HttpOptions(base_url=url.removesuffix("/v1"), api_version="v1beta")
        config = types.GenerateContentConfig(http_options=here)
        return _message(client.models.generate_content_stream(model=MODEL, contents=PROMPT, config=config))

    return read


def _message(chunks: Any) -> dict[str, Any]:
    text: list[Any] = []
    reasoning: list[Any] = []
    calls: list[tuple[Any, Any, Any]] = []
    raw = counts = None
    for chunk in chunks:
        for candidate in (chunk.candidates or [])[:1]:
            for part in (candidate.content.parts if candidate.content is not None else None) or []:
                if part.function_call is not None:
                    call = part.function_call
                    calls.append((call.id, call.name, as_text(call.args or {})))
                elif part.text is not None:
                    (reasoning if part.thought else text).append(part.text)
            raw = candidate.finish_reason or raw
        if chunk.prompt_feedback is not None:
            raw = chunk.prompt_feedback.block_reason or raw
        counts = chunk.usage_metadata or counts
    reason = getattr(raw, "value", raw)
    finish = normal(reason, FINISH)
    return {
        "text": joined(text), "reasoning": joined(reasoning), "tool_calls": numbered(calls),
        "finish_reason": "tool_calls" if finish == "stop" and calls else finish, "finish_raw": reason,
        "usage": usage(counts, ("prompt_token_count", "candidates_token_count")),
    }  # fmt: skip
