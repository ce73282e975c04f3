"""harness lint"""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import FILE, complain, dialect_option, fail_on_option, json_option, say, say_json
from harness.errors import Exit, UsageError
from harness.findings import Outcome, Severity
from harness.reports.text import findings_text
from harness.runs.files import expand, lint_file


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@fail_on_option(Severity.FATAL)
@dialect_option
@json_option
@click.pass_context
def lint(
    ctx: click.Context, files: tuple[Path, ...], fail_on: Severity, dialect: str | None, as_json: bool
) -> None:  # fmt: skip
    """Say what is odd about recorded streams, worst first.

    Folders are searched for .sse files (but no hidden folders in them). Exit 1 if a finding is as bad as --fail-on; 2
    if a file cannot be read.

    \b
    harness lint fixtures/candidate/*.sse
    harness lint answer.sse --fail-on negotiable --json
    """
    code = Exit.CONFORMS
    for path in expand(files):
        try:
            shown, findings, outcome = lint_file(path, dialect, fail_on)
        except UsageError as exc:
            complain(str(exc))
            code = Exit.USAGE
            continue
        if shown.loaded.warning:
            complain(shown.loaded.warning)
        if outcome is Outcome.DIFFERS and code == Exit.CONFORMS:
            code = Exit.DIFFERS
        if as_json:
            say_json({"file": str(path), "outcome": outcome, "findings": findings})
        else:
            say(f"{path} ({shown.dialect}, by {shown.known_by})")
            say(findings_text(findings, {("candidate", 1): shown.loaded.recording.body}))
    ctx.exit(code)
