"""harness expect"""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import FILE, complain, dialect_option, say
from harness.errors import Exit, UsageError
from harness.runs.files import expand, verify_expected, write_expected


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("--write", is_flag=True, help="Write the expectations in place of verifying them.")
@dialect_option
@click.pass_context
def expect(ctx: click.Context, files: tuple[Path, ...], write: bool, dialect: str | None) -> None:
    """Verify that fixtures say what their .expected.json says: the message and the structure, fact by fact.

    Exit 1 with a diff if one does not; --write updates the expectations.

    \b
    harness expect fixtures/openai/*.sse
    harness expect --write fixtures/openai/text.sse
    """
    code = Exit.CONFORMS
    for path in expand(files):
        try:
            if write:
                say(f"{path}: {'written' if write_expected(path, dialect) else 'unchanged'}")
                continue
            difference = verify_expected(path, dialect)
        except UsageError as exc:
            complain(str(exc))
            code = Exit.USAGE
            continue
        say(f"{path}: {'differs' if difference else 'as expected'}")
        if difference:
            say("\n".join(difference))
            code = code if code == Exit.USAGE else Exit.DIFFERS
    ctx.exit(code)
