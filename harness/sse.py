"""Bytes to server-sent events, sans-IO: no socket, no clock, no JSON. Nothing a server can send makes it raise.

Rules: the HTML standard, "Parsing an event stream" (one leading BOM dropped; CR, LF and CRLF end lines; comments;
`data` lines joined by LF; UTF-8 with replacement), and cases/README rule 1 for NDJSON. One deviation, on purpose:
an event whose data is empty is not dispatched but seen ("empty-data"), since no dialect gives it a meaning.

Where the pieces are cut never shows. Everything has offsets: `at` counts bytes from the start of the body, the BOM
included; `length` runs over the event's own lines with their line ends, without the blank line that ends it.
"""

from __future__ import annotations

import msgspec

LONG_LINE = 64 * 1024  # bytes: the default line limit of common readers (asyncio streams, Go's bufio.Scanner)
BOM = b"\xef\xbb\xbf"
LF, CR = 10, 13  # as numbers: `in` asks for a byte several times faster than for bytes


class ServerSentEvent(msgspec.Struct, gc=False):
    """One event. `event` is "" if no name was sent. `lines` holds (at, length) of each data value if there are several.

    `terminated` is false for what lay unfinished at the end of the body: the standard discards it.
    """

    data: bytes
    event: str
    id: str
    at: int
    length: int
    lines: tuple[tuple[int, int], ...] = ()
    terminated: bool = True


class StrayLine(msgspec.Struct, gc=False):
    """A line that is no field the standard knows. It is ignored by standard readers and handed over all the same."""

    line: bytes
    at: int
    length: int
    terminated: bool = True


class SSEParser:
    """Feed it pieces, get events and stray lines in order of their bytes.

    `seen` maps an observation to the (at, length) where it was first made: bom, comment, lf, cr, crlf, no-space,
    multi-line-data, empty-data, control-only, id, retry, event-name, unknown-field, long-line.
    """

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, int]] = {}
        self.retry: int | None = None
        self._last_id = ""
        self._names: dict[bytes, str] = {}
        # What most named blocks begin with, up to their data, and its name; the name of the last block that did not.
        self._head, self._head_kind, self._other_kind = b"", "", ""
        self._parts: list[bytes] = []  # bytes of the unfinished block (fast mode) or line (line mode)
        self._at = 0  # offset of the first byte of _parts
        self._bom_possible = True
        self._line_mode = False  # from the first CR on
        self._plain = False  # a block was read, and no CR so far
        self._pending_cr: int | None = None  # line mode: offset of a CR that ended a piece; an LF may follow
        self._reset_block(0)

    def _reset_block(self, at: int) -> None:
        self._block_at = at
        self._data: list[bytes] = []
        self._data_lines: list[tuple[int, int]] = []
        self._event = b""
        self._control = False

    def feed(self, piece: bytes) -> list[ServerSentEvent | StrayLine]:
        """Take the next piece, of any size; return what was completed by it. Linear in the bytes fed."""
        if self._plain and piece[-2:] == b"\n\n" and not self._parts:
            # The regular case of a server that flushes each event: the piece is one block. What is not, goes on below.
            size, start = len(piece) - 2, 6
            kind: str | None = ""
            if piece[:7] == b"event: ":
                start = piece.find(b"\n") + 7
                kind = self._names.get(piece[7 : start - 7]) if piece[start - 7 : start] == b"\ndata: " else None
            elif piece[:6] != b"data: ":
                kind = None
            if (
                kind is not None and size <= LONG_LINE and piece.find(b"\n", start) == size
                and piece[start] > 32 and CR not in piece
            ):  # fmt: skip
                at = self._at
                self._at = at + size + 2
                return [ServerSentEvent(piece[start:size], kind, self._last_id, at, size + 1)]
        out: list[ServerSentEvent | StrayLine] = []
        if not piece:
            return out
        if self._bom_possible:
            piece = b"".join(self._parts) + piece
            self._parts = []
            if len(piece) < 3 and BOM.startswith(piece):
                self._parts = [piece] if piece else []
                return out
            self._bom_possible = False
            if piece.startswith(BOM):
                self.seen["bom"] = (0, 3)
                piece = piece[3:]
                self._at = 3
                self._block_at = 3
        if self._line_mode:
            self._feed_lines(piece, out)
            return out
        parts = self._parts
        if CR in piece:
            self._line_mode, self._plain = True, False
            self._parts = []
            self._block_at = self._at
            self._feed_lines(b"".join(parts) + piece, out)
            return out
        if parts:
            # Join only when a block can end here, so that each byte is searched once and joined once.
            parts.append(piece)
            if b"\n\n" not in piece and not (piece[:1] == b"\n" and parts[-2][-1:] == b"\n"):
                return out
            piece = b"".join(parts)
        blocks = piece.split(b"\n\n")
        tail = blocks.pop()
        self._parts = [tail] if tail else []
        if not blocks:
            return out
        if not self._plain:
            self._plain = True
            self.seen["lf"] = (self._at + piece.index(b"\n"), 1)
        at, last_id, names, add = self._at, self._last_id, self._names, out.append
        head, head_kind, skip = self._head, self._head_kind, len(self._head)
        for block in blocks:
            size = len(block)
            if skip and block.startswith(head) and skip < size <= LONG_LINE:
                data = block[skip:]
                if data[0] > 32 and LF not in data:
                    add(ServerSentEvent(data, head_kind, last_id, at, size + 1))
                    at += size + 2
                    continue
            if block[:6] == b"data: " and size > 6 and LF not in block:
                if size > LONG_LINE and "long-line" not in self.seen:
                    self.seen["long-line"] = (at, size)
                if block[6] > 32:
                    add(ServerSentEvent(block[6:], "", last_id, at, size + 1))
                    at += size + 2
                    continue
            elif (
                block[:7] == b"event: "
                and size <= LONG_LINE
                and (end := block.find(b"\n", 7)) > 7
                and block[end : end + 7] == b"\ndata: "
                and block.find(b"\n", end + 7) < 0
                and (data := block[end + 7 :]).strip()
            ):
                name = block[7:end]
                kind = names.get(name)
                if kind is None:
                    kind = self._name(name)
                    self.seen.setdefault("event-name", (at, end))
                add(ServerSentEvent(data, kind, last_id, at, size + 1))
                at += size + 2
                if kind == self._other_kind:  # again: then it may be what most have
                    head, head_kind, skip = block[: end + 7], kind, end + 7
                self._other_kind = kind
                continue
            self._block(block, at, out)
            last_id = self._last_id
            at += size + 2
        self._at, self._head, self._head_kind = at, head, head_kind
        return out

    def finish(self) -> list[ServerSentEvent | StrayLine]:
        """The body has ended: what never became an event, as an unterminated event and stray lines."""
        out: list[ServerSentEvent | StrayLine] = []
        self._bom_possible = False
        held = b"".join(self._parts)
        self._parts = []
        if self._pending_cr is not None:
            self.seen.setdefault("cr", (self._pending_cr, 1))
        at = self._at
        if not self._line_mode:
            self._reset_block(at)
        lines = held.split(b"\n") if held else []
        for number, line in enumerate(lines):
            last = number == len(lines) - 1
            if last and not line:
                break
            if not last:
                self.seen.setdefault("lf", (at + len(line), 1))
            if line:
                self._line(line, at, out, terminated=not last)
                at += len(line) + (not last)
            else:  # a blank first line: the end of an empty block
                at += 1
                self._reset_block(at)
        if self._data:
            self._dispatch(at, out, terminated=False)
        elif self._control:
            self.seen.setdefault("control-only", (self._block_at, at - self._block_at))
        self._at = at
        return out

    def _name(self, name: bytes) -> str:
        kind = name.decode("utf-8", "replace")
        if len(self._names) < 256:
            self._names[name] = kind
        return kind

    def _block(self, block: bytes, at: int, out: list[ServerSentEvent | StrayLine]) -> None:
        """One block of LF lines that the fast path does not know."""
        self._reset_block(at)
        for line in block.split(b"\n"):
            if line:
                self._line(line, at, out)
            at += len(line) + 1
            if not line:
                self._reset_block(at)
        self._dispatch(at, out)

    def _line(self, line: bytes, at: int, out: list[ServerSentEvent | StrayLine], *, terminated: bool = True) -> None:
        size, seen = len(line), self.seen
        if size > LONG_LINE:
            seen.setdefault("long-line", (at, size))
        name, colon, value = line.partition(b":")
        skip = len(name) + len(colon)
        if value[:1] == b" ":
            value = value[1:]
            skip += 1
        elif value and name == b"data":
            seen.setdefault("no-space", (at, size))
        if name == b"data":
            self._data.append(value)
            self._data_lines.append((at + skip, len(value)))
        elif name == b"event":
            self._event = value
            self._control = True
            seen.setdefault("event-name", (at, size))
        elif name == b"id":
            if b"\0" not in value:
                self._last_id = value.decode("utf-8", "replace")
            self._control = True
            seen.setdefault("id", (at, size))
        elif name == b"retry":
            if value.isdigit() and len(value) < 16:
                self.retry = int(value)
            self._control = True
            seen.setdefault("retry", (at, size))
        elif colon and not name:
            seen.setdefault("comment", (at, size))
        else:
            seen.setdefault("unknown-field", (at, size))
            out.append(StrayLine(line, at, size, terminated))

    def _dispatch(self, at: int, out: list[ServerSentEvent | StrayLine], *, terminated: bool = True) -> None:
        """A block has ended; its lines ran to byte `at`."""
        start, data, lines = self._block_at, self._data, self._data_lines
        if data:
            joined = data[0] if len(data) == 1 else b"\n".join(data)
            if joined.strip():
                if len(data) > 1:
                    self.seen.setdefault("multi-line-data", (start, at - start))
                kind = self._names.get(self._event) or self._name(self._event)
                several = tuple(lines) if len(lines) > 1 else ()
                out.append(ServerSentEvent(joined, kind, self._last_id, start, at - start, several, terminated))
            else:
                self.seen.setdefault("empty-data", (start, at - start))
        elif self._control:
            self.seen.setdefault("control-only", (start, at - start))
        self._reset_block(at)

    def _feed_lines(self, piece: bytes, out: list[ServerSentEvent | StrayLine]) -> None:
        """Line mode: a line ends at a CR at once; an LF that follows is part of the same line end."""
        if self._pending_cr is not None:
            if piece[:1] == b"\n":
                self.seen.setdefault("crlf", (self._pending_cr, 2))
                piece = piece[1:]
                if self._block_at == self._at:  # the CR ended a blank line: the next block starts after the LF
                    self._block_at += 1
                self._at += 1
            else:
                self.seen.setdefault("cr", (self._pending_cr, 1))
            self._pending_cr = None
        if self._parts and LF not in piece and CR not in piece:
            self._parts.append(piece)
            return
        lines = (b"".join(self._parts) + piece).splitlines(keepends=True)
        self._parts = []
        if lines and lines[-1][-1:] not in (b"\n", b"\r"):
            self._parts = [lines.pop()]
        at, seen, last = self._at, self.seen, len(lines) - 1
        for number, line in enumerate(lines):
            if line[-2:] == b"\r\n":
                bare, ending = line[:-2], "crlf"
            else:
                bare, ending = line[:-1], "lf" if line[-1:] == b"\n" else "cr"
            if ending == "cr" and number == last and not self._parts:
                self._pending_cr = at + len(bare)
            elif ending not in seen:
                seen[ending] = (at + len(bare), len(line) - len(bare))
            if bare:
                self._line(bare, at, out)
                at += len(line)
            else:
                block_end = at
                at += len(line)
                self._dispatch(block_end, out)
                self._block_at = at
        self._at = at


class LineParser:
    """NDJSON: one JSON text a line, lines end at LF, the last may go without. Same interface as SSEParser."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, int]] = {}
        self.retry: int | None = None
        self._parts: list[bytes] = []
        self._at = 0

    def feed(self, piece: bytes) -> list[ServerSentEvent | StrayLine]:
        """Take the next piece; return one event a whole line."""
        if b"\n" not in piece:
            if piece:
                self._parts.append(piece)
            return []
        lines = (b"".join(self._parts) + piece).split(b"\n")
        tail = lines.pop()
        self._parts = [tail] if tail else []
        out: list[ServerSentEvent | StrayLine] = []
        for line in lines:
            self._take(line, len(line) + 1, out)
        return out

    def finish(self) -> list[ServerSentEvent | StrayLine]:
        """The body has ended: the last line, if it went without its line end."""
        out: list[ServerSentEvent | StrayLine] = []
        held = b"".join(self._parts)
        self._parts = []
        if held:
            self._take(held, len(held), out)
        return out

    def _take(self, line: bytes, length: int, out: list[ServerSentEvent | StrayLine]) -> None:
        if length > LONG_LINE:
            self.seen.setdefault("long-line", (self._at, length))
        if self._at == 0 and line.startswith(BOM):
            self.seen["bom"] = (0, 3)
            line = line[3:]
        if line.strip():
            out.append(ServerSentEvent(line, "", "", self._at, length))
        self._at += length
