"""What several verbs share: options, and how results and progress are written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from harness.errors import UsageError
from harness.findings import Severity
from harness.jsontext import to_json
from harness.reports.text import clean, one_line

if TYPE_CHECKING:
    from harness.config import Project

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


def project_here(config: Path | None) -> Project:
    """The project of `--config`, or of the current folder; what lies below that folder is named relative to it."""
    from harness.config import load_project  # PyYAML with it: only for verbs that need a project

    here = Path.cwd()
    project = load_project(config, here)
    return replace(project, root=shown(project.root, here))


def shown(path: Path, here: Path) -> Path:
    """The path as people write it: relative to `here` if it lies below. What a user gave is shown as given."""
    return path.relative_to(here) if path.is_relative_to(here) else path


def say(text: str) -> None:
    """A result, on stdout, without characters that a terminal would obey."""
    _out(clean(text))


def say_json(value: Any) -> None:
    """A result as one line of JSON on stdout: in UTF-8, whatever the locale."""
    _out(to_json(value).encode())


def progress(text: str) -> None:
    """How far we are, on stderr, and only on a terminal."""
    if sys.stderr.isatty():
        click.echo(clean(text), err=True)


def complain(text: str, where: str = "harness") -> None:
    """A warning or failure, on one line of stderr."""
    try:
        click.echo(f"{where}: {one_line(text)}", err=True)
    except OSError:  # nobody listens, or the disk is full, which changes no result
        drop_output(sys.stderr)


def drop_output(stream: TextIO | None = None) -> None:
    """What is still buffered for stdout, or the stream given, goes nowhere: nobody can take it."""
    with suppress(OSError):  # a stream that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def _out(text: str | bytes) -> None:
    try:
        click.echo(text)
    except BrokenPipeError:
        raise
    except OSError as exc:
        drop_output()
        raise UsageError(f"standard output cannot be written: {exc.strerror}; check the disk or device") from exc
