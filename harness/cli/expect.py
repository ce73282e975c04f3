"""harness expect"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from harness.cli.common import FILE, dialect_option, jobs_option
from harness.cli.each import Said, failed, tell_each
from harness.errors import Exit, UsageError
from harness.runs.files import expand, verify_expected, write_expected


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("--write", is_flag=True, help="Write the expectations in place of verifying them.")
@dialect_option
@jobs_option
@click.pass_context
def expect(
    ctx: click.Context, files: tuple[Path, ...], write: bool, dialect: str | None, jobs: int | None
) -> None:  # fmt: skip
    """Verify that fixtures say what their .expected.json says: the message and the structure, fact by fact.

    Exit 1 with a diff if one does not; --write updates the expectations.

    \b
    harness expect fixtures/openai/*.sse
    harness expect --write fixtures/openai/text.sse
    """
    ctx.exit(tell_each(partial(_expect, write=write, dialect=dialect), lambda: expand(files), jobs))


def _expect(path: Path, *, write: bool, dialect: str | None) -> Said:
    try:
        if write:
            return Said().text(f"{path}: {'written' if write_expected(path, dialect) else 'unchanged'}")
        difference = verify_expected(path, dialect)
    except UsageError as exc:
        return failed(exc)
    if not difference:
        return Said().text(f"{path}: as expected")
    return Said(Exit.DIFFERS).text(f"{path}: differs").text("\n".join(difference))
