"""Reports: a Report as a file, in the form that the file's suffix picks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.errors import UsageError
from harness.findings import Report

Bodies = Mapping[str, Mapping[tuple[str, int], bytes]]


def _json(report: Report, bodies: Bodies) -> str:
    from harness.jsontext import to_json

    return to_json(report, indent=2) + "\n"


def _markdown(report: Report, bodies: Bodies) -> str:
    from harness.reports.markdown import gate_markdown

    return gate_markdown(report, bodies)


def _junit(report: Report, bodies: Bodies) -> str:
    from harness.reports.junit import gate_junit

    return gate_junit(report, bodies)


FORMS: dict[str, Callable[[Report, Bodies], str]] = {".json": _json, ".md": _markdown, ".xml": _junit}


def check_suffix(path: Path) -> None:
    """Raise UsageError unless a report can be written in the form the suffix asks for."""
    if path.suffix not in FORMS:
        raise UsageError(f"{path}: no report has the suffix {path.suffix!r}; use {', '.join(FORMS)}")


def write_report(path: Path, report: Report, bodies: Bodies) -> None:
    """Write the report. `bodies` holds the bytes its evidence points into, by shape, side and take.

    Raises UsageError if the file cannot be written.
    """
    text = FORMS[path.suffix](report, bodies)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as exc:
        raise UsageError(f"{path}: the report cannot be written ({exc.strerror}); check the folder") from exc
