"""The recorder against real sockets: servers written out by hand, byte by byte, that do what servers do."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from servers import certified

from harness.endpoint import Endpoint, Timeouts
from harness.errors import RecordingError, SecretFound, UsageError
from harness.partial import Partial
from harness.recorder import KEPT_HEADERS, arecord, record
from harness.recording import END_STATES, Recording
from harness.store import load
from harness.transport import BODY_ENDS, NO_RESPONSE, RETRY_CAP, is_loopback, retry_after

ROOT = Path(__file__).parents[1]
KEY = "sk-test-0123456789abcdef/XYZ"
EVENTS = [b'data: {"a":1}\n\n', b": ping\n\n", 'data: {"t":"caf\u00e9"}\r\n\r\n'.encode(), b"data: [DONE]\n\n"]
BODY = b"".join(EVENTS)
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = SSE + b"Transfer-Encoding: chunked\r\n\r\n"
Handler = Callable[[socket.socket, bytes], None]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Server:
    """Gives connection n to handler n (the last serves all further ones), each in a thread. Keeps what was asked."""

    def __init__(self, *handlers: Handler, tls: ssl.SSLContext | None = None) -> None:
        self.handlers, self.tls = handlers, tls
        self.requests: list[bytes] = []
        self.gone = threading.Event()  # set when a client has closed its end while being waited for
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.socket.getsockname()[1]}/v1/chat/completions"
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def _accept(self) -> None:
        for number in range(1000):
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            handler = self.handlers[min(number, len(self.handlers) - 1)]
            thread = threading.Thread(target=self._serve, args=(connection, handler))
            self.threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, handler: Handler) -> None:
        try:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            connection.settimeout(10)
            data = b""
            while b"\r\n\r\n" not in data and (more := connection.recv(65536)):
                data += more
            head, _, body = data.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            while length and len(body) < int(length[1]):
                body += connection.recv(65536)
            self.requests.append(head + b"\r\n\r\n" + body)
            handler(connection, self.requests[-1])
        except OSError:
            self.gone.set()
        connection.close()

    def wait_until_gone(self, connection: socket.socket) -> None:
        """Block until the client closes the connection."""
        with suppress(ConnectionError):
            assert connection.recv(1) == b""
        self.gone.set()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for thread in self.threads:
            thread.join(15)


def sends(*parts: bytes | float) -> Handler:
    """Send the bytes, sleep the seconds, in order."""

    def handler(connection: socket.socket, _: bytes) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            if isinstance(part, bytes):
                connection.sendall(part)
            else:
                time.sleep(part)

    return handler


def then_reset(handler: Handler) -> Handler:
    def resetting(connection: socket.socket, request: bytes) -> None:
        handler(connection, request)
        time.sleep(0.05)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return resetting


def endpoint(server: Server | str, **fields: Any) -> Endpoint:
    fields = {"body": b'{"model": "m",  "stream": true}', "provider": "candidate", "dialect": "chat", **fields}
    return Endpoint(url=server if isinstance(server, str) else server.url, **fields)


def soon(**seconds: float) -> Timeouts:
    return Timeouts(**{"connect": 5.0, "first_event": 5.0, "idle": 5.0, "total": 10.0, **seconds})


def recorded(*parts: bytes | float, **fields: Any) -> Recording:
    with Server(sends(*parts)) as server:
        return record(endpoint(server, **fields))


# What is kept


def test_body_reads_status_and_request_are_exact() -> None:
    answer = [CHUNKED]
    for event in EVENTS:
        answer += [chunk(event), 0.02]  # type: ignore[list-item]
    pieces: list[bytes] = []
    with Server(sends(*answer, b"0\r\n\r\n")) as server:
        sent = b'{"model":  "m",\n "stream": true}'
        recording = record(endpoint(server, body=sent, shape="text", shape_sha256="ab"), sink=pieces.append)
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert recording.body == BODY == b"".join(pieces)
    assert recording.pieces() == EVENTS == pieces
    times = [read.microseconds for read in recording.reads]
    assert times == sorted(times)
    assert 40_000 < times[-1] - times[0] < 5_000_000
    assert 0 <= times[0] < 5_000_000
    assert (recording.status, recording.end, recording.decoded_from) == (200, "eof", None)
    assert (recording.dialect, recording.shape) == ("chat", "text")
    assert recording.request is not None
    assert (recording.request.method, recording.request.path) == ("POST", "/v1/chat/completions")
    assert recording.request.body == {"model": "m", "stream": True}
    assert recording.request.shape_sha256 == "ab"
    assert recording.provenance is not None
    assert recording.provenance.kind == "recorded"
    assert datetime.now(UTC) - datetime.fromisoformat(recording.provenance.date or "") < timedelta(minutes=1)
    assert body == sent
    assert b"accept-encoding: identity" in head.lower()
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")


def test_headers_of_the_endpoint_win_and_only_listed_headers_are_kept() -> None:
    extra = b"X-Request-Id: req_1\r\nOpenAI-Organization: acme\r\nSet-Cookie: a=b\r\nX-Accel-Buffering: no\r\n"
    with Server(sends(SSE + extra + b"Server: uvicorn\r\nCACHE-Control: no-cache\r\n\r\n" + BODY)) as server:
        headers = {"Authorization": f"Bearer {KEY}", "User-Agent": "mine", "content-type": "application/vnd.x+json"}
        recording = record(endpoint(server, headers=headers, secrets=(KEY,)))
        head = server.requests[0].lower()
    assert recording.headers == {
        "content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no",
        "server": "uvicorn",
    }  # fmt: skip
    assert set(recording.headers) <= set(KEPT_HEADERS)
    assert head.count(b"\r\nuser-agent: mine") == 1 == head.count(b"\r\nuser-agent:")
    assert head.count(b"\r\ncontent-type: application/vnd.x+json") == 1 == head.count(b"\r\ncontent-type:")
    assert b"authorization: bearer " + KEY.lower().encode() in head


def test_wherever_the_network_cuts() -> None:
    answer = CHUNKED + b"".join(map(chunk, EVENTS)) + b"0\r\n\r\n"
    recording = recorded(*(part for byte in answer for part in (bytes([byte]), 0.0002)))
    assert (recording.body, recording.end) == (BODY, "eof")
    assert recording.reads[-1].end == len(BODY)


def test_without_chunks_or_length_and_after_early_responses() -> None:
    assert recorded(SSE + b"\r\n" + BODY).body == BODY
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    recording = recorded(early + SSE + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
    assert (recording.body, recording.end, recording.status) == (BODY, "eof", 200)
    assert recorded(b"HTTP/1.0 200 OK\r\n\r\n" + BODY).end == "eof"
    empty = recorded(SSE + b"Content-Length: 0\r\n\r\n")
    assert (empty.body, empty.reads, empty.end) == (b"", [], "eof")


def test_any_status_is_recorded() -> None:
    page = b"<html>Internal Server Error</html>"
    recording = recorded(b"HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\nContent-Length: 34\r\n\r\n" + page)
    assert (recording.status, recording.body, recording.end) == (500, page, "eof")
    assert recording.headers == {"content-type": "text/html"}


def test_redirects_are_recorded_and_not_followed() -> None:
    with Server(sends(SSE + b"\r\n" + BODY)) as elsewhere:
        head = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % elsewhere.url.encode()
        with Server(sends(head)) as server:
            recording = record(endpoint(server, headers={"authorization": f"Bearer {KEY}"}))
            assert len(server.requests) == 1
        assert elsewhere.requests == []
    assert (recording.status, recording.end) == (307, "eof")


# How it ends


def test_reset() -> None:
    with Server(then_reset(sends(CHUNKED + chunk(EVENTS[0]), b"ff\r\ndata: {"))) as server:
        recording = record(endpoint(server))
    assert (recording.body, recording.end) == (EVENTS[0] + b"data: {", "reset")


def test_cut() -> None:
    recording = recorded(CHUNKED + chunk(EVENTS[0]), b"ff\r\ndata: {")
    assert (recording.body, recording.end) == (EVENTS[0] + b"data: {", "cut")
    assert recorded(CHUNKED + chunk(BODY)).end == "cut"  # the last chunk never came
    recording = recorded(SSE + b"Content-Length: 1000\r\n\r\n" + BODY)
    assert (recording.body, recording.end) == (BODY, "cut")


def test_protocol_error() -> None:
    recording = recorded(CHUNKED + chunk(EVENTS[0]), 0.05, b"zz\r\n" + EVENTS[1])
    assert (recording.body, recording.end) == (EVENTS[0], "protocol-error")


def test_too_large_keeps_the_limit_to_the_byte() -> None:
    def endless(connection: socket.socket, _: bytes) -> None:
        connection.sendall(CHUNKED)
        while True:
            connection.sendall(chunk(EVENTS[0] * 100))

    pieces: list[bytes] = []
    with Server(endless) as server:
        recording = record(endpoint(server, max_body=100_001), sink=pieces.append)
    assert (len(recording.body), recording.end) == (100_001, "too-large")
    assert recording.body == (EVENTS[0] * 10_000)[:100_001] == b"".join(pieces)
    at_limit = recorded(SSE + b"\r\n" + BODY, max_body=len(BODY))
    assert (at_limit.body, at_limit.end) == (BODY, "eof")


def waits(*parts: bytes | float) -> tuple[Server, Handler]:
    """A server that goes silent after the parts, until the client leaves."""
    server: Server

    def handler(connection: socket.socket, request: bytes) -> None:
        sends(*parts)(connection, request)
        server.wait_until_gone(connection)

    server = Server(handler)
    return server, handler


@pytest.mark.parametrize(
    ("parts", "timeouts", "end", "body"),
    [
        ([CHUNKED], soon(first_event=0.2), "timeout:first-event", b""),
        ([CHUNKED, chunk(b": hi\n\n"), 0.1, chunk(b"data:\n\n")], soon(first_event=0.3), "timeout:first-event", None),
        ([CHUNKED, chunk(EVENTS[0])], soon(idle=0.2), "timeout:idle", EVENTS[0]),
        # Comments, names without data, empty data and half a line do not feed the idle time.
        (
            [CHUNKED, chunk(EVENTS[0]), *[0.1, chunk(b": {\n\nevent: y\n\ndata:\n\nid: 1\n\n")] * 8, chunk(b"data: {")],
            soon(idle=0.35), "timeout:idle", None,
        ),
        ([CHUNKED, *[chunk(EVENTS[0]), 0.1] * 8], soon(idle=0.5, total=0.6), "timeout:total", None),
    ],
    ids=["nothing", "comments-only", "stall", "heartbeats", "total"],
)  # fmt: skip
def test_timeouts_close_the_socket_and_keep_what_came(
    parts: list[bytes | float], timeouts: Timeouts, end: str, body: bytes | None
) -> None:
    server, _ = waits(*parts)
    with server:
        started = time.monotonic()
        recording = record(endpoint(server, timeouts=timeouts))
        assert time.monotonic() - started < 3
        assert server.gone.wait(5)
    assert (recording.end, recording.status) == (end, 200)
    sent = b"".join(part for part in parts[1:] if isinstance(part, bytes))
    assert body is None or recording.body == body
    assert re.sub(rb"[0-9a-f]+\r\n|\r\n", b"", sent).startswith(recording.body)


def test_events_feed_the_idle_time() -> None:
    """Events of every form, whole and in two pieces, for longer than the idle time; all at once, to save time."""
    forms = [
        b'data: {"a":1}\n\n', b"event: e\r\ndata:x\r\n\r\n", b"data: y\r\r",
        b'data: {"a":1}\n',  # no blank line
        b'{"done":false}\n',  # NDJSON
    ]  # fmt: skip

    def feed(event: bytes, cut: int) -> tuple[bytes, str]:
        parts: list[bytes | float] = [CHUNKED]
        for _ in range(6):
            parts += [*(chunk(half) for half in (event[:cut], event[cut:]) if half), 0.15]
        recording = recorded(*parts, b"0\r\n\r\n", timeouts=soon(first_event=0.6, idle=0.6))
        return recording.body, recording.end

    cases = [(event, cut) for event in forms for cut in (0, 3, len(event) - 1)]
    with ThreadPoolExecutor(len(cases)) as pool:
        ends = list(pool.map(lambda case: feed(*case), cases))
    assert ends == [(event * 6, "eof") for event, _ in cases]


def test_a_slow_first_byte_is_no_response() -> None:
    server, _ = waits()
    with server:
        reason, text = failure(server.url, timeouts=soon(first_event=0.2))
        assert server.gone.wait(5)
    assert reason == "timeout:first-event"
    assert re.search(r"no response from 127\.0\.0\.1:\d+ within 0\.2 s", text)


def test_a_held_up_process_does_not_blame_the_server() -> None:
    """A sink that blocks for longer than the idle time: the events that came meanwhile are read first."""
    blocked = False

    def sink(_: bytes) -> None:
        nonlocal blocked
        if not blocked:
            blocked = True
            time.sleep(1.3)

    parts: list[bytes | float] = [CHUNKED, chunk(EVENTS[0]), 0.2, chunk(EVENTS[2]), 0.2, chunk(EVENTS[3])]
    with Server(sends(*parts, b"0\r\n\r\n")) as server:
        recording = record(endpoint(server, timeouts=soon(idle=0.6)), sink=sink)
    assert (recording.body, recording.end) == (EVENTS[0] + EVENTS[2] + EVENTS[3], "eof")


# Content codings


def flushed(wbits: int) -> list[bytes]:
    coder = zlib.compressobj(6, zlib.DEFLATED, wbits)
    return [coder.compress(event) + coder.flush(zlib.Z_SYNC_FLUSH) for event in EVENTS] + [coder.flush()]


@pytest.mark.parametrize(
    ("coding", "wbits"), [(b"gzip", 31), (b"GZip", 31), (b"x-gzip", 31), (b"deflate", 15), (b"deflate", -15)]
)
def test_a_coding_is_undone_as_it_comes(coding: bytes, wbits: int) -> None:
    parts: list[bytes | float] = [CHUNKED[:-2] + b"Content-Encoding: %b\r\n\r\n" % coding]
    for piece in flushed(wbits):
        parts += [chunk(piece), 0.02]
    recording = recorded(*parts, b"0\r\n\r\n")
    assert (recording.body, recording.end) == (BODY, "eof")
    assert recording.pieces() == EVENTS  # each was decoded when it came, not at the end
    assert recording.decoded_from == ("deflate" if coding == b"deflate" else "gzip")
    assert recording.headers["content-encoding"] == coding.decode()


def coded(body: bytes, coding: bytes = b"gzip", **fields: Any) -> Recording:
    head = SSE + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (coding, len(body))
    return recorded(head + body, **fields)


def test_a_coding_that_goes_wrong() -> None:
    whole = gzip.compress(BODY)
    assert coded(whole + gzip.compress(BODY) + b"\0\0").body == BODY * 2  # several members are one body
    cut = coded(b"".join(flushed(31))[:-12])
    assert (cut.body, cut.end, cut.decoded_from) == (BODY, "cut", "gzip")
    for wbits, coding in ((31, b"gzip"), (15, b"deflate")):
        broken = coded(b"".join(flushed(wbits)[:2]) + b"\xff" * 50 + flushed(wbits)[2], coding)
        assert (broken.body, broken.end) == (EVENTS[0] + EVENTS[1], "protocol-error")
        assert broken.decoded_from == coding.decode()
    plain = coded(BODY)  # says gzip, is not
    assert (plain.body, plain.end, plain.decoded_from) == (BODY, "eof", None)
    assert plain.headers["content-encoding"] == "gzip"
    unknown = coded(b"\x0b\x02\x80", b"br")
    assert (unknown.body, unknown.end, unknown.decoded_from) == (b"\x0b\x02\x80", "eof", None)


def test_a_small_body_that_decodes_to_a_huge_one() -> None:
    bomb = coded(gzip.compress(b"\0" * 50_000_000), max_body=1_000_000)
    assert (len(bomb.body), bomb.end) == (1_000_000, "too-large")
    nothing = b"\x78\x9c" + b"\0\0\0\xff\xff" * 100_000  # empty blocks: it decodes to nothing, for ever
    assert coded(nothing, b"deflate", max_body=100_000).end == "too-large"


# Trying again


@pytest.mark.parametrize("status", [429, 503])
def test_retry_waits_as_told_and_takes_a_fresh_connection(status: int) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    busy = b"HTTP/1.1 %d Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy" % status
    pieces: list[bytes] = []
    with Server(sends(busy), sends(busy.replace(b"Retry-After: 7\r\n", b"")), sends(SSE + b"\r\n" + BODY)) as server:
        recording = record(endpoint(server), sink=pieces.append, sleep=sleep)
        assert len(server.requests) == 3
    assert (recording.status, recording.body, slept) == (200, BODY, [7.0, 2.0])
    assert b"".join(pieces) == BODY
    with Server(sends(busy)) as server:
        recording = record(endpoint(server, retries=1), sleep=sleep)
        assert len(server.requests) == 2
    assert (recording.status, recording.body, recording.headers["retry-after"]) == (status, b"busy", "7")


def test_no_retry_once_the_stream_has_begun_or_after_other_failures() -> None:
    for answer in (CHUNKED + chunk(EVENTS[0]), b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"):
        with Server(sends(answer)) as server:
            record(endpoint(server))
            assert len(server.requests) == 1
    with Server(sends()) as server:
        with pytest.raises(RecordingError) as caught:
            record(endpoint(server))
        assert len(server.requests) == 1
    assert caught.value.reason == "cut"


def test_retry_after() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 25 < (retry_after(date) or 0) <= 30
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert retry_after("Wed, 21 Oct 2099 07:28:00 GMT") == RETRY_CAP == retry_after("99999")
    assert [retry_after(text) for text in ("0", " 2 ", "1.5")] == [0.0, 2.0, 1.5]
    for text in (None, "", "soon", "-1", "1e9", "nan", "9" * 5000, "Mon, 99 Foo 0000", "\u0663"):
        assert retry_after(text) is None, text


# No response


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def failure(url: str, **fields: Any) -> tuple[str, str]:
    with pytest.raises(RecordingError) as caught:
        record(endpoint(url, **fields))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("candidate: ")
    return caught.value.reason, str(caught.value)


def test_nobody_listens() -> None:
    port = free_port()
    reason, text = failure(f"http://user:pass@127.0.0.1:{port}/v1?key=k")
    assert reason == "connect"
    assert text == (
        f"candidate: cannot connect to 127.0.0.1:{port} (Connection refused): is the server running? check base_url"
    )
    assert "pass" not in text
    assert "key=k" not in text


def test_no_such_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", fails)
    reason, text = failure("http://nowhere.invalid/v1")
    assert reason == "dns"
    assert "nowhere.invalid:80" in text


def test_servers_that_answer_no_http() -> None:
    with Server(sends(b"SSH-2.0-OpenSSH\r\n\r\n")) as server:
        assert failure(server.url)[0] == "protocol-error"
    with Server(then_reset(sends())) as server:
        assert failure(server.url)[0] == "reset"
    with Server(sends(b"HTTP/1.1 302 Found\r\nLocation: http://a:bad/\r\n\r\n")) as server:
        assert failure(server.url)[0] == "protocol-error"
    with Server(sends(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000)) as server:
        assert failure(server.url)[0] == "protocol-error"
    with Server(sends(b"HTTP/1.1 200 OK\r\n\r\n")) as server:
        # TLS is asked for, HTTP comes back (or nothing, as the server waits for the end of a head).
        reason, text = failure(server.url.replace("http:", "https:"), timeouts=soon(connect=0.5))
        assert reason in ("tls", "connect")
        assert "127.0.0.1" in text


def test_requests_that_cannot_be_sent() -> None:
    with Server(sends(SSE + b"\r\n")) as server:
        for headers in ({"authorization": f"Bearer {KEY}\nx"}, {"authorization": f"Bearer {KEY}\u2026"}):
            with pytest.raises(UsageError) as caught:
                record(endpoint(server, headers=headers, secrets=(KEY,)))
            assert KEY not in str(caught.value)
            assert "\n" not in str(caught.value)
        odd = ("ftp://127.0.0.1/", "127.0.0.1:80", "http://127.0.0.1:http/", "http://127.0.0.1/\x01", "", "http://",
               "http://127.0.0.1:70000/", "http://x\udcff/", "http://[::1/")  # fmt: skip
        for url in odd:
            with pytest.raises(UsageError, match="candidate: "):
                record(endpoint(url))
        with pytest.raises(UsageError, match=r"verify: missing\.pem: not a usable CA file"):
            record(endpoint(server, verify="missing.pem"))
        assert not any(request.strip() for request in server.requests)


def test_tls_with_a_ca_file(tmp_path: Path) -> None:
    context, certificate = certified(tmp_path)
    with Server(sends(CHUNKED + chunk(BODY) + b"0\r\n\r\n"), tls=context) as server:
        assert record(endpoint(server, verify=str(certificate))).body == BODY
        assert record(endpoint(server, verify=False)).body == BODY
        reason, text = failure(server.url)
        assert reason == "tls"
        assert "self-signed" in text or "self signed" in text
        assert "verify" in text


def test_nothing_a_server_sends_crashes_or_hangs() -> None:
    """Answers with bytes changed, dropped and doubled anywhere, head included: a recording or a RecordingError."""
    random = Random(20)
    answers = [
        CHUNKED + b"".join(map(chunk, EVENTS)) + b"0\r\n\r\n",
        SSE + b"Content-Encoding: gzip\r\nContent-Length: 90\r\n\r\n" + gzip.compress(BODY),
        b"HTTP/1.1 302 Found\r\nLocation: /x\r\nSet-Cookie: a=b; Expires=x\r\nRetry-After: 1\r\n\r\n",
    ]
    seen: set[str] = set()
    messages: list[str] = []

    def changed(answer: bytes) -> bytes:
        for _ in range(random.randint(1, 4)):
            at, size = random.randrange(len(answer)), random.choice([0, 1, 1, 3, 20])
            new = random.choice([b"", random.randbytes(size), answer[at : at + size] * 2, b"\r\n", b"\0", b":"])
            answer = answer[:at] + new + answer[at + size :]
        return answer

    with Server(*(sends(changed(random.choice(answers))) for _ in range(300))) as server:
        target = endpoint(server, retries=0, timeouts=soon(total=5.0))
        for _ in range(300):
            try:
                recording = record(target)
            except RecordingError as exc:
                messages.append(str(exc))
                seen.add(exc.reason)
            else:
                assert recording.reads == [] or recording.reads[-1].end == len(recording.body)
                seen.add(recording.end)
    assert seen >= {"eof", "cut", "protocol-error"}
    assert not {end for end in seen if end.startswith("timeout")}
    assert not any("\n" in message for message in messages)


def test_every_error_of_httpx_has_a_meaning() -> None:
    def below(cls: type[Exception]) -> Iterator[type[Exception]]:
        yield cls
        for sub in cls.__subclasses__():
            yield from below(sub)

    names = {cls.__name__ for cls in below(httpx.TransportError) if cls.__module__.partition(".")[0] == "httpx"}
    assert len(names) > 10
    assert names == set(BODY_ENDS) == set(NO_RESPONSE)
    assert set(BODY_ENDS.values()) <= set(END_STATES)


# Proxies


def test_loopback_bypasses_the_proxy_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Server(sends(SSE + b"\r\n" + BODY)) as proxy, Server(sends(SSE + b"\r\n" + EVENTS[0])) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert record(endpoint(server)).body == EVENTS[0]
        assert proxy.requests == []
        assert record(endpoint("http://model.invalid/v1/x")).body == BODY
        assert proxy.requests[0].startswith(b"POST http://model.invalid/v1/x HTTP/1.1\r\n")
        monkeypatch.setenv("HTTP_PROXY", "nonsense://x")
        with pytest.raises(UsageError, match="proxy variables"):
            record(endpoint("http://model.invalid/v1/x"))


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]",
                                  "0.0.0.0", "::ffff:127.0.0.1"])  # fmt: skip
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["localhost.example.com", "10.0.0.1", "example.com", "128.0.0.1", "", "::2"])
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


# Keys


def test_an_echoed_key_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    cut = KEY.encode()[:9]
    rest = KEY.encode()[9:]
    echo = sends(CHUNKED, chunk(b'data: {"echo":"' + cut), 0.05, chunk(rest + b'"}\n\n') + b"0\r\n\r\n")
    with Server(echo) as server:
        target = endpoint(server, headers={"authorization": f"Bearer {KEY}"}, secrets=(KEY,))
        with pytest.raises(SecretFound, match="holds the value of a key") as caught:
            record(target)
        assert KEY not in str(caught.value)
        with Partial(tmp_path, "candidate", "text", secrets=(KEY,)) as partial:
            with pytest.raises(SecretFound, match=r"^candidate/text: "):
                record(target, sink=partial.write, on_end=partial.finish)
            assert not partial.path.exists()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [".gitignore"]
    assert caught.value.reason == "secret"


def test_a_key_in_a_kept_header_is_refused() -> None:
    with pytest.raises(SecretFound):
        recorded(SSE + f"Server: proxy {KEY}\r\n\r\n".encode() + BODY, secrets=(KEY,))


@pytest.mark.parametrize("escape", ["\\u002B", "\\u002b"])
def test_a_key_that_an_encoder_escaped_for_html_is_refused(escape: str) -> None:
    key = "abcdefgh+ijkl/mnop"
    with pytest.raises(SecretFound):
        recorded(SSE + b"\r\n" + b'data: {"echo": "' + key.replace("+", escape).encode() + b'"}\n\n', secrets=(key,))


def test_an_error_that_quotes_the_server_is_masked_before_it_is_cut() -> None:
    for before in range(140, 200, 7):
        with Server(sends(b"x" * before + KEY.encode() + b"\r\n\r\n")) as server:
            with pytest.raises(RecordingError) as caught:
                record(endpoint(server, secrets=(KEY,)))
            assert KEY[:6] not in str(caught.value)


def test_a_key_in_the_request_is_masked() -> None:
    with Server(sends(SSE + b"\r\n" + BODY)) as server:
        sent = json.dumps({"user": KEY, "deep": [f"x {KEY} y"]}).encode()
        target = endpoint(server.url + f"/{KEY.replace('/', '%2F')}?key={KEY}", body=sent, secrets=(KEY,))
        recording = record(target)
        assert server.requests[0].endswith(sent)
    assert recording.request is not None
    assert recording.request.body == {"user": "***", "deep": ["x *** y"]}
    assert recording.request.path == "/v1/chat/completions/***"
    assert KEY not in repr(target)
    assert "key=" not in repr(target)


# Ways in, and ways out before the end


def test_sync_door_in_a_thread_and_inside_a_loop() -> None:
    with Server(sends(SSE + b"\r\n" + BODY)) as server:
        bodies: list[bytes] = []
        thread = threading.Thread(target=lambda: bodies.append(record(endpoint(server)).body))
        thread.start()
        thread.join()

        async def inside() -> bytes:
            return record(endpoint(server)).body

        assert [*bodies, asyncio.run(inside())] == [BODY, BODY]

        async def fails() -> None:
            record(endpoint(f"http://127.0.0.1:{free_port()}/"))

        with pytest.raises(RecordingError):
            asyncio.run(fails())


def test_copies_are_sent_at_once_and_the_first_is_recorded() -> None:
    barrier = threading.Barrier(3)
    finished: list[bool] = []

    def together(connection: socket.socket, _: bytes) -> None:
        barrier.wait(10)  # nobody is answered before all have asked
        sends(CHUNKED, chunk(EVENTS[0]), 0.1, chunk(EVENTS[3]) + b"0\r\n\r\n")(connection, b"")
        finished.append(True)

    with Server(together) as server:
        pieces: list[bytes] = []
        recording = record(endpoint(server), concurrent=3, sink=pieces.append)
        assert len(server.requests) == 3
    assert (recording.body, recording.end) == (EVENTS[0] + EVENTS[3], "eof")
    assert b"".join(pieces) == recording.body


def test_a_cancelled_recording_keeps_what_was_there(tmp_path: Path) -> None:
    server, _ = waits(CHUNKED, chunk(EVENTS[0]))
    with server, Partial(tmp_path, "candidate", "text") as partial:

        async def cancelled() -> None:
            task = asyncio.create_task(arecord(endpoint(server), sink=partial.write, on_end=partial.finish))
            while partial.path.stat().st_size == 0:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        assert server.gone.wait(5)
    assert partial.kept_at is not None
    recording = load(partial.kept_at).recording
    assert (recording.body, recording.end, recording.status) == (EVENTS[0], "client-closed", 200)


def test_a_sink_that_fails_closes_the_connection() -> None:
    server, _ = waits(CHUNKED, chunk(EVENTS[0]))

    def full(_: bytes) -> None:
        raise UsageError("no space left")

    with server:
        with pytest.raises(UsageError, match="no space left"):
            record(endpoint(server), sink=full)
        assert server.gone.wait(5)


PROGRAM = """
import sys
from pathlib import Path
from harness.endpoint import Endpoint
from harness.partial import Partial
from harness.recorder import record
def work():
    with Partial(Path(sys.argv[1]), "candidate", "text", secrets=("sk-secret-value",)) as partial:
        record(Endpoint(url=sys.argv[2]), sink=partial.write, on_end=partial.finish)
"""


INSIDE_A_LOOP = """
import asyncio
async def main():
    work()
asyncio.run(main())
"""


@contextmanager
def recording_process(tmp_path: Path, url: str, program: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the middle of a recording: what the server sent so far is in its partial file."""
    command = [sys.executable, "-c", program, str(tmp_path), url]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        deadline = time.monotonic() + 20
        while not any(path.stat().st_size == 2 * len(EVENTS[0]) for path in tmp_path.rglob("*.sse")):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_kill_leaves_a_readable_partial_recording(tmp_path: Path) -> None:
    server, _ = waits(CHUNKED, chunk(EVENTS[0]), chunk(EVENTS[0]))
    with server, recording_process(tmp_path, server.url, PROGRAM + "work()") as process:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        (path,) = (tmp_path / ".harness" / "partial").glob("candidate.text.*.sse")
        loaded = load(path)
    assert (loaded.recording.body, loaded.recording.end, loaded.warning) == (EVENTS[0] * 2, "incomplete", None)
    assert loaded.recording.shape == "text"


@pytest.mark.parametrize("inside_a_loop", [False, True])
def test_ctrl_c_sets_the_recording_aside(tmp_path: Path, inside_a_loop: bool) -> None:
    server, _ = waits(CHUNKED, chunk(EVENTS[0]), chunk(EVENTS[0]))
    program = PROGRAM + (INSIDE_A_LOOP if inside_a_loop else "work()")
    with server, recording_process(tmp_path, server.url, program) as process:
        process.send_signal(signal.SIGINT)
        if inside_a_loop:  # the first is for the loop, which stands still
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        assert b"KeyboardInterrupt" in errors
        assert process.returncode in (-signal.SIGINT, 130)
        (path,) = (tmp_path / ".harness" / "failed" / "candidate").glob("text-*-1.sse")
        loaded = load(path)
        assert list((tmp_path / ".harness" / "partial").iterdir()) == []
    assert (loaded.recording.body, loaded.recording.end) == (EVENTS[0] * 2, "client-closed")
    assert (loaded.recording.status, loaded.warning) == (200, None)
    assert len(loaded.recording.reads) == 2
