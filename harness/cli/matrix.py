"""harness matrix"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from harness.cli.common import FILE, config_option, json_option, progress, project_here, say, say_json
from harness.errors import NotMeasured, UsageError
from harness.reports.matrix import check_form, matrix_text, write_matrix
from harness.runs.matrix import matrix as run


@click.command()
@click.option("--client", "clients", multiple=True, metavar="NAME", help="Only this client model; may be given again.")
@click.option("--sdk", "sdks", multiple=True, metavar="NAME", help="Only this SDK; may be given again.")
@click.option("--case", "cases", multiple=True, metavar="NAME",
              help="Only this case, or those of a pattern (02*, openai/*); may be given again.")  # fmt: skip
@click.option("--cut", "cuts", multiple=True, metavar="FAMILY",
              help="Cut like this; may be given again. By default quirks run uncut and byte by byte, fixtures uncut"
                   " and as they were read.")  # fmt: skip
@click.option("--no-quirks", is_flag=True, help="Leave the quirks out.")
@click.option("--no-fixtures", is_flag=True, help="Leave the fixtures out.")
@click.option("--report", "reports", multiple=True, type=FILE, metavar="PATH",
              help="Also write it there, as .md, .html or .json; may be given again.")  # fmt: skip
@config_option
@json_option
def matrix(
    clients: tuple[str, ...], sdks: tuple[str, ...], cases: tuple[str, ...], cuts: tuple[str, ...], no_quirks: bool,
    no_fixtures: bool, reports: tuple[Path, ...], config: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Show which clients read which streams right.

    Runs all client models, and the SDKs that are installed, on the quirks and on the fixtures of this project. With
    --client or --sdk only those named. It reports and judges nothing: exit 0, or 3 if no client reads any of the
    streams.

    \b
    harness matrix --report matrix.html
    harness matrix --sdk openai-python --sdk openai-node --no-fixtures
    """
    for path in reports:
        check_form(path)
    if no_quirks and no_fixtures:
        raise UsageError("--no-quirks and --no-fixtures leave no case; leave one of them out")
    fixtures = None if no_fixtures else project_here(config).fixtures
    found = run(
        date=datetime.now(UTC).date().isoformat(), quirks=not no_quirks, clients=clients, sdks=sdks, cases=cases,
        fixtures=fixtures if fixtures is not None and fixtures.is_dir() else None, cuts=cuts, progress=progress,
    )  # fmt: skip
    for path in reports:
        write_matrix(path, found)
    if as_json:
        say_json(found)
    else:
        say(matrix_text(found))
    if not found.rows:
        raise NotMeasured("no client here reads any of these streams; see --client, --sdk and --case")
