"""`harness lint --secrets`: whether files hold keys, and masking them there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from secrets import token_hex

import msgspec

from harness.detect import detect
from harness.dialects import dialect_named
from harness.errors import UsageError, why_unreadable
from harness.findings import Evidence, Finding
from harness.leaks import MAX_LEAKS, Leak, leaks_in, masked_bytes, without_leaks
from harness.partial import sidecar_text
from harness.recording import Sidecar, sha256
from harness.rules import message_of, rule_of
from harness.runs.files import is_folder, of_folder, verify_expected, write_expected
from harness.secrets import credentials
from harness.store import MAX_FILE, expected_path, is_file, is_sidecar, load

RULE = "secrets.key-like"
MASKED = "key-like values masked with as many *"


def values_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The keys in the environment, by variable. One that names a file there is the file's name, no key."""
    return {name: value for name, value in credentials(environ).items() if not _is_file(value)}


def _is_file(value: str) -> bool:
    try:
        return os.path.exists(os.path.expanduser(value))
    except ValueError:
        return False


def with_neighbours(paths: Iterable[Path]) -> Iterator[Path]:
    """Each path once; after a body what lies beside it: sidecar or case file, and expectation."""
    seen: set[Path] = set()
    for path in paths:
        beside = (path.with_suffix(".json"), expected_path(path)) if path.suffix == ".sse" else ()
        for one in (path, *(one for one in beside if is_file(one))):
            if one not in seen:
                seen.add(one)
                yield one


class Searched(msgspec.Struct, kw_only=True):
    """A file that was searched: what it holds, and its bytes with that masked, for reports."""

    path: Path
    findings: list[Finding]
    masked: bytes


def search(path: Path, dialect: str | None, values: Mapping[str, str]) -> Searched:
    """Look for keys in one file. Raises UsageError if it cannot be read, or no dialect has that name."""
    data, dialect = _content(path, dialect)
    leaks = leaks_in(data, dialect, values)
    found = [_finding(leak) for leak in leaks]
    if len(found) == MAX_LEAKS:
        last = found[-1]
        found[-1] = msgspec.structs.replace(last, message=f"{last.message}; there may be more, this is where we stop")
    return Searched(path=path, findings=found, masked=masked_bytes(data, leaks))


def _finding(leak: Leak) -> Finding:
    rule = rule_of(RULE)
    split = f", in {len(leak.spans)} parts" if len(leak.spans) > 1 else ""
    return Finding(
        rule=RULE, severity=rule.severity, path=f"wire.notes.{RULE}", baseline=None, candidate=True,
        message=message_of(rule, detail=leak.what + split), remedy=rule.remedy,
        evidence=[Evidence(side="candidate", take=1, at=at, length=end - at) for at, end in leak.spans],
    )  # fmt: skip


def _content(path: Path, dialect: str | None) -> tuple[bytes, str | None]:
    """The bytes at rest, and the dialect they are to be read in: none for what is no stream."""
    if dialect is not None:
        dialect_named(dialect)
    if path.suffix == ".json":
        return _bytes(path), None
    data = _bytes(path)
    if dialect is None:
        try:
            dialect = load(path).recording.dialect or detect(data, str(path))
            dialect_named(dialect)
        except UsageError:  # a broken sidecar, a body that does not tell: then its bytes and JSON are looked at
            dialect = None
    return data, dialect


def _bytes(path: Path) -> bytes:
    if is_folder(path):
        raise UsageError(of_folder(path, "a file"))
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except (OSError, ValueError) as exc:
        raise UsageError(f"{path}: cannot be read: {why_unreadable(exc)}") from exc
    if len(data) > MAX_FILE:
        raise UsageError(f"{path}: larger than {MAX_FILE // 1024**2} MiB, the most that is read")
    return data


def mask(path: Path, dialect: str | None, values: Mapping[str, str]) -> bool:
    """Mask the keys in a file with as many `*`, in place; true if there was one.

    The sidecar beside a body is told the new digest, and that it was masked; an expectation that held is written anew.
    Raises UsageError: a link, a file that cannot be written, a key that cannot be masked.
    """
    data, dialect = _content(path, dialect)
    if not leaks_in(data, dialect, values):
        return False
    if path.is_symlink():
        raise UsageError(f"{path}: a link; mask the file that it names")
    clean = without_leaks(data, dialect, values, str(path))
    beside, expected = path.with_suffix(".json"), expected_path(path)
    held = path.suffix == ".sse" and expected.is_file() and _holds(path, dialect)
    if path.suffix == ".sse" and beside.is_file() and is_sidecar(beside):
        following = beside.with_name(beside.name + ".next")  # store.load finds it, should we die in between
        text = _of_masked(beside, sha256(data), sha256(clean), values)
        _replace(following, text)
        _replace(path, clean)
        os.replace(following, beside)
    else:
        _replace(path, clean)
    if held:
        write_expected(path, dialect)
    return True


def _holds(path: Path, dialect: str | None) -> bool:
    try:
        return not verify_expected(path, dialect)
    except UsageError:
        return False


def _of_masked(beside: Path, before: str, after: str, values: Mapping[str, str]) -> bytes:
    """The sidecar's text, of the masked body: also without keys of its own."""
    text = without_leaks(_bytes(beside), None, values, str(beside))
    try:
        sidecar = msgspec.json.decode(text, type=Sidecar)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise UsageError(f"{beside}: {exc}; correct it, or delete it, and mask again") from exc
    if sidecar.provenance is not None:
        origin = sidecar.provenance.origin
        sidecar.provenance.origin = f"{origin}; {MASKED}" if origin else MASKED
    digest = after if sidecar.sha256 == before else sidecar.sha256
    return sidecar_text(sidecar, end=sidecar.end, digest=digest).encode()


def _replace(path: Path, data: bytes) -> None:
    """Write the file whole or not at all, with the permissions it has."""
    temporary = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError as exc:
        temporary.unlink(missing_ok=True)
        raise UsageError(f"{path}: cannot be written: {exc.strerror or exc}; check space and permissions") from exc
