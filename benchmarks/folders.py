"""Many small files, and a large one: what `harness lint` takes for them."""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from benchmarks.streams import stream
from benchmarks.timing import child, child_seconds

ROOT = Path(__file__).resolve().parent.parent
LINT = [sys.executable, "-c", "from harness.cli import main; main()", "lint", "--json", "--fail-on", "fatal"]
PEAK = (
    "import json, resource, subprocess, sys\n"
    "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
    "print(json.dumps(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))\n"
)


def _bodies() -> list[Path]:
    """Small streams in which nothing fatal is found, so that lint's exit code is 0: our fixtures of regular answers."""
    return sorted((ROOT / "fixtures").glob("vllm*/t*.sse"))


def lint_many(count: int, runs: int) -> dict[str, float]:
    """`harness lint` of so many small fixtures with their sidecars, by one process and by two in turn.

    Files a second of one process; the part of two processors that two processes use well, by the clock (which other
    work on the machine disturbs) and by CPU time (which says how much sharing costs).
    """
    with tempfile.TemporaryDirectory() as folder:
        for number, source in enumerate(islice(cycle(_bodies()), count)):
            place = Path(folder) / f"{number // 500}"
            place.mkdir(exist_ok=True)
            for path in (source, source.with_suffix(".json")):
                shutil.copyfile(path, place / f"{number}{path.suffix}")
        clock: dict[int, list[float]] = {1: [], 2: []}
        cpu: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(runs):
            for jobs in clock:
                start = time.monotonic()
                cpu[jobs].append(child_seconds([*LINT, "--jobs", str(jobs), folder], cwd=ROOT))
                clock[jobs].append(time.monotonic() - start)
    one, two = (statistics.median(clock[jobs]) for jobs in (1, 2))
    return {
        "files a second": count / statistics.median(cpu[1]),
        "efficiency": one / (2 * two),
        "efficiency by CPU time": statistics.median(cpu[1]) / statistics.median(cpu[2]),
    }


def lint_peak_megabytes(size: int) -> float:
    """The most memory that `harness lint` holds for a stream of so many MB, above what it holds for a small one."""
    with tempfile.TemporaryDirectory() as folder:
        blocks = stream("chat_text", 5_000).split(b"\n\n")
        large, small = Path(folder) / "large.sse", Path(folder) / "small.sse"
        middle = b"\n\n".join(blocks[2:-4]) + b"\n\n"
        with large.open("wb") as file:
            file.write(b"\n\n".join(blocks[:2]) + b"\n\n")
            while file.tell() < size * 1e6:
                file.write(middle)
            file.write(b"\n\n".join(blocks[-4:]))
        small.write_bytes(stream("chat_text", 100))
        held = [json.loads(child([sys.executable, "-c", PEAK, *LINT, str(path)], cwd=ROOT)) for path in (large, small)]
    return float(held[0] - held[1]) / (1e6 if sys.platform == "darwin" else 1e6 / 1024)
