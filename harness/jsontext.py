"""JSON in and out, exactly: decoding that copes with what servers send, writing that copes with all of it."""

from __future__ import annotations

import json
import math
import re
import reprlib
from typing import Any

import msgspec

decode_strict = msgspec.json.Decoder().decode
STRICT_ERRORS = (ValueError, RecursionError)  # msgspec.DecodeError is a ValueError
# Levels of nesting that are read. Decoding and writing both recurse, and stop at a depth that hangs on who calls them:
# far below it a payload reads the same everywhere, and what was read can be written.
MAX_DEPTH = 400
SHALLOW = 2 * MAX_DEPTH  # bytes: a shorter text cannot be nested deeper


class Undecodable(ValueError):
    """The bytes are no JSON text, even read tolerantly."""


def check_depth(data: bytes, value: Any) -> None:
    """Raise Undecodable if the value, decoded from the data, is nested deeper than MAX_DEPTH."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for node in level if type(node) is list for inner in node] + [
            inner for node in level if type(node) is dict for inner in node.values()
        ]
        if not level:
            return
    raise Undecodable(f"nested deeper than {MAX_DEPTH} levels")


def decode(data: bytes) -> Any:
    """Decode strictly, else tolerantly (`decode_tolerant`). Raises Undecodable. Integers are exact."""
    try:
        value = decode_strict(data)
        if len(data) > SHALLOW:
            check_depth(data, value)
        return value
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
    check_depth(data, value)
    return value, problem or ("sse.json-constant" if constants else "")


def as_text(value: Any) -> str:
    """A decoded JSON value as compact JSON text, non-ASCII kept; of any other value, text that shows some of it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError, TypeError):
        pass
    try:
        return reprlib.repr(value)  # bounded in depth: repr would raise again
    except ValueError:  # an integer with more digits than Python writes
        return f"<{type(value).__name__}>"


# Characters that JSON lets stand as they are and that a terminal obeys or a reader cannot see: DEL and C1 controls,
# line separators, bidirectional overrides. Written as escapes they are the same text.
_UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def to_json(value: Any, *, indent: int | None = None) -> str:
    """A record or plain value as JSON text for output: always UTF-8 (lone surrogates come out as escapes), and without
    a character that a terminal would obey. NaN and infinities, which JSON lacks, come out as strings."""
    value = msgspec.to_builtins(value)
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    except ValueError:
        value = _finite(value)
        text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=True, indent=indent)
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return value


def same_json(one: str, other: str) -> bool:
    """Whether two texts are equal, or the same JSON value, an empty text counting as `{}`. true is not 1, 1 is 1.0."""
    if one == other:
        return True
    try:
        return _same(json.loads(one or "{}"), json.loads(other or "{}"))
    except (ValueError, RecursionError):
        return False


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
