"""What stands around the reader: comparison, recording, replay, the pytest plugin, import and the command's start."""

from __future__ import annotations

import asyncio
import importlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.ours import reduced
from benchmarks.reference import reference
from benchmarks.streams import DIALECTS, cut, stream
from benchmarks.timing import child_difference, child_seconds, ratio, seconds
from harness.align import align
from harness.compare import compare
from harness.recording import Recording
from harness.structure import structure

ROOT = Path(__file__).resolve().parent.parent
BARE = [sys.executable, "-c", "pass"]


def align_seconds(family: str, count: int) -> tuple[float, int]:
    """CPU seconds to align a sequence of events with itself and one event more, and how many differences were found."""
    blocks = cut(stream(family, count), "event")
    middle = len(blocks) // 3
    one, other = (
        reduced(held, family)[1] for held in (blocks, [*blocks[:middle], blocks[middle - 7], *blocks[middle:]])
    )
    return seconds(lambda: align(one, other), runs=3), len(align(one, other))


def compare_milliseconds(family: str) -> float:
    """CPU milliseconds to compare two structures, as the gate does."""
    one, other = (
        structure(Recording(body=stream(family, count), end="eof"), DIALECTS[family]) for count in (200, 300)
    )
    return 1000 * seconds(lambda: [compare([one], other) for _ in range(20)], runs=3) / 20


@contextmanager
def _served(family: str, count: int) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.server", family, str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1/chat/completions"
        finally:
            server.stdin.close()


def record_ratio(family: str, count: int, runs: int, client: str = "httpx") -> float:
    """CPU of recording a stream over CPU of an httpx loop that joins the pieces.

    `client` names another library with httpx's interface that the recorder uses instead, through the two functions of
    transport.py that make a client and a request.
    """
    import httpx

    from harness import recorder
    from harness.endpoint import Endpoint

    async def bare(url: str) -> bytes:
        body = bytearray()
        # Plain HTTP, and no certificates loaded for it: the recorder loads none either.
        async with httpx.AsyncClient(verify=False) as client, client.stream("POST", url, content=b"{}") as response:
            async for piece in response.aiter_raw():
                body += piece
        return bytes(body)

    with _served(family, count) as url, _using(client):
        recording = recorder.record(Endpoint(url=url, body=b"{}"))
        assert recording.end == "eof"
        assert recording.body == stream(family, count)
        return ratio(lambda: recorder.record(Endpoint(url=url, body=b"{}")), lambda: asyncio.run(bare(url)), runs=runs)


@contextmanager
def _using(client: str) -> Iterator[None]:
    """The recorder uses this library, of httpx's interface."""
    from harness import recorder

    library: Any = importlib.import_module(client)
    before = {name: vars(recorder)[name] for name in ("client_for", "request_for")}

    def request_for(endpoint: Any, made: Any, trace: Any) -> Any:
        return made.build_request(endpoint.method, endpoint.url, content=endpoint.body, extensions={"trace": trace},
                                  headers={"accept-encoding": "identity"})  # fmt: skip

    if client != "httpx":
        vars(recorder).update(
            client_for=lambda endpoint: library.AsyncClient(verify=False, timeout=None), request_for=request_for
        )
    try:
        yield
    finally:
        vars(recorder).update(before)


STAMPS = """
import json, socket, sys, time
count, gap = int(sys.argv[1]), float(sys.argv[2])
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\nconnection: close\\r\\n\\r\\n")
        sent = []
        for number in range(count):
            time.sleep(gap)
            sent.append(time.monotonic())
            connection.sendall(b"data: {}\\n\\n")
print(json.dumps(sent))
"""


def stamp_error_milliseconds(count: int, gap: float) -> tuple[float, float]:
    """How far the times that a recording gives its reads are from the times at which the server sent them: the median
    and the 99th percentile. Both are taken from the first event; the way over loopback is part of it.
    """
    from harness.endpoint import Endpoint
    from harness.recorder import record

    command = [sys.executable, "-c", STAMPS.replace("\\\\", "\\"), str(count), str(gap)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1/chat/completions"
        recording = record(Endpoint(url=url, body=b"{}"))
        sent: list[float] = json.loads(server.stdout.readline())
    ends = [read.end for read in recording.reads]
    size = len(recording.body) // count  # of an event; on a busy machine a read may bring several
    came = [recording.reads[bisect_left(ends, size * (number + 1))].microseconds / 1000 for number in range(count)]
    errors = sorted(abs(at - came[0] - 1000 * (due - sent[0])) for at, due in zip(came, sent, strict=True))
    return statistics.median(errors), errors[int(0.99 * (count - 1))]


def replay_ratio(family: str, count: int, runs: int) -> float:
    """CPU of replaying a stream in one-event pieces to a client in another process, in units of R."""
    from harness.replay import Replay

    body = stream(family, count)
    held = cut(body, "4k")
    fetch = (
        "import socket, sys\ns = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "s.sendall(b'POST /p/text/v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 2\\r\\n\\r\\n{}')\n"
        "size = 0\nwhile piece := s.recv(1 << 20):\n    size += len(piece)\n    if size > int(sys.argv[2]): break\n"
    )
    source = {"p": {"text": Recording(body=body, status=200, end="eof", dialect=DIALECTS[family],
                                      headers={"content-type": "text/event-stream"})}}  # fmt: skip
    with Replay(source, pieces="events") as server:
        command = [sys.executable, "-c", fetch, str(server.port), str(len(body))]
        return ratio(lambda: child_seconds(command), lambda: reference(held, family), runs=runs)


RECORDED = """
import pytest
@pytest.mark.sse(provider="vllm", shape="text")
@pytest.mark.parametrize("number", range({count}))
def test_one(recorded, number):
    assert recorded.message.terminal == "done"
"""
BY_HAND = """
import pytest
from harness.runs.files import open_file
@pytest.mark.parametrize("number", range({count}))
def test_one(number):
    assert open_file({path!r}).reading.message.terminal == "done"
"""


def plugin_milliseconds(idle_count: int, used_count: int, runs: int) -> tuple[float, float]:
    """CPU milliseconds the plugin adds to each test that does not use it, and to each with the pytest fixture
    `recorded` over one that opens the file itself.

    Whole runs in turn, with and without, the median of their differences; what a run costs once is measured by runs of
    a single test, likewise, and taken off.
    """
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        shutil.copytree(ROOT / "fixtures" / "vllm", here / "fixtures" / "vllm")
        (here / "pytest.ini").write_text("[pytest]\nmarkers =\n    sse: a stream\n")
        text = here / "fixtures" / "vllm" / "text.sse"
        tests = {
            "plain": "import pytest\n@pytest.mark.parametrize('number', range({count}))\ndef test_one(number): pass\n",
            "recorded": RECORDED,
            "hand": "from pathlib import Path\n" + BY_HAND.replace("{path!r}", f"Path({str(text)!r})"),
        }
        for name, source in tests.items():
            for many in {1, idle_count, used_count}:
                (here / f"test_{name}_{many}.py").write_text(source.replace("{count}", str(many)))
        time.sleep(1.1)  # what was written just now is read again each time

        def run(name: str, many: int, *options: str) -> list[str]:
            return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, f"test_{name}_{many}.py"]

        def each(count: int, one: tuple[str, ...], other: tuple[str, ...]) -> float:
            """Of `one` over `other`, each a file and options."""
            many, single = (
                child_difference(run(one[0], number, *one[1:]), run(other[0], number, *other[1:]), runs=runs, cwd=here)
                for number in (count, 1)
            )
            return 1000 * (many - single) / (count - 1)

        idle = each(idle_count, ("plain",), ("plain", "-p", "no:sse_harness"))
        return idle, each(used_count, ("recorded",), ("hand",))


def start_seconds(runs: int) -> dict[str, float]:
    """CPU seconds above a bare interpreter."""
    names = {
        "import harness": [sys.executable, "-c", "import harness"],
        "import harness.reduce": [sys.executable, "-c", "import harness.reduce"],
        "harness --help": [sys.executable, "-c", "from harness.cli import main; main()", "--help"],
    }
    return {name: child_difference(command, BARE, runs=runs, cwd=ROOT) for name, command in names.items()}
