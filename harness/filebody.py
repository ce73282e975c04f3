"""A large body that stays in its file, so that looking at a stream takes memory for what it says, not for its bytes."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

from harness.errors import UsageError, why_unreadable

LARGE = 16 * 1024**2  # bytes: from here on a body is worth reading twice rather than holding


class FileBody:
    """The bytes of a file: `len`, slices (which are bytes) and `bytes()` work as with the bytes themselves.

    The file is opened for each slice, so nothing has to be closed. A slice raises UsageError if the file is not the one
    any more that it was, or cannot be read.
    """

    __slots__ = ("_known", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known = _identity(path.stat())

    def __len__(self) -> int:
        return self._known[-1]

    def __getitem__(self, part: slice) -> bytes:
        start, stop, step = part.indices(len(self))
        if step != 1:
            raise ValueError("bytes that lie side by side are what can be had")
        try:
            with self.path.open("rb", buffering=0) as file:
                if _identity(os.fstat(file.fileno())) != self._known:
                    raise UsageError(f"{self.path}: was written to while it was read; try again when it is complete")
                file.seek(start)
                return _exactly(file, max(0, stop - start), self.path)
        except OSError as exc:
            raise UsageError(f"{self.path}: cannot be read: {why_unreadable(exc)}") from exc

    def __bytes__(self) -> bytes:
        return self[:]


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size


def _exactly(file: FileIO, size: int, path: Path) -> bytes:
    """So many bytes. One read may give less."""
    parts = []
    while size:
        piece = file.read(size)
        if not piece:
            raise UsageError(f"{path}: became shorter while it was read; try again when it is complete")
        parts.append(piece)
        size -= len(piece)
    return parts[0] if len(parts) == 1 else b"".join(parts)
