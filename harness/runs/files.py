"""Verbs that look at files alone: show, lint, diff, expect. No network, no providers.yaml."""

from __future__ import annotations

import difflib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.detect import detect
from harness.dialects import dialect_named
from harness.errors import UsageError
from harness.events import Event
from harness.filebody import LARGE
from harness.findings import Finding, Outcome, Severity, outcome_of
from harness.jsontext import to_json
from harness.message import Message
from harness.rules import lint
from harness.runs.evidence import with_breaks
from harness.shapes import asked_of
from harness.store import Loaded, expected_path, is_file, is_sidecar, load, look
from harness.structure import STRUCTURE_FORMAT, Reading, read, signature


class Shown(msgspec.Struct, kw_only=True):
    """One file, read: where it lies, its dialect and how that was known (given | sidecar | content), what it says."""

    loaded: Loaded
    dialect: str
    known_by: str
    reading: Reading
    events: list[Event]


def expand(paths: Iterable[Path]) -> Iterator[Path]:
    """Files as they are, folders as the `.sse` files below them, in order of name; hidden folders are left out.

    A folder that has none, or cannot be listed, comes as it is: opening it says so. Folders are listed one by one as
    their turn comes; links to folders below one are not followed. Pipes, sockets and devices below one are left out:
    they are no recordings, and one that nobody writes to would be waited for. Given by name they come as they are.
    """
    for path in paths:
        if not is_folder(path):
            yield path
            continue
        empty = True
        for found in _below(path):
            empty = False
            yield found
        if empty:
            yield path


def is_folder(path: Path) -> bool:
    """Whether it is a folder. What may not be looked at, or has a name that is too long, is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a link in a circle, a name too long, a NUL in it, a folder that is not ours
        return False


def _below(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries if not _is_odd(entry))
    except OSError:
        yield folder
        return
    for name, is_folder in found:
        if is_folder:
            if not name.startswith("."):
                yield from _below(folder / name)
        elif name.endswith(".sse"):
            yield folder / name


def _is_odd(entry: os.DirEntry[str]) -> bool:
    """Whether it is, or is a link to, something without an end: what is broken is not odd, as opening it says why."""
    try:
        if entry.is_file() or entry.is_dir():
            return False
        mode = entry.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def open_file(
    path: Path, dialect: str | None = None, *, otherwise: str | None = None, keep_events: bool = False,
    held: bool = True,
) -> Shown:  # fmt: skip
    """Load and read one file. The dialect is the one given, else the sidecar's, else `otherwise`, else the content's.

    If it need not be `held`, a large body stays in its file and is read in pieces: what takes memory is what it says,
    and the events if they are kept.

    Raises UsageError: an unreadable file, an unknown dialect, a body that does not tell its dialect.
    """
    if is_folder(path):
        raise UsageError(of_folder(path))
    if path.suffix == ".json" and is_file(path) and is_sidecar(path):
        raise UsageError(f"{path}: this is a sidecar; name {path.with_suffix('.sse')}")
    loaded = load(path) if held else look(path, LARGE)
    recording = loaded.recording
    if dialect is not None:
        known_by = "given"
    elif recording.dialect is not None:
        dialect, known_by = recording.dialect, "sidecar"
    elif otherwise is not None:
        dialect, known_by = otherwise, "given"
    else:
        dialect, known_by = detect(recording.body, str(path)), "content"
    dialect_named(dialect)
    asked = asked_of(dialect, recording.request.body) if recording.request is not None else None
    events: list[Event] = []
    reading = read(recording, dialect, asked, events if keep_events else None)
    return Shown(loaded=loaded, dialect=dialect, known_by=known_by, reading=reading, events=events)


def of_folder(path: Path, wanted: str = "a recording") -> str:
    """What is wrong with a folder in place of a file."""
    try:
        os.scandir(path).close()
    except OSError as exc:
        return f"{path}: cannot be listed: {exc.strerror or exc}"
    some = any(found != path for found in _below(path))
    what = "name one of the recordings in it" if some else f"and no .sse file in it; name {wanted}"
    return f"{path}: a folder, {what}"


def message_json(file: Path | str, message: Message) -> dict[str, Any]:
    """The contract of `harness show --as message --json`: the file, then the message."""
    built: dict[str, Any] = msgspec.to_builtins(message)
    return {"file": str(file), **built}


def lint_file(path: Path, dialect: str | None, fail_on: Severity) -> tuple[Shown, list[Finding], Outcome]:
    """What the rules say of one stream; differs if a finding is as bad as `fail_on`."""
    shown = open_file(path, dialect, held=False)
    findings = with_breaks(lint(shown.reading.structure), shown.dialect)
    return shown, findings, outcome_of(findings, fail_on)


class Compared(msgspec.Struct, kw_only=True):
    """Two files, the first as baseline of the second. `reason` is why nothing was measured, "" if something was."""

    baseline: Shown
    candidate: Shown
    findings: list[Finding]
    outcome: Outcome
    reason: str = ""


def diff_files(
    one: Path, other: Path, dialect: str | None, fail_on: Severity, *, keep_events: bool = False
) -> Compared:  # fmt: skip
    """Compare two files. Nothing is measured if the first is no answer to compare with, or the second was turned away.

    Raises UsageError as open_file does.
    """
    from harness.compare import compare  # deepdiff with it, which takes longer to load than everything else

    ours, theirs = (open_file(path, dialect, keep_events=keep_events, held=False) for path in (one, other))
    shape = ours.loaded.recording.shape or ""
    failed = ours.reading.structure.get("result") == "error"
    found = compare([ours.reading.structure], theirs.reading.structure, shape="error" if failed else shape)
    found.findings = with_breaks(found.findings, theirs.dialect)
    outcome = Outcome.NOT_MEASURED if found.not_measured else outcome_of(found.findings, fail_on)
    return Compared(
        baseline=ours, candidate=theirs, findings=found.findings, outcome=outcome, reason=found.not_measured
    )


def expected_of(shown: Shown) -> dict[str, Any]:
    """What `.expected.json` holds: the message without its notes, and the shape signature (contract)."""
    message = message_json("", shown.reading.message)
    del message["file"], message["notes"]
    return {
        "message": message,
        "structure_format": STRUCTURE_FORMAT,
        "structure": signature(shown.reading.structure),
    }


def expected_text(shown: Shown) -> str:
    """The file's text: two spaces, one fact a line, a line end at the end."""
    return to_json(expected_of(shown), indent=2) + "\n"


def write_expected(path: Path, dialect: str | None = None) -> bool:
    """Write `.expected.json` beside the body; true if that changed anything."""
    target, text = expected_path(path), expected_text(open_file(path, dialect, held=False))
    if is_file(target) and target.read_text("utf-8") == text:
        return False
    try:
        target.write_text(text, "utf-8", newline="\n")
    except OSError as exc:
        raise UsageError(f"{target}: cannot be written ({exc.strerror}); check the folder's permissions") from exc
    return True


def verify_expected(path: Path, dialect: str | None = None) -> list[str]:
    """The difference between `.expected.json` and what the body says today, as a unified diff; empty if there is none.

    Raises UsageError if the expectation is missing, broken or of another format.
    """
    target = expected_path(path)
    if not is_file(target):
        raise UsageError(f"{target}: no expectation beside {path.name}; write it with `harness expect --write {path}`")
    try:
        wanted = json.loads(target.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        remedy = f"write it anew with `harness expect --write {path}`"
        raise UsageError(f"{target}: not readable as JSON ({exc}); {remedy}") from exc
    if not isinstance(wanted, dict) or wanted.get("structure_format") != STRUCTURE_FORMAT:
        raise UsageError(
            f"{target}: structure_format is not {STRUCTURE_FORMAT}; write it anew with `harness expect --write {path}`"
        )
    found = expected_of(open_file(path, dialect, held=False))
    if wanted == json.loads(to_json(found)):
        return []
    old, new = (to_json(value, indent=2).splitlines() for value in (wanted, found))
    return list(difflib.unified_diff(old, new, str(target), f"{path} today", lineterm="", n=1))
