"""The main job, over and over: a real llama.cpp server against itself, and against a stream that lost its end once.

Five turns each in a plain run; HARNESS_LIVE_TURNS=50 makes the measure that is reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from commandline import harness
from llamacpp import llamacpp
from reading import CANONICAL, ROOT

from harness.faults import parse_fault
from harness.recording import Recording
from harness.replay import Replay
from harness.steps import body_of, plan
from harness.store import load

pytestmark = pytest.mark.live
TURNS = int(os.environ.get("HARNESS_LIVE_TURNS", "5"))
ENDING = ("text", "tool-call", "stop")  # shapes whose stream has an end marker


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with this repository's providers.yaml and the server's fixtures; the server runs on."""
    folder = tmp_path_factory.mktemp("gates")
    (folder / "providers.yaml").write_bytes((ROOT / "providers.yaml").read_bytes())
    with llamacpp("--ctx", "512", "--unified-kv") as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LLAMACPP_URL", f"{url}/v1")
        assert harness("record", "llamacpp", "--config", folder / "providers.yaml").code == 0
        yield folder


def without_marker(recording: Recording) -> Recording:
    """The recording, its [DONE] dropped as the replay's fault does."""
    body = body_of(parse_fault("drop-marker").apply(plan(recording)))
    assert len(body) == len(recording.body) - len(b"data: [DONE]\n\n")
    return msgspec.structs.replace(recording, body=body, reads=[])


def test_every_gate_of_the_server_against_itself_conforms(recorded: Path) -> None:
    ended = []
    for _ in range(TURNS):
        done = harness("gate", "llamacpp", "llamacpp", "--json", "--config", recorded / "providers.yaml")
        assert [shape["shape"] for shape in done.one["shapes"]] == list(CANONICAL)
        ended.append((int(done.code), {shape["outcome"] for shape in done.one["shapes"]}))
    assert ended == [(0, {"conforms"})] * TURNS


def test_every_gate_tells_the_one_stream_that_lost_its_end(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four streams one lacks its [DONE]; which of them, changes with every turn."""
    whole = {shape: load(recorded / "fixtures" / "llamacpp" / f"{shape}.sse").recording for shape in CANONICAL}
    ended = []
    for turn in range(TURNS):
        shape = ENDING[turn % len(ENDING)]
        with Replay({"llamacpp": {**whole, shape: without_marker(whole[shape])}}) as server:
            monkeypatch.setenv("CANDIDATE_URL", server.base_url)
            done = harness("gate", "llamacpp", "candidate", "--json", "--config", recorded / "providers.yaml")
        told = {result["shape"]: [found["rule"] for found in result["findings"]] for result in done.one["shapes"]}
        ended.append((int(done.code), {name: rules for name, rules in told.items() if rules}))
    assert ended == [(1, {ENDING[turn % len(ENDING)]: ["end.marker-missing"]}) for turn in range(TURNS)]
