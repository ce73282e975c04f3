"""harness diff"""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import FILE, dialect_option, fail_on_option, json_option, say, say_json
from harness.findings import EXIT, Severity
from harness.reports.text import findings_text
from harness.runs.files import diff_files
from harness.store import load


@click.command()
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@fail_on_option(Severity.NEGOTIABLE)
@dialect_option
@json_option
@click.pass_context
def diff(ctx: click.Context, a: Path, b: Path, fail_on: Severity, dialect: str | None, as_json: bool) -> None:
    """Compare two recorded streams, A as the baseline of B.

    Exit 0 if B conforms, 1 if it differs.

    \b
    harness diff fixtures/openai/text.sse answer.sse
    """
    findings, outcome = diff_files(a, b, dialect, fail_on)
    if as_json:
        say_json({"outcome": outcome, "findings": findings})
    else:
        say(f"{a} -> {b}: {outcome.upper()}")
        bodies = {("baseline", 1): load(a).recording.body, ("candidate", 1): load(b).recording.body}
        say(findings_text(findings, bodies))
    ctx.exit(EXIT[outcome])
