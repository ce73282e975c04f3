"""Real SDKs as targets: each reads a stream from our replay server through its own public interface.

For users: docs/matrix.md. Their packages come with the extra `sdk`; those for Node with `npm ci` in tools/node of a
checkout. Nothing of an SDK is imported before it is asked for.
"""

from __future__ import annotations

from harness.adapters.base import Sdk

_OPENAI = ("tool_calls", "reasoning", "refusal", "choices", "finish_reason", "usage", "recovery")
_ANSWER = ("tool_calls", "reasoning", "finish_reason", "usage", "recovery")

_LISTED = (
    Sdk(
        name="openai-python", package="openai", language="python", module="openai_python",
        dialects=("chat", "responses"), features=_OPENAI,
        drives="chat.completions.stream() and responses.stream(), final object",
    ),
    Sdk(
        name="anthropic-python", package="anthropic", language="python", module="anthropic_python",
        dialects=("anthropic",), features=_ANSWER, drives="messages.stream(), final message",
    ),
    Sdk(
        name="google-genai", package="google-genai", language="python", module="google_genai",
        dialects=("gemini",), features=_ANSWER, drives="models.generate_content_stream(), parts joined",
    ),
    Sdk(
        name="httpx-sse", package="httpx-sse", language="python", module="httpx_sse_json",
        dialects=("chat", "responses", "anthropic", "gemini"),
        features=(*_OPENAI, "terminal", "error"),
        drives="iter_sse() and json.loads; payloads read by our reducer",
    ),
    Sdk(
        name="openai-node", package="openai", language="node", module="node",
        dialects=("chat", "responses"), features=_OPENAI,
        drives="chat.completions.stream() and responses.stream(), final object",
    ),
    Sdk(
        name="ai-sdk", package="ai", language="node", module="node",
        dialects=("chat",), features=_ANSWER,
        drives="streamText() with @ai-sdk/openai-compatible",
    ),
)  # fmt: skip

SDKS = {sdk.name: sdk for sdk in _LISTED}
"""By the name after `sdk:`."""
