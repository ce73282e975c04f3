"""`harness import`: one exchange that another tool recorded, as a fixture."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from harness.config import Project
from harness.detect import detect
from harness.dialects import dialect_named
from harness.errors import SecretFound, UsageError, why_unreadable
from harness.importers.base import Entry, dialect_of_path
from harness.importing import MAX_ARCHIVE, Archive, archive_of
from harness.jsontext import STRICT_ERRORS, decode_strict, to_json
from harness.leaks import leaks_in, masked_bytes, without_leaks
from harness.partial import Partial
from harness.recorder import KEPT_HEADERS
from harness.recording import Provenance, Recording, Sent, sidecar_of
from harness.runs.leaks import MASKED
from harness.runs.taking import reading_of
from harness.shapes import SHAPES
from harness.store import take_path, valid_name

_STREAMS = ("text/event-stream", "ndjson", "jsonl", "json-seq")
_LISTED = 20  # entries named in an error
_HOSTS = {"generativelanguage.googleapis.com": "gemini", "dashscope.aliyuncs.com": "dashscope"}
_NO_NAMES = frozenset({"api", "www", "localhost", "inference", "gateway"})


class Imported(msgspec.Struct, kw_only=True):
    """What was written: the body's path, and in `lost` what the archive could not tell. `entry` counts from 1."""

    file: str
    tool: str
    entry: int
    provider: str
    shape: str
    dialect: str
    path: str
    lost: list[str]


def import_file(
    project: Project, file: Path, *, provider: str | None = None, shape: str | None = None, entry: int | None = None,
    dialect: str | None = None, replace: bool = False, masking: bool = False, values: Mapping[str, str],
) -> Imported:  # fmt: skip
    """Write one entry of the file as `fixtures/<provider>/<shape>.sse` with a sidecar that says where it is from.

    `values` are the environment's keys, which may reach no file. Raises UsageError: no archive, no such entry, a name
    that is none, a fixture that is there already; SecretFound: the body holds a key, and `masking` is false.
    """
    for name, what in ((provider, "provider"), (shape, "shape")):
        if name is not None and not valid_name(name):
            raise UsageError(f"{name!r} cannot name a {what}: only lower-case letters, digits and - can")
    if dialect is not None:
        dialect_named(dialect)
    archive = archive_of(_read(file), str(file))
    number, found = _chosen(archive, str(file), entry)
    where = f"{file}: entry {number}" if len(archive.entries) > 1 else str(file)
    if not found.body:
        why = f" ({found.lost[-1]})" if found.lost[-1].startswith("the body:") else ""
        raise UsageError(f"{where}: its body is empty{why}; there is nothing to import")
    dialect = dialect or dialect_of_path(found.path) or detect(found.body, where)
    body, lost = found.body, list(found.lost)
    if leaks := leaks_in(body, dialect, values):
        if not masking:
            more = f" and {len(leaks) - 1} more" if len(leaks) > 1 else ""
            raise SecretFound(
                f"{where}: the body holds {leaks[0].what} at byte {leaks[0].at}{more}: refused, nothing was written; "
                "revoke it, and import with --mask"
            )
        body = without_leaks(body, dialect, values, where)
        lost.append(MASKED)
    sent, dropped = _sent(found, values)
    lost += dropped
    about = f"entry {number} of {len(archive.entries)}" if len(archive.entries) > 1 else ""
    origin = "; ".join(filter(None, [_clean(file.name), about, f"lost: {'; '.join(lost)}" if lost else ""]))
    recording = Recording(
        body=body, status=found.status, headers=_headers(found, values), end=found.end, dialect=dialect,
        decoded_from=found.decoded_from, request=sent,
        provenance=Provenance(kind="imported", date=found.date, tool=archive.tool, origin=origin),
    )  # fmt: skip
    provider = provider or _provider_of(found.url)
    recording.shape = shape = shape or _shape_of(recording, file)
    path = _write(project, provider, shape, recording, values, replace=replace)
    return Imported(
        file=str(file), tool=archive.tool, entry=number, provider=provider, shape=shape, dialect=dialect,
        path=str(path), lost=lost,
    )  # fmt: skip


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_ARCHIVE + 1)
    except (OSError, ValueError) as exc:
        raise UsageError(f"{file}: cannot be read: {why_unreadable(exc)}") from exc


def _chosen(archive: Archive, name: str, entry: int | None) -> tuple[int, Entry]:
    """The entry asked for, else the only one, else the only one that is a stream. Raises UsageError, listing them."""
    entries = archive.entries
    if entry is not None and 1 <= entry <= len(entries):
        return entry, entries[entry - 1]
    streams = [(number, one) for number, one in enumerate(entries, 1) if _is_stream(one)]
    if entry is None:
        if len(entries) == 1:
            return 1, entries[0]
        if len(streams) == 1:
            return streams[0]
    shown = streams if streams and entry is None else list(enumerate(entries, 1))
    listed = "; ".join(f"{number}: {_clean(one.about)}" for number, one in shown[:_LISTED])
    more = f"; and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    what = "holds several streams" if len(streams) > 1 else "holds no stream, but several exchanges"
    problem = f"has no entry {entry}" if entry is not None else what
    raise UsageError(f"{name}: {problem}; name one with --entry: {listed}{more}")


def _is_stream(entry: Entry) -> bool:
    media = entry.headers.get("content-type", "").lower()
    return any(kind in media for kind in _STREAMS) or entry.body[:7].startswith((b"data:", b"event:"))


def _sent(entry: Entry, values: Mapping[str, str]) -> tuple[Sent | None, list[str]]:
    """The request as the sidecar tells it, without headers, query and keys; and what that left out."""
    if not entry.url and entry.sent is None:
        return None, []
    lost = ["the request's headers and query, on purpose"]
    path = _clean(masked_bytes(raw := entry.path.encode("utf-8", "replace"), leaks_in(raw, None, values)).decode())
    sent, body = entry.sent or b"", None
    if leaks := leaks_in(sent, None, values):
        sent = masked_bytes(sent, leaks)
        lost.append(f"{len(leaks)} key-like value{'s' if len(leaks) > 1 else ''} in the request, masked")
    if sent:
        try:
            body = decode_strict(sent)
        except STRICT_ERRORS:
            lost.append("the request's body, which is no JSON")
    return Sent(method=_clean(entry.method)[:20] or "POST", path=path[:1000], body=body), lost


def _headers(entry: Entry, values: Mapping[str, str]) -> dict[str, str]:
    """Those a recording keeps, unless one holds a key."""
    kept = {name: _clean(entry.headers[name]) for name in KEPT_HEADERS if name in entry.headers}
    return {name: value for name, value in kept.items() if not leaks_in(value.encode("utf-8", "replace"), None, values)}


def _clean(text: str) -> str:
    return "".join(character for character in text if character.isprintable())[:1000]


def _provider_of(url: str) -> str:
    """A name from the host: `openai` of api.openai.com; `imported` where it tells none."""
    try:
        host = (urlsplit(url).hostname or "").lower()
    except ValueError:
        host = ""
    if host in _HOSTS:
        return _HOSTS[host]
    labels = [label for label in host.split(".")[:-1] if label not in _NO_NAMES]
    name = labels[-1] if labels and not re.fullmatch(r"[0-9.]+", host) else "imported"
    return name if valid_name(name) else "imported"


def _shape_of(recording: Recording, file: Path) -> str:
    """The shape that the file is named after, else what the stream exercises: a failure, calls, a stop string, text."""
    stem = re.sub(r"[^a-z0-9]+", "-", file.stem.lower().removeprefix("test_")).strip("-")
    if stem in SHAPES:
        return stem
    request = recording.request.body if recording.request is not None else None
    take = reading_of(recording, recording.dialect or "chat", "text", request)
    if take.result == "error" or (recording.status or 200) >= 400:
        return "error"
    calls = len(take.reading.message.tool_calls)
    if calls:
        return "parallel-tools" if calls > 1 else "tool-call"
    return "stop" if isinstance(request, dict) and (request.get("stop") or request.get("stop_sequences")) else "text"


def _write(
    project: Project, provider: str, shape: str, recording: Recording, values: Mapping[str, Any], *, replace: bool
) -> Path:  # fmt: skip
    target = take_path(project.fixtures, provider, shape)
    for path in (target, target.with_suffix(".json")):
        if path.is_symlink():
            raise UsageError(f"{path}: a link; put the file there itself, or import under another --shape")
    if target.exists() and not replace:
        raise UsageError(f"{target}: is there already; import under another --shape, or --replace it")
    sidecar = sidecar_of(recording)
    if leaks_in(to_json(sidecar).encode(), None, values):
        raise SecretFound(f"{provider}/{shape}: the sidecar would hold a key: refused, nothing was written")
    with Partial(project.root, provider, shape, secrets=values.values(), sidecar=sidecar) as partial:
        partial.write(recording.body)
        partial.finish(recording)
        return partial.keep(target)
