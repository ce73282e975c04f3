"""A gate's report as annotations of GitHub Actions: workflow commands, a line each.

Source: GitHub's "Workflow commands for GitHub Actions". A step shows ten of each kind at most, so the worst come first
and the rest is counted. Nothing that a server or model wrote can become a command of its own: `%`, line ends and, in a
title, `:` and `,` are escaped as GitHub's own toolkit does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from harness.findings import Finding, Outcome, Report, Severity, fails
from harness.reports.text import acceptance_line, accepted_text, one_line

Kind = Literal["error", "warning", "notice"]
SHOWN = 10  # annotations of a kind that GitHub shows for a step


def gate_annotations(report: Report, fail_on: Severity = Severity.NEGOTIABLE) -> str:
    """What fails as errors, what is accepted or was not measured as warnings, what passes or is skipped as notices.

    The worst come first.
    """
    lines: dict[Kind, list[str]] = {"error": [], "warning": [], "notice": []}
    found = [(result.shape, finding) for result in report.shapes for finding in result.findings]
    for shape, finding in sorted(found, key=lambda pair: -pair[1].severity.rank):
        kind = _kind(finding, fail_on)
        lines[kind].append(_command(kind, f"{finding.severity} {finding.rule} ({shape})", _says(finding)))
    for use in report.acceptances:
        if use.state != "used":
            lines["error"].append(_command("error", f"acceptance is {use.state}", acceptance_line(use)))
    for result in report.shapes:
        if result.outcome is Outcome.NOT_MEASURED:
            lines["warning"].append(_command("warning", f"{result.shape} not measured", result.reason))
        elif result.outcome is Outcome.SKIPPED:
            lines["notice"].append(_command("notice", f"{result.shape} skipped", result.reason))
    lines["notice"].insert(0, _command("notice", f"{report.baseline} -> {report.candidate}", report.outcome))
    return "\n".join(line for kind, all_ in lines.items() for line in _few(kind, all_))


def _kind(finding: Finding, fail_on: Severity) -> Kind:
    if fails(finding, fail_on):
        return "error"
    return "notice" if finding.severity is Severity.COSMETIC and finding.accepted is None else "warning"


def _says(finding: Finding) -> str:
    accepted = f" ({accepted_text(finding.accepted)})" if finding.accepted is not None else ""
    return f"{finding.message}{accepted} -> {finding.remedy}"


def _few(kind: Kind, lines: list[str]) -> Iterator[str]:
    """As many as are shown; if there are more, the last of them says so."""
    if len(lines) <= SHOWN:
        yield from lines
        return
    yield from lines[: SHOWN - 1]
    yield _command(kind, "and more", f"{len(lines) - SHOWN + 1} more of this kind: see the report")


def _command(kind: Kind, title: str, message: str) -> str:
    named = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={named}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return one_line(text).replace("%", "%25")
