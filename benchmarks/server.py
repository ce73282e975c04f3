"""A server for one stream, in a process of its own so that its CPU time is not counted: `python -m benchmarks.server
FAMILY COUNT` prints its port, and answers every request with one chunk an event until stdin is closed.
"""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import suppress

from benchmarks.streams import cut, stream

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
)


async def main(family: str, count: int) -> None:
    answer = HEAD + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in cut(stream(family, count), "event"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *([0-9]+)", head)
            if length is not None:  # what is left unread when we close resets the connection, and the answer is lost
                await reader.readexactly(int(length[1]))
            writer.write(answer + b"0\r\n\r\n")
            await writer.drain()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
