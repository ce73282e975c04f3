"""Every exception this package raises on purpose, and the process exit codes.

    HarnessError                 something we could not do; carries its exit code
    ├── UsageError        (2)    the caller's input is wrong: arguments, files, providers.yaml
    │   └── ConfigError   (2)    a configuration file: names the file and the key
    └── NotMeasured       (3)    the endpoint could not be measured: no verdict either way
        └── RecordingError (3)   a request or its stream broke; what had arrived is kept
            └── SecretFound (3)  what came holds a key: refused, and nothing of it stays on disk

An exception says "we could not find out". A difference between streams is a Finding, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path


class Exit(IntEnum):
    """Process exit codes (contract: DESIGN, "CLI")."""

    CONFORMS = 0
    DIFFERS = 1
    USAGE = 2
    NOT_MEASURED = 3
    BUG = 4
    INTERRUPTED = 130


class HarnessError(Exception):
    """Base of all: its text is one line that names the place and the remedy."""

    exit_code: Exit = Exit.BUG


class UsageError(HarnessError):
    """Arguments or files the caller gave cannot be used."""

    exit_code = Exit.USAGE


class ConfigError(UsageError):
    """A configuration file cannot be used. `path` is the file, `key` the dotted place in it ("" for the whole)."""

    def __init__(self, path: Path | str, key: str, problem: str) -> None:
        self.path, self.key, self.problem = Path(path), key, problem
        super().__init__(f"{path}: {key + ': ' if key else ''}{problem}")


class NotMeasured(HarnessError):
    """The endpoint gave nothing that could be judged (DESIGN, "Not measured")."""

    exit_code = Exit.NOT_MEASURED


class RecordingError(NotMeasured):
    """A request got no response at all, or was refused before any byte could be kept.

    `reason` says why in a word: connect, dns, tls, proxy, reset, cut, protocol-error, timeout:first-event,
    timeout:total, secret.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        self.reason = reason
        super().__init__(message)


class SecretFound(RecordingError):
    """A body or sidecar holds the value of a key: it is refused (DESIGN, "Safety")."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="secret")


def why_unreadable(exc: Exception) -> str:
    """`Permission denied; check its permissions`: why a file cannot be read, with the remedy where it is not plain."""
    why = getattr(exc, "strerror", None) or str(exc)
    return f"{why}; check its permissions" if isinstance(exc, PermissionError) else why


def suggestion(name: str, known: Iterable[str]) -> str:
    """"; did you mean 'model'?" for the nearest known name, or nothing."""
    from difflib import get_close_matches  # late: only for a name that is wrong

    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
