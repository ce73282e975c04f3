"""anthropic-sdk-python: what `client.messages.stream(...)` accumulates."""

from __future__ import annotations

from typing import Any

import anthropic

from harness.adapters.base import KEY, MODEL, Read, Sdk, asked, joined, normal, numbered, usage
from harness.dialects.anthropic import FINISH
from harness.jsontext import as_text


def opened(sdk: Sdk, seconds: float) -> Read:
    """A reader whose requests may take so many seconds."""
    http = anthropic.DefaultHttpxClient(trust_env=False)
    base = "http://127.0.0.1"
    client: Any = anthropic.Anthropic(api_key=KEY, base_url=base, max_retries=0, timeout=seconds, http_client=http)

    def read(url: str, dialect: str) -> Any:
        here = client.with_options(base_url=url.removesuffix("/v1"))  # it adds /v1/messages
        with here.messages.stream(model=MODEL, max_tokens=256, messages=asked()) as stream:
            return _message(stream.get_final_message())

    return read


def _message(message: Any) -> dict[str, Any]:
    text = [block.text for block in message.content if block.type == "text"]
    thinking = [block.thinking for block in message.content if block.type == "thinking"]
    calls = [(block.id, block.name, as_text(block.input)) for block in message.content if block.type == "tool_use"]
    raw = message.stop_reason
    return {
        "text": joined(text), "reasoning": joined(thinking), "tool_calls": numbered(calls),
        "finish_reason": normal(raw, FINISH), "finish_raw": raw,
        "usage": usage(message.usage, ("input_tokens", "output_tokens")),
    }  # fmt: skip
