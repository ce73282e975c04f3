"""Undoing a content coding, piece by piece. Sans-IO; nothing a server can send makes it raise."""

from __future__ import annotations

import zlib

# Window sizes to try, in order: `deflate` means zlib's format, but some servers send the bare one.
_WINDOWS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}


class Decoder:
    """Feed it the coded pieces, get the plain ones. `coding` is None once the body turns out not to be coded so.

    Bytes that cannot be decoded from the start on come out as they are: a server that says gzip and sends plain text.
    `broken` is set where a coded body goes wrong later; what lies before the fault has come out.
    """

    def __init__(self, coding: str) -> None:
        self.coding: str | None = "gzip" if coding == "x-gzip" else coding
        self.broken = False
        self._windows = list(_WINDOWS[coding])
        self._window = self._windows.pop(0)
        self._inflate = zlib.decompressobj(self._window)
        self._early: list[bytes] | None = []  # coded pieces, as long as nothing has come out
        self._fed = False

    def feed(self, piece: bytes, room: int) -> bytes:
        """The next plain bytes. More than `room` are not asked for: once there are more, do not feed again."""
        if self.coding is None:
            return piece
        if self.broken or not piece:
            return b""
        self._fed = True
        if self._early is not None:
            self._early.append(piece)
        before = self._inflate.copy()
        try:
            out = self._members(piece, room + 1)
        except zlib.error:
            if self._early is not None and not self._has_header(early := b"".join(self._early)):
                return self._other_format(early, room)
            self._inflate, self.broken = before, True
            out = self._up_to_the_fault(piece, room + 1)
        if out:
            self._early = None
        return out

    @property
    def whole(self) -> bool:
        """Whether the coded body, if there was any, has come to its own end: what an ended body is to be asked."""
        return self.coding is None or not self._fed or (self._inflate.eof and not self.broken)

    def _members(self, piece: bytes, room: int) -> bytes:
        """A gzip body may consist of several members."""
        if self._inflate.eof:
            piece = piece.lstrip(b"\0")  # padding
            if not piece:
                return b""
            self._inflate = zlib.decompressobj(31)
        out = self._inflate.decompress(piece, room)
        while self._inflate.eof and len(out) < room and (rest := self._inflate.unused_data.lstrip(b"\0")):
            self._inflate = zlib.decompressobj(31)
            out += self._inflate.decompress(rest, room - len(out))
        return out

    def _has_header(self, early: bytes) -> bool:
        """Whether the body starts as its format says: then it is coded, and what is wrong comes later."""
        if self._window == 31:
            return early[:2] == b"\x1f\x8b"
        return self._window == 15 and early[:1] != b"" and early[0] & 15 == 8 and int.from_bytes(early[:2]) % 31 == 0

    def _other_format(self, early: bytes, room: int) -> bytes:
        """Nothing could be decoded: the next format there is, or the bytes as they are."""
        if not self._windows:
            self.coding = None
            return early
        self._early = []
        self._window = self._windows.pop(0)
        self._inflate = zlib.decompressobj(self._window)
        return self.feed(early, room)

    def _up_to_the_fault(self, piece: bytes, room: int) -> bytes:
        """zlib gives nothing of a piece with a fault in it; byte by byte it does."""
        out = bytearray()
        for at in range(len(piece)):
            try:
                out += self._members(piece[at : at + 1], room - len(out))
            except zlib.error:
                break
            if len(out) >= room:
                break
        return bytes(out)


def decoder_for(content_encoding: str | None) -> Decoder | None:
    """The decoder for a `content-encoding` header, or None: no coding, or one that is not undone here."""
    coding = (content_encoding or "").strip().lower()
    return Decoder(coding) if coding in _WINDOWS else None
