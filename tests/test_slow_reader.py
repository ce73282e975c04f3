"""A recorder that reads slowly, on purpose: what servers do then, and which end state says it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml
from commandline import harness

from harness.endpoint import Endpoint, Timeouts
from harness.recorder import record
from harness.recording import Recording
from harness.store import load

EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 940 + b'"},"finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
COUNT = 400
BODY = EVENT * COUNT + LAST
RATE = 1_000_000  # bytes a second: the body takes 0.4 s
SLOW = 100_000  # the body would take 4 s
CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

Serve = Callable[[socket.socket], None]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def patient(sock: socket.socket) -> None:
    """Waits until the client has taken it all."""
    hurried(sock, 30)


def hurried(sock: socket.socket, seconds: float = 0.5) -> None:
    """Gives up on a client that has not taken all in time."""
    end = time.monotonic() + seconds
    for data in [*[chunk(EVENT)] * COUNT, chunk(LAST) + b"0\r\n\r\n"]:
        sock.settimeout(max(end - time.monotonic(), 0.001))
        sock.sendall(data)


def forgetful(sock: socket.socket) -> None:
    """Says nothing more to such a client, and leaves it waiting."""
    with suppress(TimeoutError):
        hurried(sock)
    sock.settimeout(30)
    while sock.recv(65536):  # until the client leaves
        pass


@contextmanager
def server(serve: Serve) -> Iterator[str]:
    """A server with small send buffers, so that what it has sent the client has taken in, or nearly."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

        def run() -> None:
            sock, _ = listening.accept()
            with sock, suppress(OSError):
                asked = b""
                while not asked.endswith(b"}" if asked.startswith(b"POST") else b"\r\n\r\n"):
                    asked += sock.recv(65536)
                sock.sendall(CHUNKED)
                serve(sock)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            thread.join(15)


def read_at(rate: int | None, serve: Serve) -> Recording:
    patience = Timeouts(first_event=5, idle=1, total=20)
    with server(serve) as url:
        endpoint = Endpoint(url=f"{url}/chat/completions", method="GET", read_rate=rate, timeouts=patience, retries=0)
        return record(endpoint)


def test_a_patient_server_is_read_to_its_end_in_the_time_it_takes() -> None:
    start = time.monotonic()
    recording = read_at(RATE, patient)
    took = time.monotonic() - start
    assert (recording.body, recording.end) == (BODY, "eof")
    assert len(BODY) / RATE * 0.9 <= took < len(BODY) / RATE * 5
    assert recording.provenance is not None
    assert recording.provenance.origin == f"read at {RATE} bytes a second"
    # No read is ahead of its time, by more than the piece it brought.
    before = 0
    for read in recording.reads:
        assert read.microseconds / 1e6 >= before / RATE * 0.9
        before = read.end


def test_a_fast_reader_is_in_time() -> None:
    assert read_at(None, lambda sock: hurried(sock, 5)).body == BODY


def test_a_server_that_gives_up_on_slow_readers_cuts() -> None:
    recording = read_at(SLOW, hurried)
    assert recording.end in ("cut", "reset")
    assert 0 < len(recording.body) < len(BODY)
    assert BODY.startswith(recording.body)


def test_a_server_that_forgets_slow_readers_stalls() -> None:
    recording = read_at(SLOW, forgetful)
    assert recording.end == "timeout:idle"
    assert 0 < len(recording.body) < len(BODY)


def test_its_own_slowness_is_no_silence_of_the_servers() -> None:
    # An event a second at this rate, and an idle timeout of 0.3 s.
    with server(patient) as url:
        endpoint = Endpoint(
            url=f"{url}/x", method="GET", read_rate=1_000, timeouts=Timeouts(first_event=5, idle=0.3, total=2.5)
        )
        recording = record(endpoint)
    assert recording.end == "timeout:total"


def test_the_command_line_says_how_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def configured(url: str) -> None:
        entry = {"dialect": "chat", "base_url": url, "model": "m", "auth": "none", "timeouts": {"idle": 2}}
        (tmp_path / "providers.yaml").write_text(yaml.safe_dump({"providers": {"up": entry}}), "utf-8")

    with server(hurried) as url:
        configured(url)
        done = harness("record", "up", "--shape", "text", "--read-rate", SLOW)
    line = done.failed(3)
    assert "the stream ended as " in line
    assert f"(read at {SLOW} bytes a second)" in line
    with server(patient) as url:
        configured(url)
        done = harness("record", "up", "--shape", "text", "--read-rate", RATE)
    assert (done.code, done.err) == (0, "")
    assert load(tmp_path / "fixtures" / "up" / "text.sse").recording.body == BODY
    assert "0 is not in the range" in harness("record", "up", "--read-rate", 0).failed(2)
