"""HTTP/1.1 as far as our servers need it: a request read from an asyncio stream, a response head as bytes.

Lenient where that does no harm (bare LF, empty lines before the request), bounded everywhere, and sure to answer or
raise `Refused` or `Gone`, whatever a client sends. Source: RFC 9112.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

import msgspec

HEAD_LIMIT = 64 * 1024  # bytes; also of a chunk's size line
BODY_LIMIT = 64 * 1024 * 1024  # bytes
REQUEST_SECONDS = 30.0

_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\xff]+) HTTP/(\d)\.(\d)")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")


class Request(msgspec.Struct, frozen=True):
    """A request. `path` is decoded and has no query (keys may stand there); names of headers are lower case.

    `target` is what the request line says, `fields` are the headers, both as they came.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""
    chunked_reply: bool = True  # HTTP/1.0 does not know the chunked coding
    target: str = ""
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def has_body(self) -> bool:
        """Whether a body follows the head."""
        return "transfer-encoding" in self.headers or self.headers.get("content-length", "0") != "0"


class Refused(Exception):
    """The request cannot be read: the status that says so, and why. `request` is as far as it was read."""

    def __init__(self, status: int, message: str, request: Request | None = None) -> None:
        self.status, self.message, self.request = status, message, request
        super().__init__(message)


class Gone(Exception):
    """The client left before its request was whole."""


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    """Read one request, its body included; a client that waits for `100 Continue` gets it from `writer`.

    Raises Refused or Gone.
    """
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            request = await _read_head(reader)
            try:
                body = b"".join([piece async for piece in body_pieces(reader, writer, request)])
            except Refused as exc:
                exc.request = request
                raise
    except TimeoutError:
        raise _too_slow() from None
    except (asyncio.IncompleteReadError, ConnectionError) as exc:
        raise Gone from exc
    return msgspec.structs.replace(request, body=body)


async def read_head(reader: asyncio.StreamReader) -> Request:
    """Read one request up to its body, which `body_pieces` reads. Raises Refused or Gone."""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            return await _read_head(reader)
    except TimeoutError:
        raise _too_slow() from None
    except (asyncio.IncompleteReadError, ConnectionError) as exc:
        raise Gone from exc


def _too_slow() -> Refused:
    return Refused(408, f"the request was not whole within {REQUEST_SECONDS:g} seconds")


async def _read_head(reader: asyncio.StreamReader) -> Request:
    first = await reader.readexactly(1)
    while first in (b"\r", b"\n"):
        first = await reader.readexactly(1)
    if not first.isalpha():  # TLS opens with 0x16, and then waits for us
        raise Refused(400, "this is no HTTP/1.1 request; the base_url must begin with http://")
    head = await _head(reader, first)
    line, headers = head[0], head[1:]
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        raise Refused(400, "the request line cannot be read")
    if match[3] != b"1":
        raise Refused(505, "this server speaks HTTP/1.1 only")
    fields = _fields(headers)
    return Request(
        match[1].decode(), _path(match[2]), _joined(fields), b"", match[4] != b"0", match[2].decode("latin-1"), fields
    )


async def _head(reader: asyncio.StreamReader, first: bytes) -> list[bytes]:
    """The lines up to the empty one, without their line ends."""
    lines, size = list[bytes](), 0
    while True:
        line = first + await _line(reader, 431)
        size += len(line)
        if size > HEAD_LIMIT:
            raise Refused(431, f"the head of the request is larger than {HEAD_LIMIT} bytes")
        stripped, first = line.rstrip(b"\r\n"), b""
        if not stripped:
            return lines
        lines.append(stripped)


async def _line(reader: asyncio.StreamReader, status: int) -> bytes:
    try:
        return await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        raise Refused(status, f"a line of the request is longer than {HEAD_LIMIT} bytes") from None


def _path(target: bytes) -> str:
    try:
        return unquote(urlsplit(target.decode("latin-1")).path, errors="replace")
    except ValueError:
        raise Refused(400, "the request target cannot be read") from None


def _fields(lines: list[bytes]) -> tuple[tuple[str, str], ...]:
    fields = []
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or name != name.strip() or not name:
            raise Refused(400, "a header of the request cannot be read")
        fields.append((name, value.strip()))
    return tuple(fields)


def _joined(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in fields:
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def body_pieces(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request
) -> AsyncIterator[bytes]:  # fmt: skip
    """The body of the request whose head was read, as it comes. Raises Refused, IncompleteReadError, ConnectionError.

    A client that waits for `100 Continue` gets it from `writer`.
    """
    headers = request.headers
    coding = headers.get("transfer-encoding", "").lower()
    length = headers.get("content-length", "0")
    if coding not in ("", "chunked"):
        raise Refused(501, f"transfer coding {coding[:40]!r} is not known here")
    if not re.fullmatch(r"\d{1,18}", length, re.ASCII):
        raise Refused(400, "content-length is no number")
    if int(length) > BODY_LIMIT:
        raise Refused(413, f"the body of the request is larger than {BODY_LIMIT} bytes")
    if not request.has_body:
        return
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
    async for piece in _chunks(reader) if coding else _counted(reader, int(length)):
        yield piece


async def _counted(reader: asyncio.StreamReader, length: int) -> AsyncIterator[bytes]:
    while length:
        piece = await reader.read(min(length, HEAD_LIMIT))
        if not piece:
            raise asyncio.IncompleteReadError(b"", length)
        length -= len(piece)
        yield piece


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    size = 0
    while True:
        digits = (await _line(reader, 400)).partition(b";")[0].strip()
        if not _CHUNK_SIZE.fullmatch(digits):
            raise Refused(400, "a chunk of the request has no size")
        length = int(digits, 16)
        size += length
        if size > BODY_LIMIT:
            raise Refused(413, f"the body of the request is larger than {BODY_LIMIT} bytes")
        if not length:
            await _head(reader, b"")  # trailers
            return
        async for piece in _counted(reader, length):
            yield piece
        if (await _line(reader, 400)).strip():
            raise Refused(400, "a chunk of the request is longer than its size")


def response_head(
    status: int, fields: Iterable[tuple[str, str]], *, chunked: bool, phrase: str | None = None
) -> bytes:  # fmt: skip
    """Status line and headers. The connection closes after the response; the body comes in chunks, or until then."""
    if phrase is None:
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in fields)]
    if chunked:
        lines.append("transfer-encoding: chunked")
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1")
