"""harness replay"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from harness.cli import names
from harness.cli.common import FILE, Choice, config_option, progress, project_here, say, warn
from harness.data import data_path
from harness.errors import UsageError
from harness.faults import FAULTS
from harness.replay import Exchange, Replay
from harness.runs.dialects import know
from harness.settings import suggestion


def _pieces(ctx: click.Context, param: click.Parameter, value: str | None) -> int | Literal["events"] | None:
    """A number of bytes, or `events`."""
    if value is None:
        return None
    if value == "events":
        return "events"
    if not (value.isascii() and value.isdigit() and 0 < int(value) < 10**9):
        raise click.BadParameter(f"{value!r} is neither a number of bytes nor events")
    return int(value)


@click.command()
@click.argument("folder", required=False, type=FILE, metavar="[DIR]")
@click.option("--shipped", "shipped", multiple=True, metavar="NAME",
              help="Serve recordings that come with the package (vllm, transformers); may be given again.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; by default any free one.")
@click.option("--fault", "faults", multiple=True, metavar="FAULT", shell_complete=names.faults,
              help="Break the streams; see --list-faults.")  # fmt: skip
@click.option("--pace", type=Choice(["recorded", "fast"]), help="Wait as the recording did, or (default) not.")
@click.option("--speed", type=click.FloatRange(0, 1000, min_open=True), metavar="FACTOR",
              help="The recorded pace, so many times as fast.")  # fmt: skip
@click.option("--pieces", callback=_pieces, metavar="BYTES|events", help="Cut the bodies anew.")
@click.option("--strict", is_flag=True, help="Answer only what was recorded; anything else is a 404 that says what is.")
@click.option("--journal", type=FILE, metavar="PATH", help="Add a line of JSON for each exchange to this file.")
@click.option("--list-faults", is_flag=True, help="List the faults and exit.")
@config_option
def replay(
    folder: Path | None, shipped: tuple[str, ...], port: int, faults: tuple[str, ...],
    pace: Literal["recorded", "fast"] | None, speed: float | None, pieces: int | Literal["events"] | None, strict: bool,
    journal: Path | None, list_faults: bool, config: Path | None,
) -> None:  # fmt: skip
    """Serve fixtures on this machine, byte for byte: all of fixtures/, one provider's folder, or one file.

    Point a client's base URL at it. Of several providers, `model` names one, or the base URL: /<provider>/v1. Runs
    until Ctrl-C or SIGTERM.

    \b
    harness replay fixtures/openai --port 8081
    harness replay fixtures/openai --fault drop-marker
    harness replay --shipped vllm --port 8081
    harness replay --pace recorded --speed 10
    """
    if list_faults:
        for kind in FAULTS.values():
            say(f"{kind.usage:<32} {kind.about}")
        say("Every fault takes times= as well: only so many first requests for a fixture meet it.")
        return
    if speed is not None and pace == "fast":
        raise UsageError("--speed is a factor on the recorded pace; leave --pace fast out")
    sources = [shipped_fixtures(name) for name in shipped]
    if folder is not None or not sources:
        sources.append(folder or project_here(config).fixtures)

    def watch(exchange: Exchange) -> None:
        progress(f"{exchange.method} {exchange.path}: {exchange.provider}/{exchange.shape} {exchange.outcome}")

    server = Replay(
        *sources, port=port, pace=pace or ("fast" if speed is None else "recorded"), speed=speed or 1.0, pieces=pieces,
        faults=faults, strict=strict, watch=watch, journal_at=journal,
    )  # fmt: skip
    know(recording.dialect for shapes in server.offered.values() for recording in shapes.values())
    for warning in server.warnings:
        warn(warning)
    say(f"READY {server.base_url}")  # clients may connect from now on: the socket listens
    server.serve()


def shipped_fixtures(name: str) -> Path:
    """The folder of recordings of that name that came with the package. Raises UsageError, naming those there are."""
    root = data_path("fixtures")
    known = sorted(path.name for path in root.iterdir() if path.is_dir())
    if name not in known:
        near = suggestion(name, known) or ";"
        raise UsageError(f"--shipped {name}: no recordings of that name{near} there are {', '.join(known)}")
    return root / name
