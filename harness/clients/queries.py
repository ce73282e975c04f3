"""A right client that waits for the whole body, then asks one question after another of the list of payloads.

Nothing is kept between payloads: text, calls, finish and usage are each read off the list. Rules: cases/README.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from harness.clients.queries_choices import CHOICES, Payload, is_object, json_of, last, objects

REASONS = {
    "stop": ("stop", "end_turn", "stop_sequence", "STOP", "completed", "eos"),
    "length": ("length", "max_tokens", "MAX_TOKENS", "max_output_tokens"),
    "tool_calls": ("tool_calls", "tool_use", "function_call"),
    "content_filter": ("content_filter", "SAFETY", "RECITATION", "refusal"),
    "error": ("error", "failed", "MALFORMED_FUNCTION_CALL"),
}


def read(body: Iterable[bytes], dialect: str) -> Payload:
    """Message JSON."""
    payloads, ended, error = _payloads(b"".join(body), dialect)
    choices = [
        {"choice": number, "refusal": None, **choice, "finish_reason": _reason(choice, dialect)}
        for number, choice in sorted(CHOICES[dialect](payloads).items())
    ]
    first = next(choice for choice in choices if choice["choice"] == 0)
    inputs, outputs = zip(*(_counts(payload, dialect) for payload in [{}, *payloads]), strict=True)
    usage = {"input_tokens": last(inputs), "output_tokens": last(outputs)}
    finish = "finish" if any(choice["finish_raw"] for choice in choices) else "truncated"
    return {
        **first, "usage": usage if usage != dict.fromkeys(usage) else None, "error": error, "choices": choices,
        "terminal": "error" if error else "done" if ended else finish,
    }  # fmt: skip


def _reason(choice: Payload, dialect: str) -> str | None:
    raw = choice["finish_raw"]
    found = next((normal for normal, reasons in REASONS.items() if raw in reasons), "other" if raw else None)
    calls_tools = found == "stop" and choice["tool_calls"] and dialect not in ("chat", "anthropic")
    return "tool_calls" if calls_tools else found


# -- payloads


def _payloads(body: bytes, dialect: str) -> tuple[list[Payload], bool, Payload | None]:
    """Payloads up to the end, whether the dialect's end was read, and the error."""
    found: list[Payload] = []
    for name, text in _events(body, dialect):
        if text.strip() == "[DONE]":
            if dialect == "chat":
                return found, True, None
            continue
        payload = json_of(text)
        if not isinstance(payload, dict):
            continue
        found.append(payload)
        if (error := _error(name, payload)) is not None:
            return found, False, error
        if _is_end(payload, dialect):
            return found, True, None
    return found, False, None


def _whole(text: str) -> bool:
    return text.strip() == "[DONE]" or json_of(text) is not None


def _events(body: bytes, dialect: str) -> Iterator[tuple[str, str]]:
    """Name and data of each event. What a standard reader drops though it is unmistakable is an event too."""
    if dialect == "ollama":
        yield from (("", line) for line in body.decode("utf-8", "replace").split("\n"))
        return
    body = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    name, data = "", list[str]()
    for line in [*body.decode("utf-8", "replace").split("\n"), ""]:
        field, _, value = line.partition(":")
        value = value[1:] if value[:1] == " " else value
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif field == "error":
            yield "error", value
        elif not line:
            joined = "\n".join(data)
            if len(data) > 1 and not _whole(joined) and all(map(_whole, data)):
                yield from ((name, value) for value in data)
            elif joined:
                yield name, joined
            name, data = "", []
        elif line.startswith("{") and isinstance(bare := json_of(line), dict) and bare.get("error"):
            yield "", line


def _error(name: str, payload: Payload) -> Payload | None:
    response = payload.get("response")
    if payload.get("type") == "response.failed":
        told = (isinstance(response, dict) and response.get("error")) or {}
    elif payload.get("error"):
        told = payload["error"]
    elif "error" in (name, payload.get("type"), payload.get("object")):
        told = {**payload, "type": None if payload.get("type") == "error" else payload.get("type")}
    else:
        told = last(choice.get("error") for choice in objects(payload.get("choices")))
    if told is None:
        return None
    if not isinstance(told, dict):
        return {"type": None, "code": None, "message": told}
    return {"type": told.get("type", told.get("status")), "code": told.get("code"), "message": told.get("message")}


def _is_end(payload: Payload, dialect: str) -> bool:
    ends = ("response.completed", "response.incomplete") if dialect == "responses" else ("message_stop",)
    return payload.get("done") is True if dialect == "ollama" else dialect != "chat" and payload.get("type") in ends


def _counts(payload: Payload, dialect: str) -> tuple[Any, Any]:
    """Input and output tokens that one payload states."""
    holders: list[Any] = [payload, payload.get("message"), payload.get("response"), payload.get("x_groq")]
    usages = [holder.get("usage") for holder in [*holders, *objects(payload.get("choices"))] if is_object(holder)]
    names = {
        "chat": ("prompt_tokens", "completion_tokens"), "gemini": ("promptTokenCount", "candidatesTokenCount"),
        "ollama": ("prompt_eval_count", "eval_count"),
    }.get(dialect, ("input_tokens", "output_tokens"))  # fmt: skip
    if dialect in ("gemini", "ollama"):
        usages = [payload.get("usageMetadata") if dialect == "gemini" else payload]
    found = [usage for usage in usages if is_object(usage)]
    return last(usage.get(names[0]) for usage in found), last(usage.get(names[1]) for usage in found)
