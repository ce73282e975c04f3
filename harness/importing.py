"""What others recorded, as entries: VCR cassettes, HAR files, output of `curl -i`. Sans-IO; never trusts its input."""

from __future__ import annotations

import msgspec

from harness.errors import UsageError
from harness.importers import curl, har, vcr
from harness.importers.base import Entry
from harness.importers.yamlvalues import yaml_value

MAX_ARCHIVE = 128 * 1024 * 1024  # bytes of a file to import

_FORMATS = "a VCR cassette (YAML or JSON), a HAR file, or what `curl -i` wrote"


class Archive(msgspec.Struct, kw_only=True):
    """A file's entries, and the tool whose format it has: vcr, har or curl."""

    tool: str
    entries: list[Entry]


def archive_of(data: bytes, name: str) -> Archive:
    """Read an archive; `name` is for errors. Raises UsageError: no such file, broken, or beyond the limits."""
    if len(data) > MAX_ARCHIVE:
        raise UsageError(f"{name}: larger than {MAX_ARCHIVE // 1024**2} MiB, the most that is imported")
    start = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"HTTP/"):
        return Archive(tool="curl", entries=curl.entries(data, name))
    if start.startswith(b"{"):
        value = har.decoded(data, name)
        if har.is_har(value):
            return _checked(Archive(tool="har", entries=har.entries_of_har(value, name)), name)
        return _checked(Archive(tool="vcr", entries=vcr.entries_of_cassette(value, name)), name)
    if start.startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        raise UsageError(
            f"{name}: a bare body, which needs no import: copy it to fixtures/<provider>/<shape>.sse as it is"
        )
    if b"interactions" in data or b"http_interactions" in data:
        return _checked(Archive(tool="vcr", entries=vcr.entries_of_cassette(yaml_value(data, name), name)), name)
    raise UsageError(f"{name}: not {_FORMATS}")


def _checked(archive: Archive, name: str) -> Archive:
    if not archive.entries:
        raise UsageError(f"{name}: holds no exchange")
    return archive
