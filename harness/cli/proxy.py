"""harness proxy"""

from __future__ import annotations

import os
from pathlib import Path

import click

from harness.cli import names
from harness.cli.common import complain, config_option, json_option, progress, project_here, say, say_json
from harness.proxy import Forwarded
from harness.runs.capturing import proxy_for


@click.command()
@click.argument("provider", shell_complete=names.providers)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; by default any free one.")
@click.option("--shape", metavar="NAME", default="", shell_complete=names.shapes,
              help="Name all streams so; by default after what they look like.")  # fmt: skip
@config_option
@json_option
def proxy(provider: str, port: int, shape: str, config: Path | None, as_json: bool) -> None:
    """Stand between an application and PROVIDER, and keep each stream that passes as a fixture.

    Point the application's base URL at what READY says. What passes is not changed and not held back; the provider's
    key takes the place of the application's. A stream becomes fixtures/PROVIDER/SHAPE.sse, or a further take of that
    shape; one that breaks is set aside in .harness/failed/. Runs until Ctrl-C or SIGTERM.

    \b
    harness proxy openai --port 8081
    """
    server = proxy_for(
        project_here(config), provider, os.environ, port=port, shape=shape,
        watch=lambda exchange: told(provider, exchange, as_json),
    )  # fmt: skip
    say(f"READY {server.base_url}")  # applications may connect from now on: the socket listens
    server.serve()


def told(provider: str, exchange: Forwarded, as_json: bool) -> None:
    """One exchange: a fixture is a result; what was not kept, and why, is a warning; all else is how far we are."""
    if as_json:
        say_json(exchange)
    elif exchange.fixture is not None and not exchange.reason:
        say(f"{provider}/{exchange.shape}: {exchange.fixture}")
    if exchange.reason:
        at = f" ({exchange.fixture})" if exchange.fixture else ""
        complain(f"{exchange.method} {exchange.path}: {exchange.reason}{at}", "harness proxy")
    else:
        progress(f"{exchange.method} {exchange.path}: {exchange.status} {exchange.outcome}")
