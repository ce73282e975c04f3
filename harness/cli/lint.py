"""harness lint"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import FILE, complain, dialect_option, fail_on_option, jobs_option, json_option
from harness.cli.each import Said, failed, tell_each
from harness.errors import Exit, UsageError
from harness.findings import Outcome, Severity, outcome_of
from harness.reports.text import findings_text
from harness.runs.files import expand, lint_file
from harness.runs.jobs import in_order

if TYPE_CHECKING:
    from harness.runs.leaks import Searched


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@fail_on_option(Severity.FATAL)
@click.option("--secrets", is_flag=True, help="Look for keys instead, in any kind of file, and beside a .sse file.")
@click.option("--mask", "masking", is_flag=True, help="With --secrets: write * over each byte of a key.")
@dialect_option
@jobs_option
@json_option
@click.pass_context
def lint(
    ctx: click.Context, files: tuple[Path, ...], fail_on: Severity, secrets: bool, masking: bool, dialect: str | None,
    jobs: int | None, as_json: bool,
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
        ctx.exit(_secrets(files, fail_on, masking, dialect, jobs, as_json))
    work = partial(_lint, dialect=dialect, fail_on=fail_on, as_json=as_json)
    ctx.exit(tell_each(work, lambda: expand(files), jobs))


def _lint(path: Path, *, dialect: str | None, fail_on: Severity, as_json: bool) -> Said:
    try:
        shown, findings, outcome = lint_file(path, dialect, fail_on)
    except UsageError as exc:
        return failed(exc)
    said = Said(_code(outcome), shown.loaded.warning)
    if as_json:
        return said.json({"file": str(path), "outcome": outcome, "findings": findings})
    text = findings_text(findings, {("candidate", 1): shown.loaded.recording.body}, sided=False)
    return said.text(f"{path} ({shown.dialect}, by {shown.known_by})").report(text)


def _code(outcome: Outcome) -> Exit:
    return Exit.DIFFERS if outcome is Outcome.DIFFERS else Exit.CONFORMS


def _secrets(
    files: tuple[Path, ...], fail_on: Severity, masking: bool, dialect: str | None, jobs: int | None, as_json: bool
) -> Exit:  # fmt: skip
    from harness.runs.leaks import mask, values_of, with_neighbours

    values = values_of(os.environ)
    look, tell = partial(_look, dialect=dialect, values=values), partial(_holds, fail_on=fail_on, as_json=as_json)
    if not masking:
        return tell_each(partial(_search, look=look, tell=tell), lambda: with_neighbours(expand(files)), jobs)
    code = Exit.CONFORMS
    # Masking a body writes what lies beside it, so all is searched before.
    for found in list(in_order(look, with_neighbours(expand(files)), jobs)):
        masked = False
        if not isinstance(found, Said) and found.findings:
            try:
                masked = mask(found.path, dialect, values)
            except UsageError as exc:
                complain(str(exc))
                code = Exit.USAGE
        said = found if isinstance(found, Said) else tell(found, masked=masked)
        said.write()
        code = max(code, said.code)
    return code


def _look(path: Path, *, dialect: str | None, values: Mapping[str, str]) -> Searched | Said:
    """What the file holds; the bytes only if there is something to show of them."""
    from harness.runs.leaks import search

    try:
        found = search(path, dialect, values)
    except UsageError as exc:
        return failed(exc)
    if not found.findings:
        found.masked = b""
    return found


def _holds(found: Searched, *, masked: bool = False, fail_on: Severity, as_json: bool) -> Said:
    outcome = outcome_of(found.findings, fail_on)
    said = Said(_code(outcome))
    if as_json:
        return said.json({"file": str(found.path), "outcome": outcome, "findings": found.findings})
    if not found.findings:
        return said.text(f"{found.path}: holds no key")
    text = findings_text(found.findings, {("candidate", 1): found.masked}, sided=False)
    return said.text(f"{found.path}{': masked' if masked else ''}").report(text)


def _search(
    path: Path, *, look: Callable[[Path], Searched | Said], tell: Callable[[Searched], Said]
) -> Said:  # fmt: skip
    found = look(path)
    return found if isinstance(found, Said) else tell(found)
