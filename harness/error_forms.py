"""How each dialect reports a failure: as an event of a stream, and as the body of a status. Pure.

Sources: the error pages of the vendors' API references (platform.openai.com/docs/guides/error-codes,
platform.claude.com/docs/en/api/errors, ai.google.dev/gemini-api/docs/troubleshooting, docs.ollama.com/api/errors,
docs.cohere.com/reference/errors), and the recorded failures in fixtures/.
"""

from __future__ import annotations

from typing import Any

from harness.detect import detect
from harness.errors import UsageError
from harness.jsontext import as_text

# By status: the type OpenAI, Anthropic and Google give it, and a sentence.
KINDS = {
    400: ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT", "Bad request"),
    401: ("invalid_api_key", "authentication_error", "UNAUTHENTICATED", "Incorrect API key provided"),
    403: ("permission_error", "permission_error", "PERMISSION_DENIED", "Not allowed"),
    404: ("not_found_error", "not_found_error", "NOT_FOUND", "The model does not exist"),
    413: ("request_too_large", "request_too_large", "INVALID_ARGUMENT", "Request too large"),
    422: ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT", "Unprocessable request"),
    429: ("rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED", "Rate limit reached"),
    500: ("server_error", "api_error", "INTERNAL", "Internal server error"),
    502: ("bad_gateway", "api_error", "UNAVAILABLE", "Bad gateway"),
    503: ("overloaded_error", "overloaded_error", "UNAVAILABLE", "Overloaded"),
    504: ("gateway_timeout", "timeout_error", "DEADLINE_EXCEEDED", "Gateway timeout"),
    529: ("overloaded_error", "overloaded_error", "UNAVAILABLE", "Overloaded"),
}
_OTHER = ("api_error", "api_error", "UNKNOWN", "Replayed failure")
STREAM_MESSAGE = "The server had an error while it was answering"


def dialect_in(body: bytes) -> str:
    """The dialect of a body; chat where it does not tell."""
    try:
        return detect(body)
    except UsageError:
        return "chat"


def sentence_of(status: int) -> str:
    """What went wrong, in a few words."""
    return KINDS.get(status, _OTHER)[3]


def error_body(dialect: str, status: int) -> bytes:
    """The JSON body that comes with the status."""
    openai, anthropic, google, message = KINDS.get(status, _OTHER)
    forms: dict[str, Any] = {
        "anthropic": {"type": "error", "error": {"type": anthropic, "message": message}},
        "gemini": {"error": {"code": status, "message": message, "status": google}},
        "ollama": {"error": message},
        "cohere": {"message": message},
    }
    openai_form = {"error": {"message": message, "type": openai, "param": None, "code": openai}}
    return as_text(forms.get(dialect, openai_form)).encode()


def error_event(dialect: str, number: int, line_end: bytes = b"\n") -> bytes:
    """The event that reports a failure after status 200, `number` events having come before it."""
    name, payload = _error_event(dialect, number)
    data = as_text(payload).encode()
    if dialect == "ollama":
        return data + line_end
    lines = [b"event: " + name] if name else []
    return line_end.join([*lines, b"data: " + data, b"", b""])


def _error_event(dialect: str, number: int) -> tuple[bytes, Any]:
    if dialect == "responses":
        members = {"type": "error", "code": "server_error", "message": STREAM_MESSAGE, "param": None}
        return b"error", {**members, "sequence_number": number}
    if dialect == "anthropic":
        return b"error", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    if dialect == "gemini":
        return b"", {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    if dialect == "ollama":
        return b"", {"error": "an error was encountered while running the model"}
    if dialect == "cohere":
        delta = {"error": STREAM_MESSAGE, "finish_reason": "ERROR"}
        return b"message-end", {"type": "message-end", "delta": delta}
    return b"", {"error": {"message": STREAM_MESSAGE, "type": "server_error", "param": None, "code": "server_error"}}
