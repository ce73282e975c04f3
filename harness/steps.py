"""A recording becomes a plan: the steps a server carries out to play it again, as data a test can compare. Pure.

A plan is a Head, then Sends and Waits (and Raws), then a Close or a Reset. One Send is one chunk, one write.

How a recording's end is played again:

    eof, unknown                             Close: the body's end is told
    cut, protocol-error                      Close(clean=False): the connection ends, the body does not
    client-closed, too-large, incomplete     the same: the rest is not known, and no half body may pass for a whole one
    reset                                    a short Wait, so that what was sent arrives, then Reset
    timeout:first-event, :idle, :total       Wait(stall_seconds): the client gives up first; then Close(clean=False)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from harness.codings import decoder_for
from harness.endpoint import MAX_BODY, Timeouts
from harness.errors import UsageError
from harness.recording import Read, Recording
from harness.sse import LineParser, ServerSentEvent, SSEParser

STALL_SECONDS = 600.0  # longer than the timeouts between events that are in use (30 s here by default, 600 s at most)
RESET_SECONDS = 0.05
_PATIENCE = Timeouts()

# The connection is the replaying server's own, and alt-svc would lead elsewhere; the body at rest is decoded.
NOT_REPLAYED = frozenset((
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "content-length",
    "content-encoding", "alt-svc",
))  # fmt: skip


class Head(msgspec.Struct, frozen=True):
    """Status and end-to-end headers, names in lower case."""

    status: int
    headers: dict[str, str]


class Send(msgspec.Struct, frozen=True, gc=False):
    """A piece of the body, never empty."""

    data: bytes


class Raw(msgspec.Struct, frozen=True, gc=False):
    """Bytes on the connection that belong to no chunk: they break the framing of the body, and are none of it."""

    data: bytes


class Wait(msgspec.Struct, frozen=True, gc=False):
    """Silence on an open connection."""

    seconds: float


class Reset(msgspec.Struct, frozen=True, gc=False):
    """RST, not FIN: the client sees a broken connection, not an ended one."""


class Close(msgspec.Struct, frozen=True, gc=False):
    """FIN. `clean`: the end of the body is told first; else the client can see that the body is cut."""

    clean: bool = True


Step = Head | Send | Raw | Wait | Reset | Close


def plan(
    recording: Recording,
    *,
    pace: Literal["fast", "recorded"] = "fast",
    speed: float = 1.0,
    pieces: int | Literal["events"] | None = None,
    stall_seconds: float = STALL_SECONDS,
) -> list[Step]:
    """The steps that play the recording again, byte for byte.

    `pace`: "recorded" waits before each read as long as the client did when it was recorded (the first: since the
    request was sent), "fast" never; a `speed` of 2.0 halves those waits. `pieces`: one Send per recorded read (None),
    per event, or per so many bytes; a piece is sent when its last byte was read. Raises UsageError for a piece size
    below 1, or a speed that is not above 0.
    """
    if not speed > 0:
        raise UsageError(f"speed: {speed:g} is no factor; use a number above 0, as 2 for twice as fast")
    steps: list[Step] = [_head(recording)]
    at, now = 0, 0.0
    for read in [*recording.reads, None]:
        # A sidecar may be wrong: bytes are never sent twice or left out, time never runs backwards.
        end = len(recording.body) if read is None else min(read.end, len(recording.body))
        if end <= at:
            continue
        if read is not None and pace == "recorded" and read.microseconds / 1e6 > now:
            steps.append(Wait((read.microseconds / 1e6 - now) / speed))
            now = read.microseconds / 1e6
        steps.append(Send(recording.body[at:end]))
        at = end
    steps += _end(recording.end, stall_seconds)
    if pieces is None:
        return steps
    return recut(steps, event_ends(recording.body) if pieces == "events" else every(pieces, len(recording.body)))


def _head(recording: Recording) -> Head:
    # 1xx would be no response, and three digits is all a status line holds
    status = recording.status if recording.status is not None and 200 <= recording.status <= 599 else 200
    headers = {
        name: value for name, value in recording.headers.items()
        if name not in NOT_REPLAYED and re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", name, re.ASCII)
        and re.fullmatch(r"[\t -~\x80-\xff]*", value)
    }  # fmt: skip
    if "content-type" not in headers:
        headers["content-type"] = _media_type(recording)
    return Head(status, headers)


def _media_type(recording: Recording) -> str:
    start = recording.body.lstrip()[:1]
    if recording.dialect == "ollama" and recording.status in (None, 200):
        return "application/x-ndjson"
    if start in (b"{", b"["):
        return "application/json"
    return "text/html" if start == b"<" else "text/event-stream"


def _end(end: str, stall_seconds: float) -> list[Step]:
    if end in ("eof", "unknown"):
        return [Close()]
    if end == "reset":
        return [Wait(RESET_SECONDS), Reset()]
    if end.startswith("timeout:"):
        return [Wait(stall_seconds), Close(clean=False)]
    return [Close(clean=False)]


def body_of(steps: Iterable[Step]) -> bytes:
    """All bytes of the body that the plan sends."""
    return b"".join([step.data for step in steps if isinstance(step, Send)])


def events_in(body: bytes) -> list[tuple[ServerSentEvent, int]]:
    """The body's events, each with the offset after its blank line. A body that opens with `{` is read as lines."""
    parser = LineParser() if body.lstrip()[:1] == b"{" else SSEParser()
    found = []
    for item in parser.feed(body) + parser.finish():
        if isinstance(item, ServerSentEvent):
            end = item.at + item.length
            end += 2 if body[end : end + 2] == b"\r\n" else 1 if body[end : end + 1] in (b"\r", b"\n") else 0
            found.append((item, end))
    return found


def event_ends(body: bytes) -> list[int]:
    """Offsets after each event, ascending."""
    return [end for _, end in events_in(body)]


def every(size: int, length: int) -> Sequence[int]:
    """Offsets that cut a body in pieces of `size` bytes. Raises UsageError for a size below 1."""
    if size < 1:
        raise UsageError(f"pieces: {size} is no number of bytes: use 1 or more, or events")
    return range(size, length, size)


def recut(steps: Iterable[Step], cuts: Iterable[int]) -> list[Step]:
    """The same bytes, cut at the given offsets (ascending) and nowhere else; waits stay where they are."""
    steps = list(steps)
    total = len(body_of(steps))
    # Sending the last piece must not wait for a step that never comes, so the body's end is always a cut.
    remaining = iter([*(cut for cut in cuts if 0 < cut < total), total])
    out: list[Step] = []
    cut, at, held = next(remaining), 0, list[bytes]()
    for step in steps:
        if not isinstance(step, Send):
            out.append(step)
            continue
        start, end = at, at + len(step.data)
        while cut <= end and start < end:
            out.append(Send(b"".join([*held, step.data[start - at : cut - at]])))
            start, cut, held = cut, next(remaining, total + 1), []
        if start < end:
            held.append(step.data[start - at :])
        at = end
    return out


def split(steps: Iterable[Step], offset: int) -> tuple[list[Step], list[Step]]:
    """What the plan does up to `offset` bytes of the body, its head included, and what it does then."""
    before: list[Step] = []
    after: list[Step] = []
    for step in steps:
        if isinstance(step, Head):
            before.append(step)
        elif offset <= 0 or isinstance(step, Close | Reset):
            after.append(step)
        elif isinstance(step, Send):
            before.append(Send(step.data[:offset]))
            if len(step.data) > offset:
                after.append(Send(step.data[offset:]))
            offset -= len(step.data)
        else:
            before.append(step)
    return before, after


def place_of(steps: Sequence[Step], event: int | None, byte: int | None) -> int | None:
    """The offset after so many events or bytes of the body; negative ones count from the end, what lies beyond is the
    nearest there is. None if neither is given. Raises UsageError if both are.
    """
    if event is not None and byte is not None:
        raise UsageError("event and byte name one place: give one of them")
    if event is not None:
        ends = [0, *event_ends(body_of(steps))]
        return ends[min(max(event if event >= 0 else len(ends) - 1 + event, 0), len(ends) - 1)]
    if byte is not None:
        length = len(body_of(steps))
        return min(max(byte if byte >= 0 else length + byte, 0), length)
    return None


Edit = tuple[int, int, bytes]
"""Offsets of the bytes that are replaced, and what stands there instead: (9, 9, b"x") puts an x before byte 9."""


def edited(steps: Iterable[Step], edits: Iterable[Edit]) -> list[Step]:
    """The plan with its body edited. `edits` are ascending and do not overlap.

    What is new goes into the piece in which its place lies, or into one of its own at the body's end; a piece of which
    nothing is left is not sent.
    """
    steps, waiting = list(steps), list(reversed(list(edits)))
    total, at, kept_from = len(body_of(steps)), 0, 0
    out: list[Step] = []
    for step in steps:
        if waiting and at >= total and not isinstance(step, Head):
            out.append(Send(b"".join(new for _, _, new in reversed(waiting))))
            waiting = []
        if not isinstance(step, Send):
            out.append(step)
            continue
        start, end, parts = at, at + len(step.data), list[bytes]()
        while waiting and waiting[-1][0] < end:
            first, kept_to, new = waiting.pop()
            parts += [step.data[max(kept_from - start, 0) : first - start], new]
            kept_from = kept_to
        parts.append(step.data[max(kept_from - start, 0) :])
        if data := b"".join(parts):
            out.append(Send(data))
        at = end
    return out


def heard(steps: Iterable[Step], like: Recording | None = None, timeouts: Timeouts = _PATIENCE) -> Recording:
    """The recording that a client makes of the plan, without a server, a socket or a clock.

    A content coding is undone and a silence that is too long ends it, as in the recorder; but silence is measured
    between pieces, not between events. `like` lends dialect, shape, request and provenance.
    """
    body, reads, now, silent = bytearray(), list[Read](), 0.0, 0.0
    found = Recording(body=b"") if like is None else msgspec.structs.replace(like)
    found.end, decoder = "incomplete", None
    for step in steps:
        if isinstance(step, Head):
            found.status, found.headers = step.status, dict(step.headers)
            decoder = decoder_for(step.headers.get("content-encoding"))
        elif isinstance(step, Send):
            data = step.data if decoder is None else decoder.feed(step.data, MAX_BODY - len(body))
            silent = 0.0
            if data:
                body += data
                reads.append(Read(len(body), round(now * 1e6)))
        elif isinstance(step, Wait):
            now, silent = now + step.seconds, silent + step.seconds
            if silent >= (timeouts.idle if reads else timeouts.first_event):
                found.end = "timeout:idle" if reads else "timeout:first-event"
                break
        else:
            whole = decoder is None or decoder.whole
            found.end = _heard_end(step, whole)
            break
    found.body, found.reads = bytes(body), reads
    found.decoded_from = decoder.coding if decoder is not None else None
    return found


def _heard_end(step: Raw | Close | Reset, whole: bool) -> str:
    if isinstance(step, Raw):
        return "protocol-error"
    if isinstance(step, Reset):
        return "reset"
    return "eof" if step.clean and whole else "cut"
