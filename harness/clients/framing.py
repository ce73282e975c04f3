"""From bytes to payloads as they come, one line at a time: the lower half of the state machine (machine.py).

Each step is a method of its own, so that a wrong client can replace exactly one. Rules: cases/README, 1 to 5.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

BOM = b"\xef\xbb\xbf"
_SSE_END = re.compile(rb"\r\n|\r|\n")
_LF = re.compile(rb"\n")


def decoded(text: str) -> Any:
    """The JSON value; None if the text is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def parses(text: str) -> bool:
    """Whether the text is one JSON value."""
    return decoded(text) is not None or text.strip() == "null"


def fields_of(error: Any) -> dict[str, Any]:
    """Type, code and message of an error as it was sent: an object, or a text alone."""
    if not isinstance(error, dict):
        return {"type": None, "code": None, "message": error}
    kind = error.get("type")
    return {
        "type": error.get("status") if kind in (None, "error") else kind,
        "code": error.get("code"),
        "message": error.get("message"),
    }


def listed(value: Any) -> list[Any]:
    """The objects of a list; nothing of anything else."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def texts_of(value: Any) -> str:
    """The text of a part, or of a list of parts."""
    if isinstance(value, list):
        return "".join(map(texts_of, value))
    found = value.get("text") if isinstance(value, dict) else value
    return found if isinstance(found, str) else ""


class Framing:
    """Lines, blocks and payloads. A subclass has a method for each dialect, named like it, that takes a payload."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.ends = _LF if dialect == "ollama" else _SSE_END
        self.buffer = bytearray()
        self.searched = 0  # no line ends before this place of the buffer
        self.after_cr = False  # the last read ended in a CR: an LF at once after it ends no second line
        self.first = True  # no line yet
        self.data: list[str] = []
        self.name = ""
        self.ended = False  # the dialect's own end has been read
        self.stopped = False
        self.error: dict[str, Any] | None = None

    # -- lines

    def feed(self, piece: bytes) -> None:
        """Take the next bytes, cut anywhere."""
        for line in self.lines(piece):
            if not self.stopped:
                self.line(line)

    def lines(self, piece: bytes) -> Iterator[bytes]:
        """The lines that are whole now, without their ends."""
        if self.after_cr and piece:
            piece, self.after_cr = piece.removeprefix(b"\n"), False
        self.buffer += piece
        start = 0
        while end := self.ends.search(self.buffer, max(start, self.searched)):
            yield bytes(self.buffer[start : end.start()])
            start = end.end()
            self.after_cr = start == len(self.buffer) and end.group() == b"\r"
        del self.buffer[:start]
        self.searched = len(self.buffer)

    def line(self, raw: bytes) -> None:
        """One line."""
        if self.first:
            raw, self.first = self.unmarked(raw), False
        text = self.text_of(raw)
        if self.dialect == "ollama":
            self.event("", [text])
        elif text:
            self.field(*self.parted(text), text)
        else:
            self.blank()

    def unmarked(self, raw: bytes) -> bytes:
        """The first line without its byte order mark."""
        return raw.removeprefix(BOM)

    def text_of(self, raw: bytes) -> str:
        return raw.decode("utf-8", "replace")

    def finish(self) -> None:
        """The body has ended: what is whole though no blank line came is read all the same."""
        if not self.stopped:
            if self.buffer:
                self.line(bytes(self.buffer))
            self.blank()

    # -- events

    def parted(self, line: str) -> tuple[str, str]:
        """A line's field name and value: one space after the colon is no part of the value."""
        name, _, value = line.partition(":")
        return name, value.removeprefix(" ")

    def field(self, name: str, value: str, line: str) -> None:
        """One field of a block."""
        if name == "data":
            self.data.append(value)
        elif name == "event":
            self.name = value
        elif name == "":
            self.comment(value)
        elif name not in ("id", "retry"):
            self.stray(name, value, line)

    def comment(self, value: str) -> None:
        """A comment says nothing."""

    def stray(self, name: str, value: str, line: str) -> None:
        """A field the standard ignores; a failure may stand there all the same."""
        told = decoded(value) if name == "error" else decoded(line)
        if isinstance(told, dict) and (name == "error" or told.get("error")):
            self.fail(fields_of(told if name == "error" else told["error"]))

    def blank(self) -> None:
        """A blank line: the block so far is an event."""
        name, data, self.name, self.data = self.name, self.data, "", []
        if any(data) and not self.stopped:
            self.event(name, data)

    def event(self, name: str, data: list[str]) -> None:
        """An event's data lines."""
        text = "\n".join(data)
        if text.strip() == "[DONE]":
            self.marker()
            return
        payload = decoded(text)
        if payload is None:
            whole = [line.strip() == "[DONE]" or decoded(line) is not None for line in data]
            if len(data) > 1 and all(whole):  # blank lines are missing: each line is an event
                for line in data:
                    self.event(name, [line])
            else:
                self.undecodable(text)
        elif isinstance(payload, dict) and not self.stopped:
            self.payload(name, payload)

    def marker(self) -> None:
        """`[DONE]`: the end in chat, nothing elsewhere."""
        if self.dialect == "chat":
            self.end()

    def end(self) -> None:
        """The dialect's own end: nothing is read after it."""
        self.ended = self.stopped = True

    def undecodable(self, text: str) -> None:
        """What is no JSON adds nothing and ends nothing."""

    # -- payloads

    def payload(self, name: str, payload: dict[str, Any]) -> None:
        """One payload: what it says, then whether it is a failure."""
        getattr(self, self.dialect)(payload)
        error = self.error_of(name, payload)
        if error is not None:
            self.fail(error)

    def error_of(self, name: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        """The failure that a payload tells of: under `error`, or the payload itself."""
        if payload.get("error"):
            return fields_of(payload["error"])
        if "error" in (name, payload.get("type"), payload.get("object")):
            return fields_of(payload)
        return None

    def fail(self, error: dict[str, Any]) -> None:
        """The stream has failed: nothing is read after it."""
        self.error, self.stopped = self.error or error, True
