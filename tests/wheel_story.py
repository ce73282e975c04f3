"""The first hour with the wheel alone: from nothing to a red gate that can be understood, in six commands.

    python tests/wheel_story.py                    builds the wheel, installs it with its dependencies, tells the story
    python tests/wheel_story.py --wheel PATH       with a wheel that is there
    python tests/wheel_story.py --offline          takes the dependencies from this Python's packages
    python tests/wheel_story.py --quiet            prints the commands alone

In an empty folder and an environment of its own, so nothing of a checkout can be in reach. Two recorded servers that
travel with the package stand in for the endpoints. Every command is printed with what it says. Exit 1, and what was
expected, as soon as one does not end as it should.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 300  # seconds: a slow machine that installs dependencies
SHOWN, WIDE = 14, 140  # lines of what a command says, and columns

# A client as people write their first: it takes a piece for an event, and stops at nothing.
ACCUMULATOR = '''\
import json


def accumulate(pieces):
    text, calls, finish = "", {}, None
    for piece in pieces:
        for line in piece.decode().splitlines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            for choice in json.loads(line[6:])["choices"]:
                delta = choice["delta"]
                text += delta.get("content") or ""
                for call in delta.get("tool_calls") or []:
                    known = calls.setdefault(call["index"], {"id": "", "name": "", "arguments": ""})
                    known["id"] = call.get("id", known["id"])
                    known["name"] = call["function"].get("name", known["name"])
                    known["arguments"] += call["function"].get("arguments") or ""
                finish = choice.get("finish_reason") or finish
    return {"text": text, "tool_calls": [calls[index] for index in sorted(calls)], "finish_reason": finish}


accumulate.dialects = ["chat"]
'''


class Act(NamedTuple):
    """One command of the story: how it ends, and what it has to say for that to be understood."""

    command: str
    code: int = 0
    says: tuple[str, ...] = ()


def story(wheel: str, install: str = "") -> list[Act]:
    """The six commands."""
    return [
        Act(f"pip install {install}{wheel}"),
        Act("harness demo", 0, ("vllm -> candidate: CONFORMS", "FATAL end.marker-missing", "Next: `harness init`")),
        Act("harness init --baseline vllm --candidate transformers", 0,
            ("wrote providers.yaml", "wrote requests/chat/text.json", "export VLLM_URL=...", "harness record vllm")),
        Act("harness record vllm", 0, ("vllm/text: fixtures/vllm/text.sse", "vllm/error: fixtures/vllm/error.sse")),
        Act("harness gate vllm transformers --report report.json", 1,
            ("vllm -> transformers: DIFFERS", "FATAL end.marker-missing", "a spinner that never stops",
             "-> have the server send it, or stop at the finish reason", "candidate at byte")),
        Act('harness accept report.json --rule usage.position --reason "tokens are counted locally" --write', 0,
            ("usage.position", "tokens are counted locally")),
    ]  # fmt: skip


AFTER = [
    Act("harness gate vllm transformers", 1, ("usage.position (accepted", "FATAL end.marker-missing")),
    Act("harness doctor --live", 0,
        ("ok      config: providers.yaml: 2 providers, valid", "ok      answer: a stream of", "nothing to mend")),
    Act("harness check accumulator:accumulate", 1,
        ("in short:", "cases fail only when cut", "$ harness check accumulator:accumulate --case ")),
    Act("harness init --list", 0, ("groq ", "GROQ_API_KEY")),
    Act("harness gate vllm groq", 2, ("no provider 'groq'",)),
    Act("python -m pytest -q", 0, ("2 passed",)),
    Act("python -c \"import harness; print(harness.__file__)\"", 0, ("site-packages",)),
]  # fmt: skip
"""What else has to work there: each finds data of the package, or a plug-in of pytest's."""


def build(target: Path, *, isolated: bool) -> Path:
    """The wheel of this checkout."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(target), str(ROOT)]
    subprocess.run(command if isolated else [*command, "--no-build-isolation"], check=True, timeout=PATIENCE)
    (wheel,) = target.glob("sse_harness-*.whl")
    return wheel


def environment(scratch: Path, *, offline: bool) -> dict[str, str]:
    """A Python of its own; with `offline` it sees the packages of this one, but no checkout that is installed there."""
    venv.create(scratch / "venv", with_pip=True)
    scripts = scratch / "venv" / ("Scripts" if os.name == "nt" else "bin")
    if offline:
        (site,) = (scratch / "venv").glob("lib/python*/site-packages")
        # By path, so that files which make an installed checkout importable do not count.
        (site / "borrowed.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n", "utf-8")
    left_out = re.compile(r"(?i)(python|harness|virtual_env)")
    kept = {name: value for name, value in os.environ.items() if not left_out.match(name)}
    return {**kept, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "HOME": str(scratch),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1"}  # fmt: skip


@contextmanager
def stand_in(name: str, environ: dict[str, str], folder: Path) -> Iterator[str]:
    """A recorded server that travels with the package, served again; gives its base URL."""
    code = f"from harness.data import data_path; print(data_path('fixtures') / {name!r})"
    fixtures = subprocess.run(
        ["python", "-c", code], env=environ, cwd=folder, capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout.strip()
    server = subprocess.Popen(
        ["harness", "replay", fixtures, "--port", "0"], env=environ, cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if line.startswith("READY "):
                yield line.split()[1]
                break
        else:
            raise SystemExit(f"harness replay {name} ended before it was ready")
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE)


def play(act: Act, environ: dict[str, str], folder: Path, *, quiet: bool) -> None:
    """Run one command and print it. Raises SystemExit if it does not end, or say, what it should."""
    done = subprocess.run(
        shlex.split(act.command), env=environ, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    print(f"$ {act.command}")
    if not quiet:
        shown = [line if len(line) <= WIDE else f"{line[:WIDE]} ..." for line in lines[:SHOWN]]
        print(*shown, *(["..."] if len(lines) > SHOWN else []), sep="\n")
        print(f"[exit {done.returncode}]\n")
    missing = [text for text in act.says if text not in done.stdout]
    if done.returncode != act.code or missing:
        print(*lines[:100], sep="\n", file=sys.stderr)
        raise SystemExit(f"{act.command}: exit {done.returncode}, not {act.code}; not said: {missing}")


def tell(wheel: Path, scratch: Path, *, offline: bool, quiet: bool) -> None:
    """The whole story."""
    folder = scratch / "empty"
    folder.mkdir()
    environ = environment(scratch, offline=offline)
    acts: Sequence[Act] = story(str(wheel), "--no-deps " if offline else "")
    play(acts[0], environ, folder, quiet=quiet)
    with ExitStack() as servers:
        for name in ("vllm", "transformers"):
            environ[f"{name.upper()}_URL"] = servers.enter_context(stand_in(name, environ, folder))
        for act in acts[1:]:
            play(act, environ, folder, quiet=quiet)
        (folder / "accumulator.py").write_text(ACCUMULATOR, "utf-8")
        for act in AFTER:
            play(act, environ, folder, quiet=quiet)


def main() -> None:
    """Tell the story of the wheel given, or of one that is built."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheel", type=Path, help="a wheel that is there")
    parser.add_argument("--offline", action="store_true", help="take the dependencies from this Python's packages")
    parser.add_argument("--quiet", action="store_true", help="print the commands alone")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wheel-story-") as name:
        scratch = Path(name)
        wheel = given.wheel.resolve() if given.wheel else build(scratch / "dist", isolated=not given.offline)
        tell(wheel, scratch, offline=given.offline, quiet=given.quiet)


if __name__ == "__main__":
    main()
