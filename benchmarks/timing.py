"""CPU time, never wall time, and as a ratio: what is measured and what it is measured against run in turn in one
process, and the median of the pairwise ratios is told. A busy machine slows both alike.
"""

from __future__ import annotations

import gc
import json
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence

Run = Callable[[], object]


def cpu_seconds(run: Run) -> float:
    """CPU seconds of this process while it runs, all threads."""
    gc.collect()
    start = time.process_time()
    run()
    return time.process_time() - start


def ratio(run: Run, against: Run, *, runs: int = 7, budget: float = 20.0) -> float:
    """How many times as much `run` costs. Both run once unmeasured; `budget` seconds end it early, after one pair."""
    run()
    against()
    out: list[float] = []
    end = time.monotonic() + budget
    while len(out) < runs and (not out or time.monotonic() < end):
        cost = cpu_seconds(run)
        out.append(cost / max(cpu_seconds(against), 1e-9))
    return statistics.median(out)


def seconds(run: Run, *, runs: int = 5) -> float:
    """The median, after one run unmeasured."""
    run()
    return statistics.median(cpu_seconds(run) for _ in range(runs))


def child_seconds(command: Sequence[str], **options: object) -> float:
    """CPU seconds of a child process and its children. Raises CalledProcessError if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, **options)  # type: ignore[call-overload]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def child_difference(command: Sequence[str], without: Sequence[str], *, runs: int, **options: object) -> float:
    """CPU seconds that one command costs above another, the median of runs in turn."""
    child_seconds(command, **options)
    return statistics.median(
        child_seconds(command, **options) - child_seconds(without, **options) for _ in range(runs)
    )


def told(command: Sequence[str], **options: object) -> dict[str, float]:
    """The JSON object on the last line of a child's stdout. Raises CalledProcessError if it fails."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
