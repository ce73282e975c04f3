"""Targets that are commands, in any language. The protocol, for those who write one: docs/targets.md.

    stdin   the body on stdin, in one piece
    jsonl   on stdin one JSON string a line, each a piece of the body in base64
    http    nothing on stdin; BASE_URL is a server on this machine that answers a POST with the stream

One JSON object on stdout. Exit 0: accepted. Exit 1: rejected, the reason on stderr. Anything else: broken.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Literal

from harness.answers import Answer
from harness.claims import Claims
from harness.errors import UsageError
from harness.jsontext import Undecodable, decode
from harness.secrets import MASK, credentials, forms_of
from harness.serving import UNSEEN, serving
from harness.targets import REASON_LENGTH, RUN_SECONDS, Trial

STDOUT_LIMIT = 16 * 1024**2  # bytes; the largest message of the quirks has less than 200 KiB
STDERR_LIMIT = 64 * 1024  # bytes that are kept; the rest is read and dropped
LINGER_SECONDS = 1.0  # a child of the target may hold its output open after it has ended

Mode = Literal["stdin", "jsonl", "http"]

_UNSEEN: dict[Mode, tuple[str, ...]] = {
    "stdin": ("cuts: the body is on stdin in one piece; have the target read pieces (--jsonl) to test them",),
    "jsonl": (),
    "http": (UNSEEN,),
}
_ERROR_LINE = re.compile(r"\s*(\w+\.)*\w*(Error|Exception|panic)\w*\b.*")


class CommandTarget:
    """A command, started once for each run. It finds the dialect's name in the variable HARNESS_DIALECT."""

    parallel = True

    def __init__(
        self,
        argv: Sequence[str],
        mode: Mode = "stdin",
        *,
        claims: Claims | None = None,
        timeout: float = RUN_SECONDS,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        if not argv:
            raise UsageError("no command after --: write the target's there, for instance -- node target.mjs")
        if shutil.which(argv[0]) is None:
            raise UsageError(f"target {argv[0]}: no such command, or not executable; check the path or install it")
        self.argv, self.mode, self.timeout = list(argv), mode, timeout
        self.name = " ".join(argv)
        self.claims = claims or Claims()
        self.sees_cuts = mode != "stdin"
        self.sees_status = mode == "http"
        self.unseen = _UNSEEN[mode]
        self._environ = dict(os.environ if environ is None else environ)
        # The target is given our keys. What it says of them in an error, or takes for text, stands in no report.
        self._keys = forms_of(credentials(self._environ).values())

    def run(self, trial: Trial) -> Answer:
        """Start the command, feed it the stream, and read its answer within the limits of time and size."""
        if self.mode == "http":
            with serving(trial) as url:
                return self._started(b"", trial.dialect, {"BASE_URL": url})
        return self._started(self._input(trial), trial.dialect)

    def command(self, options: Sequence[str]) -> list[str]:
        """`harness check ... -- command ...`"""
        mode = () if self.mode == "stdin" else (f"--{self.mode}",)
        return ["harness", "check", *mode, *self.claims.options, *options, "--", *self.argv]

    def _input(self, trial: Trial) -> bytes:
        if self.mode == "stdin":
            return trial.recording.body
        return b"".join([b'"%b"\n' % base64.b64encode(piece) for piece in trial.pieces])

    def _started(self, given: bytes, dialect: str, environ: Mapping[str, str] | None = None) -> Answer:
        # A file, so that a target which does not read its input cannot block us.
        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            try:
                process = subprocess.Popen(
                    self.argv, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                    start_new_session=True, env={**self._environ, "HARNESS_DIALECT": dialect, **(environ or {})},
                )  # fmt: skip
            except OSError as exc:
                raise UsageError(f"target {self.argv[0]}: cannot be started: {exc.strerror or exc}") from exc
        deadline = time.monotonic() + self.timeout
        out = _Output(process.stdout, STDOUT_LIMIT, when_full=lambda: _kill(process))
        err = _Output(process.stderr, STDERR_LIMIT)
        hung = False
        try:
            out.thread.join(self.timeout)  # waiting for the process itself polls; its output ends when it does
            if process.poll() is None:
                process.wait(0 if out.thread.is_alive() else max(deadline - time.monotonic(), LINGER_SECONDS))
        except subprocess.TimeoutExpired:
            hung = True
        finally:
            _kill(process)
            process.wait()
            for output in (out, err):
                output.thread.join(LINGER_SECONDS)
                output.stream.close()
        if hung and not out.full:
            return Answer(state="hung", reason=f"not done after {self.timeout:g} seconds")
        for output in (out, err):
            output.hide(self._keys)
        return _answer(process.returncode, out, err)


class _Output:
    """Reads one of a process's outputs to its end, in a thread. What is over the limit is not kept."""

    def __init__(self, stream: IO[bytes] | None, limit: int, when_full: Callable[[], None] = lambda: None) -> None:
        assert stream is not None
        self.stream = stream  # unbuffered: closing a buffered one would wait for whoever reads it
        self.data = bytearray()
        self.full = False
        self._limit, self._when_full = limit, when_full
        self.thread = threading.Thread(target=self._read, name="target output", daemon=True)
        self.thread.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError):  # closed under our hands
            while piece := self.stream.read(1 << 16):
                room = self._limit - len(self.data)
                self.data += piece[:room]
                if len(piece) > room and not self.full:
                    self.full = True
                    self._when_full()


    def hide(self, keys: Sequence[bytes]) -> None:
        """Mask the keys, before anything is cut; of what was cut already, so much goes as could be the start of one."""
        cut = len(self.data) == self._limit
        for key in keys:
            if key in self.data:
                self.data = self.data.replace(key, MASK.encode())
        if cut and keys:
            del self.data[-len(keys[0]) :]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the target and what it has left running: it has a session of its own, so its children are in its group."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _answer(code: int, out: _Output, err: _Output) -> Answer:
    reason = _reason(err.data.decode("utf-8", "replace"))
    if out.full:
        return Answer(state="broke", reason=f"wrote more than {STDOUT_LIMIT // 1024**2} MiB on stdout")
    if code == 1:
        return Answer(state="rejected", reason=reason)
    if code != 0:
        ended = f"exit {code}" if code > 0 else f"killed by {_signal(-code)}"
        return Answer(state="broke", reason=f"{ended}: {reason}" if reason else ended)
    try:
        value: Any = decode(bytes(out.data))
    except Undecodable:
        shown = out.data[:80].decode("utf-8", "replace")
        return Answer(state="broke", reason=f"exit 0, but stdout is no JSON: {shown!r}")
    return Answer(state="accepted", value=value)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _reason(text: str) -> str:
    """The line of stderr that names an error, as in a stack trace, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = next((line for line in lines if _ERROR_LINE.fullmatch(line)), None)
    return (named or (lines[-1] if lines else ""))[:REASON_LENGTH]
