"""Timing: when a stream's bytes and events came, from a recording's reads. Pure: the times were taken by the recorder.

Every time is in microseconds since the request was sent. An event has come with the read that completed it. Reads are
evidence and depend on the network, so nothing here is structure: what is judged are limits that a provider's entry
sets (thresholds.py), and a stream that came in one burst, long after the request (timing.one-burst).

Comments and pings keep a connection alive and say nothing about the answer: they are no events here, as they feed no
idle timeout of an application that waits for words.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec

from harness.events import Audio, Event, Ping, Reasoning, Refusal, Text, ToolCall
from harness.recording import PIECE, Read, Recording

BURST_GAP = 50_000  # microseconds: reads less than this apart are one burst
LATE = 2_000_000  # microseconds without an event, after which a burst that is the whole answer was held back (RULES)
EVENT_TIME = 1_000  # microseconds: no server makes events faster than this for long, a buffer that is emptied does
CONTENT = (Text, Reasoning, Refusal, ToolCall, Audio)
RELAY_HEADERS = ("x-accel-buffering", "cache-control")  # what keeps a reverse proxy from holding a stream (SEEDS, B)

_COMMENT = re.compile(rb"(?:\A|(?<=[\r\n])):")


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """When something came, and its bytes in the body."""

    microseconds: int
    at: int
    length: int


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """A time without events: how long it lasted, when it began, and the bytes of the event that ended it."""

    microseconds: int
    since: int
    at: int
    length: int


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """Reads that came less than BURST_GAP apart: first and last time, bytes of the body, reads, events completed."""

    start: int
    end: int
    at: int
    length: int
    reads: int
    events: int


class KeepAlives(msgspec.Struct, frozen=True, kw_only=True):
    """Comments and pings: how many, the median and the longest time between two; null where fewer than two came."""

    count: int
    cadence: int | None = None
    longest: int | None = None


class Timing(msgspec.Struct, kw_only=True):
    """When a stream came. Null: it never came. `longest_gap` is between events, the wait before the first apart.

    `headers` are those of RELAY_HEADERS that were sent.
    """

    first_byte: int
    last_byte: int
    first_event: Moment | None = None
    first_content: Moment | None = None
    longest_gap: Silence | None = None
    bursts: list[Burst] = []
    keep_alives: KeepAlives = KeepAlives(count=0)
    headers: dict[str, str] = {}


def measure(recording: Recording, events: Iterable[Event]) -> Timing | None:
    """The timing of a recording whose events are given in order of their bytes; None if it has no reads.

    The events may be made as they are taken: none is kept.
    """
    reads = recording.reads
    if not reads:
        return None
    ends = [read.end for read in reads]
    timing = Timing(first_byte=reads[0].microseconds, last_byte=reads[-1].microseconds)
    timing.headers = {name: recording.headers[name] for name in RELAY_HEADERS if name in recording.headers}
    counts: dict[int, int] = {}  # events by the read that completed them
    alive: dict[int, int] = {}  # comments and pings likewise
    last: Moment | None = None
    for event in events:
        index = bisect_left(ends, event.at + event.length)
        if index == len(ends):
            break  # beyond what the reads tell of
        if isinstance(event, Ping):
            alive[index] = alive.get(index, 0) + 1
            continue
        counts[index] = counts.get(index, 0) + 1
        moment = Moment(microseconds=reads[index].microseconds, at=event.at, length=event.length)
        if timing.first_event is None:
            timing.first_event = moment
        if timing.first_content is None and isinstance(event, CONTENT):
            timing.first_content = moment
        if last is not None and moment.microseconds > last.microseconds:
            timing.longest_gap = _longer(timing.longest_gap, last, moment)
        last = moment
    for end in _comment_starts(recording.body):
        index = bisect_left(ends, end)
        if index < len(ends):
            alive[index] = alive.get(index, 0) + 1
    timing.bursts = list(_bursts(reads, counts))
    timing.keep_alives = _keep_alives(reads, alive)
    return timing


def _comment_starts(body: bytes) -> Iterator[int]:
    """Where the colon that opens a comment ends. A part at a time: a large body may stay in its file."""
    for start in range(0, len(body), PIECE):
        before = min(start, 1)  # the byte that tells whether a line begins here
        part = body[start - before : start + PIECE]
        for comment in _COMMENT.finditer(part, before):
            yield start - before + comment.end()


def _longer(known: Silence | None, before: Moment, after: Moment) -> Silence:
    lasted = after.microseconds - before.microseconds
    if known is not None and known.microseconds >= lasted:
        return known
    return Silence(microseconds=lasted, since=before.microseconds, at=after.at, length=after.length)


def _bursts(reads: Sequence[Read], counts: dict[int, int]) -> Iterable[Burst]:
    first = 0
    for index, read in enumerate(reads):
        if index + 1 < len(reads) and reads[index + 1].microseconds - read.microseconds < BURST_GAP:
            continue
        at = reads[first - 1].end if first else 0
        yield Burst(
            start=reads[first].microseconds, end=read.microseconds, at=at, length=read.end - at,
            reads=index + 1 - first, events=sum(counts.get(number, 0) for number in range(first, index + 1)),
        )  # fmt: skip
        first = index + 1


def _keep_alives(reads: Sequence[Read], alive: dict[int, int]) -> KeepAlives:
    times = [reads[index].microseconds for index in sorted(alive)]
    gaps = sorted(after - before for before, after in pairwise(times))
    count = sum(alive.values())
    if not gaps:
        return KeepAlives(count=count)
    middle = (gaps[(len(gaps) - 1) // 2] + gaps[len(gaps) // 2]) // 2
    return KeepAlives(count=count, cadence=middle, longest=gaps[-1])


def held_back(reads: Sequence[Read], size: int, first_end: int, events: int) -> int | None:
    """When the whole answer came in one burst, LATE or more after the request; None if it did not.

    `first_end` is the offset at which the first of the `events` ends, `size` the body's. Reads before it, of comments
    alone, do not count: a proxy that holds a stream back may well keep the connection alive. A burst may last longer
    than BURST_GAP, as a long answer takes its time on a slow line, but not so long that a server could have made the
    events meanwhile: a fast answer to a long prompt is no burst.
    """
    if events < 3 or not reads or reads[-1].end < size:
        return None
    times = [read.microseconds for read in reads[bisect_left([read.end for read in reads], first_end) :]]
    wait, took = times[0], times[-1] - times[0]
    if wait < LATE or took > max(BURST_GAP, min(events * EVENT_TIME, wait // 10)):
        return None
    return wait if all(after - before < BURST_GAP for before, after in pairwise(times)) else None


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a provider's entry allows, in seconds since the request; null: not judged.

    `gap` is the longest time between two events, `total` the time of the last byte.
    """

    first_byte: float | None = None
    first_event: float | None = None
    first_content: float | None = None
    gap: float | None = None
    total: float | None = None
