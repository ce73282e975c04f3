"""The timing of a stream, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from harness.reports.text import counted, one_line
from harness.timing import Timing

BURSTS = 8  # that are listed one by one


def timing_lines(timing: Timing) -> Iterator[str]:
    """What came when, the longest silence, bursts, keep-alives, and the headers that concern relays."""
    yield f"first byte {_time(timing.first_byte)}, last byte {_time(timing.last_byte)}"
    for name, moment in (("first event", timing.first_event), ("first content", timing.first_content)):
        yield f"{name} {'never' if moment is None else f'{_time(moment.microseconds)} at byte {moment.at}'}"
    if (gap := timing.longest_gap) is not None:
        yield f"longest gap between events {_time(gap.microseconds)}, from {_time(gap.since)}, until byte {gap.at}"
    yield f"bursts {len(timing.bursts)}"
    for burst in timing.bursts[:BURSTS] if len(timing.bursts) > 1 else ():
        yield (
            f"  {_time(burst.start)} to {_time(burst.end)}: {counted(burst.length, 'byte')}, "
            f"{counted(burst.events, 'event')}, {counted(burst.reads, 'read')}"
        )
    if len(timing.bursts) > BURSTS:
        yield f"  and {len(timing.bursts) - BURSTS} more"
    alive = timing.keep_alives
    if alive.cadence is not None and alive.longest is not None:
        yield f"keep-alives {alive.count}, every {_time(alive.cadence)}, at most {_time(alive.longest)} apart"
    else:
        yield f"keep-alives {alive.count}"
    for name, value in timing.headers.items():
        yield f"{name}: {one_line(value)}"


def _time(microseconds: int) -> str:
    return f"{microseconds / 1e6:.2f} s" if microseconds >= 1_000_000 else f"{microseconds / 1000:.1f} ms"
