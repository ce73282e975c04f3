"""What several verbs share: options, and how results and progress are written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from harness.findings import Severity
from harness.jsontext import to_json
from harness.reports.text import clean

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)


def dialect_option(command: F) -> F:
    """`--dialect`."""
    return click.option("--dialect", metavar="NAME", help="The wire format; overrides sidecar and detection.")(command)


def json_option(command: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")(command)


def config_option(command: F) -> F:
    """`--config`."""
    return click.option(
        "--config", type=FILE, metavar="PATH", help="providers.yaml; by default the one here or in a parent folder."
    )(command)


def fail_on_option(default: Severity) -> Callable[[F], F]:
    """`--fail-on`, with the verb's own default."""
    return click.option(
        "--fail-on", type=click.Choice([str(severity) for severity in Severity]), default=str(default),
        show_default=True, callback=lambda ctx, param, value: Severity(value),
        help="The least severity that fails.",
    )  # fmt: skip


def say(text: str) -> None:
    """A result, on stdout, without characters that a terminal would obey."""
    click.echo(clean(text))


def say_json(value: Any) -> None:
    """A result as one line of JSON on stdout."""
    click.echo(to_json(value))


def progress(text: str) -> None:
    """How far we are, on stderr, and only on a terminal."""
    if sys.stderr.isatty():
        click.echo(clean(text), err=True)


def complain(text: str) -> None:
    """A warning or failure, on one line of stderr."""
    from harness.reports.text import one_line

    click.echo(f"harness: {one_line(text)}", err=True)
