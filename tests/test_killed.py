"""kill -9 in the middle of a recording: what is left says that it is incomplete, is no fixture, and holds no key.

HARNESS_KILLS=50 kills that often.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import httpx
import pytest
import yaml
from commandline import harness_process
from reading import FIXTURES

from harness.replay import Replay
from harness.store import load

KEY = "sk-killed-0123456789abcdef"
KILLS = int(os.environ.get("HARNESS_KILLS", "5"))
BODY = (FIXTURES / "vllm" / "text.sse").read_bytes()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    entry = {"dialect": "chat", "base_url": "${UP_URL}", "model": "m", "api_key_env": "UP_KEY"}
    (tmp_path / "providers.yaml").write_text(yaml.safe_dump({"providers": {"up": entry}}), "utf-8")
    return tmp_path


def partials(project: Path) -> list[Path]:
    return sorted((project / ".harness" / "partial").glob("*.sse"))


def check_what_is_left(project: Path, number: int) -> None:
    """So many recordings were killed: each left a readable pair, or a whole fixture if it was just done."""
    whole = list((project / "fixtures").rglob("*"))
    if whole:  # killed too late: then all of it is there
        assert load(project / "fixtures" / "up" / "text.sse").recording.body == BODY
    left = partials(project)
    assert len(left) <= number
    for path in left:
        loaded = load(path)
        assert loaded.warning is None
        recording = loaded.recording
        assert recording.dialect == "chat"
        assert BODY.startswith(recording.body)
        # whole, and killed before it could be moved; else nothing says that it is whole
        assert recording.end == "incomplete" or (recording.end, recording.body) == ("eof", BODY)
    for path in project.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()


def test_killed_while_recording(project: Path) -> None:
    rng = Random(5)
    with Replay(FIXTURES / "vllm", faults=["drip:size=200,gap=0.01"]) as server:  # half a second a stream
        environment = {"UP_URL": server.base_url, "UP_KEY": KEY}
        incomplete = 0
        for number in range(1, KILLS + 1):
            process = harness_process("record", "up", "--shape", "text", "--replace", cwd=project, env=environment)
            before = set(partials(project))
            end = time.monotonic() + 20
            while process.poll() is None and not set(partials(project)) - before and time.monotonic() < end:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.3))
            process.kill()
            process.communicate()
            check_what_is_left(project, number)
            incomplete += len(set(partials(project)) - before)
    assert incomplete >= KILLS - 2  # it may have been done, on a machine that was busy elsewhere
    assert {path.suffix for path in (project / ".harness" / "partial").iterdir()} <= {".sse", ".json"}


def test_a_proxy_killed_in_mid_stream(project: Path) -> None:
    with Replay(FIXTURES / "vllm", faults=["drip:size=200,gap=0.02"]) as server:
        process = harness_process("proxy", "up", cwd=project, env={"UP_URL": server.base_url, "UP_KEY": KEY})
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]

        def ask() -> None:
            with suppress(httpx.TransportError):
                httpx.post(f"{url}/chat/completions", json={"stream": True, "messages": []}, timeout=20)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 20
        while sum(path.stat().st_size > 0 for path in partials(project)) < 4 and time.monotonic() < end:
            time.sleep(0.002)
        process.kill()
        process.communicate()
        for thread in threads:
            thread.join()
    assert len(partials(project)) == 4
    check_what_is_left(project, 4)
    assert not (project / "fixtures").exists()
