"""Reports: a Report as a file, in the form that the file's suffix picks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.findings import Report

if TYPE_CHECKING:
    from harness.cutover import Sides

Shapes = Mapping[str, "Sides"]
Bodies = Mapping[str, Mapping[tuple[str, int], bytes]]


def _bodies(shapes: Shapes) -> Bodies:
    """The bytes alone."""
    return {shape: {key: side.recording.body for key, side in sides.items()} for shape, sides in shapes.items()}


def _json(report: Report, shapes: Shapes) -> str:
    from harness.jsontext import to_json

    return to_json(report, indent=2) + "\n"


def _markdown(report: Report, shapes: Shapes) -> str:
    from harness.reports.markdown import gate_markdown

    return gate_markdown(report, _bodies(shapes))


def _junit(report: Report, shapes: Shapes) -> str:
    from harness.reports.junit import gate_junit

    ends = {
        shape: [side.recording.reads[-1].microseconds for (of, _), side in sides.items()
                if of == "candidate" and side.recording.reads]
        for shape, sides in shapes.items()
    }  # fmt: skip
    return gate_junit(report, _bodies(shapes), {shape: sum(ended) / 1e6 for shape, ended in ends.items() if ended})


def _html(report: Report, shapes: Shapes) -> str:
    from harness.reports.gate_html import gate_html

    return gate_html(report, shapes)


def _sarif(report: Report, shapes: Shapes) -> str:
    from harness.reports.sarif import gate_sarif

    return gate_sarif(report, shapes)


FORMS: dict[str, Callable[[Report, Shapes], str]] = {
    ".json": _json, ".md": _markdown, ".xml": _junit, ".html": _html, ".sarif": _sarif,
}  # fmt: skip


def check_suffix(path: Path) -> None:
    """Raise UsageError unless a report can be written in the form the suffix asks for."""
    if path.suffix not in FORMS:
        raise UsageError(f"{path}: no report has the suffix {path.suffix!r}; use {', '.join(FORMS)}")


def write_report(path: Path, report: Report, shapes: Shapes) -> None:
    """Write the report. `shapes` holds the takes its evidence points into, by shape, side and number.

    Raises UsageError if the file cannot be written.
    """
    text = FORMS[path.suffix](report, shapes)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as exc:
        raise UsageError(f"{path}: the report cannot be written ({exc.strerror}); check the folder") from exc
