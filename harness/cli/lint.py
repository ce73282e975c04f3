"""harness lint"""

from __future__ import annotations

import os
from pathlib import Path

import click

from harness.cli.common import FILE, complain, dialect_option, fail_on_option, json_option, say, say_json
from harness.errors import Exit, UsageError
from harness.findings import Outcome, Severity, outcome_of
from harness.reports.text import findings_text
from harness.runs.files import expand, lint_file


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@fail_on_option(Severity.FATAL)
@click.option("--secrets", is_flag=True, help="Look for keys instead, in any kind of file, and beside a .sse file.")
@click.option("--mask", "masking", is_flag=True, help="With --secrets: write * over each byte of a key.")
@dialect_option
@json_option
@click.pass_context
def lint(
    ctx: click.Context, files: tuple[Path, ...], fail_on: Severity, secrets: bool, masking: bool, dialect: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Say what is odd about recorded streams, worst first.

    Folders are searched for .sse files (but no hidden folders in them). Exit 1 if a finding is as bad as --fail-on; 2
    if a file cannot be read. With --secrets: whether the files, and the sidecar and expectation beside a stream, hold
    what looks like a key or is the value of a variable such as OPENAI_API_KEY; --mask writes over it, and the exit is 1
    if there was something to mask.

    \b
    harness lint fixtures/candidate/*.sse
    harness lint answer.sse --fail-on negotiable --json
    harness lint --secrets fixtures/
    """
    if masking and not secrets:
        raise UsageError("--mask goes with --secrets; add it")
    if secrets:
        ctx.exit(_secrets(files, fail_on, masking, dialect, as_json))
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


def _secrets(files: tuple[Path, ...], fail_on: Severity, masking: bool, dialect: str | None, as_json: bool) -> Exit:
    from harness.runs.leaks import mask, search, values_of, with_neighbours

    values, code = values_of(os.environ), Exit.CONFORMS
    searched = []
    for path in with_neighbours(expand(files)):
        try:
            searched.append(search(path, dialect, values))
        except UsageError as exc:
            complain(str(exc))
            code = Exit.USAGE
    for found in searched:  # masking a body writes what lies beside it, so all is searched before
        try:
            masked = masking and bool(found.findings)
            if masked:
                mask(found.path, dialect, values)
        except UsageError as exc:
            complain(str(exc))
            code = Exit.USAGE
            masked = False
        outcome = outcome_of(found.findings, fail_on)
        if outcome is Outcome.DIFFERS and code == Exit.CONFORMS:
            code = Exit.DIFFERS
        if as_json:
            say_json({"file": str(found.path), "outcome": outcome, "findings": found.findings})
        elif found.findings:
            say(f"{found.path}{': masked' if masked else ''}")
            say(findings_text(found.findings, {("candidate", 1): found.masked}))
        else:
            say(f"{found.path}: holds no key")
    return code
