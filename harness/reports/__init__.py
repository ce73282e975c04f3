"""Reports: a Report as a file, in the form that the file's suffix picks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.runs.gate import Gated

SUFFIXES = (".json",)


def check_suffix(path: Path) -> None:
    """Raise UsageError unless a report can be written in the form the suffix asks for."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path}: no report has this suffix; use {', '.join(SUFFIXES)}")


def write_report(path: Path, gated: Gated) -> None:
    """Write the report. Raises UsageError if the file cannot be written."""
    from harness.jsontext import to_json

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_json(gated.report, indent=2) + "\n", "utf-8")
    except OSError as exc:
        raise UsageError(f"{path}: the report cannot be written ({exc.strerror}); check the folder") from exc
