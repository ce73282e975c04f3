"""harness doctor"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from harness.cli import names as known
from harness.cli.common import config_option, json_option, progress, say, say_json
from harness.runs.diagnosis import BAD, Diagnosis
from harness.runs.doctor import diagnose


@click.command()
@click.argument("names", nargs=-1, metavar="[PROVIDER]...", shell_complete=known.either)
@click.option("--live", is_flag=True, help="Also send one request to each endpoint; it costs a few tokens.")
@config_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, names: tuple[str, ...], live: bool, config: Path | None, as_json: bool) -> None:
    """Say what is missing before a gate can run, and what to do about it: providers.yaml, keys, fixtures, request
    files, git, proxies, plug-ins, and whether each endpoint can be reached.

    Exit 0 if nothing is missing, 2 if something is to be set up, 3 if only an endpoint does not answer.

    \b
    harness doctor
    harness doctor candidate --live
    """
    found = diagnose(config, Path.cwd(), names, os.environ, live=live, say=progress)
    if as_json:
        say_json(found)
    else:
        for line in _lines(found):
            say(line)
    ctx.exit(found.exit_code)


def _lines(found: Diagnosis) -> Iterator[str]:
    owner = None
    for check in found.checks:
        if check.provider != owner:
            owner = check.provider
            yield f"{owner}:" if owner else "project:"
        yield f"  {check.state:<8}{check.check}: {check.says}"
        if check.remedy:
            yield f"          -> {check.remedy}"
    bad = sum(check.state in BAD for check in found.checks)
    yield f"{bad} to mend" if bad else "nothing to mend"
