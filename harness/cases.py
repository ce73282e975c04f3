"""The cases a target is checked on: quirks with their `expect`, and fixtures with their `.expected.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from harness.answers import Expected
from harness.data import PACKAGE
from harness.detect import detect
from harness.errors import UsageError
from harness.faults import Fault, apply
from harness.recording import Recording
from harness.reduce import reduce
from harness.steps import heard, plan
from harness.store import expected_path, load, providers_of, shapes_of, takes

QUIRKS = PACKAGE / "quirks"


class Case(msgspec.Struct, kw_only=True):
    """A stream with its right reading. `name` is a quirk's (`021-interleaved-parallel-calls`) or `provider/shape[.N]`.

    `recovered`: a standard reader loses part of it. `contested`: readers differ with good reason (cases/README).
    `fault` says what is odd on the wire, `verdict` how bad that is; "" for a fixture. Of a stream that was broken on
    purpose, `unbroken` is what it was and `faults` are what was done to it.
    """

    name: str
    recording: Recording
    dialect: str
    expected: Expected
    recovered: bool = False
    contested: bool = False
    fault: str = ""
    verdict: str = ""
    unbroken: Recording | None = None
    faults: tuple[Fault, ...] = ()


def with_faults(case: Case, faults: Sequence[Fault]) -> Case:
    """The case, broken: what a client hears of it, and as the right reading what our own reader makes of that.

    The faults meet every request, whatever their `times` say: a target asks once. Raises UsageError if a fault's
    settings contradict each other.
    """
    always = tuple(msgspec.structs.replace(fault, settings={**fault.settings, "times": None}) for fault in faults)
    recording = heard(apply(always, plan(case.recording)), case.recording)
    message = reduce(recording.body, case.dialect).message()
    recovered = any(note.code in RECOVERED for note in message.notes)
    return msgspec.structs.replace(
        case, recording=recording, expected=msgspec.convert(msgspec.to_builtins(message), Expected),
        recovered=case.recovered or recovered, unbroken=case.recording, faults=always,
    )  # fmt: skip


RECOVERED = ("sse.last-event-unterminated", "sse.events-glued")
"""Notes of what a standard reader loses and ours reads (cases/README, rule 1)."""


def quirk_cases(folder: Path = QUIRKS) -> Iterator[Case]:
    """The pairs NNN-slug.sse and .json of the folder, by name. Raises UsageError for one that is broken."""
    for path in sorted(folder.glob("*.sse")):
        loaded = load(path)
        if loaded.case is None or loaded.recording.dialect is None:
            raise UsageError(f"{path.with_suffix('.json')}: is no case with family, verdict and expect")
        yield Case(
            name=path.stem, recording=loaded.recording, dialect=loaded.recording.dialect,
            expected=_expected(path.with_suffix(".json"), loaded.case["expect"]),
            recovered=loaded.case.get("recovered") is True, contested=loaded.case.get("contested") is True,
            fault=str(loaded.case.get("fault", "")), verdict=str(loaded.case.get("verdict", "")),
        )  # fmt: skip


class NoCases(msgspec.Struct, kw_only=True):
    """The fixtures that cannot be cases, by what they lack: an `.expected.json`, or whatever tells their dialect."""

    expectation: list[Path] = []
    dialect: list[Path] = []


def fixture_cases(root: Path, dialects: Mapping[str, str] = MappingProxyType({})) -> tuple[list[Case], NoCases]:
    """The fixtures with an `.expected.json`, and those that cannot be cases.

    `dialects` are those of providers by name: a bare fixture is in its provider's, else in the one its bytes tell.
    Raises UsageError for a file that is broken.
    """
    cases, others = [], NoCases()
    shapes = [(provider, shape) for provider in providers_of(root) for shape in shapes_of(root, provider)]
    for path in (path for provider, shape in shapes for path in takes(root, provider, shape)):
        name, beside = f"{path.parent.name}/{path.stem}", expected_path(path)
        recording = load(path).recording
        if not beside.is_file():
            others.expectation.append(path)
            continue
        dialect = recording.dialect or dialects.get(path.parent.name) or _told(recording.body)
        if dialect is None:
            others.dialect.append(path)
            continue
        try:
            value = json.loads(beside.read_bytes())
        except (OSError, ValueError) as exc:
            raise UsageError(f"{beside}: {exc}; write it again with `harness expect {path} --write`") from exc
        message = value.get("message") if isinstance(value, dict) else None
        cases.append(Case(
            name=name, recording=recording, dialect=dialect, expected=_expected(beside, message),
        ))  # fmt: skip
    return cases, others


def _told(body: bytes) -> str | None:
    """The dialect that a body tells, if it does."""
    try:
        return detect(body)
    except UsageError:
        return None


def _expected(path: Path, value: Any) -> Expected:
    try:
        return msgspec.convert(value, Expected)
    except msgspec.ValidationError as exc:
        raise UsageError(f"{path}: {exc}: it must hold a message as cases/README and DESIGN say") from exc
