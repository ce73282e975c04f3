"""The benchmarks go on where a part of them fails, and wait for nothing for ever."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from benchmarks.__main__ import Row, attempted
from benchmarks.costs import stamp_error_milliseconds
from benchmarks.timing import child, within


def fails() -> list[Row]:
    raise ValueError("its message | is not R's")


def stops() -> list[Row]:
    raise SystemExit("no such peer")


def child_fails() -> list[Row]:
    child([sys.executable, "-c", "raise SystemExit('no network')"])
    return []


def child_hangs() -> list[Row]:
    child([sys.executable, "-c", "import time; time.sleep(60)"], longest=0.01)
    return []


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (fails, 'ValueError("its message / is not R\'s")'),
        (stops, "SystemExit('no such peer')"),
        (child_fails, "exit 1: no network"),
        (child_hangs, "took too long"),
    ],
)
def test_a_part_that_fails_is_a_row_that_says_so(part: Callable[[], Iterable[Row]], says: str) -> None:
    (row,) = attempted("the part", part)
    assert row.cells() == ["the part", says, "", "failed"]


def test_a_part_that_takes_too_long_is_ended() -> None:
    start = time.monotonic()
    with pytest.raises(TimeoutError, match="not done within"), within(0.05):
        time.sleep(30)
    assert time.monotonic() - start < 10
    with within(0.05):
        pass
    time.sleep(0.06)  # and nothing comes later


def test_a_child_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    """A grandchild that holds the pipes would be waited for else."""
    script = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "time.sleep(60)\n"
    )
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        child([sys.executable, "-c", script], longest=1.5)
    assert time.monotonic() - start < 30


def test_the_error_of_read_times_is_measured() -> None:
    median, most = stamp_error_milliseconds(10, 0.002)
    assert 0 <= median <= most < 5000
