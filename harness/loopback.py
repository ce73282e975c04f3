"""A server on this machine only: one task per connection on one event loop, in a thread of its own or in the caller's.

Whoever derives from it says what to do with a connection (`_serve`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from harness.errors import UsageError
from harness.http1 import HEAD_LIMIT

HOST = "127.0.0.1"
BACKLOG = 1024  # connections that may wait to be accepted: a thousand clients may come at once
ACCEPTING = 8  # turns of the loop after which a connection that is just being accepted has got here; it takes 3
LINGER = 2.0  # seconds between the end of our side and of the connection, if the client does not close its own


class LoopbackServer:
    """`with` runs it in a thread, `serve` in the caller's; the socket listens from the start.

    Raises UsageError if the port cannot be had; 0 takes any that is free.
    """

    name = "loopback"  # of the thread, and in what a bug here tells

    def __init__(self, port: int) -> None:
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        self._stop = asyncio.Event()
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        raise NotImplementedError

    async def _begin(self) -> None:
        """What is needed before the first connection, on the running loop."""

    async def _end(self) -> None:
        """What is given back after the last one."""

    def __enter__(self) -> Self:
        # The socket listens already: clients may connect before the loop runs.
        loop = self._loop = asyncio.new_event_loop()

        def run() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self.run())

        self._thread = threading.Thread(target=run, name=self.name, daemon=True)
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
        await self._begin()
        server = await asyncio.start_server(self._connected, sock=self._socket, limit=HEAD_LIMIT, backlog=BACKLOG)
        try:
            await self._stop.wait()
        finally:
            # A server that is closed forgets the connections it is just accepting: so it stops accepting first.
            with suppress(NotImplementedError):  # on Windows
                self._loop.remove_reader(self._socket)
            for _ in range(ACCEPTING):
                await asyncio.sleep(0)
            server.close()
            # Those that have not had their first turn hold a connection too.
            for task, writer in self._open.items():
                writer.transport.abort()
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            await self._end()
            await asyncio.sleep(0)  # the aborted connections are closed in the loop's next turn

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open[task] = writer
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._open[task]
        if not task.cancelled() and (exc := task.exception()) is not None:  # a bug here: told at once, on stderr
            task.get_loop().call_exception_handler({"message": f"{self.name}: a connection failed", "exception": exc})


def _listening(port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise UsageError(f"port {port}: ports go from 1 to 65535; 0 takes any that is free")
    try:
        return socket.create_server((HOST, port), backlog=BACKLOG)
    except OSError as exc:
        problem = os.strerror(exc.errno or 0)  # its own text tells the address a second time
        raise UsageError(f"port {port}: {problem}; choose another, or 0 for any that is free") from exc


def at_once(writer: asyncio.StreamWriter) -> None:
    """What is written goes out at once, and a drain means: handed to the kernel, all of it."""
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    writer.transport.set_write_buffer_limits(high=0)


def abort(writer: asyncio.StreamWriter) -> None:
    """End the connection with RST, so that the client sees it broken, not ended. What is not sent yet is lost."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def until_left(reader: asyncio.StreamReader) -> None:
    """Ends when the client closes its side. What it sends meanwhile is dropped: a further request gets no answer."""
    with suppress(ConnectionError):
        while await reader.read(HEAD_LIMIT):
            pass


async def closed(writer: asyncio.StreamWriter, left: asyncio.Task[None]) -> None:
    """Close our side, and wait a moment for the client's.

    Closing while the client still sends resets the connection, and it may never see the answer.
    """
    if not writer.is_closing():
        with suppress(OSError):  # the client was quicker
            writer.write_eof()
        await asyncio.wait({left}, timeout=LINGER)
