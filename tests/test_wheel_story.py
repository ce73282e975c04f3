"""The wheel alone goes from nothing to a red gate. .ci/run tells the same with its dependencies installed anew."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import wheel_story


def test_in_six_commands_there_is_a_red_gate() -> None:
    acts = wheel_story.story("sse_harness-1.0-py3-none-any.whl")
    assert [act.command.split()[:2] for act in acts] == [
        ["pip", "install"], ["harness", "demo"], ["harness", "init"], ["harness", "record"], ["harness", "gate"],
        ["harness", "accept"],
    ]  # fmt: skip
    (red,) = (act for act in acts if act.code)
    assert any(text.startswith("FATAL ") for text in red.says)
    assert any(text.startswith("-> ") for text in red.says), "with its remedy"


@pytest.mark.whole
@pytest.mark.skipif(find_spec("hatchling") is None, reason="needs hatchling to build a wheel; .ci/run tells it too")
def test_the_story_is_what_happens() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(wheel_story.__file__)), "--offline", "--quiet"], capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    commands = [line.removeprefix("$ ") for line in done.stdout.splitlines()]
    told = [*wheel_story.story("WHEEL")[1:], *wheel_story.AFTER]
    assert commands[1:] == [act.command for act in told]
