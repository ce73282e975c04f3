"""Fixtures at rest: names, paths, and reading a body with the JSON beside it. Source: DESIGN, "Fixtures on disk".

    fixtures/<provider>/<shape>.sse             the body
    fixtures/<provider>/<shape>.json            its sidecar ("format": "sse-harness/1")
    fixtures/<provider>/<shape>.json.next       a sidecar whose body was being replaced when the process died
    fixtures/<provider>/<shape>.expected.json   message and structure, for `harness expect`
    fixtures/<provider>/<shape>.2.sse           the second take, and so on

Writing is partial.py's part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec

from harness.codings import decoder_for
from harness.errors import UsageError, why_unreadable
from harness.filebody import FileBody
from harness.recording import END_STATES, SIDECAR_FORMAT, Read, Recording, Sidecar, sha256, with_body

NAME = re.compile(r"[a-z0-9-]+")
MAX_FILE = 1024**3  # bytes of a body at rest
MAX_SIDECAR = 64 * 1024**2  # bytes

_TAKE = re.compile(r"([a-z0-9-]+)(?:\.([1-9][0-9]{0,8}))?\.sse")
_DECODE = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A recording as it was read. `warning` is one line for the user, `case` the case file if one lies beside it."""

    path: Path
    recording: Recording
    warning: str | None = None
    case: dict[str, Any] | None = None


def load(path: Path | str) -> Loaded:
    """Read a body and what its neighbour says of it. A bare body has no status and ended with "eof".

    Raises UsageError, naming the file: missing, unreadable, too large, or a sidecar or case file that is broken.
    """
    return _loaded(Path(path), _read(Path(path), MAX_FILE))


def look(path: Path, large: int) -> Loaded:
    """`load`, but a body of more than `large` bytes stays in its file: a FileBody, to be looked at in parts."""
    try:
        stays = is_file(path) and large < path.stat().st_size <= MAX_FILE
        # Typed as what it is used as: a union would be asked of all who use a body, few of which can meet it.
        body = cast(bytes, FileBody(path)) if stays else _read(path, MAX_FILE)
    except (OSError, ValueError):  # reading it says what is wrong
        body = _read(path, MAX_FILE)
    return _loaded(path, body)


def _loaded(path: Path, body: bytes) -> Loaded:
    beside = path.with_suffix(".json")
    if beside == path or not is_file(beside):
        following = None if beside == path else _after_crash(beside, sha256(body))
        recording = Recording(body=body, end="eof") if following is None else with_body(following, body)
        return Loaded(path=path, recording=recording)
    text = _read(beside, MAX_SIDECAR)
    try:
        value = _DECODE(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        if _says_format(text):
            raise UsageError(f"{beside}: not JSON ({exc}); delete it to use the bytes alone, or record again") from exc
        warning = f"{beside}: not JSON, so not a sidecar of {path.name}; ignored"
        return Loaded(path=path, recording=Recording(body=body, end="eof"), warning=warning)
    case = value if isinstance(value, dict) and "verdict" in value and "expect" in value else None
    stated = value.get("format") if isinstance(value, dict) else None
    if stated == SIDECAR_FORMAT:
        recording, warning_ = _with_sidecar(path, body, beside, text)
        return Loaded(path=path, recording=recording, warning=warning_, case=case)
    if case is not None:
        recording, warning_ = _with_case(path, body, beside, case)
        return Loaded(path=path, recording=recording, warning=warning_, case=case)
    unknown = isinstance(stated, str) and stated.startswith("sse-harness/")
    return Loaded(
        path=path,
        recording=Recording(body=body, end="eof"),
        warning=f"{beside}: format {stated!r} is not known to this version (only {SIDECAR_FORMAT!r}); ignored"
        if unknown
        else None,
    )


def is_file(path: Path) -> bool:
    """Whether it is a file. What may not be looked at, or has a name that is too long, is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_sidecar(path: Path) -> bool:
    """Whether the file is a sidecar of ours, of any version, whole or cut short. Raises UsageError if unreadable."""
    text = _read(path, MAX_SIDECAR)
    try:
        value = _DECODE(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _says_format(text)
    return isinstance(value, dict) and str(value.get("format")).startswith("sse-harness/")


def _says_format(text: bytes) -> bool:
    """For what is no JSON: a file cut short still says what it was meant to be, `format` being written first."""
    return re.match(rb'\s*\{\s*"format"\s*:\s*"sse-harness/', text) is not None


def _with_sidecar(path: Path, body: bytes, beside: Path, text: bytes) -> tuple[Recording, str | None]:
    sidecar, digest = _sidecar(beside, text), sha256(body)
    if sidecar.sha256 not in (None, digest):
        following = _after_crash(beside, digest)
        if following is not None:
            return with_body(following, body), None
        warning = (
            f"{path}: not the bytes that {beside.name} describes (sha256 differs): its reads and end are ignored; "
            "was the file edited, or checked out with other line ends?"
        )
        return with_body(sidecar, body, trusted=False), warning
    return _checked(sidecar, body, beside)


def _after_crash(beside: Path, digest: str) -> Sidecar | None:
    """The sidecar that waits as `.json.next`, if it is of the body with this digest (partial.Partial.keep)."""
    following = beside.with_name(beside.name + ".next")
    if not is_file(following):
        return None
    sidecar = _sidecar(following, _read(following, MAX_SIDECAR))
    return sidecar if sidecar.sha256 == digest else None


def _checked(sidecar: Sidecar, body: bytes, beside: Path) -> tuple[Recording, str | None]:
    sidecar.headers = {name.lower(): value for name, value in sidecar.headers.items()}
    if _in_order(sidecar.reads, len(body)):
        return with_body(sidecar, body), None
    sidecar.reads = []
    return with_body(sidecar, body), f"{beside}: reads are out of order or beyond the body; they are ignored"


def _sidecar(beside: Path, text: bytes) -> Sidecar:
    try:
        sidecar = msgspec.json.decode(text, type=Sidecar)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise UsageError(f"{beside}: {exc}; correct it, or delete it to use the bytes alone") from exc
    if sidecar.end not in END_STATES:
        raise UsageError(f"{beside}: end is {sidecar.end!r}; allowed: {', '.join(END_STATES)}")
    return sidecar


_Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class _Case(msgspec.Struct):
    """What counts of a case file beside the bytes (cases/README)."""

    family: str
    headers: dict[str, str] = {}
    timing: list[tuple[_Milliseconds, int]] = []  # since the request; bytes received by then


def _with_case(path: Path, body: bytes, beside: Path, value: dict[str, Any]) -> tuple[Recording, str | None]:
    try:
        case = msgspec.convert(value, _Case)
    except msgspec.ValidationError as exc:
        raise UsageError(f"{beside}: {exc}; see the format in cases/README.md") from exc
    reads = [Read(end=end, microseconds=round(milliseconds * 1000)) for milliseconds, end in case.timing]
    warning = None
    if not _in_order(reads, len(body)):
        reads, warning = [], f"{beside}: timing is out of order or beyond the body; it is ignored"
    headers = {name.lower(): text for name, text in case.headers.items()}
    recording = Recording(body=body, reads=reads, status=200, headers=headers, end="eof", dialect=case.family)
    if recording.headers.get("content-encoding") and not _decode(recording):
        warning = f"{path}: the {headers['content-encoding']} body is broken or cut; what could be decoded is used"
    return recording, warning


def _decode(recording: Recording) -> bool:
    """Undo the content coding in place, cut where the reads are. False if the coded body was not whole."""
    decoder = decoder_for(recording.headers["content-encoding"])
    if decoder is None:
        return True
    plain, reads, start, end = bytearray(), [], 0, len(recording.body)
    for read in recording.reads:
        plain += decoder.feed(recording.body[start : read.end], MAX_FILE - len(plain))
        reads.append(Read(end=len(plain), microseconds=read.microseconds))
        start = read.end
    plain += decoder.feed(recording.body[start:end], MAX_FILE - len(plain))
    recording.body, recording.reads, recording.decoded_from = bytes(plain), reads, decoder.coding
    return decoder.coding is not None and decoder.whole and len(plain) <= MAX_FILE


def _in_order(reads: list[Read], size: int) -> bool:
    """Ends and times never fall, and all lie within the body."""
    if any(after.end < before.end or after.microseconds < before.microseconds for before, after in pairwise(reads)):
        return False
    return not reads or (reads[0].end >= 0 and reads[0].microseconds >= 0 and reads[-1].end <= size)


def _read(path: Path, limit: int) -> bytes:
    """All bytes of a file, pipe or the like. Raises UsageError."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as exc:
        raise UsageError(f"{path}: cannot be read: {why_unreadable(exc)}") from exc
    except ValueError as exc:  # a NUL in the name
        raise UsageError(f"{str(path)!r}: is no file name") from exc
    if len(data) > limit:
        raise UsageError(f"{path}: larger than {limit // 1024**2} MiB, the most that is read")
    return data


def valid_name(name: str) -> bool:
    """Whether a provider or shape can be a file name here: `[a-z0-9-]+`."""
    return NAME.fullmatch(name) is not None


def folder_of(root: Path, provider: str) -> Path:
    """`<root>/<provider>`. Raises UsageError: no valid name, or a link that leaves the root."""
    return _inside(root, root / _checked_name(provider, "provider"))


def take_path(root: Path, provider: str, shape: str, take: int = 1) -> Path:
    """Where take 1, 2, ... of a shape lies. Raises UsageError as folder_of does."""
    name = _checked_name(shape, "shape") + (f".{take}" if take > 1 else "")
    return _inside(root, folder_of(root, provider) / f"{name}.sse")


def takes(root: Path, provider: str, shape: str) -> list[Path]:
    """The takes of a shape that exist, in order of their numbers. Raises UsageError as folder_of does."""
    _checked_name(shape, "shape")
    found = [(take, path) for name, take, path in _listed(root, provider) if name == shape]
    return [_inside(root, path) for _, path in sorted(found)]


def shapes_of(root: Path, provider: str) -> list[str]:
    """Names of the shapes the provider has a fixture of, sorted."""
    return sorted({name for name, _, _ in _listed(root, provider)})


def providers_of(root: Path) -> list[str]:
    """Names of the providers that have a folder of fixtures, sorted."""
    return sorted(path.name for path in _entries(root) if valid_name(path.name) and path.is_dir())


def expected_path(path: Path) -> Path:
    """`<shape>[.N].expected.json` beside a fixture."""
    return path.with_suffix(".expected.json")


def _listed(root: Path, provider: str) -> list[tuple[str, int, Path]]:
    """Every fixture of a provider: shape, take, path."""
    out = []
    for path in _entries(folder_of(root, provider)):
        match = _TAKE.fullmatch(path.name)
        if match and match[2] != "1":
            out.append((match[1], int(match[2] or 1), path))
    return out


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise UsageError(f"{folder}: cannot be listed: {exc.strerror or exc}") from exc


def _checked_name(name: str, what: str) -> str:
    if not valid_name(name):
        raise UsageError(f"{name!r} cannot name a {what}: only lower-case letters, digits and - can")
    return name


def _inside(root: Path, path: Path) -> Path:
    """The path as it is, once it is known that no link leads out of the root."""
    try:
        resolved, allowed = path.resolve(), root.resolve()
    except (OSError, RuntimeError) as exc:  # RuntimeError: links in a circle
        raise UsageError(f"{path}: cannot be resolved: {exc}") from exc
    if not resolved.is_relative_to(allowed):
        raise UsageError(f"{path}: a link that leads out of {root}; put the file there itself")
    return path
