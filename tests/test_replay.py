from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from plans import BODY, EVENTS, recorded

from harness.errors import UsageError
from harness.recording import Recording, Sent, sidecar_of
from harness.replay import Exchange, Replay, read_fixtures

CHAT = "/v1/chat/completions"
ONE = {"p": {"text": recorded(5, 20, len(BODY))}}
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(autouse=True)
def no_bug_in_a_connection(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What goes wrong in a connection is told by asyncio's logger and nowhere else."""
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if record.name == "asyncio"] == []


@pytest.fixture
def server() -> Iterator[Replay]:
    with Replay(ONE) as server:
        yield server


def one(recording: Recording) -> dict[str, dict[str, Recording]]:
    return {"p": {"text": recording}}


def talk(server: Replay, *pieces: bytes, half_close: bool = False, pause: float = 0.0) -> bytes:
    """Send the pieces, return all the server says until it closes; a reset ends it as well."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        for piece in pieces:
            sock.sendall(piece)
            time.sleep(pause)
        if half_close:
            sock.shutdown(socket.SHUT_WR)
        return received(sock)


def received(sock: socket.socket) -> bytes:
    got = bytearray()
    try:
        while piece := sock.recv(65536):
            got += piece
    except ConnectionResetError:
        got += b"<RST>"
    return bytes(got)


def exchange(server: Replay, outcome: str) -> Exchange:
    """The last exchange, once it has the outcome: the server notes that a client left a moment after it did."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if server.journal and server.journal[-1].outcome == outcome:
            return server.journal[-1]
        time.sleep(0.005)
    raise AssertionError(f"{outcome} is not the outcome of {list(server.journal)}")


def test_body_reads_status_and_headers_are_as_recorded(server: Replay) -> None:
    with httpx.stream("POST", server.base_url + "/chat/completions", json={}) as response:
        assert response.status_code == 200
        assert dict(response.headers) == {
            "content-type": "text/event-stream", "transfer-encoding": "chunked", "connection": "close",
        }  # fmt: skip
        assert list(response.iter_raw()) == [BODY[:5], BODY[5:20], BODY[20:]]
    assert list(server.journal) == [
        Exchange(method="POST", path=CHAT, provider="p", shape="text", status=200, sent=len(BODY), outcome="completed")
    ]


def test_the_wire_is_one_chunk_per_read(server: Replay) -> None:
    head, _, rest = talk(server, POST).partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"HTTP/1.1 200 OK"
    chunks = [BODY[:5], BODY[5:20], BODY[20:], b""]
    assert rest == b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)


def test_curl_gets_the_bytes_of_the_file(tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    body = bytes(range(256)) * 40 + b"\r\n\xff"
    (tmp_path / "text.sse").write_bytes(body)
    with Replay(tmp_path / "text.sse") as server:
        url = server.base_url + "/chat/completions"
        done = subprocess.run([curl, "-sSN", url, "--data", "{}"], capture_output=True, check=True, timeout=10)
    assert done.stdout == body


def test_recorded_pace() -> None:
    recording = recorded(*range(3, len(BODY), 3), len(BODY), step=10_000)
    with Replay(one(recording), pace="recorded") as server:
        start = time.monotonic()
        with httpx.stream("POST", server.base_url + "/chat/completions") as response:
            times = [time.monotonic() - start for _ in response.iter_raw()]
    assert len(times) == len(recording.reads)
    # A piece never comes early; late ones do not push the rest back, so the last is about on time.
    assert all(at >= read.microseconds / 1e6 - 0.005 for at, read in zip(times, recording.reads, strict=True))
    assert times[-1] < recording.reads[-1].microseconds / 1e6 + 0.5


def test_a_cut_is_visible() -> None:
    with (
        Replay(one(recorded(5, 20, end="cut", body=BODY[:20]))) as server,
        httpx.stream("POST", server.base_url + "/responses") as response,
    ):
        pieces = response.iter_raw()
        assert [next(pieces), next(pieces)] == [BODY[:5], BODY[5:20]]
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            next(pieces)


def test_a_reset_is_a_reset_after_all_bytes() -> None:
    with Replay(one(recorded(5, 20, end="reset", body=BODY[:20]))) as server:
        got = talk(server, POST)
        assert exchange(server, "completed").sent == 20
    assert got.endswith(b"f\r\n" + BODY[5:20] + b"\r\n<RST>")


def test_a_timeout_is_a_silence_that_the_client_ends() -> None:
    with Replay(one(recorded(5, end="timeout:idle", body=BODY[:5]))) as server:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(server.base_url + "/chat/completions", timeout=0.5)
        assert exchange(server, "client-left").sent == 5


def test_a_failure_is_replayed_with_its_status_body_and_headers() -> None:
    body = b'{"error": {"message": "no"}}'
    recording = Recording(body=body, status=429, headers={"retry-after": "7", "content-length": "999"}, end="eof")
    with Replay(one(recording)) as server:
        response = httpx.post(server.base_url + "/chat/completions")
    assert (response.status_code, response.content) == (429, body)
    assert response.headers["retry-after"] == "7"
    assert response.headers["content-type"] == "application/json"


def test_a_status_without_a_body_is_sent_without_one() -> None:
    with Replay(one(Recording(body=b"x", status=204))) as server:
        assert talk(server, POST).endswith(b"content-type: text/event-stream\r\nconnection: close\r\n\r\n")


def test_faults_and_pieces() -> None:
    with Replay(ONE, pieces="events", faults=["cut:event=2"]) as server:
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(server.base_url + "/chat/completions")
        assert server.journal[-1].faults == ["cut:event=2"]
        assert server.journal[-1].sent == len(EVENTS[0] + EVENTS[1])
    with (
        Replay(ONE, faults=["drop-marker", "pieces"]) as server,
        httpx.stream("POST", server.base_url + "/chat/completions") as response,
    ):
        assert list(response.iter_raw()) == [bytes([byte]) for byte in EVENTS[0] + EVENTS[1]]
    with Replay(ONE, faults=["status:code=503,body=html"]) as server:
        assert httpx.post(server.base_url + "/chat/completions").status_code == 503


REFUSED = [
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # a TLS client hello; the client then waits
    (b"hello\r\n\r\n", 400),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    (b"POST /v1/chat/completions HTTP/1.1\r\nno colon\r\n\r\n", 400),
    (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
    (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
    (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
    (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
    (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
    (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413),
    (b"GET http://[ HTTP/1.1\r\n\r\n", 400),
    (b"GET /v1/models HTTP/1.1\r\nX: " + b"x" * 300_000 + b"\r\n\r\n", 431),
    (b"GET /v1/models HTTP/1.1\r\n" + b"X: xxxxxxxxxxxxxxxx\r\n" * 20_000 + b"\r\n", 431),
    (b"GET /v1/chat/completions HTTP/1.1\r\n\r\n", 405),
    (b"DELETE /health HTTP/1.1\r\n\r\n", 405),
    (b"POST /v1/embeddings HTTP/1.1\r\n\r\n", 404),
    (b"POST /v1/%F0%28chat HTTP/1.1\r\n\r\n", 404),
    (b"POST /p/nope/v1/messages HTTP/1.1\r\n\r\n", 404),
]


@pytest.mark.parametrize(("sent", "status"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_cannot_be_answered_is_told_and_the_server_goes_on(server: Replay, sent: bytes, status: int) -> None:
    got = talk(server, sent)
    assert got.startswith(b"HTTP/1.1 %d " % status), got[:200]
    assert exchange(server, "refused").status == status
    assert talk(server, POST).endswith(b"0\r\n\r\n")


def test_404_says_what_is_there(server: Replay) -> None:
    response = httpx.post(server.url("p", "stop") + "/chat/completions")
    assert response.status_code == 404
    assert response.json()["error"]["message"] == "p has no fixture of shape stop"
    assert response.json()["available"] == {"p": {"text": server.url("p", "text")}}
    assert httpx.post(server.url("p", "text") + "/chat/completions").status_code == 200


@pytest.mark.parametrize(
    "request_",
    [
        b"\r\n\r\n" + POST,
        POST.replace(b"\r\n", b"\n"),
        POST + POST,
        b"POST http://127.0.0.1/v1/chat/completions?key=k HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\n{\r\n1\r\n}\r\n0\r\nT: x\r\n\r\n",
    ],
)
def test_odd_but_readable_requests_are_answered_however_they_are_cut(server: Replay, request_: bytes) -> None:
    assert talk(server, request_).endswith(b"0\r\n\r\n")
    assert talk(server, *(request_[at : at + 1] for at in range(len(request_)))).endswith(b"0\r\n\r\n")
    assert talk(server, request_, half_close=True).endswith(b"0\r\n\r\n")


def test_an_answer_that_is_not_to_be_streamed_is_a_whole_one_or_a_refusal() -> None:
    whole = Recording(body=b'{"object": "chat.completion"}', dialect="chat", status=200, end="eof")
    text = recorded()
    ask = {"model": "p", "stream": False}
    with Replay({"p": {"text": text}}) as server:
        refused = httpx.post(f"{server.base_url}/chat/completions", json=ask)
        assert refused.status_code == 406
        assert refused.json()["error"]["message"] == "only streams are recorded of p/text: ask with stream: true"
        assert httpx.post(f"{server.base_url}/chat/completions", json={"model": "p"}).content == text.body
    with Replay({"p": {"text": text, "text-whole": whole, "error": whole}}) as server:
        assert httpx.post(f"{server.url('p', 'text')}/chat/completions", json=ask).content == whole.body
        assert httpx.post(f"{server.url('p', 'error')}/chat/completions", json=ask).content == whole.body


def test_expect_100_continue(server: Replay) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(b"POST /v1/messages HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"{}")
        assert received(sock).endswith(b"0\r\n\r\n")


def test_http_1_0_gets_the_body_without_chunks(server: Replay) -> None:
    _, _, body = talk(server, b"POST /api/chat HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")
    assert body == BODY


def test_models_and_health(server: Replay) -> None:
    assert [model["id"] for model in httpx.get(server.base_url + "/models").json()["data"]] == ["p"]
    for path in ("/", "/health", "/v1/health?x=1"):
        assert httpx.get(f"http://127.0.0.1:{server.port}{path}").json()["status"] == "ok"
    head = httpx.head(server.base_url + "/models")
    assert (head.status_code, head.content) == (200, b"")


def test_clients_that_leave_early_stop_their_plan(server: Replay) -> None:
    for sent in (b"", b"POST /v1/chat", POST[:-1]):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
            sock.sendall(sent)
    assert not server.journal
    with Replay(one(recorded(5, len(BODY))), faults=["stall:byte=5,seconds=60"]) as stalled:
        with socket.create_connection(("127.0.0.1", stalled.port), timeout=10) as sock:
            sock.sendall(POST)
            got = b""
            while BODY[:5] not in got:
                got += sock.recv(1000)
        assert exchange(stalled, "client-left").sent == 5


def test_a_client_that_does_not_read_holds_up_only_itself() -> None:
    big = Recording(body=b"data: " + b"x" * 30_000_000 + b"\n\n", status=200)
    with Replay({"p": {"big": big, "text": ONE["p"]["text"]}}, pieces=1_000_000) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
            sock.sendall(POST.replace(b"/v1/", b"/big/v1/"))
            assert sock.recv(1) == b"H"
            assert httpx.post(server.url("p", "text") + "/messages").content == BODY
        first = server.journal[0]
        end = time.monotonic() + 5
        while first.outcome == "running" and time.monotonic() < end:
            time.sleep(0.005)
        assert (first.shape, first.outcome) == ("big", "client-left")
        assert first.sent < len(big.body)


def test_stopping_ends_running_streams_at_once() -> None:
    with Replay(ONE, faults=["stall:byte=5,seconds=600"]) as server:
        sock = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        sock.sendall(POST)
        while not server.journal or server.journal[-1].sent < 5:
            time.sleep(0.005)
        start = time.monotonic()
    with sock:
        assert time.monotonic() - start < 5
        assert server.journal[-1].outcome == "stopped"
        received(sock)
    server.stop()  # once more does nothing
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=10)


def test_the_journal_keeps_no_secret(tmp_path: Path) -> None:
    ended: list[Exchange] = []
    with Replay(ONE, watch=ended.append, journal_at=tmp_path / "journal.jsonl") as server:
        httpx.post(server.base_url + "/messages?key=SECRET", headers={"authorization": "Bearer SECRET"})
        talk(server, b"POST /\x1b[31m HTTP/1.1\r\n\r\n")
        end = time.monotonic() + 5
        while len(ended) < 1 and time.monotonic() < end:
            time.sleep(0.005)
    assert ended[0] == server.journal[0]
    text = (tmp_path / "journal.jsonl").read_text("utf-8")
    for found in (repr(server.journal), text):
        assert "SECRET" not in found
        assert "\x1b" not in found
    first, second = map(json.loads, text.splitlines())
    assert first.pop("time").startswith("20")
    assert first == msgspec.to_builtins(ended[0])
    assert (second["method"], second["outcome"]) == ("?", "refused")


def test_a_journal_is_added_to_and_must_be_writable(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text("before\n", "ascii")
    with Replay(ONE, journal_at=path, faults=["cut:event=1,times=1"]) as server:
        for model in ("m-1", "m-2\x07"):
            with suppress(httpx.RemoteProtocolError):
                httpx.post(server.base_url + "/chat/completions", json={"model": model})
    before, *lines = path.read_text("utf-8").splitlines()
    assert before == "before"
    told = [json.loads(line) for line in lines]
    assert [line["model"] for line in told] == ["m-1", "m-2?"]
    assert [line["faults"] for line in told] == [["cut:event=1,times=1"], []]
    with pytest.raises(UsageError, match="the journal cannot be written: No such file or directory"):
        Replay(ONE, journal_at=tmp_path / "nowhere" / "journal.jsonl")


def test_strict_answers_what_was_recorded_and_says_what_is_there() -> None:
    recording = recorded(len(BODY))
    recording.dialect, recording.request = "chat", Sent(body={"model": "m", "messages": [], "stream": True})
    with Replay(one(recording), strict=True) as server, httpx.Client(base_url=server.base_url) as client:
        assert client.post("/chat/completions", json={"messages": [], "stream": True}).content == BODY
        refused = client.post("/chat/completions", json={"messages": [], "stream": True, "seed": 7})
        assert refused.status_code == 404
        assert refused.json()["error"]["message"] == (
            "p has no chat fixture of exactly this request; the nearest is text, which differs in seed"
        )
        assert refused.json()["available"] == {"p": {"text": server.url("p", "text")}}
        assert httpx.post(server.url("p", "text") + "/chat/completions").content == BODY


def test_several_providers_are_told_apart_by_path_model_and_shape() -> None:
    fixtures = {
        name: {shape: Recording(body=f"data: {name} {shape}\n\n".encode(), end="eof") for shape in ("text", "stop")}
        for name in ("one", "two")
    }
    with Replay(fixtures) as server, httpx.Client() as client:

        def asked(base: str, **body: Any) -> str:
            return client.post(f"{base}/chat/completions", json=body).text.strip()

        assert asked(server.url("two"), messages=[]) == "data: two text"
        assert asked(server.url("two", "stop")) == "data: two stop"
        assert asked(server.base_url, model="one", messages=[]) == "data: one text"
        assert asked(server.base_url, model="two/stop") == "data: two stop"
        assert asked(server.base_url, model="two", stop=["x"], messages=[]) == "data: two stop"
        assert "several providers are replayed (one, two)" in asked(server.base_url, model="gpt")


def test_the_recorded_pace_can_be_sped_up_and_pieces_cut_anew() -> None:
    recording = recorded(*range(3, len(BODY), 3), len(BODY), step=50_000)  # 0.85 s
    with Replay(one(recording), pace="recorded", speed=10, pieces="events") as server:
        start = time.monotonic()
        with httpx.stream("POST", server.base_url + "/chat/completions") as response:
            assert list(response.iter_raw()) == EVENTS
        took = time.monotonic() - start
    assert 0.085 <= took < 0.6
    with pytest.raises(UsageError, match="speed: 0"):
        Replay(ONE, speed=0)
    with pytest.raises(UsageError, match="pieces: 0"):
        Replay(ONE, pieces=0)


async def stream(port: int, body: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(body)
        return await reader.read(-1)
    finally:
        writer.close()


def test_many_streams_at_once_on_one_thread() -> None:
    recording = recorded(*range(4, len(BODY), 4), len(BODY), step=20_000)  # a third of a second
    with Replay(one(recording), pace="recorded") as server:

        async def many() -> list[bytes]:
            return await asyncio.gather(*(stream(server.port, POST) for _ in range(200)))

        start = time.monotonic()
        got = asyncio.run(many())
        assert time.monotonic() - start < 5
        assert len(set(got)) == 1
        assert got[0].endswith(b"0\r\n\r\n")
        assert [exchange.outcome for exchange in server.journal] == ["completed"] * 200


def test_a_port_in_use_is_a_usage_error(server: Replay) -> None:
    with pytest.raises(UsageError, match=f"port {server.port}: Address already in use; choose another"):
        Replay(ONE, port=server.port)
    with pytest.raises(UsageError, match="port 70000"):
        Replay(ONE, port=70000)


def test_it_listens_on_loopback_only(server: Replay) -> None:
    assert server._socket.getsockname()[0] == "127.0.0.1"


def write(path: Path, recording: Recording) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(recording.body)
    path.with_suffix(".json").write_bytes(msgspec.json.encode(sidecar_of(recording)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for provider, shape in (("vllm", "text"), ("vllm", "tool-call"), ("vllm", "tool-call.2"), ("claude", "text")):
        recording = Recording(body=f"data: {provider} {shape}\n\n".encode(), status=200, end="eof", dialect="chat")
        recording.request = Sent(path="/chat/completions", body={"shape": shape, "model": "m"})
        write(tmp_path / "fixtures" / provider / f"{shape}.sse", recording)
    return tmp_path / "fixtures"


def test_folders_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every, _ = read_fixtures(folder)
    assert {provider: sorted(shapes) for provider, shapes in every.items()} == {
        "claude": ["text"], "vllm": ["text", "tool-call", "tool-call.2"],
    }  # fmt: skip
    for path in (folder / "vllm", Path()):
        monkeypatch.chdir(folder / "vllm")
        assert {provider: sorted(shapes) for provider, shapes in read_fixtures(path)[0].items()} == {
            "vllm": ["text", "tool-call", "tool-call.2"]
        }
    assert list(read_fixtures(folder / "vllm" / "text.sse")[0]["vllm"]) == ["text"]


def test_a_folder_is_served_by_shape(folder: Path) -> None:
    with Replay(folder) as server, httpx.Client() as client:
        for provider, shape in (("claude", "text"), ("vllm", "text"), ("vllm", "tool-call")):
            sent = {"shape": shape, "model": "other"}
            response = client.post(server.url(provider) + "/chat/completions", json=sent)
            assert response.text == f"data: {provider} {shape}\n\n"
        second = client.post(server.url("vllm", "tool-call.2") + "/chat/completions")
        assert second.text == "data: vllm tool-call.2\n\n"


def test_a_warning_of_a_fixture_is_passed_on(folder: Path) -> None:
    (folder / "vllm" / "text.sse").write_bytes(b"edited")
    with Replay(folder / "vllm") as server:
        assert len(server.warnings) == 1
        assert "text.sse" in server.warnings[0]


def test_an_empty_file_of_which_nothing_is_known_is_a_usage_error(folder: Path) -> None:
    (folder / "text.sse").write_bytes(b"")
    (folder / "text.json").unlink(missing_ok=True)
    with pytest.raises(UsageError, match=r"text\.sse: is empty; record it again, or delete it"):
        Replay(folder)
    (folder / "text.json").write_text('{"format": "sse-harness/1", "status": 200}', "utf-8")
    with Replay(folder) as server:
        assert server.base_url, "what was answered is served"


def test_a_folder_without_fixtures_is_a_usage_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UsageError, match="no fixtures here"):
            Replay(path)


# In a process of its own, so that the hook sees this server's sockets and no other's.
ALONE = """
import sys
calls = []
sys.addaudithook(lambda name, args: calls.append((name, args)) if name in WATCHED else None)
WATCHED = {"socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.bind"}
from harness.replay import Replay
server = Replay(sys.argv[1])
print(server.port, flush=True)
try:
    server.serve()
except KeyboardInterrupt:
    print("interrupted")
print([(name, *args[1:]) for name, args in calls])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_opens_no_connection_and_ends_at_a_signal(folder: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-W", "error", "-c", ALONE, str(folder / "vllm")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        url = f"http://127.0.0.1:{port}"
        assert httpx.post(url + CHAT, json={"shape": "text"}).status_code == 200
        assert httpx.get(url + "/v1/models").status_code == 200
        with pytest.raises(httpx.TimeoutException), httpx.Client(timeout=0.05) as client:
            client.post(url + CHAT, content=slowly())
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (0, "")
    said = out.splitlines()
    assert said[-1] == "[('socket.bind', ('127.0.0.1', 0))]"
    assert said[:-1] == (["interrupted"] if number == signal.SIGINT else [])


def slowly() -> Iterator[bytes]:
    """A body that never ends."""
    yield b"{"
    time.sleep(0.2)
    raise httpx.WriteTimeout("slow")


def test_json_of_refusals_is_what_sdks_expect(server: Replay) -> None:
    error = json.loads(httpx.post(server.base_url + "/nothing").content)["error"]
    assert set(error) == {"message", "type", "param", "code"}
