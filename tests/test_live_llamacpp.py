"""The main job on a real server: llama.cpp is recorded, gated against itself, and replaced by each recorded candidate.

What each cutover must be told stands in expected_gates.yaml, read from the bytes by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from commandline import Done, harness
from llamacpp import llamacpp
from reading import CANONICAL, FIXTURES, ROOT

from harness.replay import Replay

pytestmark = pytest.mark.live
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "expected_gates.yaml").read_text("utf-8"))
TURNS = 3


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of its own with this repository's providers.yaml, the server recorded; the server runs on.

    Its two slots share one context: two endless answers overflow it, which is the shape `error`.
    """
    folder = tmp_path_factory.mktemp("cutover")
    (folder / "providers.yaml").write_bytes((ROOT / "providers.yaml").read_bytes())
    with llamacpp("--ctx", "512", "--unified-kv") as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LLAMACPP_URL", f"{url}/v1")
        done = record(folder)
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines() == [
            f"llamacpp/{shape}: {folder}/fixtures/llamacpp/{shape}.sse" for shape in CANONICAL
        ]
        yield folder


def record(folder: Path, *arguments: object) -> Done:
    return harness("record", "llamacpp", *arguments, "--config", folder / "providers.yaml")


def gate(folder: Path, candidate: str, *arguments: object) -> Done:
    return harness("gate", "llamacpp", candidate, *arguments, "--config", folder / "providers.yaml")


def test_record_writes_four_shapes(project: Path) -> None:
    folder = project / "fixtures" / "llamacpp"
    assert {path.name for path in folder.iterdir()} == {f"{s}.{end}" for s in CANONICAL for end in ("sse", "json")}
    said = {shape: harness("show", folder / f"{shape}.sse", "--json").one for shape in CANONICAL}
    assert said["text"]["text"].startswith("Hello there! This is a small scripted model.")
    (call,) = said["tool-call"]["tool_calls"]
    assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Paris", "unit": "celsius"})
    assert call["id"]
    assert (said["stop"]["text"], said["stop"]["finish_reason"]) == ("Hello there! This is a small ", "stop")
    assert said["error"]["terminal"] == "error"
    assert said["error"]["error"] == {
        "type": "server_error", "code": 500, "message": "Context size has been exceeded."
    }  # fmt: skip
    assert said["error"]["text"].startswith("tick tock ")
    sidecar = json.loads((folder / "error.json").read_bytes())
    assert (sidecar["status"], sidecar["end"]) == (200, "eof")
    assert "tools" not in sidecar["request"]["body"]


def test_the_server_conforms_to_itself_every_time(project: Path) -> None:
    for _ in range(TURNS):
        done = gate(project, "llamacpp", "--json", "--fail-on", "cosmetic")
        assert (done.code, done.err) == (0, "")
        shapes = done.one["shapes"]
        assert {shape["shape"]: shape["outcome"] for shape in shapes} == dict.fromkeys(CANONICAL, "conforms")
        assert [shape["findings"] for shape in shapes] == [[], [], [], []]


def test_recording_again_needs_no_replace(project: Path) -> None:
    """Ids, times and the place where the context overflows change with every run; the structure does not."""
    before = (project / "fixtures" / "llamacpp" / "error.sse").read_bytes()
    for _ in range(TURNS):
        done = record(project)
        assert (done.code, done.err) == (0, "")
    assert (project / "fixtures" / "llamacpp" / "error.sse").read_bytes() != before


@pytest.mark.parametrize("candidate", EXPECTED)
def test_each_cutover_is_told_as_it_was_read_by_hand(
    project: Path, candidate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Replay(FIXTURES / candidate) as server:
        monkeypatch.setenv("CANDIDATE_URL", server.base_url)
        done = gate(project, "candidate", "--json", "--report", project / f"{candidate}.json")
        assert [exchange.shape for exchange in server.journal] == list(CANONICAL)
    report = done.one
    found = {
        shape["shape"]: sorted([finding["rule"], finding["severity"]] for finding in shape["findings"])
        for shape in report["shapes"]
    }
    assert found == {shape: sorted(EXPECTED[candidate][shape]) for shape in CANONICAL}
    assert json.loads((project / f"{candidate}.json").read_bytes()) == report
    worst = {severity for findings in found.values() for _, severity in findings}
    assert done.code == (1 if worst & {"negotiable", "fatal"} else 0)
    assert {shape["outcome"] for shape in report["shapes"]} <= {"conforms", "differs"}
