"""Which dialect a body is written in, from its content. An ambiguous body is refused, never guessed."""

from __future__ import annotations

from typing import Any

from harness.errors import UsageError
from harness.jsontext import Undecodable, decode
from harness.sse import LineParser, ServerSentEvent, SSEParser

LOOK_AT = 1 << 20  # bytes: what tells dialects apart stands at the start
MOST_BLANK = 4096  # bytes: a longer body is no empty one, whatever is in it
_BLANK = b"\xef\xbb\xbf \t\r\n"
# Not "ping": Anthropic's old text completions, which is no dialect here, send it too.
ANTHROPIC_TYPES = frozenset({
    "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
    "message_stop",
})  # fmt: skip
COHERE_TYPES = frozenset({
    "message-start", "content-start", "content-delta", "content-end", "tool-plan-delta", "tool-call-start",
    "tool-call-delta", "tool-call-end", "citation-start", "citation-end", "message-end",
})  # fmt: skip


def is_blank(body: bytes) -> bool:
    """Whether there is nothing in it: no byte, or none but blanks and line ends."""
    return len(body) <= MOST_BLANK and not bytes(body[:MOST_BLANK]).strip(_BLANK)


def detect(body: bytes, name: str = "the body") -> str:
    """The dialect of a body, by its first telling payload. Raises UsageError, naming `--dialect`, where none tells."""
    if is_blank(body):
        remedy = "record it again, or if that is what was sent, name its dialect with --dialect"
        raise UsageError(f"{name}: is empty; {remedy}")
    head = body[:LOOK_AT]
    first = head.lstrip(_BLANK)[:1]
    if first == b"{" and (found := _of_payload(head, ndjson=True)):
        return found  # one JSON text over several lines: no stream, but it tells who wrote it
    parser: SSEParser | LineParser = LineParser() if first == b"{" else SSEParser()
    for item in [*parser.feed(head), *parser.finish()]:
        if not isinstance(item, ServerSentEvent):
            continue
        parts = item.data.split(b"\n") if item.lines else [item.data]
        for part in (item.data, *parts):
            found = _of_payload(part, ndjson=isinstance(parser, LineParser))
            if found is not None:
                return found
    raise UsageError(f"{name}: nothing in it tells its dialect; name it with --dialect")


def _of_payload(data: bytes, *, ndjson: bool) -> str | None:
    try:
        payload: Any = decode(data)
    except Undecodable:
        return None
    if not isinstance(payload, dict):
        return None
    kind = payload.get("type")
    if isinstance(kind, str):
        if kind.startswith("response."):
            return "responses"
        if kind in ANTHROPIC_TYPES or (kind == "error" and isinstance(payload.get("error"), dict)):
            return "anthropic"
        if kind in COHERE_TYPES:
            return "cohere"
    if "candidates" in payload or "usageMetadata" in payload or "promptFeedback" in payload:
        return "gemini"
    choices = payload.get("choices")
    if isinstance(choices, list):
        texts = [choice for choice in choices if isinstance(choice, dict) and "text" in choice]
        if payload.get("object") == "text_completion" or (texts and not any("delta" in choice for choice in texts)):
            return "completions"
        if choices or str(payload.get("object", "")).startswith("chat.completion"):
            return "chat"
    if ndjson and ("done" in payload or isinstance(payload.get("message"), dict)) and "model" in payload:
        return "ollama"
    return None
