"""HTTP/1.1 as far as the replay server needs it: a request read from an asyncio stream, a response head as bytes.

Lenient where that does no harm (bare LF, empty lines before the request), bounded everywhere, and sure to answer or
raise `Refused` or `Gone`, whatever a client sends. Source: RFC 9112.
"""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

import msgspec

HEAD_LIMIT = 64 * 1024  # bytes; also of a chunk's size line
BODY_LIMIT = 64 * 1024 * 1024  # bytes
REQUEST_SECONDS = 30.0

_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\xff]+) HTTP/(\d)\.(\d)")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")


class Request(msgspec.Struct, frozen=True):
    """A request. `path` is decoded and has no query (keys may stand there); names of headers are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""
    chunked_reply: bool = True  # HTTP/1.0 does not know the chunked coding


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
            return await _read_request(reader, writer)
    except TimeoutError:
        raise Refused(408, f"the request was not whole within {REQUEST_SECONDS:g} seconds") from None
    except (asyncio.IncompleteReadError, ConnectionError) as exc:
        raise Gone from exc


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
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
    request = Request(match[1].decode(), _path(match[2]), _headers(headers), b"", match[4] != b"0")
    try:
        return msgspec.structs.replace(request, body=await _body(reader, writer, request.headers))
    except Refused as exc:
        exc.request = request
        raise


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


def _headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or name != name.strip() or not name:
            raise Refused(400, "a header of the request cannot be read")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def _body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]) -> bytes:
    coding = headers.get("transfer-encoding", "").lower()
    length = headers.get("content-length", "0")
    if coding not in ("", "chunked"):
        raise Refused(501, f"transfer coding {coding[:40]!r} is not known here")
    if not re.fullmatch(r"\d{1,18}", length, re.ASCII):
        raise Refused(400, "content-length is no number")
    if int(length) > BODY_LIMIT:
        raise Refused(413, f"the body of the request is larger than {BODY_LIMIT} bytes")
    if not coding and length == "0":
        return b""
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
    return await _chunks(reader) if coding else await reader.readexactly(int(length))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    pieces, size = list[bytes](), 0
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
            return b"".join(pieces)
        pieces.append(await reader.readexactly(length))
        if (await _line(reader, 400)).strip():
            raise Refused(400, "a chunk of the request is longer than its size")


def response_head(status: int, headers: dict[str, str], *, chunked: bool) -> bytes:
    """Status line and headers. The connection closes after the response; the body comes in chunks, or until then."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    if chunked:
        lines.append("transfer-encoding: chunked")
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1")
