"""harness init"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from harness.cli import names as known
from harness.cli.common import advise, say
from harness.runs.starting import BASELINE, CANDIDATE, Endpoint, Started, start


@click.command()
@click.option("--baseline", metavar="PRESET", shell_complete=known.presets,
              help=f"What the application runs on today. [default: {BASELINE}]")
@click.option("--candidate", metavar="PRESET", shell_complete=known.presets,
              help=f"What is to take over. [default: {CANDIDATE}]")
@click.option("--provider", "providers", multiple=True, metavar="PRESET", shell_complete=known.presets,
              help="A further endpoint; may be given again. Without the two above, the first is the baseline and the "
              "second the candidate; one alone is both.")
@click.option("--dialect", "dialects", multiple=True, metavar="NAME", shell_complete=known.dialects,
              help="Further request files to write; may be given again.")  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="List the presets, and write nothing.")
def init(
    baseline: str | None, candidate: str | None, providers: tuple[str, ...], dialects: tuple[str, ...], listing: bool
) -> None:  # fmt: skip
    """Set up a project in this folder: a commented providers.yaml, the request files, a workflow for GitHub, a test
    and the lines that git needs. What is there already is kept.

    \b
    harness init
    harness init --list
    harness init --baseline openai --candidate groq
    """
    if listing:
        for line in _listed():
            say(line)
        return
    if providers and baseline is None and candidate is None:
        baseline, candidate = providers[0], providers[min(1, len(providers) - 1)]
    here = Path.cwd()
    done = start(here, baseline or BASELINE, candidate or CANDIDATE, providers, dialects)
    for file in done.files:
        why = f" ({file.why})" if file.why else ""
        say(f"{file.state:<5} {file.path.relative_to(here)}{why}")
    for line in _to_add(done):
        say(line)
    for line in _next(done):
        advise(line)


def _listed() -> Iterator[str]:
    from harness.presets import presets, variables

    rows = [
        (name, one.dialect, next((v.name for v in variables(one) if v.is_key), "-"), one.title)
        for name, one in presets().items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in [("preset", "dialect", "key", "endpoint"), *rows]:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])


def _endpoints(done: Started) -> list[Endpoint]:
    return list({one.name: one for one in (done.baseline, done.candidate, *done.others)}.values())


def _to_add(done: Started) -> Iterator[str]:
    """The entries that a providers.yaml which was there before does not have."""
    missing = [one.missing for one in _endpoints(done) if one.missing]
    if missing:
        yield from ("", "providers.yaml was there before; add to it, under `providers:`:", *missing)


def _next(done: Started) -> Iterator[str]:
    """What is to be done: variables to set, then the way to a gate."""
    yield ""
    yield "Next:"
    told: set[str] = set()
    for one in _endpoints(done):
        for variable in one.variables:
            if variable.name in told:
                continue
            told.add(variable.name)
            default = f", else {variable.default}" if variable.default is not None else ""
            yield f"  export {variable.name}=...   # {one.name}{default}"
    yield "  harness doctor"
    yield f"  harness record {done.baseline.name}"
    yield f"  harness gate {done.baseline.name} {done.candidate.name} --report report.json"
    yield '  harness accept report.json --rule usage.position --reason "..." --write'
