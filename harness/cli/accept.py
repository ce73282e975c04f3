"""harness accept"""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from harness.cli import names
from harness.cli.common import FILE, config_option, json_option, project_here, say, say_json
from harness.errors import UsageError
from harness.runs.accepting import acceptances, as_yaml, load_report
from harness.runs.writing import write_acceptances


def _day(ctx: click.Context, param: click.Parameter, value: str | None) -> date | None:
    if value is None:
        return None
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise click.BadParameter("must be a day, such as 2027-06-30") from None


@click.command()
@click.argument("report", type=FILE, metavar="REPORT.json")
@click.option("--rule", "rules", multiple=True, metavar="RULE", shell_complete=names.rules,
              help="Only this rule; may be given again.")  # fmt: skip
@click.option("--reason", required=True, metavar="TEXT", help="Why it is tolerated.")
@click.option("--until", callback=_day, metavar="DATE", help="The last day it is; a fatal finding needs one.")
@click.option("--owner", metavar="NAME", help="Who answers for it: a person or team.")
@click.option("--baseline", "bound", is_flag=True, help="Only against the report's baseline; else against any.")
@click.option("--write", is_flag=True, help="Insert them into providers.yaml; comments stay.")
@config_option
@json_option
def accept(
    report: Path, rules: tuple[str, ...], reason: str, until: date | None, owner: str | None, bound: bool, write: bool,
    config: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Print the acceptances for the findings that failed a gate, ready for providers.yaml, or write them there.

    \b
    harness gate openai candidate --report report.json
    harness accept report.json --rule usage.position --reason "tokens are counted locally" --until 2027-06-30
    """
    found = load_report(report)
    entries = acceptances(found, rules=rules, reason=reason, until=until, owner=owner, bound=bound)
    written = ""
    if write:
        project = project_here(config)
        if project.config is None:
            raise UsageError("no providers.yaml here or in a parent folder to write to; name one with --config")
        entries = write_acceptances(project.config, found.candidate, entries)
        written = f"\n# written to {project.file}"
    if as_json:
        say_json(entries)
    else:
        say(as_yaml(found.candidate, entries) + written)
