"""harness diff"""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import FILE, complain, dialect_option, fail_on_option, json_option, say, say_json
from harness.findings import EXIT, Severity
from harness.reports.text import findings_text
from harness.runs.files import diff_files


@click.command()
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@fail_on_option(Severity.NEGOTIABLE)
@dialect_option
@json_option
@click.pass_context
def diff(ctx: click.Context, a: Path, b: Path, fail_on: Severity, dialect: str | None, as_json: bool) -> None:
    """Compare two recorded streams, A as the baseline of B.

    Exit 0 if B conforms, 1 if it differs, 3 if A is no answer to compare with.

    \b
    harness diff fixtures/openai/text.sse answer.sse
    """
    found = diff_files(a, b, dialect, fail_on)
    sides = {"baseline": found.baseline.loaded, "candidate": found.candidate.loaded}
    for loaded in sides.values():
        if loaded.warning:
            complain(loaded.warning)
    if as_json:
        say_json({"outcome": found.outcome, "findings": found.findings})
    else:
        say(f"{a} -> {b}: {found.outcome.upper()}")
        if not found.reason:
            say(findings_text(found.findings, {(side, 1): loaded.recording.body for side, loaded in sides.items()}))
    if found.reason:
        complain(f"{a} -> {b}: not measured: {found.reason}; give two recordings of answers")
    ctx.exit(EXIT[found.outcome])
