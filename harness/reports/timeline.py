"""When the pieces of two streams arrived, as a picture: one lane a side, on one scale of time."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from harness.cutover import Side, Sides
from harness.reports.html import Markup, Node, tag
from harness.reports.text import counted
from harness.thresholds import timing_of

WIDTH, LANE, TOP, AXIS = 1000, 50, 6, 22  # units of the picture
TALLEST, SHORTEST = 26, 4  # of a tick: the more bytes in a read the taller
STEPS = (1, 2, 5)


def timeline(sides: Sides) -> Node:
    """The reads of both sides' first takes; nothing where no times are known."""
    lanes = [(name, side) for name in ("baseline", "candidate") if (side := sides.get((name, 1))) is not None]
    timed = [(name, side) for name, side in lanes if side.recording.reads]
    if not timed:
        return None
    last = max(side.recording.reads[-1].microseconds for _, side in timed) or 1
    height = TOP + LANE * len(timed) + AXIS
    drawn = [_lane(name, side, last, TOP + LANE * number) for number, (name, side) in enumerate(timed)]
    says = [_said(name, side) for name, side in lanes]
    svg = tag("svg", _axis(last, height), drawn, viewBox=f"0 0 {WIDTH} {height}", role="img",
              aria_label="; ".join(says), class_="timeline")  # fmt: skip
    return tag("figure", svg, tag("figcaption", [tag("span", text) for text in says]), class_="times")


def _said(name: str, side: Side) -> str:
    reads = side.recording.reads
    if not reads:
        return f"{name}: no times known"
    timing = timing_of(side.recording, side.structure.dialect)
    event = timing.first_event if timing is not None else None
    first = f"first event {_time(event.microseconds)}, " if event is not None else ""
    return f"{name}: {first}{counted(len(reads), 'read')}, {_time(reads[-1].microseconds)}, {side.recording.end}"


def _x(microseconds: int, last: int) -> int:
    return 8 + round((WIDTH - 16) * microseconds / last)


def _lane(name: str, side: Side, last: int, top: int) -> list[Markup]:
    """Ticks, those of one place joined, and the name above them."""
    joined: dict[int, tuple[int, int, int]] = {}  # x -> bytes, reads, microseconds of the first
    start = 0
    for read in side.recording.reads:
        x = _x(read.microseconds, last)
        size, count, first = joined.get(x, (0, 0, read.microseconds))
        joined[x] = (size + read.end - start, count + 1, first)
        start = read.end
    most = max((size for size, _, _ in joined.values()), default=0) or 1
    base = top + LANE - 4
    ticks = []
    for x, (size, count, at) in joined.items():
        tall = SHORTEST + round((TALLEST - SHORTEST) * sqrt(size / most))
        more = f", {count} reads" if count > 1 else ""
        ticks.append(tag("rect", tag("title", f"{_time(at)}: {size} bytes{more}"), x=x - 1, y=base - tall, width=2,
                         height=tall, class_=f"tick {name}"))  # fmt: skip
    line = tag("line", x1=8, x2=WIDTH - 8, y1=base, y2=base, class_="base")
    return [line, *ticks, tag("text", name, x=8, y=top + 12)]


def _axis(last: int, height: int) -> list[Markup]:
    """Marks at round times."""
    out = []
    for at in _marks(last):
        x = _x(at, last)
        anchor = "start" if x < 40 else "end" if x > WIDTH - 40 else "middle"
        out.append(tag("line", x1=x, x2=x, y1=TOP, y2=height - AXIS + 4, class_="grid-line"))
        out.append(tag("text", _time(at), x=x, y=height - 4, text_anchor=anchor))
    return out


def _marks(last: int) -> Iterator[int]:
    step = next(factor * 10**power for power in range(12) for factor in STEPS if factor * 10**power * 6 >= last)
    yield from range(0, last + 1, step)


def _time(microseconds: int) -> str:
    if microseconds >= 1_000_000:
        return f"{microseconds / 1e6:.2f}".rstrip("0").rstrip(".") + " s"
    if microseconds >= 1000:
        return f"{microseconds / 1e3:.1f}".removesuffix(".0") + " ms"
    return f"{microseconds} µs" if microseconds else "0"
