"""What every dialect is: payloads in, events and notes out. One class, one file per wire format."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from harness.events import End, Error, Event, Note
from harness.jsontext import as_text
from harness.sse import ServerSentEvent

JSON_TYPES = {
    dict: "object", list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null",
}  # fmt: skip


class Notes:
    """Notes of one stream: the first of each code."""

    def __init__(self) -> None:
        self.by_code: dict[str, Note] = {}

    def add(self, code: str, at: int, length: int, detail: str = "") -> None:
        """Keep the note unless its code is known already."""
        if code not in self.by_code:
            self.by_code[code] = Note(code, at, length, detail)

    def in_order(self) -> list[Note]:
        """By place in the body, then by code."""
        return sorted(self.by_code.values(), key=lambda note: (note.at, note.code))


class Dialect:
    """Reads one stream. `ended` once the family's end was read, `failed` once an error was; then nothing more counts.

    Subclasses say their `name`, their `framing`, the text of an end marker that is not JSON (`marker`, or None), and
    implement `read`. Raising is a bug: whatever a payload holds, `read` copes.
    """

    name: ClassVar[str]
    framing: ClassVar[Literal["sse", "ndjson"]] = "sse"
    marker: ClassVar[bytes | None] = None
    trailer: ClassVar[bytes | None] = None  # text the vendor itself sends after its end: it says nothing more
    event_names: ClassVar[frozenset[str]] = frozenset()  # the documented SSE event names, if the dialect has any

    def __init__(self) -> None:
        self.notes = Notes()
        self.ended = False
        self.failed = False
        self.finished = False

    def read(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        """Append what the decoded payload says to `out`."""
        raise NotImplementedError

    def end(self, sse: ServerSentEvent, out: list[Event]) -> None:
        """The text of `marker` was read."""
        self.ended = True
        out.append(End((self.marker or b"").decode(), sse.at, sse.length))

    def finish(self, out: list[Event]) -> None:
        """The body has ended: append what was held back."""

    def after_error(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        """A payload after an error: nothing counts any more, unless the dialect says what does."""

    def fail(self, payload: Any, sse: ServerSentEvent, out: list[Event]) -> None:
        """Read the payload as a failure, whatever its shape."""
        self.failed = True
        out.append(error_event(payload, sse))


def error_event(payload: Any, sse: ServerSentEvent) -> Error:
    """An Error from any of the shapes in use: an object under `error`, a string there, the fields at top level, text.

    The message is looked for under `message`, then `detail`, `msg` and `error` (FastAPI, gateways).
    """
    error = payload.get("error") if isinstance(payload, dict) else payload
    if isinstance(payload, dict) and not error:
        error = payload
    if not isinstance(error, dict):
        beside = payload if isinstance(payload, dict) else {}
        text = as_string(error)
        return Error(_filled(beside.get("error_type")), _filled(beside.get("code")), text, sse.at, sse.length)
    message = next((error[key] for key in ("message", "detail", "msg", "error") if _filled(error.get(key))), None)
    return Error(_filled(error.get("type")), _filled(error.get("code")), message, sse.at, sse.length)


# What a code, type or status beside a message may say that tells no failure: of envelopes and signs of life.
_ALL_IS_WELL = frozenset({"0", "200", "ok", "success", "ping", "heartbeat", "keepalive", "keep-alive", "keep_alive"})


def looks_like_error(payload: dict[Any, Any]) -> bool:
    """A payload without any content that reports a failure: `error`, or a message with a code, type or status."""
    if payload.get("error"):
        return True
    if payload.get("object") == "error" or payload.get("type") == "error":
        return True
    if isinstance(payload.get("message"), str):
        told = (_filled(payload.get(key)) for key in ("code", "type", "status", "status_code"))
        return any(as_text(value).strip('"').lower() not in _ALL_IS_WELL for value in told if value is not None)
    return bool(payload.get("detail")) and len(payload) <= 3


def only_a_message(payload: dict[Any, Any]) -> bool:
    """Nothing but a text under `message`, and perhaps an id: how Cohere, and API gateways, answer what they refuse.

    It says nothing of a failure, so it counts as one where nothing else can stand: alone as the body of a response,
    and among events that all have a type. Source: docs.cohere.com/reference/errors.
    """
    message = payload.get("message")
    return type(message) is str and bool(message) and payload.keys() <= {"message", "id", "request_id"}


def _filled(value: Any) -> Any:
    return None if value == "" else value


def integer(value: Any) -> int | None:
    """The value if it is a whole number (a float such as 9.0 counts), else None."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    return None


def as_string(value: Any) -> str | None:
    """The value as a string: null stays null, another type is written as JSON text."""
    return value if value is None or type(value) is str else as_text(value)


def first_integer(members: dict[Any, Any], *names: str) -> int | None:
    """The first of the named members that holds a whole number."""
    for name in names:
        value = integer(members.get(name))
        if value is not None:
            return value
    return None
