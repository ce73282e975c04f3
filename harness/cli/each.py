"""Verbs that do the same with each of many files: in several processes, told in the order of the files."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from harness.cli.common import complain, progress_bar, say, say_ready, say_report, warn
from harness.errors import Exit, UsageError
from harness.jsontext import to_json
from harness.runs.jobs import in_order

FEW = 20  # files: told faster than a bar could be read


class Said:
    """What one file gives: the exit code, a warning or failure for stderr, and texts and JSON for stdout."""

    def __init__(self, code: Exit = Exit.CONFORMS, warning: str | None = None, failure: str | None = None) -> None:
        self.code, self.warning, self.failure = code, warning, failure
        self.parts: list[tuple[str, str | bytes]] = []

    def text(self, text: str) -> Said:
        """Add a text; returns itself."""
        self.parts.append(("text", text))
        return self

    def report(self, text: str) -> Said:
        """Add a text with severities in it."""
        self.parts.append(("report", text))
        return self

    def json(self, value: Any) -> Said:
        """Add a line of JSON."""
        self.parts.append(("json", to_json(value).encode()))
        return self

    def write(self) -> None:
        """Write it, where it belongs."""
        if self.failure is not None:
            complain(self.failure)
        if self.warning is not None:
            warn(self.warning)
        for kind, text in self.parts:
            if isinstance(text, bytes):
                say_ready(text)
            elif kind == "report":
                say_report(text)
            else:
                say(text)


def failed(problem: UsageError) -> Said:
    """A file that cannot be looked at; the rest is told all the same."""
    return Said(Exit.USAGE, failure=str(problem))


def tell_each(work: Callable[[Path], Said], files: Callable[[], Iterable[Path]], jobs: int | None) -> Exit:
    """Do the work for each file and write what it gives, in their order; the worst exit code of all.

    `work` is pickled. `files` is called once more to count them where a progress bar is drawn: it lists lazily.
    """
    code = Exit.CONFORMS
    with (
        progress_bar("files", lambda: sum(1 for _ in files()), FEW) as bar,
        closing(in_order(work, files(), jobs, here=_only_here)) as found,
    ):
        for said in found:
            if said.failure or said.warning or sys.stdout.isatty():
                bar.clear()
            said.write()
            code = max(code, said.code)
            bar.step()
    return code


def _only_here(path: Path) -> bool:
    """Whether another process cannot open it: pipes that a shell made, and our own stdin."""
    if path.parts[:2] in (("/", "dev"), ("/", "proc")):
        return True
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):  # opening it says why
        return False
