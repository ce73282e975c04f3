"""Wrong clients between the bytes and the payloads: line ends, decoding, fields, blocks.

Each is the right machine with one method replaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.clients.machine import Machine
from harness.clients.mistakes import NO_RECOVERY, wrong
from harness.clients.model import ALL, SSE

LINE_LIMIT = 64 * 1024  # bytes: what asyncio's stream reader and Go's bufio.Scanner allow by default


@wrong(
    "data-space", "001-data-no-space", SSE,
    about="Looks for `data: ` with the space, so that `data:{...}` is no data.",
)  # fmt: skip
class DataSpace(Machine):
    def parted(self, line: str) -> tuple[str, str]:
        name, _, value = line.partition(": ")
        return name, value


@wrong(
    "splits-at-lf-lf", "002-crlf-line-endings", SSE, features=NO_RECOVERY, bends_bytes=True,
    about="Splits the body at `\\n\\n`, so that a body with CRLF is one endless event.",
)  # fmt: skip
class SplitsAtLfLf(Machine):
    def feed(self, piece: bytes) -> None:
        self.buffer += piece
        if b"\n\n" not in self.buffer[-len(piece) - 1 :]:
            return
        *blocks, self.buffer = self.buffer.split(b"\n\n")
        for block in blocks:
            for line in (*block.split(b"\n"), b""):
                if not self.stopped:
                    self.line(bytes(line))

    def finish(self) -> None:
        """What has no blank line is no event."""


@wrong(
    "keeps-bom", "003-leading-bom", SSE,
    about="Takes a byte order mark for part of the first field's name, and loses the event.",
)  # fmt: skip
class KeepsBom(Machine):
    def unmarked(self, raw: bytes) -> bytes:
        return raw


@wrong(
    "comment-raises", "004-comment-keepalive", SSE,
    about="Knows no comments: `: ping` is a malformed line, and it raises.",
)  # fmt: skip
class CommentRaises(Machine):
    def comment(self, value: str) -> None:
        raise ValueError(f"no field name before the colon: {value!r}")


@wrong(
    "line-is-event", "005-multi-line-data", SSE,
    about="Takes each data line for an event, so that a payload over several lines is lost.",
)  # fmt: skip
class LineIsEvent(Machine):
    def field(self, name: str, value: str, line: str) -> None:
        if name == "data":
            self.event(self.name, [value])
        else:
            super().field(name, value, line)


@wrong(
    "parses-empty-data", "007-empty-data-heartbeat", SSE,
    about="Hands an empty data field to the JSON parser, which raises.",
)  # fmt: skip
class ParsesEmptyData(Machine):
    def blank(self) -> None:
        if self.data and not any(self.data):
            json.loads("\n".join(self.data))
        super().blank()


@wrong(
    "dispatches-without-data", "010-id-retry-event-fields", SSE,
    about="Makes an event of a block that has `id` or `retry` but no data: it raises.",
)  # fmt: skip
class DispatchesWithoutData(Machine):
    control = False

    def field(self, name: str, value: str, line: str) -> None:
        self.control = self.control or name in ("id", "retry")
        super().field(name, value, line)

    def blank(self) -> None:
        control, self.control = self.control, False
        if control and not self.data:
            json.loads("")
        super().blank()


@wrong(
    "known-fields-only", "010-id-retry-event-fields", SSE,
    about="Raises at a field that the standard does not name, instead of ignoring it.",
)  # fmt: skip
class KnownFieldsOnly(Machine):
    def stray(self, name: str, value: str, line: str) -> None:
        raise ValueError(f"unknown field {name!r}")


@wrong(
    "drops-last-event", "008-last-event-without-blank-line", SSE,
    about="Drops what comes after the last blank line, as the standard says, without a word.",
)  # fmt: skip
class DropsLastEvent(Machine):
    def finish(self) -> None:
        """What has no blank line is no event."""


@wrong(
    "ignores-error-field", "045-error-in-unknown-field", SSE,
    about="Ignores a field named `error`, as the standard says, and the failure with it.",
)  # fmt: skip
class IgnoresErrorField(Machine):
    def stray(self, name: str, value: str, line: str) -> None:
        """Unknown fields are ignored."""


@wrong(
    "short-line-buffer", "009-line-longer-than-128k", ALL,
    about="Has a buffer of 64 KiB for a line, and raises at a longer one.",
)  # fmt: skip
class ShortLineBuffer(Machine):
    def line(self, raw: bytes) -> None:
        if len(raw) > LINE_LIMIT:
            raise ValueError(f"line is longer than {LINE_LIMIT} bytes")
        super().line(raw)


@wrong(
    "decodes-each-read", "012-multibyte-utf8", ALL, bends_bytes=True,
    about="Decodes each read by itself, so that a character cut in two becomes two U+FFFD.",
)  # fmt: skip
class DecodesEachRead(Machine):
    def feed(self, piece: bytes) -> None:
        super().feed(piece.decode("utf-8", "replace").encode())


@wrong(
    "read-is-event", "001-data-no-space", ALL, bends_bytes=True,
    about="Takes each read for whole lines, so that a line cut by the network is lost.",
)  # fmt: skip
class ReadIsEvent(Machine):
    def feed(self, piece: bytes) -> None:
        super().feed(piece + b"\n")


@wrong(
    "latin-1", "012-multibyte-utf8", ALL,
    about="Decodes as ISO-8859-1, the default of HTTP libraries for text, which garbles UTF-8.",
)  # fmt: skip
class Latin1(Machine):
    def text_of(self, raw: bytes) -> str:
        return raw.decode("latin-1")


@wrong(
    "strict-utf8", "015-codepoint-cut-by-server", ALL,
    about="Decodes strictly, and raises at a byte that is no UTF-8.",
)  # fmt: skip
class StrictUtf8(Machine):
    def text_of(self, raw: bytes) -> str:
        return raw.decode("utf-8")


@wrong(
    "drops-bad-bytes", "015-codepoint-cut-by-server", ALL,
    about="Leaves out bytes that are no UTF-8, so that nobody sees that text is missing.",
)  # fmt: skip
class DropsBadBytes(Machine):
    def text_of(self, raw: bytes) -> str:
        return raw.decode("utf-8", "ignore")


@wrong(
    "splitlines", "013-raw-line-separator", ALL,
    about="Splits with `splitlines()`, which also breaks at U+2028 within a JSON string.",
)  # fmt: skip
class Splitlines(Machine):
    def lines(self, piece: bytes) -> Iterator[bytes]:
        for line in super().lines(piece):
            for part in line.decode("utf-8", "replace").splitlines() or [""]:
                yield part.encode()


@wrong(
    "event-name-decides", "087-event-lines-missing", ("responses", "anthropic"),
    about="Dispatches on the SSE event name, and sees nothing where only `type` is sent.",
)  # fmt: skip
class EventNameDecides(Machine):
    def payload(self, name: str, payload: dict[str, Any]) -> None:
        super().payload(name, {**payload, "type": name or "message"})


@wrong(
    "parses-unknown-events", "088-unknown-named-event", SSE,
    about="Parses the data of every event as JSON, also of those it does not know.",
)  # fmt: skip
class ParsesUnknownEvents(Machine):
    def undecodable(self, text: str) -> None:
        json.loads(text)


@wrong(
    "parses-done-marker", "078-done-marker-after-completed", ("responses", "anthropic", "gemini"),
    about="Parses whatever comes after the end as JSON, `[DONE]` included, and raises.",
)  # fmt: skip
class ParsesDoneMarker(Machine):
    def feed(self, piece: bytes) -> None:
        for line in self.lines(piece):
            if line == b"data: [DONE]":
                json.loads(line.removeprefix(b"data: "))
            if not self.stopped:
                self.line(line)
