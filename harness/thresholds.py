"""When a recording's events came, and the findings where that exceeds what a provider's entry allows (`thresholds:`).

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.events import Event
from harness.findings import Evidence, Finding
from harness.recording import Recording
from harness.reduce import Reducer
from harness.rules import message_of, rule_of
from harness.timing import Thresholds, Timing, measure


def slow(recording: Recording, dialect: str, allowed: Thresholds, take: int = 1) -> list[Finding]:
    """What came later than allowed, or nothing; nothing also of a recording without reads, whose times nobody knows.

    `take` numbers the candidate's recording in the evidence. What never came is for other rules.
    """
    timing = timing_of(recording, dialect) if allowed != Thresholds() else None
    if timing is None:
        return []
    return [
        _finding(name, limit, microseconds / 1e6, place, take)
        for name, microseconds, place in _measured(timing, len(recording.body))
        if (limit := getattr(allowed, name)) is not None and microseconds > limit * 1e6
    ]


def timing_of(recording: Recording, dialect: str) -> Timing | None:
    """When the recording's events came; None if it has no reads."""
    return measure(recording, _events(recording, dialect)) if recording.reads else None


def _events(recording: Recording, dialect: str) -> Iterator[Event]:
    """The events of a recording, one read after the other: none is kept."""
    reducer = Reducer(dialect)
    for piece in recording.pieces():
        yield from reducer.feed(piece)
    yield from reducer.finish()


def _measured(timing: Timing, size: int) -> Iterator[tuple[str, int, tuple[int, int]]]:
    """Each limit's name with the microseconds it is about and the bytes where it shows."""
    yield "first_byte", timing.first_byte, (0, 0)
    for name, found in (("first_event", timing.first_event), ("first_content", timing.first_content)):
        if found is not None:
            yield name, found.microseconds, (found.at, found.length)
    if (gap := timing.longest_gap) is not None:
        yield "gap", gap.microseconds, (gap.at, gap.length)
    yield "total", timing.last_byte, (size, 0)


def _finding(name: str, limit: float, seconds: float, place: tuple[int, int], take: int) -> Finding:
    rule = rule_of(f"timing.{name.replace('_', '-')}")
    at, length = place
    return Finding(
        rule=rule.code, severity=rule.severity, path=f"timing.{name}", baseline=limit, candidate=round(seconds, 6),
        message=message_of(rule, baseline=f"{limit:g} s", candidate=f"{seconds:.4g} s"), remedy=rule.remedy,
        evidence=[Evidence(side="candidate", take=take, at=at, length=length)],
    )  # fmt: skip
