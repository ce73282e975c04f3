"""harness diff"""

from __future__ import annotations

from pathlib import Path

import click

from harness.align import Difference, Span, align
from harness.cli.common import (
    FILE,
    complain,
    dialect_option,
    fail_on_option,
    json_option,
    say,
    say_json,
    say_report,
    warn,
)
from harness.findings import EXIT, Severity
from harness.reports.text import clean, findings_text
from harness.runs.files import diff_files

LISTED = 50  # differences shown as text; --json has all


@click.command()
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@click.option("--events", is_flag=True, help="Also list where the two sequences of events differ. Scores nothing.")
@fail_on_option(Severity.NEGOTIABLE)
@dialect_option
@json_option
@click.pass_context
def diff(
    ctx: click.Context, a: Path, b: Path, events: bool, fail_on: Severity, dialect: str | None, as_json: bool
) -> None:  # fmt: skip
    """Compare two recorded streams, A as the baseline of B.

    Exit 0 if B conforms, 1 if it differs, 3 if A is no answer to compare with.

    With --events, the events are aligned too: an event more is one difference. Two answers of a model say different
    things, so that is for streams that should be the same, such as one before and behind a proxy.

    \b
    harness diff fixtures/openai/text.sse answer.sse
    harness diff --events direct.sse through-proxy.sse
    """
    found = diff_files(a, b, dialect, fail_on, keep_events=events)
    sides = {"baseline": found.baseline.loaded, "candidate": found.candidate.loaded}
    for loaded in sides.values():
        if loaded.warning:
            warn(loaded.warning)
    shapes = [loaded.recording.shape for loaded in sides.values()]
    if None not in shapes and shapes[0] != shapes[1]:
        warn(f"{a} is of shape {shapes[0]}, {b} of {shapes[1]}: what differs may come from what was asked")
    aligned = align(found.baseline.events, found.candidate.events) if events else None
    if as_json:
        say_json({"outcome": found.outcome, "findings": found.findings, "events": aligned})
    else:
        say_report(f"{a} -> {b}: {found.outcome.upper()}")
        if not found.reason:
            bodies = {(side, 1): loaded.recording.body for side, loaded in sides.items()}
            say_report(findings_text(found.findings, bodies))
        if aligned is not None:
            say(events_text(aligned))
    if found.reason:
        complain(f"{a} -> {b}: not measured: {found.reason}; give two recordings of answers")
    ctx.exit(EXIT[found.outcome])


def events_text(differences: list[Difference]) -> str:
    """One line a side for each difference, the first LISTED."""
    if not differences:
        return "events: no difference"
    lines = [f"events: {len(differences)} {'difference' if len(differences) == 1 else 'differences'}"]
    for found in differences[:LISTED]:
        lines.append(f"  {found.kind}")
        sides = ("A", found.baseline), ("B", found.candidate)
        lines += [f"    {side} {_span_text(span)}" for side, span in sides if span is not None]
    if len(differences) > LISTED:
        lines.append(f"  ... and {len(differences) - LISTED} more: --json has them")
    return "\n".join(lines)


def _span_text(span: Span) -> str:
    which = f"event {span.first}" if span.count == 1 else f"events {span.first}-{span.first + span.count - 1}"
    return clean(f"{which} at byte {span.at}, {', '.join(span.kinds)}: {span.shown!r}")
