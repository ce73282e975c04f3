"""harness gate"""

from __future__ import annotations

import os
from pathlib import Path

import click

from harness.cli import names
from harness.cli.common import (
    FILE,
    complain,
    config_option,
    fail_on_option,
    json_option,
    progress,
    project_here,
    say,
    say_json,
    say_report,
    warn,
)
from harness.errors import UsageError
from harness.findings import EXIT, Outcome, Severity
from harness.reports import check_suffix, write_report
from harness.reports.annotations import gate_annotations
from harness.reports.text import gate_text
from harness.runs import gate as run


@click.command()
@click.argument("baseline", shell_complete=names.recorded)
@click.argument("candidate", shell_complete=names.either)
@click.option("--shape", "shapes", multiple=True, metavar="SHAPE", shell_complete=names.shapes,
              help="Only this shape; may be given again.")  # fmt: skip
@click.option("--attempts", type=click.IntRange(1, 20), default=1, show_default=True,
              help="Attempts at a shape that is not measured.")  # fmt: skip
@click.option("--samples", type=click.IntRange(1, 50), default=1, show_default=True,
              help="Streams of each shape; a finding says in how many.")  # fmt: skip
@click.option("--parity", is_flag=True, help="Ask once more without streaming; both answers must say the same.")
@click.option("--recorded", is_flag=True, help="Read the candidate from fixtures/ too; nothing is sent.")
@click.option("--allow-stale", is_flag=True, help="Compare although a request file changed since the baseline.")
@click.option("--report", "reports", multiple=True, type=FILE, metavar="PATH",
              help="Also write the report there; the suffix picks the form.")  # fmt: skip
@click.option("--annotate", is_flag=True, help="Print annotations for GitHub Actions in place of the report.")
@fail_on_option(Severity.NEGOTIABLE)
@config_option
@json_option
@click.pass_context
def gate(
    ctx: click.Context, baseline: str, candidate: str, shapes: tuple[str, ...], attempts: int, samples: int,
    parity: bool, recorded: bool, allow_stale: bool, reports: tuple[Path, ...], annotate: bool, fail_on: Severity,
    config: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Say whether CANDIDATE can take over from BASELINE.

    BASELINE is read from fixtures/, CANDIDATE is called. Exit 0: conforms, 1: differs, 2: usage or configuration,
    3: not measured and nothing differs.

    \b
    harness gate openai candidate
    harness gate openai candidate --shape tool-call --report report.json
    """
    if annotate and as_json:
        raise click.UsageError("--annotate and --json: stdout has room for one of them; use --report PATH.json")
    for path in reports:
        check_suffix(path)
    gated = run.gate(
        project_here(config), baseline, candidate, shapes=shapes, attempts=attempts, recorded=recorded,
        allow_stale=allow_stale, fail_on=fail_on, environ=os.environ, say=progress, samples=samples, parity=parity,
    )  # fmt: skip
    sides = {shape: held.sides for shape, held in gated.bodies.items()}
    for text in run.damages(sides):
        warn(text)
    unwritten: UsageError | None = None
    for path in reports:
        try:
            write_report(path, gated.report, sides)
        except UsageError as exc:
            unwritten = exc
    if as_json:
        say_json(gated.report)
    elif annotate:
        say(gate_annotations(gated.report, fail_on))
    else:
        say_report(gate_text(gated.report, {shape: held.by_side for shape, held in gated.bodies.items()}))
    if unwritten is not None:  # told last, so that what was measured is not lost with it
        raise unwritten
    if gated.report.outcome is not Outcome.CONFORMS:
        complain(run.summary(gated, fail_on))
    ctx.exit(EXIT[gated.report.outcome])
