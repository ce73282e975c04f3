"""JSON in and out, exactly: decoding that copes with what servers really send, and writing that copes with all of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_DECODE = msgspec.json.Decoder().decode
BIG = 1 << 53  # beyond this a number's text is checked: decoders differ there


class Undecodable(ValueError):
    """The bytes are no JSON text, even read tolerantly."""


def decode(data: bytes) -> Any:
    """Decode strictly, else tolerantly (NaN, lone surrogates, invalid UTF-8 as replacement characters).

    Raises Undecodable. Integers are exact.
    """
    try:
        return _DECODE(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as exc:
        raise Undecodable(str(exc)) from None


def as_text(value: Any) -> str:
    """A decoded JSON value as compact JSON text, non-ASCII kept."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError, TypeError):
        return repr(value)[:1000]


def to_json(value: Any, *, indent: int | None = None) -> str:
    """A record or plain value as JSON text for output. Lone surrogates come out as escapes, so it is always UTF-8."""
    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=True, indent=indent)
    return text
