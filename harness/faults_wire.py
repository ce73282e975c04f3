"""Faults of the connection, of its pace, and of HTTP. Each is a function from plan to plan (steps.py). Pure.

Its parameters after the plan are what users may set (`cut:event=3`), its docstring's first line is what they read.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import msgspec

from harness.error_forms import dialect_in, error_body, sentence_of
from harness.steps import (
    RESET_SECONDS,
    STALL_SECONDS,
    Close,
    Head,
    Raw,
    Reset,
    Send,
    Step,
    Wait,
    body_of,
    every,
    place_of,
    recut,
    split,
)

Size = Annotated[int, msgspec.Meta(ge=1, le=64 * 1024**2)]
Status = Annotated[int, msgspec.Meta(ge=200, le=599)]
Retry = Annotated[int, msgspec.Meta(ge=0, le=86400)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=86400)]
Factor = Annotated[float, msgspec.Meta(ge=0, le=1000)]
MediaType = Annotated[str, msgspec.Meta(pattern=r"^[!-~]+/[!-~]+(; [!-~]+)?$", max_length=100)]


def _split(steps: Sequence[Step], event: int | None, byte: int | None) -> tuple[list[Step], list[Step]]:
    """The plan up to the place and from there on; half the body if no place is given."""
    place = place_of(steps, event, byte)
    return split(steps, len(body_of(steps)) // 2 if place is None else place)


def cut(steps: Sequence[Step], event: int | None = None, byte: int | None = None) -> list[Step]:
    """The connection closes after EVENT events or BYTE bytes (default: half the body); the body's end is not told."""
    return [*_split(steps, event, byte)[0], Close(clean=False)]


def reset(steps: Sequence[Step], event: int | None = None, byte: int | None = None) -> list[Step]:
    """The connection is reset after EVENT events or BYTE bytes (default: half the body)."""
    return [*_split(steps, event, byte)[0], Wait(RESET_SECONDS), Reset()]


def stall(
    steps: Sequence[Step], event: int | None = None, byte: int | None = None, seconds: Seconds = STALL_SECONDS
) -> list[Step]:
    """Silence for SECONDS (600) after EVENT events or BYTE bytes (default: half the body), then on as before."""
    before, after = _split(steps, event, byte)
    return [*before, Wait(seconds), *after]


def nothing(steps: Sequence[Step], seconds: Seconds = STALL_SECONDS) -> list[Step]:
    """The head comes, then silence for SECONDS (600), and the end without a byte of the body."""
    head = [step for step in steps if isinstance(step, Head)]
    return [*head, *([Wait(seconds)] if seconds else []), Close()]


def slow(steps: Sequence[Step], factor: Factor = 1.0, gap: Seconds = 0.1) -> list[Step]:
    """Every wait is FACTOR (1) times as long, and at least GAP (0.1) seconds pass before each piece."""
    out: list[Step] = []
    pending = 0.0
    for step in steps:
        if isinstance(step, Wait):
            pending += step.seconds * factor
            continue
        if isinstance(step, Send):
            pending = max(pending, gap)
        if pending:
            out.append(Wait(pending))
        out.append(step)
        pending = 0.0
    return out


def pieces(steps: Sequence[Step], size: Size = 1) -> list[Step]:
    """The body comes in pieces of SIZE (1) bytes."""
    return recut(steps, every(size, len(body_of(steps))))


def drip(steps: Sequence[Step], size: Size = 16, gap: Seconds = 0.05) -> list[Step]:
    """The body comes in pieces of SIZE (16) bytes, one each GAP (0.05) seconds."""
    return slow(pieces(steps, size), gap=gap)


def bad_chunks(steps: Sequence[Step], event: int | None = None, byte: int | None = None) -> list[Step]:
    """The chunked coding breaks after EVENT events or BYTE bytes (default: half the body): a chunk without a size."""
    return [*_split(steps, event, byte)[0], Raw(b"no size\r\n"), Close(clean=False)]


def gzip(steps: Sequence[Step]) -> list[Step]:
    """The body comes compressed with gzip, each piece flushed; faults that look into the body go before it."""
    coder = zlib.compressobj(wbits=31)
    out: list[Step] = []
    for step in steps:
        if isinstance(step, Head):
            out.append(Head(step.status, step.headers | {"content-encoding": "gzip"}))
        elif isinstance(step, Send):
            out.append(Send(coder.compress(step.data) + coder.flush(zlib.Z_SYNC_FLUSH)))
        elif isinstance(step, Close) and step.clean:
            out += [Send(coder.flush()), step]
        else:
            out.append(step)
    return out


def media_type(steps: Sequence[Step], value: MediaType = "text/plain") -> list[Step]:
    """The stream is announced as VALUE (text/plain)."""
    return [
        Head(step.status, step.headers | {"content-type": value}) if isinstance(step, Head) else step for step in steps
    ]


def status(
    steps: Sequence[Step],
    code: Status,
    body: Literal["json", "html", "none"] = "json",
    retry_after: Retry | None = None,
) -> list[Step]:
    """CODE answers in place of the recording, with the dialect's error, a gateway's page (html) or nothing (none)."""
    headers = {"content-type": "text/html" if body == "html" else "application/json"}
    if retry_after is not None:
        headers["retry-after"] = str(retry_after)
    text = f"{code} {sentence_of(code)}"
    content = {
        "json": error_body(dialect_in(body_of(steps)), code),
        "html": f"<html><head><title>{text}</title></head><body><h1>{text}</h1></body></html>\n".encode(),
        "none": b"",
    }[body]
    return [Head(code, headers), *([Send(content)] if content else []), Close()]


def rate_limit(steps: Sequence[Step], retry_after: Retry = 1) -> list[Step]:
    """429 with Retry-After: RETRY-AFTER (1) seconds, for the first TIMES (1) requests; then the recording."""
    return status(steps, 429, retry_after=retry_after)


def page(steps: Sequence[Step], body: Literal["json", "html"] = "html") -> list[Step]:
    """Status 200, but in place of the stream a gateway's page, or the dialect's error as one JSON text (BODY=json)."""
    failed = status(steps, 500, body)
    return [Head(200, step.headers) if isinstance(step, Head) else step for step in failed]


WIRE_FAULTS: tuple[Callable[..., list[Step]], ...] = (
    cut, reset, stall, nothing, slow, drip, pieces, bad_chunks, gzip, media_type, status, rate_limit, page,
)  # fmt: skip
