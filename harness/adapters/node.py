"""SDKs for Node: a worker process drives them, one request at a time. The worker: tools/node/worker.mjs.

Node takes a third of a second to start and to load an SDK, a request takes some milliseconds: so the worker stays. One
JSON object a line each way: {client, dialect, url} to it; {value}, {rejected} or {failed} back.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from harness.adapters.base import Read, Sdk, normal
from harness.answers import Answer
from harness.data import PACKAGE
from harness.dialects.chat import FINISH
from harness.targets import REASON_LENGTH

CHECKOUT = PACKAGE.parent
TOOLS = CHECKOUT / "tools" / "node"


def installed(package: str) -> str | None:
    """The version of the package in tools/node, None if it, the worker or Node itself is missing."""
    # Beside an installed package lie strangers: packages for Node are in a checkout only.
    if shutil.which("node") is None or not (CHECKOUT / "pyproject.toml").is_file():
        return None
    try:
        found = json.loads((TOOLS / "node_modules" / package / "package.json").read_bytes())
    except (OSError, ValueError):
        return None
    return str(found.get("version")) if isinstance(found, dict) else None


def opened(sdk: Sdk, seconds: float) -> Read:
    """A reader whose requests may take so many seconds."""
    worker = _Worker(TOOLS / "worker.mjs")

    def read(url: str, dialect: str) -> Answer:
        said = worker.ask({"client": sdk.name, "dialect": dialect, "url": url}, seconds)
        if "value" in said:
            return Answer(state="accepted", value=_normal(said["value"], dialect))
        if "rejected" in said:
            return Answer(state="rejected", reason=str(said["rejected"])[:REASON_LENGTH])
        if "hung" in said:
            return Answer(state="hung", reason=f"not done after {seconds:g} seconds")
        reason = str(said.get("failed", "it ended"))
        return Answer(state="broke", reason=f"the Node worker failed: {reason}"[:REASON_LENGTH])

    return read


def _normal(message: dict[str, Any], dialect: str) -> dict[str, Any]:
    """The message with `finish_reason` beside `finish_raw`, in every choice."""
    for choice in [message, *message.get("choices", [])]:
        raw = choice.get("finish_raw")
        plain = dialect == "responses" and raw == "completed" and choice.get("tool_calls")
        choice["finish_reason"] = "tool_calls" if plain else normal(raw, FINISH)
    return message


class _Worker:
    """The process, started when it is first asked, and anew after it was lost."""

    def __init__(self, script: Path) -> None:
        self._script = script
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[[subprocess.Popen[bytes]], _Worker] | None = None

    def ask(self, what: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """What the worker says; {hung: true} when the time is up, {} if it ended without a word."""
        process = self._running()
        stdin, stdout = _pipes(process)
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            stdin.write(json.dumps(what).encode() + b"\n")
            stdin.flush()
            said = json.loads(stdout.readline())
        except (OSError, ValueError):
            self.drop()
            return {"hung": True} if late.is_set() else {}
        finally:
            timer.cancel()
        return said if isinstance(said, dict) else {}

    def drop(self) -> None:
        """End the process."""
        if self._end is not None:
            self._end()
        self._process = self._end = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.drop()
            self._process = subprocess.Popen(
                ["node", str(self._script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                cwd=self._script.parent,
            )  # fmt: skip
            self._end = weakref.finalize(self, _ended, self._process)
        return self._process


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in _pipes(process):
        pipe.close()
