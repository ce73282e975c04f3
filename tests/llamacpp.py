"""A real llama.cpp server with the scripted tiny model, for the live tests. Skips where its extra is not installed."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent / "tools"


def skip_unless_installed() -> None:
    """Skip the calling test (or module) with a reason if xllamacpp or gguf is missing. Loads neither."""
    missing = [name for name in ("xllamacpp", "gguf") if find_spec(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed (extra llamacpp)", allow_module_level=True)


@cache
def tiny_model() -> Path:
    """The tiny model's gguf file: made once per process, in a folder of its own that goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="tiny-model-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "tiny.gguf"
    subprocess.run([sys.executable, str(TOOLS / "make_tiny_model.py"), "gguf", str(path)], check=True, timeout=120)
    return path


@contextmanager
def llamacpp(*flags: str) -> Iterator[str]:
    """Run the server on a free port of this host; yields its url, without a path: `http://127.0.0.1:PORT`.

    `flags` are those of tools/serve_llamacpp.py, such as `--ctx 512 --unified-kv`. The server stops when the block
    ends, and also when this process dies: it watches the pipe.
    """
    skip_unless_installed()
    command = [sys.executable, str(TOOLS / "serve_llamacpp.py"), str(tiny_model()), "--port", "0", "--watch-stdin"]
    with subprocess.Popen(
        [*command, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            word, _, url = server.stdout.readline().partition(" ")  # it gives up by itself if it does not get healthy
            if word != "READY":
                raise RuntimeError(f"the llama.cpp server did not start: {' '.join([*command, *flags])}")
            yield url.strip()
        finally:
            server.stdin.close()
            try:
                server.wait(timeout=10)
            except subprocess.TimeoutExpired:
                server.kill()
