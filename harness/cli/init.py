"""harness init"""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import say
from harness.runs.starting import start


@click.command()
@click.option("--dialect", "dialects", multiple=True, default=("chat",), show_default=True, metavar="NAME",
              help="Whose request files to write; may be given again.")  # fmt: skip
def init(dialects: tuple[str, ...]) -> None:
    """Set up a project in this folder: a commented providers.yaml and the request files. Nothing is overwritten.

    \b
    harness init
    harness init --dialect chat --dialect anthropic
    """
    for written in start(Path.cwd(), dialects):
        say(f"{'wrote' if written.new else 'kept '} {written.path.relative_to(Path.cwd())}")
    say("Next: export OPENAI_API_KEY, then `harness record openai` and `harness gate openai candidate`.")
