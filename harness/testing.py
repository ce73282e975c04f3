"""For tests: a stream at hand, its structure comparable with `==`, quirks, and streams made up (docs/pytest.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from os import PathLike
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from harness.answers import FEATURES, Answer, CaseOutcome, Expected, judge
from harness.cases import QUIRKS, Case, quirk_cases, with_faults
from harness.claims import Claims
from harness.clean import clean_stream as clean_stream
from harness.clean import well_ended as well_ended
from harness.compare import compare
from harness.cuts import pieces
from harness.detect import detect
from harness.errors import NotMeasured
from harness.events import Event
from harness.faults import parse_fault
from harness.findings import Finding, Severity, fails
from harness.message import Message
from harness.recording import Recording
from harness.reports.text import finding_lines, one_line
from harness.runs.check import shown_features, skipped
from harness.runs.files import open_file
from harness.shapes import asked_of
from harness.store import load
from harness.structure import Reading, Structure, read
from harness.targets import CallableTarget

__all__ = [
    "Facts", "Quirk", "Stream", "clean_stream", "differences", "explanation", "quirk", "structure", "well_ended",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Stream:
    """One stream, read. `name` is `provider/shape`, or the file's; `live`: it was recorded just now.

    `more` holds the structures of further takes: what varies among takes is no difference.
    """

    name: str
    recording: Recording
    dialect: str
    reading: Reading
    live: bool = False
    more: tuple[Structure, ...] = ()

    def __repr__(self) -> str:
        return f"<{'live' if self.live else 'recorded'} {one_line(self.name)}>"

    @property
    def body(self) -> bytes:
        """The bytes as they came."""
        return self.recording.body

    @property
    def message(self) -> Message:
        """What the stream adds up to."""
        return self.reading.message

    @property
    def structure(self) -> Structure:
        """The facts that are compared."""
        return self.reading.structure

    @cached_property
    def events(self) -> list[Event]:
        """Every event, in order of its bytes. Raises UsageError: a dialect that there is not."""
        events: list[Event] = []
        read(self.recording, self.dialect, self.structure.asked, events)
        return events


def structure(of: Stream | Recording | bytes | str | PathLike[str], dialect: str | None = None) -> Facts:
    """The structure of a stream, comparable with `==`. `of` may be a body or the path of a `.sse` file, too.

    `dialect` overrides what the recording says. Raises UsageError: an unreadable file, a dialect that is not told.
    """
    if isinstance(of, Stream):
        return Facts(of)
    if isinstance(of, str | PathLike):
        shown = open_file(Path(of), dialect)
        return Facts(Stream(name=str(of), recording=shown.loaded.recording, dialect=shown.dialect,
                            reading=shown.reading))  # fmt: skip
    recording = Recording(body=of, end="eof") if isinstance(of, bytes) else of
    dialect = dialect or recording.dialect or detect(recording.body)
    asked = asked_of(dialect, recording.request.body) if recording.request is not None else None
    name = f"a recording of {recording.shape}" if recording.shape else "a body"
    return Facts(Stream(name=name, recording=recording, dialect=dialect, reading=read(recording, dialect, asked)))


class Facts:
    """What `structure` returns. `==` holds if the comparison finds nothing that is negotiable or worse.

    The baseline is the right side, the candidate the left; but of a live stream and a fixture, the live one is always
    the candidate. Raises NotMeasured where the two say nothing about each other, as when the baseline is no answer.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __eq__(self, other: object) -> bool:
        return not any(map(fails, differences(self, other))) if isinstance(other, Facts) else NotImplemented

    def __repr__(self) -> str:
        return f"<structure of {repr(self.stream)[1:]}"


def _sides(one: Facts, other: Facts) -> tuple[Stream, Stream]:
    """Baseline and candidate."""
    swapped = other.stream.live and not one.stream.live
    return (one.stream, other.stream) if swapped else (other.stream, one.stream)


def differences(one: Facts, other: Facts) -> list[Finding]:
    """What `one == other` is decided by, worst first; cosmetic findings are among them.

    Raises NotMeasured as `==` does: the two say nothing about each other.
    """
    baseline, candidate = _sides(one, other)
    failed = baseline.structure.get("result") == "error"
    shape = "error" if failed else baseline.recording.shape or ""
    found = compare([baseline.structure, *baseline.more], candidate.structure, shape=shape)
    if found.not_measured:
        raise NotMeasured(f"{candidate!r} against {baseline!r}: {found.not_measured}")
    return found.findings


def explanation(one: Facts, other: Facts) -> Iterator[str]:
    """Why `one == other` does not hold: a line for each finding, then the findings with the bytes on both sides.

    Raises NotMeasured as `==` does.
    """
    baseline, candidate = _sides(one, other)
    found = [finding for finding in differences(one, other) if finding.severity is not Severity.COSMETIC]
    yield f"the structure of {candidate!r} is not that of {baseline!r}"
    for finding in found:
        yield f"{finding.severity.upper()} {finding.rule}: {one_line(finding.message)}"
    yield ""
    for finding in found:
        yield from finding_lines(finding, {("baseline", 1): baseline.body, ("candidate", 1): candidate.body}, "")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Quirk:
    """A small stream that shows one known wire fault, with the right reading.

    `expect` is that reading as in the case's file, `fault` says what is odd, `verdict` is how a difference of this sort
    is classed. `recovered`: a standard reader loses part of it. `contested`: readers differ with good reason.
    """

    name: str
    dialect: str
    body: bytes
    expect: dict[str, Any]
    fault: str
    verdict: Severity
    recovered: bool = False
    contested: bool = False

    def __repr__(self) -> str:
        return f"<quirk {self.name}>"

    def pieces(self, size: int = 1) -> list[bytes]:
        """The body cut into pieces of `size` bytes, 1 or more; the last may be shorter."""
        return pieces(self.body, range(size, len(self.body), size))

    def differences(self, reader: Callable[[Iterator[bytes]], Any], size: int = 1) -> list[str]:
        """What `reader`, given the body in pieces of `size` bytes, gets wrong: in short lines, none if it is right.

        It returns message JSON or an assistant message, or raises, which is right on a stream that fails or is cut.
        Returning normally from one of those, without saying so, is wrong. Where the reader has attributes `dialects` or
        `features`, what they leave out is not compared: a quirk that is about that alone skips the test (outside of
        pytest: no difference). Without `features` they are told by its answers to a few good streams, as for `check`.

        Raises UsageError: attributes that name what there is not.
        """
        target = _target_of(reader, self.dialect)
        if reason := skipped(self._case(), target):
            return _skip(reason)
        try:
            answer = Answer(state="accepted", value=reader(iter(self.pieces(size))))
        except Exception as exc:
            answer = Answer(state="rejected", reason=one_line(f"{type(exc).__name__}: {exc}"))
        features = FEATURES if target.claims.features is None else target.claims.features
        verdict = judge(answer, msgspec.convert(self.expect, Expected), features)
        if verdict.outcome is not CaseOutcome.RAISED:
            return list(verdict.differences)
        odd = f"; what is odd in it: {self.fault}" if self.fault else ""
        return [f"raised on a stream that ends well: {line}{odd}" for line in verdict.differences]

    def _case(self) -> Case:
        return Case(
            name=self.name, recording=Recording(body=self.body, status=200, end="eof", dialect=self.dialect),
            dialect=self.dialect, expected=msgspec.convert(self.expect, Expected), recovered=self.recovered,
        )  # fmt: skip

    def with_faults(self, *faults: str) -> Quirk:
        """The quirk, broken on purpose (docs/faults.md); `expect` is what our own reader makes of the broken body.

        Raises UsageError: a fault that does not exist.
        """
        broken = with_faults(self._case(), [parse_fault(fault) for fault in faults])
        return replace(
            self, body=broken.recording.body, expect=msgspec.to_builtins(broken.expected), recovered=broken.recovered,
        )  # fmt: skip


def _target_of(reader: Callable[[Iterator[bytes]], Any], dialect: str) -> CallableTarget:
    """The reader with what it claims; the features that its answers show where it declares none. Asked once."""
    try:
        held = _TARGETS.setdefault(reader, {})
    except TypeError:  # neither hashable nor weakly held: asked each time
        held = {}
    if dialect not in held:
        target = CallableTarget(reader, claims=Claims())
        if target.claims.dialects is None:  # whoever gives it a quirk says that it reads that dialect
            target.claims = msgspec.structs.replace(target.claims, dialects=(dialect,))
        if target.claims.features is None and dialect in (target.claims.dialects or ()):
            shown = shown_features(target, _quirk_cases())
            target.claims = msgspec.structs.replace(target.claims, features=shown, inferred=shown is not None)
        held[dialect] = target.claims
    return CallableTarget(reader, claims=held[dialect])


_TARGETS: WeakKeyDictionary[Callable[..., Any], dict[str, Claims]] = WeakKeyDictionary()


@cache
def _quirk_cases() -> tuple[Case, ...]:
    return tuple(quirk_cases())


def _skip(reason: str) -> list[str]:
    """Skip the test that runs; nothing differs where none does."""
    if "PYTEST_CURRENT_TEST" in os.environ:
        import pytest

        pytest.skip(reason)
    return []


def quirk(name: str) -> Quirk:
    """The quirk of that name, such as 022-id-empty-on-continuation. Raises UsageError if there is none."""
    loaded = load(QUIRKS / f"{name}.sse")
    case, dialect = loaded.case, loaded.recording.dialect
    assert case is not None
    assert dialect is not None
    return Quirk(
        name=name, dialect=dialect, body=loaded.recording.body, expect=case["expect"], fault=case.get("fault", ""),
        verdict=Severity(case["verdict"]), recovered=case.get("recovered") is True,
        contested=case.get("contested") is True,
    )  # fmt: skip
