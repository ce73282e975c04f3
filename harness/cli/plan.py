"""harness plan"""

from __future__ import annotations

import os
from pathlib import Path

import click

from harness.cli import names as known
from harness.cli.common import config_option, json_option, project_here, say, say_json
from harness.reports.plan import plan_text
from harness.runs.planning import plan_run


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="[BASELINE] PROVIDER...", shell_complete=known.either)
@click.option("--shape", "shapes", multiple=True, metavar="SHAPE", shell_complete=known.shapes,
              help="Only this shape; may be given again.")  # fmt: skip
@click.option("--takes", "--samples", "times", type=click.IntRange(1, 50), default=1, show_default=True,
              help="Takes of a recording, or samples of a gate.")  # fmt: skip
@click.option("--parity", is_flag=True, help="With the requests of `gate --parity`.")
@click.option("--record", is_flag=True, help="Plan recordings of all of them, even if the first has fixtures.")
@config_option
@json_option
def plan(
    names: tuple[str, ...], shapes: tuple[str, ...], times: int, parity: bool, record: bool, config: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Show the requests that a gate or a recording would send, and the most they may cost. Nothing is sent.

    If the first of several names has fixtures it is a baseline, and each other one a candidate, as for `harness gate`;
    otherwise all are to be recorded, as by `harness record`. Input tokens are bounded by the bytes of the request,
    output tokens by the limit that the request sets.

    \b
    harness plan openai candidate --samples 3
    harness plan candidate --takes 5
    """
    planned = plan_run(
        project_here(config), names, shapes=shapes, times=times, parity=parity, record=record, environ=os.environ
    )
    if as_json:
        say_json(planned)
    else:
        say(plan_text(planned))
