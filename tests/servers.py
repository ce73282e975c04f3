"""Small loopback servers for tests, which answer by a script: bytes, silences, breaks. No HTTP library in between."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

RESET = "reset"  # a part: RST, after what was sent has arrived
Part = bytes | float | str
Answer = list[Part]  # bytes are sent, seconds waited (until the client leaves); at the end the connection is closed


def answer(
    body: bytes = b"", status: int = 200, media: str = "text/event-stream", headers: Mapping[str, str] | None = None
) -> Answer:
    """A whole answer of known length."""
    return [_head(status, media, {"content-length": str(len(body)), **(headers or {})}), body]


def json_answer(status: int, value: Any, **headers: str) -> Answer:
    """A whole answer that is JSON."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return answer(json.dumps(value).encode(), status, "application/json", named)


def chunked(*parts: Part, whole: bool = True, media: str = "text/event-stream") -> Answer:
    """An answer in chunks, one for each part that is bytes. Not `whole`: it breaks off without the end of the body."""
    framed: Answer = [_head(200, media, {"transfer-encoding": "chunked"})]
    framed += [b"%x\r\n%b\r\n" % (len(part), part) if isinstance(part, bytes) else part for part in parts]
    return [*framed, b"0\r\n\r\n"] if whole else framed


def _head(status: int, media: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", f"content-type: {media}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Scripted:
    """Gives request n the n-th answer, the last to all further ones. `requests` holds what was asked, head and body."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = answers
        self.requests: list[bytes] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def bodies(self) -> list[Any]:
        """The requests' bodies, decoded."""
        return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in self.requests]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request = _request(connection)
            with self._lock:
                number = min(len(self.requests), len(self.answers) - 1)
                self.requests.append(request)
            for part in self.answers[number]:
                if isinstance(part, bytes):
                    connection.sendall(part)
                elif isinstance(part, float):
                    self._wait(connection, part)
                else:
                    time.sleep(0.05)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _wait(self, connection: socket.socket, seconds: float) -> None:
        """Silence, until the client leaves or the server is closed. Raises OSError then."""
        end = time.monotonic() + seconds
        connection.settimeout(0.02)
        while time.monotonic() < end:
            if self._closing.is_set():
                raise OSError
            with suppress(TimeoutError):
                if not connection.recv(65536):
                    raise OSError
        connection.settimeout(10)

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._closing.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(15)


def _request(connection: socket.socket) -> bytes:
    connection.settimeout(10)
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(connection)
    length = re.search(rb"content-length: (\d+)", data.partition(b"\r\n\r\n")[0].lower())
    while length and len(data.partition(b"\r\n\r\n")[2]) < int(length[1]):
        data += _received(connection)
    return data


def _received(connection: socket.socket) -> bytes:
    piece = connection.recv(65536)
    if not piece:
        raise OSError("the client left before its request was whole")
    return piece


def closed_port() -> int:
    """A port of this host where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def certified(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's context with a certificate of its own for 127.0.0.1, and the file of that. Skips without openssl."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command to make a certificate")
    key, certificate = folder / "key.pem", folder / "ca.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate
