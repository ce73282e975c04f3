"""harness check"""

from __future__ import annotations

import os
from pathlib import Path

import click

from harness.answers import FEATURES
from harness.cli import names
from harness.cli.common import (
    FILE,
    complain,
    config_option,
    json_option,
    progress,
    project_here,
    say,
    say_json,
    say_report,
)
from harness.cuts import FAMILIES
from harness.errors import UsageError
from harness.findings import EXIT, Outcome
from harness.reports.check import check_text
from harness.runs.check import check as run
from harness.runs.check import target_of
from harness.runs.check_report import CaseResult, CheckReport
from harness.runs.named import named_targets
from harness.targets import RUN_SECONDS

MOST_JOBS = 8


class TargetCommand(click.Command):
    """Keeps what stands after `--` apart: it is a command, which may have options of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the command away, for ctx.meta, and parse the rest."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta["harness.command"] = tuple(args[at + 1 :]) if at < len(args) else None
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """`[OPTIONS] TARGET | -- COMMAND...`"""
        return ["[OPTIONS]", "TARGET | -- COMMAND..."]


@click.command(cls=TargetCommand)
@click.argument("target", required=False, shell_complete=names.targets)
@click.option("--jsonl", is_flag=True, help="Give the command the body in pieces, so that cuts are tested.")
@click.option("--http", is_flag=True, help="Give the command BASE_URL, a server that answers with the stream.")
@click.option("--payloads", is_flag=True, help="Give the callable decoded JSON payloads in place of bytes.")
@click.option("--claims", type=FILE, metavar="FILE", help="Dialects, features and known failures, YAML or JSON.")
@click.option("--dialect", "dialects", multiple=True, metavar="NAME", shell_complete=names.dialects,
              help="A dialect it reads; may be given again.")  # fmt: skip
@click.option("--feature", "features", multiple=True, metavar="NAME",
              help=f"A feature it has, of {', '.join(FEATURES)}; may be given again.")  # fmt: skip
@click.option("--case", "cases", multiple=True, metavar="NAME",
              help="Only this case, or those of a pattern (02*, openai/*); may be given again.")  # fmt: skip
@click.option("--cut", "cuts", multiple=True, metavar="FAMILY",
              help="Only this family of cuts (whole, bytes, at:12,40 ...); may be given again.")  # fmt: skip
@click.option("--fault", "faults", multiple=True, metavar="FAULT", shell_complete=names.faults,
              help="Break every stream; faults are those of `harness replay --list-faults`.")  # fmt: skip
@click.option("--no-quirks", is_flag=True, help="Leave the quirks out.")
@click.option("--no-fixtures", is_flag=True, help="Leave the fixtures out.")
@click.option("--timeout", type=click.FloatRange(0, 3600, min_open=True), default=RUN_SECONDS, show_default=True,
              help="Seconds a run may take.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 64), default=min(os.cpu_count() or 1, MOST_JOBS), show_default="CPUs",
              help="Runs of a command at once.")  # fmt: skip
@click.option("--all", "every", is_flag=True,
              help="Print every failing case; by default the ten clearest. JSON has all.")  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="List the targets that have names, and exit.")
@config_option
@json_option
@click.pass_context
def check(
    ctx: click.Context, target: str | None, jsonl: bool, http: bool, payloads: bool, claims: Path | None,
    dialects: tuple[str, ...], features: tuple[str, ...], cases: tuple[str, ...], cuts: tuple[str, ...],
    faults: tuple[str, ...], no_quirks: bool, no_fixtures: bool, timeout: float, jobs: int, every: bool,
    listed: bool, config: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Check an accumulator on streams with known faults and on your fixtures, cut in every way.

    TARGET is a Python callable (package.module:callable), a client model (client:keys-by-id) or an installed SDK
    (sdk:openai-python); --list names those. After -- stands a command in any language: body on stdin, one JSON
    object on stdout. The protocol: docs/targets.md.

    Exit 0 if it conforms, 1 if it differs, 2 on usage, 3 if nothing could be checked.

    \b
    harness check mypackage.streams:accumulate
    harness check --jsonl -- node accumulator.mjs --jsonl
    harness check sdk:openai-python --case '01*'
    harness check mypackage.streams:accumulate --fault cut:event=2
    """
    if listed:
        for name, about in named_targets():
            say(f"{name:<36} {about}")
        return
    if jsonl and http:
        raise UsageError("--jsonl and --http are two ways to be given a stream: choose one")
    if no_quirks and no_fixtures:
        raise UsageError("--no-quirks and --no-fixtures leave no case; leave one of them out")
    command: tuple[str, ...] | None = ctx.meta["harness.command"]
    if command == ():
        raise UsageError("no command after --: write the target's there, for instance -- node target.mjs")
    found = target_of(
        target, command or (), mode="jsonl" if jsonl else "http" if http else "stdin", payloads=payloads,
        claims=claims, dialects=dialects, features=features, timeout=timeout,
    )  # fmt: skip
    project = None if no_fixtures else project_here(config)
    fixtures = None if project is None else project.fixtures
    read_as = {} if project is None else {name: one.dialect for name, one in project.providers.items()}
    same = (*(("--config", str(config)) if config is not None else ()),
            *(("--timeout", f"{timeout:g}") if timeout != RUN_SECONDS else ()))  # fmt: skip
    report = run(
        found, fixtures=fixtures if fixtures is not None and fixtures.is_dir() else None, dialects=read_as,
        quirks=not no_quirks, cases=cases, cuts=cuts or FAMILIES, faults=faults, jobs=jobs, progress=told, options=same,
    )  # fmt: skip
    if as_json:
        say_json(report)
    else:
        say_report(check_text(report, every=every))
    if report.outcome is not Outcome.CONFORMS:
        complain(summary(report))
    ctx.exit(EXIT[report.outcome])


def told(result: CaseResult) -> None:
    """A case that is done, for those who wait."""
    progress(f"{result.case}: {result.outcome}")


def summary(report: CheckReport) -> str:
    """One line for a check that does not conform."""
    if report.outcome is Outcome.NOT_MEASURED:
        if not report.cases:
            why = "; ".join(text for text in report.not_observed if text.startswith("fixtures")) or "there is no case"
            return f"{report.target}: nothing could be checked: {why}"
        return f"{report.target}: nothing could be checked: every case was skipped (see --dialect and --feature)"
    failing = [result.case for result in report.cases if not result.outcome.good and result.known is None]
    more = f" and {len(failing) - 3} more" if len(failing) > 3 else ""
    return f"{report.target}: fails {', '.join(failing[:3])}{more}"
