"""Relays: what stands between a server and a client is an endpoint like any other. One of ours, and a real nginx.

A relay that passes on what comes changes nothing; one that holds the stream back shows as timing.one-burst.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from commandline import harness
from reading import FIXTURES

from harness.recording import Recording
from harness.replay import Replay
from harness.store import load
from harness.structure import read

NGINX = shutil.which("nginx") or next(
    (path for path in ("/usr/sbin/nginx", "/usr/local/sbin/nginx") if os.access(path, os.X_OK)), None
)
SECONDS = 2.2  # that the stream takes: longer than a burst may be late without being called held back
PASSED_ON = {"cache-control": "no-cache", "x-accel-buffering": "no"}  # what a relay should say (SEEDS, B, "Relay")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(FIXTURES / "vllm", tmp_path / "fixtures" / "vllm")
    return tmp_path


def gate(folder: Path, url: str, *shapes: str) -> dict[str, Any]:
    """The shapes of a gate of what answers at the url, by name."""
    entry = {"dialect": "chat", "base_url": url, "model": "tiny", "auth": "none"}
    (folder / "providers.yaml").write_text(yaml.safe_dump({"providers": {"relay": entry}}), "utf-8")
    done = harness("gate", "vllm", "relay", "--json", *(part for shape in shapes for part in ("--shape", shape)))
    assert done.code in (0, 1), done
    return {shape["shape"]: shape for shape in done.one["shapes"]}


def told(shape: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in shape["findings"]]


def taken(folder: Path, shape: str) -> Recording:
    """What the relay gave us for a shape."""
    return load(folder / ".harness" / "takes" / "relay" / f"{shape}.sse").recording


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


# -- a relay of our own -------------------------------------------------------------------------------------------


def relay_app(upstream: str, *, held: bool) -> Any:
    """A relay as an application writes it: forwards request and answer; `held` collects the answer first."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    async def forward(request: Request) -> StreamingResponse:
        client = httpx.AsyncClient(trust_env=False, timeout=20)
        asked = client.build_request(
            "POST", f"{upstream}/chat/completions", content=await request.body(),
            headers={"content-type": "application/json"},
        )  # fmt: skip
        answer = await client.send(asked, stream=True)

        async def pieces() -> AsyncIterator[bytes]:
            try:
                if held:
                    yield await answer.aread()
                    return
                async for piece in answer.aiter_raw():
                    yield piece
            finally:
                await answer.aclose()
                await client.aclose()

        return StreamingResponse(
            pieces(), status_code=answer.status_code, media_type=answer.headers["content-type"], headers=PASSED_ON
        )

    return Starlette(routes=[Route("/v1/chat/completions", forward, methods=["POST"])])


@contextmanager
def relay(upstream: str, *, held: bool = False) -> Iterator[str]:
    """Run the relay in a thread; yields its base_url."""
    for name in ("starlette", "uvicorn"):
        pytest.importorskip(name, reason=f"{name} is not installed (extra test)")
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(relay_app(upstream, held=held), log_level="error", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()


def test_a_relay_that_passes_on_what_comes_conforms(folder: Path) -> None:
    with Replay(FIXTURES / "vllm", pieces="events", faults=["slow:gap=0.01"]) as server, relay(server.base_url) as url:
        shapes = gate(folder, url, "text", "tool-call", "stop", "error")
    assert {name: told(shape) for name, shape in shapes.items()} == {
        "text": [], "tool-call": [], "stop": [], "error": []
    }  # fmt: skip
    for name in shapes:
        recording = taken(folder, name)
        assert recording.body == (FIXTURES / "vllm" / f"{name}.sse").read_bytes()
        wire = read(recording, "chat").structure.wire["http"]
        assert (wire["x-accel-buffering"], wire["cache-control"]) == ("no", {"no-cache": True})
        assert len(recording.reads) > 3


def test_a_relay_that_collects_the_answer_holds_it_back(folder: Path) -> None:
    with slow_stream() as upstream, relay(upstream, held=True) as url:
        (shape,) = gate(folder, url, "stop").values()
    (finding,) = shape["findings"]
    assert (finding["rule"], finding["severity"]) == ("timing.one-burst", "negotiable")
    assert "X-Accel-Buffering: no" in finding["remedy"]


@contextmanager
def slow_stream(**headers: str) -> Iterator[str]:
    """A replay of the shape `stop`, one event at a time, that takes SECONDS; yields its base_url."""
    recording = load(FIXTURES / "vllm" / "stop.sse").recording
    recording.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
    events = recording.body.count(b"\n\n")
    faults = [f"slow:gap={SECONDS / events}"]
    with Replay({"vllm": {"stop": recording}}, pieces="events", faults=faults) as server:
        yield server.base_url


# -- nginx --------------------------------------------------------------------------------------------------------

CONFIG = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass {upstream}; }}
    }}
}}
"""


@contextmanager
def nginx(folder: Path, upstream: str) -> Iterator[str]:
    """Run nginx as a reverse proxy with its defaults, on a port and in a folder of its own; yields its base_url."""
    if NGINX is None:
        pytest.skip("nginx is not installed (Debian: nginx-light)")
    own = folder / "nginx"
    own.mkdir()
    port = free_port()
    (own / "nginx.conf").write_text(
        CONFIG.format(folder=own, port=port, upstream=upstream.removesuffix("/v1")), "utf-8"
    )
    command = [NGINX, "-e", str(own / "error.log"), "-p", str(own), "-c", str(own / "nginx.conf")]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until_it_listens(port, process, own / "error.log")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


def until_it_listens(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"nginx did not start: {log.read_text('utf-8') if log.is_file() else 'no log'}")


def test_behind_an_nginx_that_buffers_a_slow_stream_is_one_burst(folder: Path) -> None:
    """Its defaults hold a stream back until a buffer of a page is full or the stream ends; this one fits in a page."""
    assert (FIXTURES / "vllm" / "stop.sse").stat().st_size < 4096
    with slow_stream() as upstream, nginx(folder, upstream) as url:
        (shape,) = gate(folder, url, "stop").values()
    assert told(shape) == ["timing.one-burst"]
    recording = taken(folder, "stop")
    assert recording.body == (FIXTURES / "vllm" / "stop.sse").read_bytes()
    assert recording.reads[0].microseconds > 2_000_000


def test_with_its_header_the_same_nginx_passes_the_stream_on(folder: Path) -> None:
    with slow_stream(x_accel_buffering="no") as upstream, nginx(folder, upstream) as url:
        (shape,) = gate(folder, url, "stop").values()
    assert told(shape) == []
    assert shape["outcome"] == "conforms"
    recording = taken(folder, "stop")
    assert recording.reads[0].microseconds < 2_000_000
    assert len(recording.reads) > 10
    assert "x-accel-buffering" not in recording.headers  # nginx obeys it and takes it out
