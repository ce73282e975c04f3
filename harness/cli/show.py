"""harness show"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import msgspec

from harness.cli.common import FILE, Choice, dialect_option, jobs_option, json_option
from harness.cli.each import Said, failed, tell_each
from harness.errors import Exit, UsageError
from harness.reports import text
from harness.reports.timing import timing_lines
from harness.runs.files import Shown, expand, message_json, open_file
from harness.structure import signature
from harness.timing import measure

VIEWS = ("events", "message", "structure", "timeline", "bytes")


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@click.option("--as", "view", type=Choice(VIEWS), default="message", show_default=True, help="What to show.")
@dialect_option
@jobs_option
@json_option
@click.pass_context
def show(
    ctx: click.Context, files: tuple[Path, ...], view: str, dialect: str | None, jobs: int | None, as_json: bool
) -> None:  # fmt: skip
    """Show what recorded streams say.

    Folders are searched for .sse files (but no hidden folders in them). With --json, one object a line per file, in
    order. A file that cannot be read goes to stderr, the rest is shown, and the exit code is 2.

    \b
    harness show fixtures/openai/tool-call.sse --as events
    harness show answer.sse --dialect chat --json
    """
    work = partial(_show, view=view, dialect=dialect, as_json=as_json)
    ctx.exit(tell_each(work, lambda: expand(files), jobs))


def _show(path: Path, *, view: str, dialect: str | None, as_json: bool) -> Said:
    try:
        shown = open_file(path, dialect, keep_events=view in ("events", "timeline"), held=False)
    except UsageError as exc:
        return failed(exc)
    said = Said(Exit.CONFORMS, shown.loaded.warning)
    if as_json:
        return said.json(as_object(path, shown, view))
    return said.text(f"{path} ({shown.dialect}, by {shown.known_by})").text(as_text(shown, view))


def as_object(path: Path, shown: Shown, view: str) -> object:
    """The JSON of one file in one view."""
    reading, recording = shown.reading, shown.loaded.recording
    if view == "message":
        return message_json(path, reading.message)
    if view == "events":
        return {"file": str(path), "dialect": shown.dialect, "events": shown.events, "notes": reading.message.notes}
    if view == "structure":
        structure = reading.structure
        return {"file": str(path), "dialect": shown.dialect, "wire": structure.wire, "behaviour": structure.behaviour}
    if view == "timeline":
        places = [{"kind": msgspec.to_builtins(e)["kind"], "at": e.at, "length": e.length} for e in shown.events]
        timing = measure(recording, shown.events)
        return {
            "file": str(path), "reads": recording.reads, "end": recording.end, "events": places, "timing": timing,
        }  # fmt: skip
    lines = [line.decode("latin-1") for line in bytes(recording.body).splitlines(keepends=True)]
    return {"file": str(path), "encoding": "latin-1", "lines": lines}


def as_text(shown: Shown, view: str) -> str:
    """The text of one file in one view."""
    reading, recording = shown.reading, shown.loaded.recording
    if view == "message":
        return text.message_text(reading.message)
    if view == "events":
        lines = [text.event_line(event) for event in shown.events]
        return "\n".join([*lines, *(text.note_line(note) for note in reading.message.notes)])
    if view == "structure":
        return "\n".join(signature(reading.structure))
    if view == "timeline":
        timing = measure(recording, shown.events)
        lines = [*text.timeline_lines(recording, shown.events), *(timing_lines(timing) if timing is not None else ())]
        return "\n".join(lines)
    return "\n".join(text.bytes_lines(bytes(recording.body)))
