"""The command line for tests: `harness(*arguments)` runs it in this process and tells code, stdout and stderr."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from harness.cli import run

COMMAND = (sys.executable, "-c", "from harness.cli import main; main()")


class Done(NamedTuple):
    """How a run ended: exit code, and what it wrote on both streams."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """stdout as JSON, an object a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def one(self) -> dict[str, Any]:
        """The only object on stdout."""
        (found,) = self.objects
        return found

    def failed(self, code: int) -> str:
        """The one line of stderr that tells a failure with this code."""
        assert (self.code, self.err.count("\n")) == (code, 1), self
        assert self.err.startswith("harness")
        return self.err.rstrip("\n")


def harness(*arguments: object) -> Done:
    """Run in this process, in the current folder, with streams that are no terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    done = Done(code, *texts)
    assert "Traceback" not in done.err
    return done


def harness_process(*arguments: object, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """The same as a process of its own; `env` is added to the environment."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)], cwd=cwd, env={**os.environ, **(env or {})}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
