"""What the importers share: the entry they make, and what is done to every body on the way.

Each importer says what its format could not keep (`lost`): a fixture made of it must not pretend to more. Bytes stay as
they are found, but for what was done to them on the way to the file, which is undone where it can be: transfer coding,
content coding, base64.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from harness.codings import decoder_for
from harness.conventions import CONVENTIONS
from harness.endpoint import MAX_BODY
from harness.errors import UsageError

MAX_ENTRIES = 10_000
MAX_VALUE = 1000  # characters of a header's value

READS = "reads and their times"
AS_TEXT = "the body was stored as text: line ends, and bytes that are no UTF-8, may have changed"
_TRANSFER = "chunk boundaries"


class Entry(msgspec.Struct, kw_only=True):
    """One exchange of an archive. `headers` are the response's, names in lower case; `sent` is the request's body.

    `end` as in a sidecar; `date` ISO, null if unknown; `lost` in words, a part each.
    """

    method: str = "POST"
    url: str = ""
    sent: bytes | None = None
    status: int | None = None
    headers: dict[str, str] = {}
    body: bytes = b""
    decoded_from: str | None = None
    end: str = "unknown"
    date: str | None = None
    lost: list[str] = []

    @property
    def path(self) -> str:
        """The path of the URL: keys may stand in the query."""
        try:
            return urlsplit(self.url).path
        except ValueError:
            return ""

    @property
    def about(self) -> str:
        """The exchange in a few words, for a list of them: no query, no headers."""
        return f"{self.method} {self.path or '?'}: {self.status or 'no status'}, {len(self.body)} bytes"


def count_checked(entries: list[Any], name: str) -> list[Any]:
    """The list, if it is of a size that is read. Raises UsageError."""
    if len(entries) > MAX_ENTRIES:
        raise UsageError(f"{name}: holds more than {MAX_ENTRIES} exchanges, the most that is read; split it")
    return entries


def sized(body: bytes, what: str) -> bytes:
    """The body, if it is of a size that is recorded. Raises UsageError."""
    if len(body) > MAX_BODY:
        raise UsageError(f"{what}: its body is larger than {MAX_BODY // 1024**2} MiB, the most that is kept")
    return body


def from_base64(text: str, what: str) -> bytes:
    """The bytes of base64 text, blanks ignored. Raises UsageError."""
    try:
        return base64.b64decode(re.sub(r"\s", "", text), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise UsageError(f"{what}: its body is not the base64 it is said to be ({exc}); export it again") from exc


def text_bytes(text: str) -> bytes:
    """Text that stood in an archive, as the bytes it came from. Half a character that JSON can hold is replaced."""
    return text.encode("utf-8", "replace")


def header_map(pairs: Iterable[tuple[Any, Any]]) -> dict[str, str]:
    """Names in lower case; of several values of a name, all, with commas. What is no text is left out."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        if isinstance(name, str) and isinstance(value, str) and len(name) <= MAX_VALUE:
            name, value = name.strip().lower(), value.strip()[:MAX_VALUE]
            if len(headers) < 1000:
                headers[name] = f"{headers[name]}, {value}"[:MAX_VALUE] if name in headers else value
    return headers


def status_of(value: Any) -> int | None:
    """A status code, written as a number or as digits; null for anything else."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{3}", value):
        value = int(value)
    return value if type(value) is int and 100 <= value <= 999 else None


def decode_content(entry: Entry, what: str) -> None:
    """Undo the content coding that the entry's headers name, if its body still has it. Raises UsageError: too large."""
    coding = entry.headers.get("content-encoding")
    decoder = decoder_for(coding)
    if decoder is None:
        if coding and coding.strip().lower() not in ("", "identity"):
            entry.lost.append(f"the body may still be coded ({coding[:40]}), which is not undone here")
        return
    plain = decoder.feed(entry.body, MAX_BODY)
    if decoder.coding is None:
        # The recorder undid it and left the header, or the server never did it.
        entry.lost.append("the content coding, which was undone before it was stored")
        return
    entry.body, entry.decoded_from = sized(plain, what), decoder.coding
    if not decoder.whole:
        entry.lost.append(f"what followed a fault or the end of the {decoder.coding} body")
        entry.end = "cut"


def ended(entry: Entry, stored: int) -> None:
    """Tell the end by the length that the headers promise; `stored` is the body's size before any decoding."""
    length = entry.headers.get("content-length", "")
    if entry.end == "unknown" and re.fullmatch(r"[0-9]{1,18}", length):
        if int(length) == stored:
            entry.end = "eof"
        elif int(length) > stored:
            entry.lost.append(f"{int(length) - stored} bytes that content-length promises")
            entry.end = "cut"


def transfer_lost(entry: Entry) -> None:
    """Note chunk boundaries that were not kept."""
    if "chunked" in entry.headers.get("transfer-encoding", "").lower():
        entry.lost.append(_TRANSFER)


def dialect_of_path(path: str) -> str | None:
    """The dialect whose request path (conventions) the path ends with; null if none."""
    path = path.rstrip("/")
    if ":streamGenerateContent" in path or ":generateContent" in path:
        return "gemini"
    tails = {name: row.path for name, row in CONVENTIONS.items() if "{" not in row.path}
    for name, tail in sorted(tails.items(), key=lambda item: -len(item[1])):
        if path.endswith(tail):
            return name
    return None


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}
