"""The capture proxy over real sockets: what passes is not changed, who leaves or breaks does so on both sides, and what
is kept holds no key."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from commandline import harness, harness_process
from reading import FIXTURES
from servers import RESET, Answer, Scripted, answer, chunked, closed_port, json_answer

from harness.config import load_project
from harness.proxy import Forwarded, Proxy
from harness.replay import Replay
from harness.runs.capturing import proxy_for
from harness.store import load

KEY = "sk-provider-0123456789abcdef"
CLIENT_KEY = "sk-application-fedcba9876543210"
TEXT = (FIXTURES / "vllm" / "text.sse").read_bytes()
EVENTS = [event + b"\n\n" for event in TEXT.split(b"\n\n") if event]
PATIENCE = 60  # seconds until a test gives up what it waits for: a busy machine is no fault
HELLO = {"stream": True, "messages": [{"role": "user", "content": "hi"}]}
BODY = json.dumps(HELLO).encode()
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def project_at(folder: Path, url: str, **fields: Any) -> None:
    entry = {"dialect": "chat", "base_url": url, "model": "m", "api_key_env": "UP_KEY", **fields}
    entry = {name: value for name, value in entry.items() if value is not None}
    (folder / "providers.yaml").write_text(yaml.safe_dump({"providers": {"up": entry}}), "utf-8")


class Told:
    """The exchanges that have ended, as the proxy tells them in its own thread."""

    def __init__(self) -> None:
        self.exchanges: list[Forwarded] = []
        self._more = threading.Condition()

    def add(self, exchange: Forwarded) -> None:
        with self._more:
            self.exchanges.append(exchange)
            self._more.notify_all()

    def wait_for(self, number: int) -> Forwarded:
        """The exchange with that number, once it has ended."""
        with self._more:
            assert self._more.wait_for(lambda: len(self.exchanges) >= number, PATIENCE), self.exchanges
            return self.exchanges[number - 1]


class Running:
    """A proxy, what it told, and a client of it."""

    def __init__(self, proxy: Proxy, told: Told, client: httpx.Client, folder: Path) -> None:
        self.proxy, self.told, self.client, self.folder = proxy, told, client, folder

    def last(self, number: int = 1) -> Forwarded:
        """The exchange with that number, once it has ended."""
        return self.told.wait_for(number)

    def kept(self) -> dict[str, bytes]:
        """Bodies of fixtures, by name."""
        return {path.name: path.read_bytes() for path in sorted((self.folder / "fixtures").rglob("*.sse"))}

    def files(self) -> list[bytes]:
        return [path.read_bytes() for path in self.folder.rglob("*") if path.is_file()]


@contextmanager
def running(folder: Path, url: str, shape: str = "", **fields: Any) -> Iterator[Running]:
    project_at(folder, url, **fields)
    told = Told()
    project = load_project(folder / "providers.yaml", folder)
    headers = {"authorization": f"Bearer {CLIENT_KEY}"}
    with (
        proxy_for(project, "up", {"UP_KEY": KEY}, shape=shape, watch=told.add) as proxy,
        httpx.Client(base_url=proxy.base_url, headers=headers, timeout=PATIENCE) as client,
    ):
        yield Running(proxy, told, client, folder)


@contextmanager
def before(folder: Path, *answers: Answer, **fields: Any) -> Iterator[tuple[Running, Scripted]]:
    """A proxy before a scripted server."""
    with Scripted(*answers) as server, running(folder, server.url, **fields) as found:
        yield found, server


def connected(found: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", found.proxy.port), timeout=PATIENCE)


def talk(found: Running, request: bytes) -> bytes:
    """All that the proxy says to the request."""
    got = bytearray()
    with connected(found) as sock:
        sock.sendall(request)
        while piece := sock.recv(65536):
            got += piece
    return bytes(got)


# -- what passes ---------------------------------------------------------------------------------------------------


def test_bytes_chunks_status_and_headers_pass_as_they_are(tmp_path: Path) -> None:
    script = chunked(*EVENTS)
    assert isinstance(script[0], bytes)
    odd = b"HTTP/1.1 200 Fine by me\r\nX-Request-Id: r1\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\n"
    script[0] = script[0].replace(b"HTTP/1.1 200 Status\r\n", odd)
    with before(tmp_path, script) as (found, _):
        head, _, rest = talk(found, POST % len(BODY) + BODY).partition(b"\r\n\r\n")
        assert head.split(b"\r\n") == [
            b"HTTP/1.1 200 Fine by me", b"X-Request-Id: r1", b"set-cookie: a=1", b"Set-Cookie: b=2",
            b"content-type: text/event-stream", b"transfer-encoding: chunked", b"connection: close",
        ]  # fmt: skip
        assert rest == b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in [*EVENTS, b""])
        assert found.last() == Forwarded(
            method="POST", path="/v1/chat/completions", status=200, sent=len(TEXT), outcome="completed", shape="text",
            fixture=str(tmp_path / "fixtures" / "up" / "text.sse"),
        )  # fmt: skip
    loaded = load(tmp_path / "fixtures" / "up" / "text.sse")
    assert loaded.warning is None
    recording = loaded.recording
    assert (recording.body, recording.end, recording.dialect, recording.shape) == (TEXT, "eof", "chat", "text")
    assert [read.end for read in recording.reads] == [
        sum(map(len, EVENTS[: number + 1])) for number in range(len(EVENTS))
    ]
    assert recording.request is not None
    assert recording.request.body == HELLO
    assert set(recording.headers) == {"content-type", "transfer-encoding"}


def test_the_request_passes_as_it_is_with_the_providers_key(tmp_path: Path) -> None:
    body = b'{ "stream" :true,\n"messages": [] , "x": "\xc3\xa9" }'
    fields = {"headers": {"X-Org": "${ORG:-ours}"}, "query": {"api-version": "7"}}
    with before(tmp_path, chunked(*EVENTS), **fields) as (found, server):
        sent = {b"content-type": b"application/json; charset=utf-8", b"x-trace": "é".encode(), b"x-org": b"theirs",
                b"user-agent": b"app/1", b"accept-encoding": b"gzip, br", b"cookie": b"session=0123456789"}  # fmt: skip
        found.client.post("/chat/completions?a=%20b&key=QUERYKEY1", content=body, headers=sent)
    head, _, got = server.requests[0].partition(b"\r\n\r\n")
    assert got == body
    line, *fields_sent = head.split(b"\r\n")
    assert line == b"POST /v1/chat/completions?a=%20b&api-version=7 HTTP/1.1"
    headers = {name.lower(): value for name, _, value in (field.partition(b": ") for field in fields_sent)}
    assert headers == {
        b"host": f"127.0.0.1:{server.port}".encode(), b"accept": b"*/*", b"user-agent": b"app/1",
        b"content-type": b"application/json; charset=utf-8", b"x-trace": "é".encode(), b"cookie": b"session=0123456789",
        b"content-length": str(len(body)).encode(), b"accept-encoding": b"identity", b"x-org": b"ours",
        b"authorization": f"Bearer {KEY}".encode(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"auth": "x-api-key"}, {"x-api-key": KEY}),
        ({"auth": "header:X-Own"}, {"x-own": KEY}),
        ({"api_key_env": None}, {"authorization": f"Bearer {CLIENT_KEY}"}),  # nothing to put in its place
        ({"api_key_env": None, "auth": "none"}, {}),
    ],
)
def test_credentials_go_where_the_provider_wants_them(
    tmp_path: Path, fields: dict[str, Any], expected: dict[str, str]
) -> None:
    with before(tmp_path, json_answer(200, {}), **fields) as (found, server):
        found.client.get("/models", headers={"x-goog-api-key": CLIENT_KEY, "api-key": CLIENT_KEY})
    sent = dict(line.lower().split(": ", 1) for line in server.requests[0].decode().split("\r\n")[1:] if line)
    found_there = {name: sent[name] for name in ("authorization", "x-api-key", "x-goog-api-key", "api-key", "x-own")
                   if name in sent}  # fmt: skip
    assert found_there == {name: value.lower() for name, value in expected.items()}


@pytest.mark.parametrize(
    ("base", "asked", "reached"),
    [
        ("/v1", "/v1/chat/completions", "/v1/chat/completions"),
        ("/v1", "/chat/completions", "/v1/chat/completions"),
        ("/v1", "/v1beta/x", "/v1/v1beta/x"),
        ("", "/api/chat", "/api/chat"),
        ("/v1", "http://elsewhere.example/v1/models?x=1", "/v1/models?x=1"),
        ("/v1", "/v1/models/a%2Fb", "/v1/models/a%2Fb"),
        ("/v1", "//elsewhere.example/v1", "/v1//elsewhere.example/v1"),
    ],
)
def test_paths_lead_to_the_provider_and_nowhere_else(tmp_path: Path, base: str, asked: str, reached: str) -> None:
    with Scripted(json_answer(200, {})) as server, running(tmp_path, server.url.removesuffix("/v1") + base) as found:
        assert found.proxy.base_url == f"http://127.0.0.1:{found.proxy.port}{base}"
        talk(found, f"GET {asked} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert server.requests[0].startswith(f"GET {reached} HTTP/1.1\r\n".encode())


class Gate:
    """A server whose steps the test releases one by one, to see that nothing is held back in between."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}/v1"
        self.connection: socket.socket | None = None

    def accept(self) -> socket.socket:
        self.listening.settimeout(PATIENCE)
        self.connection, _ = self.listening.accept()
        self.connection.settimeout(PATIENCE)
        return self.connection

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.listening.close()
        if self.connection is not None:
            self.connection.close()


def until(sock: socket.socket, ending: bytes) -> bytes:
    got = b""
    while not got.endswith(ending):
        piece = sock.recv(65536)
        assert piece, got
        got += piece
    return got


def test_nothing_is_held_back_in_either_direction(tmp_path: Path) -> None:
    with Gate() as gate, running(tmp_path, gate.url) as found, connected(found) as client:
        client.sendall(POST % 31 + b'{"stream": true')
        upstream = gate.accept()
        until(upstream, b'{"stream": true')  # the rest has not been sent
        client.sendall(b', "messages":[]}')
        until(upstream, b', "messages":[]}')
        upstream.sendall(HEAD)
        until(client, b"\r\n\r\n")  # the head, before any body
        for _ in range(3):
            upstream.sendall(b"9\r\ndata: {}\n\r\n")
            assert until(client, b"data: {}\n\r\n") == b"9\r\ndata: {}\n\r\n"
        (partial,) = (tmp_path / ".harness" / "partial").glob("up.text.*.sse")
        end = time.monotonic() + PATIENCE
        while partial.read_bytes() != b"data: {}\n" * 3:
            assert time.monotonic() < end


@pytest.mark.parametrize("sent", [b"", POST % 9 + b"{"])
def test_a_client_that_leaves_before_its_request_is_whole(tmp_path: Path, sent: bytes) -> None:
    with Gate() as gate, running(tmp_path, gate.url) as found:
        with connected(found) as client:
            client.sendall(sent)
            upstream = gate.accept() if sent else None
        if upstream is not None:
            with suppress(ConnectionResetError):
                while upstream.recv(65536):
                    pass
            assert found.last().outcome == "client-left"


def test_a_client_that_leaves_is_gone_for_the_provider_too(tmp_path: Path) -> None:
    with Gate() as gate, running(tmp_path, gate.url) as found:
        with connected(found) as client:
            client.sendall(POST % len(BODY) + BODY)
            upstream = gate.accept()
            until(upstream, BODY)
            upstream.sendall(HEAD)
            upstream.sendall(b"%x\r\n%b\r\n" % (len(EVENTS[0]), EVENTS[0]))
            until(client, EVENTS[0] + b"\r\n")
        with suppress(ConnectionResetError):
            assert upstream.recv(65536) == b""
        last = found.last()
    assert (last.outcome, last.reason) == ("client-left", "set aside: the stream ended as client-closed")
    assert last.fixture is not None
    assert load(last.fixture).recording.end == "client-closed"
    assert Path(last.fixture).read_bytes() == EVENTS[0]
    assert found.kept() == {}


@pytest.mark.parametrize(
    ("script", "raised", "end"),
    [
        (chunked(*EVENTS[:2], whole=False), httpx.RemoteProtocolError, "cut"),
        ([*chunked(*EVENTS[:2], whole=False), RESET], httpx.ReadError, "reset"),
        ([*chunked(*EVENTS[:2], whole=False), b"no size\r\n"], httpx.RemoteProtocolError, "protocol-error"),
        ([answer(TEXT)[0], EVENTS[0], EVENTS[1]], httpx.RemoteProtocolError, "cut"),  # shorter than it said
    ],
)
def test_a_break_upstream_is_the_same_break_for_the_client(
    tmp_path: Path, script: Answer, raised: type[Exception], end: str
) -> None:
    with before(tmp_path, script) as (found, server):
        for base in (server.url, found.proxy.base_url):  # without the proxy, and through it
            pieces: list[bytes] = []
            with (
                httpx.Client(base_url=base) as client, client.stream("POST", "/chat/completions", json=HELLO) as reply,
                pytest.raises(raised),
            ):  # fmt: skip
                pieces.extend(reply.iter_raw())
            assert b"".join(pieces) == EVENTS[0] + EVENTS[1]
        last = found.last()
    assert (last.outcome, last.reason) == ("upstream-broke", f"set aside: the stream ended as {end}")
    assert last.fixture is not None
    assert load(last.fixture).recording.end == end
    assert found.kept() == {}


@pytest.mark.parametrize(("script", "raised"), [([], httpx.RemoteProtocolError), ([RESET], httpx.ReadError),
                                                ([b"nonsense\r\n\r\n"], httpx.RemoteProtocolError)])  # fmt: skip
def test_a_break_before_any_response_is_one_too(tmp_path: Path, script: Answer, raised: type[Exception]) -> None:
    with before(tmp_path, script) as (found, _):
        with pytest.raises(raised):
            found.client.post("/chat/completions", json=HELLO)
        assert found.last().outcome == "upstream-broke"
        assert "127.0.0.1" in found.last().reason
    assert not (tmp_path / "fixtures").exists()


def test_a_provider_that_cannot_be_reached_is_a_502_that_says_why(tmp_path: Path) -> None:
    with running(tmp_path, f"http://127.0.0.1:{closed_port()}/v1") as found:
        response = found.client.post("/chat/completions", json=HELLO)
        assert response.status_code == 502
        assert response.json()["error"]["message"].startswith("up: cannot connect to 127.0.0.1:")
        assert (found.last().outcome, found.last().status) == ("unreachable", 502)


def test_other_requests_pass_and_are_not_kept(tmp_path: Path) -> None:
    with Replay(FIXTURES / "vllm") as server, running(tmp_path, server.base_url) as found:
        assert found.client.get("/models").json() == httpx.get(server.base_url + "/models").json()
        head = found.client.head("/models")
        assert (head.status_code, head.content) == (200, b"")
        assert found.client.post("/embeddings", json={"input": "x"}).status_code == 404
        assert found.client.delete("/models").status_code == 405
        assert [found.last(number).reason for number in (1, 2, 3, 4)] == [""] * 4
    with before(tmp_path, json_answer(200, {"choices": []}), answer(b"", 204)) as (found, _):
        assert found.client.post("/chat/completions", json={"messages": []}).json() == {"choices": []}
        assert found.client.post("/chat/completions", content=b"no json").status_code == 204
        assert (found.last(1).reason, found.last(2).reason) == ("", "")
    assert not (tmp_path / "fixtures").exists()


def test_a_coded_body_passes_coded_and_is_kept_plain(tmp_path: Path) -> None:
    coded = gzip.compress(TEXT)
    script = chunked(coded[:100], coded[100:])
    assert isinstance(script[0], bytes)
    script[0] = script[0].replace(b"connection: close", b"content-encoding: gzip")
    with before(tmp_path, script) as (found, _):
        with found.client.stream("POST", "/chat/completions", json=HELLO) as response:
            assert response.headers["content-encoding"] == "gzip"
            assert b"".join(response.iter_raw()) == coded
        found.last()
    recording = load(tmp_path / "fixtures" / "up" / "text.sse").recording
    assert (recording.body, recording.decoded_from) == (TEXT, "gzip")


def test_http_1_0_gets_the_body_without_chunks(tmp_path: Path) -> None:
    with before(tmp_path, chunked(*EVENTS)) as (found, _):
        assert talk(found, b"GET /v1/stream HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")[2] == TEXT


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /v1/models HTTP/1.1\r\nHost: rebound.example\r\n\r\n", 403),
        (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: https://page.example\r\n\r\n", 403),
        (b"POST /v1/chat/completions HTTP/1.1\r\nHost: [::1]:80\r\nOrigin: null\r\nContent-Length: 2\r\n\r\n{}", 403),
        (b"GET /v1/models HTTP/1.1\r\nHost: localhost:9\r\nOrigin: http://127.0.0.1:3000\r\n\r\n", 200),
        (b"GET /v1/models HTTP/1.1\r\n\r\n", 200),
        (b"hello\r\n\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
    ],
)
def test_what_is_not_passed_on_is_told(tmp_path: Path, request_: bytes, status: int) -> None:
    with before(tmp_path, json_answer(200, {})) as (found, server):
        got = talk(found, request_)
        assert got.startswith(b"HTTP/1.1 %d " % status), got
        assert found.last().outcome == ("completed" if status == 200 else "refused")
        if b"POST /v1/x" not in request_:  # those break off while they are being passed on
            assert len(server.requests) == (status == 200)


def test_many_streams_at_once_are_kept_apart(tmp_path: Path) -> None:
    recordings = {f"s{number}": load(FIXTURES / "vllm" / "text.sse").recording for number in range(40)}
    for name, recording in recordings.items():
        recording.body = recording.body.replace(b"Hel", name.encode() + b" ")
    with Replay({"p": recordings}, pieces=700) as server, running(tmp_path, server.base_url) as found:

        async def asked(client: httpx.AsyncClient, name: str) -> bytes:
            return (await client.post(f"/{name}/chat/completions", json=HELLO)).content

        async def all_of_them() -> list[bytes]:
            async with httpx.AsyncClient(base_url=found.proxy.base_url, timeout=PATIENCE) as client:
                return await asyncio.gather(*(asked(client, name) for name in recordings))

        bodies = [recording.body for recording in recordings.values()]
        assert asyncio.run(all_of_them()) == bodies
        found.last(len(recordings))
    assert sorted(found.kept().values()) == sorted(bodies)
    assert set(found.kept()) == {"text.sse", *(f"text.{take}.sse" for take in range(2, 41))}


def test_what_has_ended_is_kept_although_the_server_is_stopped(tmp_path: Path) -> None:
    with Replay(FIXTURES / "vllm") as server, running(tmp_path, server.base_url) as found:

        async def all_of_them() -> None:
            async with httpx.AsyncClient(base_url=found.proxy.base_url, timeout=PATIENCE) as client:
                await asyncio.gather(*(client.post("/chat/completions", json=HELLO) for _ in range(20)))

        asyncio.run(all_of_them())
    assert [exchange.outcome for exchange in found.told.exchanges] == ["completed"] * 20
    assert len(found.kept()) == 20


# -- what is kept --------------------------------------------------------------------------------------------------


TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {}}}
MISSING = {"type": "function", "function": {"name": "nope"}}
TURNS = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]


@pytest.mark.parametrize(
    ("upstream", "asked", "shape"),
    [
        ("text", {}, "text"),
        ("tool-call", {"tools": [TOOL]}, "tool-call"),
        ("parallel-tools", {"tools": [TOOL]}, "parallel-tools"),
        ("text", {"tools": [TOOL]}, "text"),  # it answered without calling the tool
        ("tool-call", {"tools": [TOOL], "messages": TURNS}, "tool-call"),
        ("multi-turn", {"messages": TURNS}, "multi-turn"),
        ("stop", {"stop": ["scripted"]}, "stop"),
        ("structured", {"response_format": {"type": "json_object"}}, "structured"),
        ("error", {}, "error"),  # status 200, then an error
        ("tool-call", {"stop": ["x"]}, "captured-1"),  # a call nobody asked for
    ],
)
def test_a_stream_is_named_by_what_it_is(tmp_path: Path, upstream: str, asked: dict[str, Any], shape: str) -> None:
    with Replay(FIXTURES / "llamacpp") as server, running(tmp_path, server.base_url) as found:
        for _ in range(2):
            found.client.post(f"/{upstream}/chat/completions", json={**HELLO, **asked})
        assert found.last().shape == shape
        assert [found.last(number).reason for number in (1, 2)] == ["", ""]
    body = (FIXTURES / "llamacpp" / f"{upstream}.sse").read_bytes()
    second = "captured-2.sse" if shape == "captured-1" else f"{shape}.2.sse"
    assert found.kept() == {f"{shape}.sse": body, second: body}
    assert list((tmp_path / ".harness" / "partial").iterdir()) == []


def test_a_shape_of_the_applications_own_can_be_gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {**HELLO, "model": "m", "stop": ["x"], "stream_options": {"include_usage": True}}
    with Replay(FIXTURES / "llamacpp") as server, running(tmp_path, server.url("llamacpp", "tool-call")) as found:
        found.client.post("/chat/completions", json=asked)
        assert found.last().shape == "captured-1"
        request = json.loads((tmp_path / "requests" / "chat" / "captured-1.json").read_bytes())
        assert request == {name: asked[name] for name in ("messages", "stop", "stream_options")}
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("UP_KEY", KEY)
        done = harness("gate", "up", "up", "--shape", "captured-1")
    assert (done.code, done.err) == (0, "")


def test_all_streams_can_be_named_alike(tmp_path: Path) -> None:
    with before(tmp_path, chunked(*EVENTS), shape="my-agent") as (found, _):
        for _ in range(2):
            found.client.post("/chat/completions", json=HELLO)
        found.last(2)
    assert set(found.kept()) == {"my-agent.sse", "my-agent.2.sse"}


FAILED = b'{"error": {"message": "no such tool", "type": "invalid_request_error"}}'


@pytest.mark.parametrize(
    ("script", "path", "reason"),
    [
        (answer(FAILED, 429, "application/json"), "/chat/completions", "not kept: HTTP 429"),
        (chunked(*EVENTS), "/responses", "not kept: a stream of dialect responses, and up has chat"),
        (chunked(*EVENTS), "/messages", "not kept: a stream of dialect anthropic, and up has chat"),
        (answer(b"<html></html>", media="text/html"), "/chat/completions", "set aside: the stream is no answer (cut)"),
        (answer(b""), "/chat/completions", "set aside: the stream is no answer (cut)"),
    ],
)
def test_what_is_no_answer_is_no_fixture_and_says_why(tmp_path: Path, script: Answer, path: str, reason: str) -> None:
    with before(tmp_path, script) as (found, _):
        found.client.post(path, json=HELLO)
        assert found.last().reason == reason
    assert found.kept() == {}


def test_a_request_that_must_fail_is_the_shape_error(tmp_path: Path) -> None:
    with before(tmp_path, answer(FAILED, 400, "application/json")) as (found, _):
        found.client.post("/chat/completions", json={**HELLO, "tools": [TOOL], "tool_choice": MISSING})
        assert (found.last().shape, found.last().reason) == ("error", "")
    assert found.kept() == {"error.sse": FAILED}


@pytest.mark.parametrize("secret", [KEY, CLIENT_KEY])
def test_a_stream_that_holds_a_key_passes_and_is_not_kept(tmp_path: Path, secret: str) -> None:
    half = len(secret) // 2
    pieces = [EVENTS[0], b'data: {"choices":[{"delta":{"content":"' + secret[:half].encode(),
              secret[half:].encode() + b'"}}]}\n\n', EVENTS[1]]  # fmt: skip
    with before(tmp_path, chunked(*pieces)) as (found, _):
        assert found.client.post("/chat/completions", json=HELLO).content == b"".join(pieces)
        last = found.last()
    assert last.fixture is None
    assert "the response holds the value of a key" in last.reason
    assert found.kept() == {}
    for data in found.files():
        assert secret.encode() not in data
        assert b"chat.completion.chunk" not in data


def test_keys_in_a_request_are_masked_and_a_key_in_a_header_refused(tmp_path: Path) -> None:
    with before(tmp_path, chunked(*EVENTS)) as (found, server):
        said = f"my key is {CLIENT_KEY}, and {KEY}, and COOKIE-12345, and QUERYKEY-12345"
        asked = {**HELLO, "messages": [{"role": "user", "content": said}]}
        cookie = {"cookie": "a=1; session=COOKIE-12345"}
        found.client.post("/chat/completions?key=QUERYKEY-12345", json=asked, headers=cookie)
        found.last()
        assert KEY.encode() in server.requests[0].partition(b"\r\n\r\n")[2]  # the request is not changed
    recording = load(tmp_path / "fixtures" / "up" / "text.sse").recording
    assert recording.request is not None
    assert recording.request.body["messages"][0]["content"] == "my key is ***, and ***, and ***, and ***"
    script = chunked(*EVENTS)
    assert isinstance(script[0], bytes)
    script[0] = script[0].replace(b"connection: close", b"server: " + KEY.encode())
    with before(tmp_path, script, shape="second") as (found, _):
        found.client.post("/chat/completions", json=HELLO)
        assert "the value of a key" in found.last().reason
    assert set(found.kept()) == {"text.sse"}
    for data in found.files():
        assert not any(secret in data for secret in (KEY.encode(), CLIENT_KEY.encode(), b"QUERYKEY-12345"))


def test_a_disk_that_takes_nothing_stops_no_stream(tmp_path: Path) -> None:
    (tmp_path / ".harness").write_text("in the way", "ascii")
    with before(tmp_path, chunked(*EVENTS)) as (found, _):
        assert found.client.post("/chat/completions", json=HELLO).content == TEXT
        assert ".harness: cannot be written" in found.last().reason


def test_stopping_sets_aside_what_is_under_way(tmp_path: Path) -> None:
    with before(tmp_path, chunked(EVENTS[0], 30.0, EVENTS[1])) as (found, _), connected(found) as client:
        client.sendall(POST % len(BODY) + BODY)
        until(client, EVENTS[0] + b"\r\n")
        found.proxy.stop()
        last = found.last()
    assert last.outcome == "stopped"
    assert last.fixture is not None
    assert Path(last.fixture).read_bytes() == EVENTS[0]


# -- clients and the command line ----------------------------------------------------------------------------------


def test_sdks_speak_through_it(tmp_path: Path) -> None:
    openai, anthropic = pytest.importorskip("openai"), pytest.importorskip("anthropic")
    hi: Any = [{"role": "user", "content": "hi"}]
    with Replay(FIXTURES / "vllm") as server, running(tmp_path, server.base_url) as found:
        client = openai.OpenAI(base_url=found.proxy.base_url, api_key=CLIENT_KEY)
        with client, client.chat.completions.stream(model="m", messages=hi) as stream:
            said = stream.get_final_completion().choices[0].message.content
        found.last()
    assert said.startswith("Hello there!")
    fields = {"dialect": "anthropic"}
    (tmp_path / "a").mkdir()
    with Replay(FIXTURES / "vllm-anthropic") as server, running(tmp_path / "a", server.base_url, **fields) as found:
        base = found.proxy.base_url.removesuffix("/v1")
        client = anthropic.Anthropic(base_url=base, api_key=CLIENT_KEY)
        with client, client.messages.stream(model="m", max_tokens=99, messages=hi) as stream:
            said = stream.get_final_text()
        found.last()
    assert said.startswith("Hello there!")
    for folder, provider in ((tmp_path, "vllm"), (tmp_path / "a", "vllm-anthropic")):
        kept = (folder / "fixtures" / "up" / "text.sse").read_bytes()
        assert kept == (FIXTURES / provider / "text.sse").read_bytes()


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_command_line(tmp_path: Path, stop: signal.Signals, code: int) -> None:
    with Replay(FIXTURES / "vllm") as server:
        project_at(tmp_path, server.base_url)
        process = harness_process("proxy", "up", cwd=tmp_path, env={"UP_KEY": KEY})
        assert process.stdout is not None
        word, _, url = process.stdout.readline().strip().partition(" ")
        assert word == "READY"
        assert httpx.post(f"{url}/chat/completions", json=HELLO).content == TEXT
        assert process.stdout.readline() == f"up/text: {Path('fixtures/up/text.sse')}\n"
        assert httpx.post(f"{url}/responses", json=HELLO).status_code == 404
        process.send_signal(stop)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert "harness proxy: POST /v1/responses: not kept: a stream of dialect responses, and up has chat\n" in err


def test_the_command_line_says_what_it_cannot_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project_at(tmp_path, "http://127.0.0.1:9/v1")
    monkeypatch.chdir(tmp_path)
    assert "UP_KEY is not set" in harness("proxy", "up").failed(2)
    monkeypatch.setenv("UP_KEY", KEY)
    assert "no provider 'nope'" in harness("proxy", "nope").failed(2)
    assert "--shape 'a/b': only lower-case letters" in harness("proxy", "up", "--shape", "a/b").failed(2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        line = harness("proxy", "up", "--port", taken.getsockname()[1]).failed(2)
    assert "Address already in use; choose another" in line


def test_json_tells_every_exchange(tmp_path: Path) -> None:
    with Replay(FIXTURES / "vllm") as server:
        project_at(tmp_path, server.base_url)
        process = harness_process("proxy", "up", "--json", cwd=tmp_path, env={"UP_KEY": KEY})
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        httpx.post(f"{url}/chat/completions", json=HELLO)
        told = json.loads(process.stdout.readline())
        httpx.get(f"{url}/models")
        assert json.loads(process.stdout.readline())["path"] == "/v1/models"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert told == {
        "method": "POST", "path": "/v1/chat/completions", "status": 200, "sent": len(TEXT), "outcome": "completed",
        "shape": "text", "fixture": os.path.join("fixtures", "up", "text.sse"), "reason": "",
    }  # fmt: skip
