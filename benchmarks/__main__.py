"""Measure and tell: `python -m benchmarks [--quick] [--peers] [--write]`.

`--quick` runs everything once over short streams, to show that it runs. `--peers` also measures LangChain and
pydantic-ai, in virtual environments made below --work, and Node's eventsource-parser, installed there with npm.
`--write` puts the table into docs/performance.md. Nothing fails for being slow; a message that is not R's does.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from benchmarks import costs, ours
from benchmarks.peers import PEERS
from benchmarks.reference import reference
from benchmarks.streams import FAMILIES, cut, stream
from benchmarks.timing import seconds, told

ROOT = costs.ROOT
PAGE = ROOT / "docs" / "performance.md"
START, END = "<!-- table: python -m benchmarks --peers --write -->", "<!-- /table -->"
FASTER = {"openai": 40, "anthropic": 22, "langchain": 40, "pydantic-ai": 35}  # times, at least
NODE = "eventsource-parser"


class Row(NamedTuple):
    """One line of the table. `most` and `least` are the target, None where there is none."""

    what: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None

    def cells(self) -> list[str]:
        target = "" if self.most is None else f"≤ {self.most:g}"
        target = target if self.least is None else f"≥ {self.least:g}"
        missed = (self.most is not None and self.value > self.most) or (
            self.least is not None and self.value < self.least
        )
        unit = "" if not self.unit else f" {self.unit}"
        return [self.what, f"{self.value:.3g}{unit}", target, "missed" if missed else "met" if target else ""]


def reader(count: int) -> Iterator[Row]:
    for family in FAMILIES:
        for pieces, named in (("4k", "4 KiB pieces"), ("event", "one event a piece")):
            most = (1.3, 2.7) if pieces == "4k" else (1.9, 3.2)
            yield Row(f"SSE parse, {family}, {named}", ours.parse_ratio(family, count, pieces), "× R", most[0])
            yield Row(f"full reduce, {family}, {named}", ours.reduce_ratio(family, count, pieces), "× R", most[1])
        yield Row(f"reduce with structure, {family}, whole", ours.structure_ratio(family, count), "× R")


def growth(quick: bool) -> Iterator[Row]:
    few, many = (1_000, 4_000) if quick else (10_000, 100_000)
    for family in FAMILIES:
        yield Row(f"CPU per event, {many} chunks over {few}, {family}", ours.growth(family, few, many), "×", 1.3)
        yield Row(f"memory per event kept, {family}", ours.kilobytes_kept(family, few), "kB", 0.7)
    small, large = (1, 4) if quick else (4, 16)
    yield Row(f"one event of {large} MB over one of {small} MB", ours.huge_growth(small, large), "×", 6)
    yield Row("full reduce, chat_text, here and now", ours.megabytes_a_second("chat_text", few), "MB/s")


def around(count: int, quick: bool) -> Iterator[Row]:
    runs = 1 if quick else 5
    for family in FAMILIES:
        cost, found = costs.align_seconds(family, count)
        yield Row(f"align {count} events with one more, {family}: {found} differences", cost, "s", 0.15)
    yield Row("compare two structures", costs.compare_milliseconds("chat_text"), "ms")
    yield Row("record, over a bare httpx loop", costs.record_ratio("chat_text", count, runs), "×", 1.15)
    yield Row("replay in one-event pieces", costs.replay_ratio("chat_text", count, runs), "× R")
    idle, used = costs.plugin_milliseconds(20 if quick else 200, 1 if quick else 3)
    yield Row("pytest plugin, a test that does not use it", idle, "ms", 0.5)
    yield Row("pytest fixture `recorded`, over opening the file", used, "ms", 0.5)
    for name, cost in costs.start_seconds(1 if quick else 11).items():
        yield Row(f"`{name}`, over a bare interpreter", cost, "s", 0.10 if name == "harness --help" else None)


def others(count: int, work: Path, *, with_venvs: bool) -> Iterator[Row]:
    """Peers: times R, and how many times faster this is."""
    for name, (_, families, package, needs) in PEERS.items():
        if needs and not with_venvs:
            continue
        python = venv(work / name, needs) if needs else Path(sys.executable)
        if not needs and not installed(package):
            say(f"{name}: not installed here, left out (pip install -e '.[sdk]')")
            continue
        for family in families:
            command = [str(python), "-m", "benchmarks.peers", name, family, str(count)]
            found = told(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
            if not found["same"]:
                raise SystemExit(f"{name}, {family}: its message is not R's; fix benchmarks/peers.py")
            yield from peer_rows(name, family, count, found["ratio"])
    if with_venvs:
        yield from node(count, work)


def peer_rows(name: str, family: str, count: int, found: float) -> Iterator[Row]:
    mine = ours.reduce_ratio(family, count, "4k")
    yield Row(f"{name}, {family}", found, "× R")
    # Its target is for the family that the accumulator is made for, where the stream is text.
    least = FASTER.get(name) if family in ("chat_text", "messages") else None
    yield Row(f"harness over {name}, {family}", found / mine, "× faster", least=least)


def node(count: int, work: Path) -> Iterator[Row]:
    """In its own process, so not in turn with R: its runs and R's follow one another."""
    if shutil.which("npm") is None:
        say(f"{NODE}: no npm here, left out")
        return
    folder = work / "node"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "benchmarks" / "peers.mjs", folder)
    if not (folder / "node_modules" / NODE).is_dir():
        subprocess.run(["npm", "install", "--silent", "--no-fund", f"{NODE}@3"], cwd=folder, check=True)
    for family in FAMILIES:
        body = stream(family, count)
        (folder / "body.sse").write_bytes(body)
        held = cut(body, "4k")
        due = reference(held, family)
        size = len(due["text"]) + sum(len(passed) for _, passed in due["tools"])
        floors, found = [], []
        for _ in range(3):
            row = told(["node", "peers.mjs", "body.sse", family, "5"], cwd=folder)
            if row["characters"] != size:
                raise SystemExit(f"{NODE}, {family}: {row['characters']} characters, not {size}; fix peers.mjs")
            found.append(row["seconds"])
            floors.append(seconds(lambda: reference(held, family), runs=3))  # noqa: B023 - run at once
        yield from peer_rows(NODE, family, count, statistics.median(found) / statistics.median(floors))


def venv(folder: Path, needs: tuple[str, ...]) -> Path:
    """The interpreter of a virtual environment that has the packages; made if it is not there."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (folder / "complete").is_file():
        say(f"{folder}: installing {', '.join(needs)}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "msgspec", *needs], check=True)
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
    parts: list[Callable[[], Iterator[Row]]] = [
        lambda: reader(count),
        lambda: growth(given.quick),
        lambda: around(count, given.quick),
        lambda: others(count, given.work, with_venvs=given.peers),
    ]
    rows: list[Row] = []
    for part in parts:
        for row in part():
            rows.append(row)
            say("  ".join(row.cells()))
    found = table(rows, count)
    sys.stdout.write(found + "\n")
    if given.write:
        page = PAGE.read_text("utf-8")
        before, after = page.partition(START)[0], page.partition(END)[2]
        PAGE.write_text(f"{before}{START}\n\n{found}\n\n{END}{after}", "utf-8", newline="\n")


if __name__ == "__main__":
    main()
