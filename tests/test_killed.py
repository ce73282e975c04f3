"""A run that is killed in the middle of a recording leaves no fixture, and no key.

What kill -9 leaves says that it is incomplete; SIGTERM ends a run as Ctrl-C does, which keeps what had come.

HARNESS_KILLS=50 kills that often.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import httpx
import pytest
import yaml
from commandline import COMMAND, harness_process
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


@pytest.mark.parametrize("ignoring", [False, True], ids=["foreground", "background"])
def test_sigterm_keeps_what_had_come_as_ctrl_c_does(project: Path, ignoring: bool) -> None:
    """Also in the background of a script, where Ctrl-C is ignored."""
    with Replay(FIXTURES / "vllm", faults=["stall:byte=3000,seconds=60"]) as server:
        command = [*COMMAND, "record", "up", "--shape", "text"]
        if ignoring:
            command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
        process = subprocess.Popen(
            command, cwd=project, env={**os.environ, "UP_URL": server.base_url, "UP_KEY": KEY}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        end = time.monotonic() + 20
        while [path.stat().st_size for path in partials(project)] != [3000] and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    (body,) = (project / ".harness" / "failed" / "up").glob("*.sse")
    assert (process.returncode, out) == (130, "")
    assert err == f"harness: interrupted; what had come is kept in {body.relative_to(project)}\n"
    assert body.read_bytes() == BODY[:3000]
    assert json.loads(body.with_suffix(".json").read_bytes())["end"] == "client-closed"
    assert partials(project) == []
    check_what_is_left(project, 0)
    assert not (project / "fixtures").exists()


def test_sigterm_leaves_no_target_behind(project: Path) -> None:
    note = project / "pid"
    code = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    process = harness_process("check", "--timeout", "50", "--", sys.executable, "-c", code, cwd=project)
    end = time.monotonic() + 20
    while not (note.exists() and note.read_text()) and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "harness: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


ELSEWHERE = """
import signal, sys, threading
from harness.cli import main

def run():
    try:
        main(["rules", "end.marker-missing"])
    except SystemExit as exc:
        codes.append(exc.code)

codes = []
{own}
before = signal.getsignal(signal.SIGTERM)
{how}
sys.exit(not (codes == [0] and signal.getsignal(signal.SIGTERM) is before))
"""


@pytest.mark.parametrize(
    ("own", "how"),
    [
        ("", "thread = threading.Thread(target=run); thread.start(); thread.join()"),
        ("signal.signal(signal.SIGTERM, lambda *_: None)", "run()"),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "run()"),
    ],
    ids=["another thread", "a handler of its own", "ignored"],
)
def test_who_calls_main_keeps_its_own_sigterm(own: str, how: str) -> None:
    script = ELSEWHERE.format(own=own, how=how)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("end.marker-missing: fatal")


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
