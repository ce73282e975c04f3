"""Several processes: the same results in the same order, ended by Ctrl-C, and told when one of them dies."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from commandline import COMMAND, harness
from reading import FIXTURES, QUIRKS

from harness.errors import ConfigError, HarnessError, UsageError
from harness.runs.files import expand
from harness.runs.jobs import AHEAD, MOST, in_order


def doubled(number: int) -> int:
    return 2 * number


def refused(number: int, at: int) -> int:
    if number == at:
        raise UsageError(f"not {number}")
    return number


def odd(number: int) -> int:
    raise ConfigError(Path("x"), "key", "an exception that pickle cannot make again")


def killed(number: int, at: int) -> int:
    if number == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def whose(number: int) -> int:
    return os.getpid()


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_order(jobs: int) -> None:
    assert list(in_order(doubled, range(500), jobs)) == list(range(0, 1000, 2))
    assert list(in_order(doubled, [], jobs)) == []
    assert list(in_order(doubled, [4], jobs)) == [8]


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_raised_comes_when_its_turn_comes(jobs: int) -> None:
    with closing(in_order(partial(refused, at=90), range(500), jobs)) as results:
        assert list(islice(results, 90)) == list(range(90))
        with pytest.raises(UsageError, match=r"^not 90$"):
            next(results)


def test_an_exception_that_cannot_be_sent_says_the_same() -> None:
    with pytest.raises(HarnessError, match="ConfigError: x: key: an exception that pickle cannot make again"):
        list(in_order(odd, range(2), 2))


def test_items_are_taken_as_they_are_needed() -> None:
    taken = 0

    def counted() -> Iterator[int]:
        nonlocal taken
        for number in range(10_000):
            taken += 1
            yield number

    with closing(in_order(doubled, counted(), 2)) as results:
        assert next(results) == 0
        assert taken <= (2 * AHEAD + 1) * MOST


def test_some_things_are_done_here() -> None:
    found = list(in_order(whose, range(40), 2, here=lambda number: number in (0, 17, 39)))
    assert [number for number, pid in enumerate(found) if pid == os.getpid()] == [0, 17, 39]


def test_without_a_number_little_work_is_done_here() -> None:
    assert set(in_order(whose, range(10))) == {os.getpid()}


def test_a_process_that_is_killed_is_one_error() -> None:
    with pytest.raises(UsageError, match=r"^a worker process was killed \(signal 9\) .*--jobs 1 works in one process$"):
        list(in_order(partial(killed, at=33), range(100), 2))


# -- the verbs ----------------------------------------------------------------------------------------------------


@pytest.fixture
def lots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Streams in folders: regular and odd ones, expectations that hold and that do not, files that cannot be read."""
    monkeypatch.chdir(tmp_path)
    for number, source in enumerate(sorted([*QUIRKS.glob("0[0-4]*.sse"), *FIXTURES.glob("vllm/*.sse")])):
        folder = tmp_path / "lots" / f"d{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        for path in (source, source.with_suffix(".json"), source.with_suffix(".expected.json")):
            if path.is_file():
                shutil.copy(path, folder / f"{number}{path.name[len(source.stem):]}")
    (tmp_path / "lots" / "empty.sse").touch()
    (tmp_path / "lots" / "d1" / "0x.sse").symlink_to("nowhere")
    (tmp_path / "lots" / "d2" / "1.json").write_text('{"format": "sse-harness/1", "sha256": "0"}')  # a warning
    (tmp_path / "none").mkdir()
    return tmp_path / "lots"


@pytest.mark.parametrize("arguments", [
    ("lint",), ("show", "--as", "events", "--json"), ("expect",), ("lint", "--secrets"),
], ids=" ".join)  # fmt: skip
def test_the_number_of_processes_never_shows(lots: Path, arguments: tuple[str, ...]) -> None:
    if arguments == ("expect",):
        harness("expect", "--write", "lots/d0", "lots/d1")
        next(lots.glob("d0/*.expected.json")).write_text('{"structure_format": 1}', "utf-8")
    one = harness(*arguments, "lots", "none", "missing.sse", "--jobs", 1)
    assert one.code == 2
    assert one.out.count("\n") > 20
    assert "missing.sse" in one.err
    assert harness(*arguments, "lots", "none", "missing.sse", "--jobs", 2) == one
    assert harness(*arguments, "lots", "none", "missing.sse") == one


def test_exit_codes_with_several_processes(lots: Path) -> None:
    files = sorted(FIXTURES.glob("vllm*/text.sse"))
    assert harness("lint", *files, "--jobs", 2).code == 0
    assert harness("lint", *files, QUIRKS / "048-no-done-marker.sse", "--jobs", 2).code == 1
    assert harness("lint", *files, "--jobs", 0).code == 2


def test_expectations_are_written_by_several_processes(lots: Path) -> None:
    for path in lots.rglob("*.expected.json"):
        path.unlink()
    done = harness("expect", "--write", "lots/d0", "--jobs", 2)
    assert done.out.count(": written\n") == len(list(lots.glob("d0/*.sse")))
    assert harness("expect", "lots/d0", "--jobs", 2).code == 0


def test_a_pipe_is_read_with_several_processes_too(lots: Path) -> None:
    read, write = os.pipe()
    text = FIXTURES / "vllm" / "text.sse"
    os.write(write, text.read_bytes())
    os.close(write)
    done = subprocess.run([*COMMAND, "lint", text, f"/dev/fd/{read}", text, "--jobs", "2"], pass_fds=[read],
                          capture_output=True, text=True, check=False)  # fmt: skip
    os.close(read)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"/dev/fd/{read} (chat, by content)" in done.stdout


def children_of(pid: int) -> list[int]:
    """The processes it started that still run."""
    found = subprocess.run(["ps", "-o", "pid=,stat=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    rows = [line.split() for line in found.stdout.splitlines()]
    return [int(number) for number, state in rows if not state.startswith("Z")]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def slow(lots: Path) -> subprocess.Popen[str]:
    """A run that takes long, with two workers that work; in a session of its own, as a terminal's foreground job is."""
    body = (FIXTURES / "vllm" / "text.sse").read_bytes().partition(b"data: [DONE]")[0]
    paths = [lots / f"big{number}.sse" for number in range(40)]
    paths[0].write_bytes(body * 4_000)
    for path in paths[1:]:
        path.hardlink_to(paths[0])
    process = subprocess.Popen([*COMMAND, "lint", *paths, "--jobs", "2"], text=True, start_new_session=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    end = time.monotonic() + 20
    while len(children_of(process.pid)) < 3 and time.monotonic() < end:  # two workers and Python's resource tracker
        time.sleep(0.02)
    return process


@pytest.mark.skipif(not Path("/proc/self/stat").exists() or not shutil.which("ps"), reason="needs /proc and ps")
@pytest.mark.parametrize("wait", [0.0, 0.6], ids=["at once", "while they work"])
def test_ctrl_c_ends_all(slow: subprocess.Popen[str], wait: float) -> None:
    time.sleep(wait)
    others = children_of(slow.pid)
    assert len(others) == 3
    os.killpg(slow.pid, signal.SIGINT)  # as a terminal does: to every process of the job
    _, err = slow.communicate(timeout=20)
    assert (slow.returncode, err) == (130, "harness: interrupted\n")
    end = time.monotonic() + 5
    while any(map(alive, others)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(alive, others))


@pytest.mark.skipif(not Path("/proc/self/stat").exists() or not shutil.which("ps"), reason="needs /proc and ps")
def test_killed_itself_it_leaves_no_process(slow: subprocess.Popen[str]) -> None:
    others = children_of(slow.pid)
    slow.kill()
    slow.communicate(timeout=20)
    end = time.monotonic() + 20  # a worker ends with the batch it is at
    while any(map(alive, others)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(alive, others))


def test_a_bar_is_for_terminals(lots: Path) -> None:
    terminal, end = pty.openpty()
    with (lots / "out").open("wb") as out:
        process = subprocess.Popen([*COMMAND, "lint", "lots"], cwd=lots.parent, stdout=out, stderr=end)
        os.close(end)
        seen = b""
        while piece := _piece(terminal):
            seen += piece
    assert process.wait(20) == 2
    os.close(terminal)
    count = len(list(expand([lots])))
    assert f"{count}/{count}".encode() in seen
    assert (lots / "out").read_text() == harness("lint", "lots").out


def _piece(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the other end is closed
        return b""


@pytest.mark.parametrize("limit", [10, 20, 30])
def test_where_there_is_room_for_few_processes_these_do_it(lots: Path, limit: int) -> None:
    """Too few files may be open for as many pipes."""
    limited = ["sh", "-c", 'ulimit -n "$0"; exec "$@"', str(limit), *COMMAND, "lint", "lots", "--jobs", "24"]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60, check=False)
    if limit == 10:
        assert (done.returncode, done.stdout) == (2, "")
        assert "no process can be started: Too many open files; --jobs 1 works in this one alone" in done.stderr
    else:
        assert (done.returncode, done.stdout, done.stderr) == harness("lint", "lots", "--jobs", "1")
