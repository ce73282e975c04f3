"""The replay server and the recorder under load: `python -m benchmarks.bench_replay [--streams N] [--recordings N]`.

A thousand clients ask `harness replay`, a process of its own, for a paced stream each, at once; every byte is compared
with the file. Then two hundred recordings run at once in one process, each of another stream, and are compared with
what was sent. Nothing fails for being slow; a byte that is wrong, or an error, does.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.bench_proxy import COMMAND, first_line, quantile, running, say
from harness.endpoint import Endpoint
from harness.partial import sidecar_text
from harness.recorder import arecord
from harness.recording import Read, Recording, sha256, sidecar_of

REQUEST = b"POST /v1/%b/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"


def paced(number: int, events: int, gap: float) -> Recording:
    """A stream of its own, an event each `gap` seconds."""
    pieces = [
        b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}],"n":%d,"event":%d}\n\n' % (b"x" * 180, number, at)
        for at in range(events)
    ]
    reads, size = [], 0
    for at, piece in enumerate(pieces):
        size += len(piece)
        reads.append(Read(size, int((at + 1) * gap * 1e6)))
    headers = {"content-type": "text/event-stream"}
    return Recording(body=b"".join(pieces), reads=reads, status=200, headers=headers, end="eof", dialect="chat")


def write(path: Path, recording: Recording) -> None:
    path.write_bytes(recording.body)
    text = sidecar_text(sidecar_of(recording), end=recording.end, digest=sha256(recording.body))
    path.with_suffix(".json").write_text(text, "utf-8")


async def stream(port: int, shape: str, expected: bytes, late: list[float], took: float) -> str:
    """Ask for one stream; "" if every byte came, else what went wrong."""
    start = time.monotonic()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST % shape.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        body = bytearray()
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        writer.close()
    except (OSError, ValueError, asyncio.IncompleteReadError) as exc:
        return type(exc).__name__
    late.append(time.monotonic() - start - took)
    return "" if body == expected and b" 200 " in head else "other bytes"


async def many(port: int, count: int, bodies: dict[str, bytes], took: float, late: list[float]) -> list[str]:
    shapes = list(bodies)
    jobs = (
        stream(port, shape, bodies[shape], late, took)
        for shape in (shapes[number % len(shapes)] for number in range(count))
    )
    return [problem for problem in await asyncio.gather(*jobs) if problem]


def replay(count: int, events: int, gap: float) -> None:
    """So many streams of the replay server at once."""
    recordings = {f"s{number}": paced(number, events, gap) for number in range(20)}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "up"
        place.mkdir()
        for shape, recording in recordings.items():
            write(place / f"{shape}.sse", recording)
        with running([*COMMAND, "replay", folder, "--pace", "recorded"]) as server:
            port = int(first_line(server).rpartition(":")[2].partition("/")[0])
            late: list[float] = []
            start, before = time.monotonic(), time.process_time()
            problems = asyncio.run(
                many(port, count, {shape: it.body for shape, it in recordings.items()}, events * gap, late)
            )
            wall, cpu = time.monotonic() - start, time.process_time() - before
            with open(f"/proc/{server.pid}/stat", encoding="ascii") as file:
                user, system = file.read().rpartition(")")[2].split()[11:13]
            ticks = (int(user) + int(system)) / 100
    say(f"replay: {count} streams at once, {events} events each, one each {gap * 1000:g} ms")
    say(f"  {len(problems)} errors {', '.join(sorted(set(problems)))}".rstrip())
    say(f"  {lateness(wall, events * gap, late)}; CPU of the server {ticks:.2f} s, of the clients {cpu:.2f} s")
    if problems:
        sys.exit(1)


def record(count: int, events: int, gap: float) -> None:
    """So many recordings at once in one process."""
    sent = {f"s{number}": paced(number, events, gap) for number in range(count)}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "up"
        place.mkdir()
        for shape, recording in sent.items():
            write(place / f"{shape}.sse", recording)
        with running([*COMMAND, "replay", folder, "--pace", "recorded"]) as server:
            port = int(first_line(server).rpartition(":")[2].partition("/")[0])

            async def all_of_them() -> list[Recording]:
                return await asyncio.gather(*(
                    arecord(Endpoint(url=f"http://127.0.0.1:{port}/v1/{shape}/chat/completions", body=b"{}"))
                    for shape in sent
                ))  # fmt: skip

            start, before = time.monotonic(), time.process_time()
            kept = asyncio.run(all_of_them())
            wall, cpu = time.monotonic() - start, time.process_time() - before
    exact = sum(got.body == want.body and got.end == "eof" for got, want in zip(kept, sent.values(), strict=True))
    late = [got.reads[-1].microseconds / 1e6 - events * gap for got in kept]
    say(f"record: {count} recordings at once in one process, {events} events each, one each {gap * 1000:g} ms")
    say(f"  {exact} exact")
    say(f"  {lateness(wall, events * gap, late)}; CPU {cpu:.2f} s, {cpu / (count * events) * 1e6:.0f} µs an event")
    if exact != count:
        sys.exit(1)


def lateness(wall: float, pace: float, late: list[float]) -> str:
    """How long it took, and how late the streams were done."""
    median, most = (quantile(late, share) * 1000 for share in (0.5, 0.99))
    return f"took {wall:.2f} s for {pace:.2f} s of pace; late by {median:.0f} ms (median), {most:.0f} ms (p99)"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--recordings", type=int, default=200)
    parser.add_argument("--events", type=int, default=50)
    parser.add_argument("--gap", type=float, default=100, help="milliseconds between events")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8192), hard), hard))
    replay(options.streams, options.events, options.gap / 1000)
    record(options.recordings, options.events, options.gap / 1000)


if __name__ == "__main__":
    main()
