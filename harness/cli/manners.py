"""How much the command line tells, and in which colours: the same words and variables for every verb.

`--quiet` and `--verbose` stand before or after the verb. Quiet leaves results and failures. Verbose tells each request,
attempt and answer as well, with the seconds since the start, on stderr, be it a terminal or not.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    import logging


class Told(IntEnum):
    """How much is told on stderr."""

    QUIET = 0
    USUAL = 1
    VERBOSE = 2


class _Manners:
    """Of this run. No click context holds it, since servers and pools tell of themselves in threads of their own."""

    told = Told.USUAL
    started = 0.0
    handler: logging.Handler | None = None


def begin() -> None:
    """As at the start of a run: nothing was asked for yet."""
    _Manners.told, _Manners.started = Told.USUAL, time.monotonic()
    if _Manners.handler is not None:
        import logging

        logger = logging.getLogger("harness")
        logger.removeHandler(_Manners.handler)
        logger.setLevel(logging.NOTSET)
        _Manners.handler = None


def told() -> Told:
    """What was asked for."""
    return _Manners.told


def stamped(text: str) -> str:
    """The text behind the seconds since the start, if all is to be told."""
    return f"[{seconds():8.3f} s] {text}" if _Manners.told is Told.VERBOSE else text


def seconds() -> float:
    """Seconds since the run began."""
    return time.monotonic() - _Manners.started


def _tell(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """A callback of both options. Raises click.UsageError if both are given."""
    if not value or ctx.resilient_parsing:
        return
    asked = Told.QUIET if param.name == "quiet" else Told.VERBOSE
    if _Manners.told not in (Told.USUAL, asked):
        begin()
        raise click.UsageError("--quiet and --verbose: choose one of them", ctx)
    _Manners.told = asked
    if asked is Told.VERBOSE and _Manners.handler is None:
        _Manners.handler = _listen()


def _listen() -> logging.Handler:
    """Have what the package logs told on stderr. Of other packages nothing: their lines may hold keys."""
    import logging  # late: only for those who ask

    from harness.reports.text import one_line

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with suppress(OSError):  # nobody listens, which changes no result
                click.echo(stamped(one_line(record.getMessage())), err=True)

    handler, logger = Lines(), logging.getLogger("harness")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    return handler


def with_manners(command: click.Command) -> click.Command:
    """The command, with both options; once only."""
    if not any(param.name == "quiet" for param in command.params):
        for short, name, about in (
            ("-q", "quiet", "Only results and failures: no progress, no warnings."),
            ("-v", "verbose", "Tell each request, attempt and answer, with times."),
        ):
            command.params.append(
                click.Option([short, f"--{name}"], is_flag=True, expose_value=False, help=about, callback=_tell)
            )
    return command


# -- colours ------------------------------------------------------------------------------------------------------


def coloured(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the stream gets colours: a terminal does, a pipe or file does not.

    NO_COLOR (not empty) turns them off whatever else is set. FORCE_COLOR and CLICOLOR_FORCE (neither empty nor 0) turn
    them on for pipes, too. CLICOLOR=0 and TERM=dumb turn them off. Source: no-color.org, force-color.org,
    bixense.com/clicolors.
    """
    if environ.get("NO_COLOR"):
        return False
    if any(environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return environ.get("CLICOLOR") != "0" and environ.get("TERM") != "dumb" and stream.isatty()


_STYLES: dict[str, dict[str, Any]] = {
    "fatal": {"fg": "red", "bold": True}, "negotiable": {"fg": "yellow"}, "cosmetic": {}, "outcome": {"bold": True},
}  # fmt: skip
# Lines of reports/text.py, reports/check.py and `rules`, by what they start with or end in. Nothing that a model wrote
# stands there at the start of a line.
_CODE = r"[a-z][a-z0-9]*\.[a-z]"
_PAINTED = re.compile(
    rf"^(?P<before> *(?:ACCEPTED )?)(?P<severity>FATAL|NEGOTIABLE|fatal|negotiable)(?= +{_CODE})"
    rf"|^(?P<rule>{_CODE}[a-z0-9.-]+: )(?P<of_rule>fatal|negotiable)$"
    r"|^(?P<subject>\S[^\n]*: )(?P<outcome>CONFORMS|DIFFERS|NOT-MEASURED)(?=$| \()"
    r"|^(?P<shape>[a-z0-9-]+(?:, [a-z0-9-]+)*: )(?P<mark>ok|DIFFERS|not measured|skipped)(?=$| \()",
    re.MULTILINE,
)


def painted(text: str) -> str:
    """A report's text with severities in colour and outcomes bold."""
    return _PAINTED.sub(_paint, text)


def _paint(match: re.Match[str]) -> str:
    found = {name: value for name, value in match.groupdict().items() if value is not None}
    before = next((found[name] for name in ("before", "rule", "subject", "shape") if name in found), "")
    word = match[0][len(before) :]
    severity = found.get("severity", found.get("of_rule"))
    return before + click.style(word, **_STYLES[severity.lower() if severity else "outcome"])


def report_colour() -> bool:
    """Whether reports on stdout get colours."""
    return coloured(sys.stdout)
