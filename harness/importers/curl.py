"""What `curl -i` writes: the head of a response, or of several, then the body; with `--raw` the body in its chunks."""

from __future__ import annotations

import re

from harness.errors import UsageError
from harness.importers.base import READS, Entry, decode_content, ended, header_map, sized, status_of, transfer_lost

HEAD_LIMIT = 256 * 1024  # bytes
_STATUS = re.compile(rb"HTTP/[0-9.]{1,5} ([0-9]{3})(?: ([^\r\n]*))?\r?\n")
_END = re.compile(rb"\r?\n\r?\n")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r\n")


def entries(data: bytes, name: str) -> list[Entry]:
    """The one response. Interim ones (1xx), a proxy's, and those that redirect are passed over. Raises UsageError."""
    at = re.match(rb"(?:\xef\xbb\xbf)?\s*", data).end()  # type: ignore[union-attr]
    passed = 0
    while True:
        match = _STATUS.match(data, at)
        end = _END.search(data, at, at + HEAD_LIMIT)
        if match is None or end is None:
            raise UsageError(f"{name}: the head of the response has no end; was the file cut, or is it no `curl -i`?")
        status = status_of(match[1].decode()) or 0
        head = data[match.end() : end.start()]
        at = end.end()
        tunnel = status == 200 and b"established" in (match[2] or b"").lower()
        if _STATUS.match(data, at) is None or not (status < 200 or 300 <= status < 400 or tunnel):
            break
        passed += 1
    pairs = [line.decode("latin-1").partition(":")[::2] for line in re.split(rb"\r?\n", head)]
    entry = Entry(status=status, headers=header_map(pairs), body=sized(data[at:], name), lost=[READS, "the request"])
    if passed:
        entry.lost.append(f"{passed} response{'s' if passed > 1 else ''} before it (interim, redirects, a proxy's)")
    if b"\r" not in data[:at]:
        entry.lost.append("the head's line ends are LF, so the file went through text mode: so may the body's have")
    stored = len(entry.body)
    if "chunked" in entry.headers.get("transfer-encoding", "").lower() and _SIZE.match(entry.body):
        _unchunk(entry)
    else:
        transfer_lost(entry)
        ended(entry, stored)
    decode_content(entry, name)
    return [entry]


def _unchunk(entry: Entry) -> None:
    """Undo the chunked coding (`curl --raw`). What comes before a fault is kept; trailers are passed over."""
    data, pieces, at = entry.body, list[bytes](), 0
    entry.lost.append("chunk boundaries, which were undone")
    while True:
        match = _SIZE.match(data, at)
        if match is None:
            entry.end = "cut" if at >= len(data) or b"\n" not in data[at : at + 64] else "protocol-error"
            break
        size, at = int(match[1], 16), match.end()
        if not size:
            entry.end = "eof"
            break
        pieces.append(data[at : at + size])
        at += size
        if data[at : at + 2] != b"\r\n":
            entry.end = "cut" if at + 2 > len(data) else "protocol-error"
            break
        at += 2
    entry.body = b"".join(pieces)
