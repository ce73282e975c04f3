"""harness import"""

from __future__ import annotations

import os
from pathlib import Path

import click

from harness.cli import names
from harness.cli.common import FILE, config_option, dialect_option, json_option, project_here, say, say_json, warn
from harness.errors import suggestion
from harness.runs.importing import import_file
from harness.runs.leaks import values_of
from harness.shapes import SHAPES
from harness.store import providers_of, shapes_of


@click.command("import")
@click.argument("file", type=FILE, metavar="FILE")
@click.option("--provider", metavar="NAME", shell_complete=names.either,
              help="The fixture's provider; by default told from the host.")  # fmt: skip
@click.option("--shape", metavar="SHAPE", shell_complete=names.shapes,
              help="The fixture's shape; by default told from the stream.")  # fmt: skip
@click.option("--entry", type=click.IntRange(min=1), metavar="N", help="The exchange to take; needed among several.")
@click.option("--replace", is_flag=True, help="Replace a fixture that is there.")
@click.option("--mask", "masking", is_flag=True, help="Write * over keys in the body instead of refusing it.")
@dialect_option
@config_option
@json_option
def import_(
    file: Path, provider: str | None, shape: str | None, entry: int | None, replace: bool, masking: bool,
    dialect: str | None, config: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Make a fixture of a stream that another tool recorded.

    FILE is a VCR cassette (vcrpy, pytest-recording, Ruby's VCR), a HAR file, or what `curl -i` wrote, with --raw too.
    The sidecar says what such a file could not keep. Headers and query of the request are never stored.

    \b
    harness import tests/cassettes/test_tools.yaml --provider openai --shape tool-call
    harness import session.har --entry 3
    """
    project = project_here(config)
    known = {*SHAPES, *(one for name in providers_of(project.fixtures) for one in shapes_of(project.fixtures, name)),
             *(one for entry in project.providers.values() for one in entry.shapes)}  # fmt: skip
    near = suggestion(shape, known) if shape is not None and shape not in known else ""
    done = import_file(
        project, file, provider=provider, shape=shape, entry=entry, dialect=dialect, replace=replace,
        masking=masking, values=values_of(os.environ),
    )  # fmt: skip
    if as_json:
        say_json(done)
        return
    say(f"{done.provider}/{done.shape}: {done.path} ({done.dialect})")
    if shape is not None and near:
        warn(f"--shape {shape}: none of the known shapes{near}")
    for lost in done.lost:
        warn(f"{done.path}: not kept: {lost}")
