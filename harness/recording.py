"""A recording: body bytes, reads, times and end state, as they came; and its sidecar, the JSON that lies beside it.

The body is the truth and is never decoded or normalised. Reads and times are evidence, never meaning.
Source of the fields: DESIGN, "Fixtures on disk" (contract).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

SIDECAR_FORMAT = "sse-harness/1"
PIECE = 256 * 1024  # bytes of a body that are looked at at once: what is read of them is held at the same time

END_STATES = (
    "eof", "cut", "reset", "protocol-error", "timeout:first-event", "timeout:idle", "timeout:total",
    "client-closed", "too-large", "incomplete", "unknown",
)  # fmt: skip


class Provenance(msgspec.Struct, kw_only=True, omit_defaults=False):
    """Where a fixture comes from. `date` is ISO (UTC); `origin` says in words what it was taken from."""

    kind: Literal["recorded", "imported", "synthetic"]
    date: str | None = None
    tool: str | None = None
    server: str | None = None
    version: str | None = None
    origin: str | None = None


class Sent(msgspec.Struct, kw_only=True):
    """The request that was sent, without secrets. `shape_sha256` is of the request file's bytes, null if unknown."""

    method: str = "POST"
    path: str = ""
    body: Any = None
    shape_sha256: str | None = None


class Read(msgspec.Struct, frozen=True, array_like=True):
    """One piece as the client handed it over: body offset of its end, microseconds since the request was sent."""

    end: int
    microseconds: int


class Recording(msgspec.Struct, kw_only=True):
    """One response. HTTP `status` is null, `headers` empty when unknown (a bare file); header names are lower case.

    `reads` tell when each piece came: the byte it ended at, and microseconds since the request was sent. `end` is how
    the body ended: eof, cut, reset, timeout:idle ... (docs/fixtures.md).
    """

    body: bytes  # where the store was asked for it, a large one stays in its file: length, slices, bytes() and no more
    reads: list[Read] = []
    status: int | None = None
    headers: dict[str, str] = {}
    end: str = "unknown"
    decoded_from: str | None = None
    dialect: str | None = None
    shape: str | None = None
    request: Sent | None = None
    provenance: Provenance | None = None

    def pieces(self) -> list[bytes]:
        """The body cut as it was read; the whole body as one piece if the reads are unknown."""
        return list(self.in_pieces(max(1, len(self.body))))

    def in_pieces(self, most: int = PIECE) -> Iterator[bytes]:
        """The same one by one, cut further where a piece would be longer than `most` bytes."""
        start, size = 0, len(self.body)
        for read in (*self.reads, Read(end=size, microseconds=0)):
            while start < read.end:
                end = min(start + most, read.end, size)
                if end <= start:  # reads that tell of more than there is
                    return
                yield self.body[start:end]
                start = end


class Sidecar(msgspec.Struct, kw_only=True):
    """`<shape>.json`: everything of a Recording but its body, plus the body's sha256 (contract)."""

    format: str = SIDECAR_FORMAT
    provenance: Provenance | None = None
    dialect: str | None = None
    shape: str | None = None
    request: Sent | None = None
    status: int | None = None
    headers: dict[str, str] = {}
    decoded_from: str | None = None
    reads: list[Read] = []
    end: str = "unknown"
    sha256: str | None = None


def sha256(data: bytes) -> str:
    """Hex digest, as it stands in sidecars."""
    digest = hashlib.sha256()
    for start in range(0, len(data), PIECE):
        digest.update(data[start : start + PIECE])
    return digest.hexdigest()


def sidecar_of(recording: Recording) -> Sidecar:
    """The sidecar that describes the recording."""
    return Sidecar(
        provenance=recording.provenance, dialect=recording.dialect, shape=recording.shape, request=recording.request,
        status=recording.status, headers=recording.headers, decoded_from=recording.decoded_from,
        reads=recording.reads, end=recording.end, sha256=sha256(recording.body),
    )  # fmt: skip


def with_body(sidecar: Sidecar, body: bytes, *, trusted: bool = True) -> Recording:
    """The recording a sidecar and a body make. Untrusted (the digest does not match): reads and end are dropped."""
    return Recording(
        body=body, reads=sidecar.reads if trusted else [], status=sidecar.status, headers=sidecar.headers,
        end=sidecar.end if trusted else "unknown", decoded_from=sidecar.decoded_from, dialect=sidecar.dialect,
        shape=sidecar.shape, request=sidecar.request, provenance=sidecar.provenance,
    )  # fmt: skip
