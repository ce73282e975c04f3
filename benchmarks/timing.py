"""CPU time, never wall time, and as a ratio: what is measured and what it is measured against run in turn in one
process, and the median of the pairwise ratios is told. A busy machine slows both alike.

Nothing waits for ever: a child that takes too long is killed with all that it started, and so is a part (`within`).
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

Run = Callable[[], object]
LONGEST = 300.0  # seconds: a child


def cpu_seconds(run: Run) -> float:
    """CPU seconds of this process while it runs, all threads."""
    gc.collect()
    start = time.process_time()
    run()
    return time.process_time() - start


def ratio(run: Run, against: Run, *, runs: int = 7, budget: float = 20.0) -> float:
    """How many times as much `run` costs. Both run once unmeasured; `budget` seconds end it early, after one pair."""
    end = time.monotonic() + budget
    run()
    against()
    out: list[float] = []
    while len(out) < runs and (not out or time.monotonic() < end):
        cost = cpu_seconds(run)
        out.append(cost / max(cpu_seconds(against), 1e-9))
    return statistics.median(out)


def seconds(run: Run, *, runs: int = 5) -> float:
    """The median, after one run unmeasured."""
    run()
    return statistics.median(cpu_seconds(run) for _ in range(runs))


def child(command: Sequence[str], *, longest: float = LONGEST, **options: object) -> str:
    """The stdout of a child process. Raises CalledProcessError if it fails, TimeoutExpired if it takes too long."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, **options,  # type: ignore[call-overload]
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(timeout=longest)
        except BaseException:  # also what it started: npm leaves node behind, which would hold the pipes
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, out, err)
    return str(out)


def child_seconds(command: Sequence[str], **options: object) -> float:
    """CPU seconds of a child process and its children. Raises as `child` does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child(command, **options)  # type: ignore[arg-type]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def child_difference(command: Sequence[str], without: Sequence[str], *, runs: int, **options: object) -> float:
    """CPU seconds that one command costs above another, the median of runs in turn."""
    child_seconds(command, **options)
    return statistics.median(
        child_seconds(command, **options) - child_seconds(without, **options) for _ in range(runs)
    )


def told(command: Sequence[str], **options: object) -> dict[str, float]:
    """The JSON object on the last line of a child's stdout. Raises as `child` does."""
    found: dict[str, float] = json.loads(child(command, **options).splitlines()[-1])  # type: ignore[arg-type]
    return found


@contextmanager
def within(limit: float) -> Iterator[None]:
    """Raise TimeoutError in the block once it has taken so many seconds, wherever it waits. In the main thread only."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not done within {limit:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
