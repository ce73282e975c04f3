"""What several verbs share: options, and how results and progress are written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from harness.cli import names
from harness.cli.manners import Told, painted, report_colour, stamped, told
from harness.errors import UsageError, suggestion
from harness.findings import Severity
from harness.jsontext import to_json
from harness.reports.text import clean, one_line

if TYPE_CHECKING:
    from harness.config import Project

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:  # generic from click 8.2 on
    _Choice = click.Choice


class Choice(_Choice):
    """One of several words; what is none of them fails with the nearest one's name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The word. Raises click.BadParameter."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as exc:
            self.fail(f"{exc.message.rstrip('.')}{suggestion(str(value), self.choices)}", param, ctx)


class File(click.Path):
    """A path; what lies there and may not be read fails with what to do."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Raises click.BadParameter."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as exc:
            self.fail(f"{exc.message.rstrip('.')}; check its permissions", param, ctx)


FILE = File(path_type=Path)


def dialect_option(command: F) -> F:
    """`--dialect`."""
    return click.option(
        "--dialect", metavar="NAME", shell_complete=names.dialects,
        help="The wire format; overrides sidecar and detection.",
    )(command)  # fmt: skip


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
        "--fail-on", type=Choice([str(severity) for severity in Severity]), default=str(default),
        show_default=True, callback=lambda ctx, param, value: Severity(value),
        help="The least severity that fails.",
    )  # fmt: skip


def jobs_option(command: F) -> F:
    """`--jobs`."""
    return click.option(
        "--jobs", type=click.IntRange(1, 256), metavar="N",
        help="Processes that work; 1: this one alone. By default one per processor, started once half a second of "
        "work was not enough. The output is the same with any number.",
    )(command)  # fmt: skip


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


def advise(text: str) -> None:
    """What to do next, on stdout; with --quiet it is not told."""
    if told() is not Told.QUIET:
        say(text)


def say_report(text: str) -> None:
    """A report, as `say` does; on a terminal with severities in colour and outcomes bold."""
    if report_colour():
        _out(painted(clean(text)), colour=True)
    else:
        say(text)


def say_json(value: Any) -> None:
    """A result as one line of JSON on stdout: in UTF-8, whatever the locale."""
    _out(to_json(value).encode())


def say_ready(text: bytes) -> None:
    """JSON that is text already."""
    _out(text)


def progress(text: str) -> None:
    """How far we are, on stderr, and only on a terminal; with --verbose anywhere, with --quiet nowhere."""
    if told() is Told.VERBOSE or (told() is Told.USUAL and sys.stderr.isatty()):
        try:
            click.echo(stamped(clean(text)), err=True)
        except OSError:  # nobody listens, which changes no result
            drop_output(sys.stderr)


def warn(text: str, where: str = "harness") -> None:
    """What is no failure but should be known, on one line of stderr; with --quiet it is not told."""
    if told() is not Told.QUIET:
        complain(text, where)


class Bar:
    """A progress bar that is not there: what `progress_bar` gives where nobody looks."""

    def step(self, count: int = 1) -> None:
        """So much more is done."""

    def clear(self) -> None:
        """Make room for a line of text; the next step draws the bar again."""


class _Drawn(Bar):
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def step(self, count: int = 1) -> None:
        self._bar.update(count)

    def clear(self) -> None:
        click.echo("\r\x1b[K", nl=False, err=True)


@contextmanager
def progress_bar(label: str, total: Callable[[], int], least: int = 2) -> Iterator[Bar]:
    """A bar on stderr with the time that is left, only on a terminal, and from `least` steps on.

    `total` counts the steps, and is asked only where a bar is drawn. Clear it before anything else is written.
    """
    length = total() if sys.stderr.isatty() and told() is Told.USUAL else 0
    if length < least:
        yield Bar()
        return
    with click.progressbar(length=length, label=label, show_pos=True, file=sys.stderr) as bar:
        yield _Drawn(bar)


def complain(text: str, where: str = "harness") -> None:
    """A failure, on one line of stderr."""
    try:
        click.echo(f"{where}: {one_line(text)}", err=True)
    except OSError:  # nobody listens, or the disk is full, which changes no result
        drop_output(sys.stderr)


def drop_output(stream: TextIO | None = None) -> None:
    """What is still buffered for stdout, or the stream given, goes nowhere: nobody can take it."""
    with suppress(OSError):  # a stream that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def _out(text: str | bytes, *, colour: bool | None = None) -> None:
    try:
        click.echo(text, color=colour)
    except BrokenPipeError:
        raise
    except OSError as exc:
        drop_output()
        raise UsageError(f"standard output cannot be written: {exc.strerror}; check the disk or device") from exc
