"""A loopback server that plays recordings again: the bytes, reads, pace and end that a client saw.

One task per connection on one event loop, no thread and no per-byte work, so that a thousand streams run at once. It
binds 127.0.0.1 only and opens no connection itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import msgspec

from harness.data import shipped_requests
from harness.errors import UsageError
from harness.faults import Fault, parse_fault
from harness.http1 import HEAD_LIMIT, Gone, Refused, Request, read_request, response_head
from harness.matching import ENDINGS, Missing, choose, dialect_of
from harness.recording import Recording
from harness.steps import Close, Head, Reset, Send, Step, Wait, plan
from harness.store import load, providers_of, shapes_of, takes

HOST = "127.0.0.1"
BACKLOG = 1024  # connections that may wait to be accepted: a thousand clients may come at once
JOURNAL = 10_000  # exchanges kept
LATE = 0.02  # seconds of delay that the next wait makes up for, so that timers being late does not add up
LINGER = 2.0  # seconds between the end of our side and of the connection, if the client does not close its own
TURN = 16  # steps after which other streams get their turn

Source = Path | str | Mapping[str, Mapping[str, Recording]]


class Exchange(msgspec.Struct, kw_only=True):
    """A line of the journal. No header values and no query: keys may stand there.

    `sent` counts bytes of the body. `outcome`: completed (all steps were carried out, a planned cut among them), or why
    not: client-left, stopped (the server was), refused (no request that can be read, or no fixture for it).
    """

    method: str = ""
    path: str = ""
    provider: str = ""
    shape: str = ""
    faults: list[str] = []
    status: int = 0
    sent: int = 0
    outcome: Literal["running", "completed", "client-left", "stopped", "refused"] = "running"


class Replay:
    """The server. `with Replay("fixtures/vllm") as server:` runs it in a thread; point a client at `server.base_url`.

    `sources`: a folder of providers, of one provider's fixtures, a single `.sse`, or {provider: {shape: Recording}}.
    Fixtures are read once, here. Which of them answers a request: matching.py. Raises UsageError: no fixtures, a fault
    that does not exist, a port in use. `watch` is called with each exchange when it ends, in the server's thread.
    """

    def __init__(
        self,
        *sources: Source,
        port: int = 0,
        pace: Literal["fast", "recorded"] = "fast",
        pieces: int | Literal["events"] | None = None,
        faults: Sequence[Fault | str] = (),
        watch: Callable[[Exchange], None] | None = None,
    ) -> None:
        self.warnings: list[str] = []
        self.offered: dict[str, dict[str, Recording]] = {}
        for source in sources:
            self._offer(source)
        self._faults = [parse_fault(fault) if isinstance(fault, str) else fault for fault in faults]
        self._plans = {
            (provider, shape): self._plan(plan(recording, pace=pace, pieces=pieces))
            for provider, shapes in self.offered.items() for shape, recording in shapes.items()
        }  # fmt: skip
        self.journal: deque[Exchange] = deque(maxlen=JOURNAL)
        self._watch = watch
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        self._stop = asyncio.Event()
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def _offer(self, source: Source) -> None:
        if isinstance(source, Mapping):
            found = {provider: dict(shapes) for provider, shapes in source.items()}
        else:
            found, warnings = read_fixtures(Path(source))
            self.warnings += warnings
        for provider, shapes in found.items():
            self.offered.setdefault(provider, {}).update(shapes)

    def _plan(self, steps: list[Step]) -> list[Step]:
        for fault in self._faults:
            steps = fault.apply(steps)
        return steps

    @property
    def base_url(self) -> str:
        """What a client is given: `http://127.0.0.1:PORT/v1`."""
        return self.url()

    def url(self, provider: str = "", shape: str = "") -> str:
        """The base_url that names a provider, or a provider and a shape, so that nothing is left to the matching."""
        return "/".join([f"http://{HOST}:{self.port}", *filter(None, (provider, shape)), "v1"])

    def __enter__(self) -> Replay:
        # The socket listens already: clients may connect before the loop runs.
        loop = self._loop = asyncio.new_event_loop()

        def run() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self.run())

        self._thread = threading.Thread(target=run, name="replay", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """End the server and all its streams. From any thread; a second call does nothing."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._stop.set)

    def serve(self) -> None:
        """Serve in this thread until SIGTERM or `stop`; SIGINT raises KeyboardInterrupt once the server is down."""

        async def main() -> None:
            with suppress(NotImplementedError, RuntimeError):  # on Windows; outside the main thread
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop.set)
            await self.run()

        asyncio.run(main())

    async def run(self) -> None:
        """Serve on the running loop until stopped."""
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connected, sock=self._socket, limit=HEAD_LIMIT, backlog=BACKLOG)
        try:
            await self._stop.wait()
        finally:
            server.close()
            # Those that have not had their first turn hold a connection too.
            for task, writer in self._open.items():
                writer.transport.abort()
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            await asyncio.sleep(0)  # the aborted connections are closed in the loop's next turn

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open[task] = writer
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._open[task]
        if not task.cancelled() and (exc := task.exception()) is not None:  # a bug here: told at once, on stderr
            task.get_loop().call_exception_handler({"message": "replay: a connection failed", "exception": exc})

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one request, one response."""
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        writer.transport.set_write_buffer_limits(high=0)  # a drain means: handed to the kernel, all of it
        exchange = Exchange()
        left: asyncio.Task[None] | None = None
        try:
            request, steps = await self._request(reader, writer, exchange)
            self.journal.append(exchange)
            left = asyncio.create_task(_until_left(reader))
            await _carry_out(steps, request, writer, left, exchange)
        except (Gone, ConnectionError):
            exchange.outcome = "client-left"
        except asyncio.CancelledError:
            exchange.outcome = "stopped"
            raise
        else:
            if not writer.is_closing():
                # Closing while the client still sends resets the connection, and it may never see the answer.
                with suppress(OSError):  # the client was quicker
                    writer.write_eof()
                await asyncio.wait({left}, timeout=LINGER)
        finally:
            if left is not None:
                left.cancel()
            writer.close()
            if self._watch is not None and exchange.method:
                self._watch(exchange)

    async def _request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, exchange: Exchange
    ) -> tuple[Request, list[Step]]:
        try:
            request = await read_request(reader, writer)
        except Refused as exc:
            request, steps = exc.request or Request("", "", {}), _refusal(exc.status, exc.message)
            exchange.outcome = "refused"
        else:
            steps = self._answer(request, exchange)
        exchange.method = request.method or "?"
        exchange.path = "".join(char if char.isprintable() else "?" for char in request.path[:500])
        return request, steps

    def _answer(self, request: Request, exchange: Exchange) -> list[Step]:
        """The steps that answer the request; the journal is told which fixture they are."""
        if dialect_of(request.path) is None or request.method != "POST":
            return self._other(request, exchange)
        shape = request.headers.get("x-harness-shape", "")
        found = choose(self.offered, request.path, request.body, shape, shipped_requests())
        exchange.provider, exchange.shape = found.provider, found.shape
        if isinstance(found, Missing):
            return self._missing(404, found.message, exchange)
        exchange.faults = [str(fault) for fault in self._faults]
        return self._plans[found.provider, found.shape]

    def _other(self, request: Request, exchange: Exchange) -> list[Step]:
        """What clients ask for besides: the list of models, and whether the server is there."""
        last = request.path.rstrip("/").rpartition("/")[2]
        known = last in ("", "health", "models")
        if request.method in ("GET", "HEAD") and known:
            if last != "models":
                return _json(200, {"status": "ok", "available": self._available()})
            models = [{"id": name, "object": "model", "created": 0, "owned_by": "replay"} for name in self.offered]
            return _json(200, {"object": "list", "data": models})
        if known or dialect_of(request.path) is not None:
            allowed = "GET, HEAD" if known else "POST"
            return self._missing(405, f"{request.path} takes {allowed}, not {request.method}", exchange, allowed)
        endings = ", ".join(ENDINGS)
        return self._missing(404, f"nothing is at {request.path}: request paths end with one of {endings}", exchange)

    def _missing(self, status: int, message: str, exchange: Exchange, allowed: str = "") -> list[Step]:
        exchange.outcome = "refused"
        return _refusal(status, message, {"allow": allowed} if allowed else {}, available=self._available())

    def _available(self) -> dict[str, dict[str, str]]:
        """The base_url of every fixture, by provider and shape."""
        return {name: {shape: self.url(name, shape) for shape in shapes} for name, shapes in self.offered.items()}


def read_fixtures(path: Path) -> tuple[dict[str, dict[str, Recording]], list[str]]:
    """The recordings at `path` by provider and shape (further takes as `text.2`), and warnings.

    `path` is a folder of providers, a provider's folder, or a `.sse` file. Raises UsageError: nothing there, or broken.
    """
    if path.is_file():
        files = {_name(path.parent): [path]}
    elif any(path.glob("*.sse")):
        folder = path.resolve()  # "." has no name
        files = {folder.name: _files(folder.parent, folder.name)}
    else:
        files = {provider: _files(path, provider) for provider in providers_of(path)}
    loaded = {provider: {file.stem: load(file) for file in listed} for provider, listed in files.items() if listed}
    if not any(loaded.values()):
        raise UsageError(f"{path}: no fixtures here (<provider>/<shape>.sse): record some first")
    recordings = {
        provider: {shape: one.recording for shape, one in shapes.items()} for provider, shapes in loaded.items()
    }
    return recordings, [one.warning for shapes in loaded.values() for one in shapes.values() if one.warning]


def _files(root: Path, provider: str) -> list[Path]:
    return [path for shape in shapes_of(root, provider) for path in takes(root, provider, shape)]


def _name(folder: Path) -> str:
    return folder.resolve().name or "recording"


def _listening(port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise UsageError(f"port {port}: ports go from 1 to 65535; 0 takes any that is free")
    try:
        return socket.create_server((HOST, port), backlog=BACKLOG)
    except OSError as exc:
        problem = os.strerror(exc.errno or 0)  # its own text tells the address a second time
        raise UsageError(f"port {port}: {problem}; choose another, or 0 for any that is free") from exc


async def _until_left(reader: asyncio.StreamReader) -> None:
    """Ends when the client closes its side. What it sends meanwhile is dropped: a further request gets no answer."""
    with suppress(ConnectionError):
        while await reader.read(HEAD_LIMIT):
            pass


async def _carry_out(
    steps: list[Step], request: Request, writer: asyncio.StreamWriter, left: asyncio.Task[None], exchange: Exchange
) -> None:
    """Do what the plan says. Raises ConnectionError or Gone when the client leaves before the last step."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    chunked = bodiless = False
    for number, step in enumerate(steps):
        if isinstance(step, Send):
            if bodiless:
                continue
            data = step.data
            writer.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
            await writer.drain()
            exchange.sent += len(data)
            if number % TURN == 0:
                await asyncio.sleep(0)
        elif isinstance(step, Wait):
            due = max(due, loop.time() - LATE) + step.seconds
            # A client that closed its sending side only may still read, but it cannot be told from one that is gone.
            if (await asyncio.wait({left}, timeout=max(0.0, due - loop.time())))[0]:
                raise Gone
        elif isinstance(step, Head):
            exchange.status = step.status
            bodiless = request.method == "HEAD" or step.status in (204, 304)
            chunked = request.chunked_reply and not bodiless
            writer.write(response_head(step.status, step.headers, chunked=chunked))
            await writer.drain()
        else:
            if exchange.outcome == "running":
                exchange.outcome = "completed"  # before the client can know it
            if isinstance(step, Reset):
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            elif step.clean and chunked:
                writer.write(b"0\r\n\r\n")
                await writer.drain()


def _json(status: int, value: Any, headers: dict[str, str] | None = None) -> list[Step]:
    body = json.dumps(value).encode()
    return [Head(status, {"content-type": "application/json", **(headers or {})}), Send(body), Close()]


def _refusal(status: int, message: str, headers: dict[str, str] | None = None, **beside: Any) -> list[Step]:
    error = {"message": message, "type": "replay_error", "param": None, "code": "no_fixture" if status == 404 else None}
    return _json(status, {"error": error, **beside}, headers)
