"""What the capture proxy adds to the time an event takes: `python -m benchmarks.bench_proxy [--events N] [--gap MS]`.

A server in a process of its own stamps each event with the time it is written; the clock is the machine's, so the
client knows how long it took. The same client, in one run and in turn, asks the server itself and through
`harness proxy` (another process, which keeps every stream on disk meanwhile). Told: milliseconds an event takes, and
what the proxy adds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
PADDING = b"x" * 180  # an event of an LLM is about 250 bytes
BODY = b'{"stream":true,"messages":[]}'
COMMAND = (sys.executable, "-c", "from harness.cli import main; main()")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Took(NamedTuple):
    """Milliseconds from writing an event to reading it, sorted; and of each stream's head."""

    events: list[float]
    heads: list[float]


async def serve(events: int, gap: float) -> None:
    """Answer every request with events that tell when they were written, until stdin is closed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(HEAD)
            due = time.monotonic()
            for number in range(events):
                due += gap
                await asyncio.sleep(max(due - time.monotonic(), 0))
                data = b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}],"n":%d,"t":%d}\n\n' % (
                    PADDING, number, time.monotonic_ns()
                )  # fmt: skip
                writer.write(b"%x\r\n%b\r\n" % (len(data), data))
                await writer.drain()
            end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(end), end))
            await writer.drain()
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    say(f"{server.sockets[0].getsockname()[1]}")
    await asyncio.to_thread(sys.stdin.read)
    server.close()


async def asked(port: int, took: Took) -> int:
    """One stream: how many events came; their times go into `took`."""
    start = time.monotonic_ns()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
    writer.write(head)
    await reader.readuntil(b"\r\n\r\n")
    took.heads.append((time.monotonic_ns() - start) / 1e6)
    count = 0
    while size := int(await reader.readline(), 16):
        data = await reader.readexactly(size + 2)
        now = time.monotonic_ns()
        if (at := data.find(b'"t":')) >= 0:
            took.events.append((now - int(data[at + 4 : data.index(b"}", at)])) / 1e6)
            count += 1
    writer.close()
    return count


async def measured(port: int, streams: int, took: Took) -> int:
    """So many streams at once."""
    return sum(await asyncio.gather(*(asked(port, took) for _ in range(streams))))


@contextmanager
def running(command: Sequence[str], cwd: Path | None = None, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that tells its port on its first line."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=cwd, env={**os.environ, **environment}
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def row(streams: int, rounds: int, events: int, direct: int, through: int) -> str:
    """The line of a table for so many streams at once."""
    times = {direct: Took([], []), through: Took([], [])}
    for number in range(rounds + 1):
        for port, took in times.items():
            got = asyncio.run(measured(port, streams, took))
            assert got == streams * events, f"{got} of {streams * events} events came"
            if number == 0:  # warm
                took.events.clear()
                took.heads.clear()
    cells = []
    for share in (0.5, 0.99):
        here, there = (quantile(took.events, share) for took in times.values())
        cells.append(f"{here:.2f} | {there:.2f} | {there - here:+.2f}")
    heads = [statistics.median(took.heads) for took in times.values()]
    return f"| {streams} | {' | '.join(cells)} | {heads[1] - heads[0]:+.2f} |"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=100, help="events a stream")
    parser.add_argument("--gap", type=float, default=20, help="milliseconds between events")
    parser.add_argument("--streams", default="1,10,50", help="streams at once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.events, options.gap / 1000))
        return
    server_command = [sys.executable, "-m", "benchmarks.bench_proxy", "--serve", "--events", str(options.events),
                      "--gap", str(options.gap)]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, running(server_command) as server:
        direct = int(first_line(server))
        entry = f"{{dialect: chat, base_url: 'http://127.0.0.1:{direct}/v1', model: m, auth: none}}"
        (Path(folder) / "providers.yaml").write_text(f"providers: {{up: {entry}}}\n", "ascii")
        with running([*COMMAND, "proxy", "up"], Path(folder)) as proxy:
            through = int(first_line(proxy).rpartition(":")[2].partition("/")[0])
            say(f"{options.events} events a stream, one each {options.gap:g} ms; milliseconds\n")
            say("| streams | p50 direct | p50 proxy | added | p99 direct | p99 proxy | added | head, median added |")
            say("|---:" * 8 + "|")
            for streams in map(int, options.streams.split(",")):
                say(row(streams, options.rounds, options.events, direct, through))
        kept = list(Path(folder).glob("fixtures/up/*.sse"))
        say(f"\n{len(kept)} streams kept")


if __name__ == "__main__":
    main()
