"""harness replay"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from harness.cli.common import FILE, complain, config_option, progress, project_here, say
from harness.faults import FAULTS
from harness.replay import Exchange, Replay


@click.command()
@click.argument("folder", required=False, type=FILE, metavar="[DIR]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; by default any free one.")
@click.option("--fault", "faults", multiple=True, metavar="FAULT", help="Break the streams; see --list-faults.")
@click.option("--pace", type=click.Choice(["recorded", "fast"]), default="fast", show_default=True,
              help="Wait as the recording did, or not at all.")  # fmt: skip
@click.option("--list-faults", is_flag=True, help="List the faults and exit.")
@config_option
def replay(
    folder: Path | None, port: int, faults: tuple[str, ...], pace: str, list_faults: bool, config: Path | None
) -> None:  # fmt: skip
    """Serve fixtures on this machine, byte for byte: all of fixtures/, one provider's folder, or one file.

    Point a client's base URL at it. Runs until Ctrl-C or SIGTERM.

    \b
    harness replay fixtures/openai --port 8081
    harness replay fixtures/openai --fault drop-marker
    """
    if list_faults:
        for kind in FAULTS.values():
            say(f"{kind.usage:<32} {kind.about}")
        return
    source = folder or project_here(config).fixtures

    def watch(exchange: Exchange) -> None:
        progress(f"{exchange.method} {exchange.path}: {exchange.provider}/{exchange.shape} {exchange.outcome}")

    wait: Literal["recorded", "fast"] = "recorded" if pace == "recorded" else "fast"
    server = Replay(source, port=port, pace=wait, faults=faults, watch=watch)
    for warning in server.warnings:
        complain(warning)
    say(f"READY {server.base_url}")  # clients may connect from now on: the socket listens
    server.serve()
