"""The tutorial's command blocks run, in one shell from top to bottom, and print what the page says; reference pages are
complete, and their examples valid.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
import pytest
from reading import ROOT

from harness.cli import COMMANDS
from harness.cli import harness as command_line
from harness.config import _KEYS, load_project
from harness.conventions import CONVENTIONS
from harness.endpoint import Timeouts
from harness.providers import Acceptance, ShapeSettings
from harness.proxy import Forwarded
from harness.recording import END_STATES, Sidecar
from harness.runs.importing import Imported
from harness.runs.recording import Recorded
from harness.shapes import CANONICAL, SHAPES

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
BLOCK = re.compile(
    r"<!-- run(?:: exit (?P<code>\d+))? -->\n```sh\n(?P<script>.*?)```\n(?:```text\n(?P<output>.*?)```\n)?", re.DOTALL
)
PORTS = ("8081", "8082", "8083")
TOMORROW = datetime.now(UTC).date() + timedelta(days=1)
RUN = f"{sys.executable} -c 'from harness.cli import main; main()'"
PATIENCE = 120.0  # seconds a block may take


class Block(NamedTuple):
    """A command block: what is typed, the exit code of its last command, and the lines it prints (null: any)."""

    script: str
    code: int
    output: list[str] | None


class Shell:
    """A bash that is typed to. What it and its children write goes to one file, in order."""

    def __init__(self, folder: Path) -> None:
        commands = folder / "bin"
        commands.mkdir()
        (commands / "harness").write_text(f'#!/bin/sh\nexec {RUN} "$@"\n', "utf-8")
        (commands / "harness").chmod(0o755)
        self.log = folder / "log.txt"
        environment = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_URL"))}
        environment |= {"PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["bash", "--noprofile", "--norc"], cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        self.seen = 0

    def type(self, script: str, *, ready: int) -> tuple[int, list[str]]:
        """Run the script; return the last exit code and the lines written, once `ready` servers say so."""
        assert self.process.stdin is not None
        self.process.stdin.write(f'{script}echo "exit=$?"\n'.encode())
        self.process.stdin.flush()
        end = time.monotonic() + PATIENCE
        while True:
            lines = self.log.read_text("utf-8").splitlines()[self.seen :]
            codes = [line.removeprefix("exit=") for line in lines if line.startswith("exit=")]
            if codes and sum(line.startswith("READY") for line in lines) >= ready:
                self.seen += len(lines)
                return int(codes[0]), [line for line in lines if not line.startswith("exit=")]
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError("\n".join([script, *lines]))
            time.sleep(0.02)

    def close(self) -> None:
        """End the shell and the servers it started."""
        os.killpg(self.process.pid, signal.SIGTERM)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


def blocks(page: str) -> list[Block]:
    """The marked command blocks of a page, in order."""
    return [
        Block(found["script"], int(found["code"] or 0), found["output"].splitlines() if found["output"] else None)
        for found in BLOCK.finditer(page)
    ]


def free_ports(count: int) -> list[str]:
    """Ports nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [str(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


def matches(lines: list[str], expected: list[str]) -> bool:
    """Whether the lines are as expected: `...` alone stands for any lines, and at the end of a line for its rest."""
    if not expected:
        return not lines
    first, *rest = expected
    if first == "...":
        return any(matches(lines[skipped:], rest) for skipped in range(len(lines) + 1))
    if not lines:
        return False
    fits = lines[0].startswith(first.removesuffix("...")) if first.endswith("...") else lines[0] == first
    return fits and matches(lines[1:], rest)


def test_the_tutorial_is_what_happens(tmp_path: Path, shell: Shell) -> None:
    page = TUTORIAL.replace("2027-06-30", str(TOMORROW))
    ports = free_ports(len(PORTS))
    for written, port in zip(PORTS, ports, strict=True):
        page = page.replace(written, port)
    for block in blocks(page):
        code, lines = shell.type(block.script, ready=len(re.findall(r"&$", block.script, re.MULTILINE)))
        assert code == block.code, f"{block.script}\n" + "\n".join(lines)
        if block.output is not None:
            assert matches(lines, block.output), f"{block.script}\n" + "\n".join(lines)
        if "harness init" in block.script:  # the vendor's endpoint is the one thing that cannot be had in a test
            (path,) = (path for path in tmp_path.rglob("own/providers.yaml"))
            text = path.read_text("utf-8")
            assert "https://api.openai.com/v1" in text
            path.write_text(text.replace("https://api.openai.com/v1", f"http://127.0.0.1:{ports[0]}/v1"), "utf-8")


def test_no_command_block_of_the_tutorial_is_left_out() -> None:
    assert len(blocks(TUTORIAL)) == TUTORIAL.count("```sh\n") > 10
    shown = sum(block.output is not None for block in blocks(TUTORIAL))
    assert shown == TUTORIAL.count("```text\n"), "an output stands right below its commands"


@pytest.mark.parametrize(
    ("lines", "expected", "fits"),
    [(["a", "b"], ["a", "b"], True), (["a", "b"], ["..."], True), (["a", "b", "c"], ["a", "...", "c"], True),
     (["abc"], ["ab..."], True), (["a", "b"], ["a"], False), (["a"], ["a", "b"], False), (["b"], ["ab..."], False)],
)  # fmt: skip
def test_how_output_is_compared(lines: list[str], expected: list[str], fits: bool) -> None:
    assert matches(lines, expected) is fits


# -- reference pages ----------------------------------------------------------------------------------------------


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def rows(text: str, heading: str) -> dict[str, list[str]]:
    """The cells of the tables between a heading and the next, by the names in the first cell."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    found: dict[str, list[str]] = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            first, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            found |= dict.fromkeys(re.findall(r"`([^`]+)`", first), cells)
    return found


def test_every_key_of_a_provider_is_explained() -> None:
    text = page("providers.md")
    assert rows(text, "Keys of a provider").keys() == set(_KEYS)
    assert rows(text, "Shapes").keys() == {field.name for field in fields(ShapeSettings)}
    keys = {field.name for field in fields(Acceptance)} - {"place"}  # where it stands, which nobody writes
    assert rows(text, "Acceptances").keys() == keys


def test_timeouts_and_dialects_are_as_in_the_code() -> None:
    text = page("providers.md")
    timeouts = {name: float(cells[1].strip(" |")) for name, cells in rows(text, "Timeouts").items()}
    assert timeouts == msgspec.structs.asdict(Timeouts())
    dialects = {name: [cell.strip("`| ") for cell in cells] for name, cells in rows(text, "Dialects").items()}
    known = {name: [one.path, one.auth] for name, one in CONVENTIONS.items()}
    assert dialects == known, "docs/providers.md, Dialects: a row for each, as harness/conventions.py has it"
    for name in CONVENTIONS:
        assert f"`{name}`" in rows(text, "Keys of a provider")["dialect"][0], f"docs/providers.md, `dialect`: {name}"
        assert f"`{name}`" in page("dialects.md").split("\n\n")[1], f"docs/dialects.md, its first lines: {name}"


def test_the_examples_of_providers_yaml_are_valid(tmp_path: Path) -> None:
    examples = re.findall(r"<!-- valid -->\n```yaml\n(.*?)```", page("providers.md"), re.DOTALL)
    assert len(examples) == page("providers.md").count("```yaml")
    for example in examples:
        (tmp_path / "providers.yaml").write_text(example, "utf-8")
        assert "candidate" in load_project(None, tmp_path).providers


def test_every_member_of_a_sidecar_is_explained() -> None:
    found = rows(page("fixtures.md"), "The sidecar")
    assert found.keys() == set(Sidecar.__struct_fields__) | set(END_STATES)


def test_every_shape_is_in_the_glossary() -> None:
    found = rows(page("glossary.md"), "Shapes")
    assert [(name, cells[0].strip(" |")) for name, cells in found.items()] == list(SHAPES.items())
    assert tuple(found)[:4] == CANONICAL, "the page says that the first four are canonical"


JSON: dict[str, type[msgspec.Struct]] = {"record": Recorded, "import": Imported, "proxy": Forwarded}


@pytest.mark.parametrize("verb", JSON)
def test_the_members_of_small_objects_are_named(verb: str) -> None:
    (line,) = (line for line in page("README.md").splitlines() if line.startswith(f"| `harness {verb} --json"))
    assert re.findall(r"`(\w+)`", line) == [field.name for field in msgspec.structs.fields(JSON[verb])]


def test_every_verb_with_json_is_in_the_index() -> None:
    text = page("README.md")
    for name in COMMANDS:
        found = command_line.get_command(click.Context(command_line), name)
        assert found is not None
        if any("--json" in option.opts for option in found.params):
            assert f"| `harness {name} --json`" in text
