"""JSON in and out, exactly: decoding that copes with what servers send, writing that copes with all of it."""

from __future__ import annotations

import json
import reprlib
from typing import Any

import msgspec

decode_strict = msgspec.json.Decoder().decode
STRICT_ERRORS = (ValueError, RecursionError)  # msgspec.DecodeError is a ValueError


class Undecodable(ValueError):
    """The bytes are no JSON text, even read tolerantly."""


def decode(data: bytes) -> Any:
    """Decode strictly, else tolerantly (`decode_tolerant`). Raises Undecodable. Integers are exact."""
    try:
        return decode_strict(data)
    except STRICT_ERRORS:
        return decode_tolerant(data)[0]


def decode_tolerant(data: bytes) -> tuple[Any, str]:
    """Decode what the strict decoder refused: lone surrogates, NaN, invalid UTF-8 as replacement characters.

    Returns the value and the note code that says what was tolerated ("" if nothing). Raises Undecodable.
    """
    problem = ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text, problem = data.decode("utf-8", "replace"), "sse.invalid-utf8"
    constants: list[str] = []

    def constant(name: str) -> float:
        constants.append(name)
        return float(name.replace("Infinity", "inf"))

    try:
        value = json.loads(text, parse_constant=constant)
    except (ValueError, RecursionError) as exc:
        raise Undecodable(str(exc)) from None
    return value, problem or ("sse.json-constant" if constants else "")


def as_text(value: Any) -> str:
    """A decoded JSON value as compact JSON text, non-ASCII kept."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError, TypeError):
        return reprlib.repr(value)  # bounded in depth: repr would raise again


def to_json(value: Any, *, indent: int | None = None) -> str:
    """A record or plain value as JSON text for output. Lone surrogates come out as escapes, so it is always UTF-8."""
    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=True, indent=indent)
    return text
