"""The benchmarks of servers run, briefly; nothing is held to a time."""

from __future__ import annotations

import subprocess
import sys

import pytest
from reading import ROOT


@pytest.mark.parametrize(
    ("module", "arguments", "says"),
    [
        ("bench_replay", "--streams 20 --recordings 5 --events 3 --gap 5", ("0 errors", "5 exact")),
        ("bench_proxy", "--streams 2 --rounds 1 --events 3 --gap 2", ("| 2 |", "4 streams kept")),
    ],
)
def test_the_benchmark_runs(module: str, arguments: str, says: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(text in done.stdout for text in says)
