"""Measure and tell: `python -m benchmarks [--quick] [--peers] [--write]`.

`--quick` runs everything once over short streams, to show that it runs. `--peers` also measures LangChain and
pydantic-ai, in virtual environments made below --work, and Node's eventsource-parser, installed there with npm.
`--write` puts the table into docs/performance.md. Nothing fails for being slow. A part that fails, gives a message that
is not R's or is not done in time is a row that says so; the rest goes on, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from benchmarks import costs, folders, ours
from benchmarks.peers import PEERS
from benchmarks.reference import reference
from benchmarks.streams import FAMILIES, cut, stream
from benchmarks.timing import child, seconds, told, within

ROOT = costs.ROOT
PAGE = ROOT / "docs" / "performance.md"
START, END = "<!-- table: python -m benchmarks --peers --write -->", "<!-- /table -->"
FASTER = {"openai": 40, "anthropic": 22, "langchain": 40, "pydantic-ai": 35}  # times, at least
NODE = "eventsource-parser"
LINEAR = {("openai", "chat_text"), *(("httpx-sse + json", family) for family in FAMILIES)}  # they get all of it
FEW = 3_000  # deltas for the others
INSTALLING = 900.0  # seconds: packages of a peer
PART = 1_200.0  # seconds: a part of the run, installing included


class Row(NamedTuple):
    """One line of the table. `most` and `least` are the target, None where there is none; `failed` says why there is
    no value."""

    what: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None
    failed: str = ""

    def cells(self) -> list[str]:
        if self.failed:
            return [self.what, self.failed, "", "failed"]
        target = "" if self.most is None else f"≤ {self.most:g}"
        target = target if self.least is None else f"≥ {self.least:g}"
        missed = (self.most is not None and self.value > self.most) or (
            self.least is not None and self.value < self.least
        )
        unit = "" if not self.unit else f" {self.unit}"
        return [self.what, f"{self.value:.3g}{unit}", target, "missed" if missed else "met" if target else ""]


Part = tuple[str, Callable[[], Iterable[Row]]]  # what is measured, and the rows it gives


def reader(count: int) -> Iterator[Part]:
    for family in FAMILIES:
        for pieces, named in (("4k", "4 KiB pieces"), ("event", "one event a piece")):
            parse, reduce = (1.3, 2.7) if pieces == "4k" else (1.9, 3.2)
            given = (family, count, pieces)
            yield _one(f"SSE parse, {family}, {named}", "× R", partial(ours.parse_ratio, *given), parse)
            yield _one(f"full reduce, {family}, {named}", "× R", partial(ours.reduce_ratio, *given), reduce)
        yield _one(f"reduce with structure, {family}, whole", "× R", partial(ours.structure_ratio, family, count))


def growth(quick: bool) -> Iterator[Part]:
    few, many = (1_000, 4_000) if quick else (10_000, 100_000)
    for family in FAMILIES:
        yield _one(f"CPU per event, {many} chunks over {few}, {family}", "×", partial(ours.growth, family, few, many),
                   1.3)  # fmt: skip
        yield _one(f"memory per event kept, {family}", "kB", partial(ours.kilobytes_kept, family, few), 0.7)
    small, large = (1, 4) if quick else (4, 16)
    yield _one(f"one event of {large} MB over one of {small} MB", "×", partial(ours.huge_growth, small, large), 6)
    yield _one("full reduce, chat_text, here and now", "MB/s", partial(ours.megabytes_a_second, "chat_text", few))


def around(count: int, quick: bool) -> Iterator[Part]:
    runs = 1 if quick else 5
    for family in FAMILIES:
        yield f"align {count} events with one more, {family}", partial(_aligned, family, count)
    yield _one("compare two structures", "ms", partial(costs.compare_milliseconds, "chat_text"))
    yield _one("record, over a bare httpx loop", "×", partial(costs.record_ratio, "chat_text", count, runs), 1.15)
    if installed("httpx2"):
        yield _one("record with httpx2, over a bare httpx loop", "×",
                   partial(costs.record_ratio, "chat_text", count, runs, "httpx2"))  # fmt: skip
    yield "recorder, error of a read's time", partial(_stamps, 20 if quick else 400)
    yield _one("replay in one-event pieces", "× R", partial(costs.replay_ratio, "chat_text", count, runs))
    yield "pytest plugin", partial(_plugin, quick)
    size, megabytes = (60, 20) if quick else (10_000, 200)
    yield f"`harness lint` of {size} small files", partial(_lint_many, size, 1 if quick else 3)
    yield _one(f"memory of `harness lint`, {megabytes} MB over a small file", "MB",
               partial(folders.lint_peak_megabytes, megabytes), 64)  # fmt: skip
    yield "the command's start", partial(_starts, 1 if quick else 11)


def _one(what: str, unit: str, measured: Callable[[], float], most: float | None = None) -> Part:
    """A part of one row."""
    return what, lambda: [Row(what, measured(), unit, most)]


def _aligned(family: str, count: int) -> Iterator[Row]:
    cost, found = costs.align_seconds(family, count)
    yield Row(f"align {count} events with one more, {family}: {found} differences", cost, "s", 0.15)


def _stamps(count: int) -> Iterator[Row]:
    median, most = costs.stamp_error_milliseconds(count, 0.005)
    yield Row("recorder, error of a read's time, median", median, "ms")
    yield Row("recorder, error of a read's time, p99", most, "ms")


def _plugin(quick: bool) -> Iterator[Row]:
    idle, used = costs.plugin_milliseconds(*((20, 20, 1) if quick else (2000, 200, 7)))
    yield Row("pytest plugin, a test that does not use it", idle, "ms", 0.5)
    yield Row("pytest fixture `recorded`, over opening the file", used, "ms", 0.5)


def _lint_many(count: int, runs: int) -> Iterator[Row]:
    found = folders.lint_many(count, runs)
    yield Row(f"`harness lint`, {count} small files, per second of CPU", found["files a second"], "files")
    yield Row("the same by two processes, efficiency t1/(2 t2)", found["efficiency"], "")
    yield Row("the same by CPU time, c1/c2", found["efficiency by CPU time"], "")


def _starts(runs: int) -> Iterator[Row]:
    for name, cost in costs.start_seconds(runs).items():
        yield Row(f"`{name}`, over a bare interpreter", cost, "s", 0.10 if name == "harness --help" else None)


def others(count: int, work: Path, *, with_venvs: bool) -> Iterator[Part]:
    """Peers: times R, and how many times faster this is."""
    for name, (_, families, package, needs) in PEERS.items():
        if needs and not with_venvs:
            continue
        if not needs and not installed(package):
            say(f"{name}: not installed here, left out (pip install -e '.[sdk]')")
            continue
        for family in families:
            yield f"{name}, {family}", partial(peer, name, family, deltas(name, family, count), work, needs)
    if with_venvs and shutil.which("npm") is None:
        say(f"{NODE}: no npm here, left out")
    elif with_venvs:
        for family in FAMILIES:
            yield f"{NODE}, {family}", partial(node, family, count, work)


def deltas(name: str, family: str, count: int) -> int:
    """How long the stream is that this peer gets. Most take time that grows with its square: with each delta they copy
    what came before, or parse all arguments so far anew. That is seconds at 3,000 deltas and hours at 20,000.
    """
    return count if (name, family) in LINEAR else min(count, FEW)


def peer(name: str, family: str, count: int, work: Path, needs: tuple[str, ...]) -> Iterator[Row]:
    python = venv(work / name, needs) if needs else Path(sys.executable)
    command = [str(python), "-m", "benchmarks.peers", name, family, str(count)]
    found = told(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    if not found["same"]:
        raise ValueError("its message is not R's; fix benchmarks/peers.py")
    yield from peer_rows(name, family, count, found["ratio"])


def peer_rows(name: str, family: str, count: int, found: float) -> Iterator[Row]:
    mine = ours.reduce_ratio(family, count, "4k")
    short = f" ({count} deltas)" if count == FEW else ""
    yield Row(f"{name}, {family}{short}", found, "× R")
    # Its target is for the family that the accumulator is made for, where the stream is text.
    least = FASTER.get(name) if family in ("chat_text", "messages") else None
    yield Row(f"harness over {name}, {family}{short}", found / mine, "× faster", least=least)


def node(family: str, count: int, work: Path) -> Iterator[Row]:
    """In its own process, so not in turn with R: its runs and R's follow one another."""
    folder = work / "node"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "benchmarks" / "peers.mjs", folder)
    if not (folder / "node_modules" / NODE).is_dir():
        child(["npm", "install", "--silent", "--no-fund", "--no-audit", f"{NODE}@3"], cwd=folder, longest=INSTALLING)
    (folder / "body.sse").write_bytes(stream(family, count))
    held = cut(stream(family, count), "4k")
    due = reference(held, family)
    size = len(due["text"]) + sum(len(passed) for _, passed in due["tools"])
    floors, found = [], []
    for _ in range(3):
        row = told(["node", "peers.mjs", "body.sse", family, "5"], cwd=folder)
        if row["characters"] != size:
            raise ValueError(f"{row['characters']} characters, not {size}; fix peers.mjs")
        found.append(row["seconds"])
        floors.append(seconds(lambda: reference(held, family), runs=3))
    yield from peer_rows(NODE, family, count, statistics.median(found) / statistics.median(floors))


def venv(folder: Path, needs: tuple[str, ...]) -> Path:
    """The interpreter of a virtual environment that has the packages; made if it is not there."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (folder / "complete").is_file():
        say(f"{folder}: installing {', '.join(needs)}")
        child([sys.executable, "-m", "venv", "--clear", str(folder)], longest=INSTALLING)
        child([str(python), "-m", "pip", "install", "-q", "--no-input", "msgspec", *needs], longest=INSTALLING)
        (folder / "complete").touch()
    return python


def installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def table(rows: list[Row], count: int) -> str:
    known = [f"{name} {version(name)}" for name in ("msgspec", "httpx", "pytest", "httpx-sse", "openai", "anthropic")
             if installed(name)]  # fmt: skip
    known += [need.replace("==", " ") for *_, needs in PEERS.values() for need in needs[:1]]
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}; CPython {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} CPUs; {', '.join(known)}. Streams of {count} deltas.",
        "",
        "| what | measured | target | |",
        "| --- | ---: | ---: | --- |",
    ]
    return "\n".join([*lines, *("| " + " | ".join(row.cells()) + " |" for row in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short streams, one run each: does it run?")
    parser.add_argument("--peers", action="store_true", help="also what needs environments of its own")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--count", type=int, default=20_000, help="deltas a stream (default: 20000)")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "benchmarks", help="folder for environments")
    given = parser.parse_args()
    if given.quick and given.write:
        parser.error("--quick measures nothing worth writing down; leave one out")
    count = 300 if given.quick else given.count
    parts = [
        *reader(count), *growth(given.quick), *around(count, given.quick),
        *others(count, given.work, with_venvs=given.peers),
    ]  # fmt: skip
    rows: list[Row] = []
    for what, measured in parts:
        for row in attempted(what, measured):
            rows.append(row)
            say("  ".join(row.cells()))
    found = table(rows, count)
    sys.stdout.write(found + "\n")
    if given.write:
        page = PAGE.read_text("utf-8")
        before, after = page.partition(START)[0], page.partition(END)[2]
        PAGE.write_text(f"{before}{START}\n\n{found}\n\n{END}{after}", "utf-8", newline="\n")
    if any(row.failed for row in rows):
        sys.exit(1)


def attempted(what: str, measured: Callable[[], Iterable[Row]]) -> Iterator[Row]:
    """The rows of a part; one that says why, where it fails or takes too long."""
    try:
        with within(PART):
            rows = list(measured())
    except (Exception, SystemExit) as exc:
        if isinstance(exc, subprocess.CalledProcessError):
            last = (exc.stderr or exc.stdout or "").strip().splitlines()[-1:]
            why = f"exit {exc.returncode}: {' '.join(last)}"
        else:
            why = "took too long" if isinstance(exc, TimeoutError | subprocess.TimeoutExpired) else f"{exc!r}"
        rows = [Row(what, 0, "", failed=why.replace("|", "/")[:160])]
    yield from rows


if __name__ == "__main__":
    main()
