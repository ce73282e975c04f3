"""harness record"""

from __future__ import annotations

import os
from pathlib import Path

import click

from harness.cli import names
from harness.cli.common import complain, config_option, json_option, progress, project_here, say, say_json
from harness.errors import Exit
from harness.runs.recording import record_provider


@click.command()
@click.argument("providers", nargs=-1, required=True, metavar="PROVIDER...", shell_complete=names.providers)
@click.option("--shape", "shapes", multiple=True, metavar="SHAPE", shell_complete=names.shapes,
              help="Only this shape; may be given again.")  # fmt: skip
@click.option("--takes", type=click.IntRange(1, 50), default=1, show_default=True, help="Takes of each shape.")
@click.option("--replace", is_flag=True, help="Replace a fixture even if its structure differs.")
@click.option("--read-rate", type=click.IntRange(1, 10**9), metavar="BYTES",
              help="Read so many bytes a second, to see what the server does to a slow reader.")  # fmt: skip
@config_option
@json_option
@click.pass_context
def record(
    ctx: click.Context, providers: tuple[str, ...], shapes: tuple[str, ...], takes: int, replace: bool,
    read_rate: int | None, config: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Record an endpoint's streams as fixtures: the four canonical shapes, or those named.

    A take that is not good never replaces a fixture; its bytes go to .harness/failed/. Exit 0 if all are good, else 3.

    \b
    harness record openai
    harness record openai --shape text --takes 3
    harness record openai --shape text --read-rate 500
    """
    project = project_here(config)
    for name in providers:
        project.provider(name)
    bad = []
    for name in providers:
        for result in record_provider(
            project, name, shapes=shapes, takes=takes, replace=replace, environ=os.environ, say=progress,
            read_rate=read_rate,
        ):  # fmt: skip
            if as_json:
                say_json(result)
            elif result.good:
                say(f"{name}/{result.shape}: {result.path}")
            else:
                say(f"{name}/{result.shape}: not recorded")  # why is told of all at the end, once
            if not result.good:
                bad.append(result)
    if bad:
        reasons: dict[str, list[str]] = {}  # takes by what became of them: a server that is down is told of once
        for result in bad:
            reason = f"{result.reason} (bytes in {result.path})" if result.path else result.reason
            reasons.setdefault(reason, []).append(f"{result.provider}/{result.shape}")
        told = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
        complain(f"not recorded: {told}")
        ctx.exit(Exit.NOT_MEASURED)
