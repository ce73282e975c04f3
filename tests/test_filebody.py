"""Large bodies stay in their file: the same is read of them, and the memory that takes is for what the stream says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import msgspec
import pytest
from commandline import COMMAND, harness
from hypothesis import given
from hypothesis import strategies as st
from reading import FIXTURES, QUIRKS

from harness import message, store
from harness.errors import UsageError
from harness.events import ToolCall
from harness.filebody import FileBody
from harness.recording import Read, Recording, sha256
from harness.runs import files
from harness.structure import read
from harness.timing import measure

EVERY = sorted([*QUIRKS.glob("*.sse"), *FIXTURES.glob("*/*.sse")])
MEGABYTE = 1024**2


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    path, body = tmp_path_factory.mktemp("body") / "x.sse", bytes(range(256)) * 3
    path.write_bytes(body)
    return path, body


@given(part=st.slices(900))
def test_slices_are_those_of_the_bytes(some: tuple[Path, bytes], part: slice) -> None:
    path, body = some
    held, part = FileBody(path), slice(part.start, part.stop)
    assert held[part] == body[part]
    assert (len(held), bytes(held), sha256(held)) == (len(body), body, sha256(body))  # type: ignore[arg-type]


def test_a_file_that_is_written_to_meanwhile_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.sse"
    path.write_bytes(b"data: 1\n\n")
    held = FileBody(path)
    path.write_bytes(b"data: 1\n\ndata: 2\n\n")
    with pytest.raises(UsageError, match=r"x\.sse: was written to while it was read; try again"):
        held[:1]
    path.unlink()
    with pytest.raises(UsageError, match=r"x\.sse: cannot be read: No such file"):
        held[:1]


def test_the_same_is_read_wherever_the_body_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> list[object]:
        found: list[object] = []
        for path in EVERY:
            shown = files.open_file(path, keep_events=True, held=False)
            found.append([shown.dialect, shown.reading, shown.events, measure(shown.loaded.recording, shown.events)])
        return found

    held = read()
    monkeypatch.setattr(files, "LARGE", 0)
    monkeypatch.setattr("harness.recording.PIECE", 100)
    monkeypatch.setattr("harness.timing.PIECE", 7)
    monkeypatch.setattr(Recording.in_pieces, "__defaults__", (100,))
    assert isinstance(cast(object, files.open_file(EVERY[0], held=False).loaded.recording.body), FileBody)
    assert read() == held


def test_the_same_is_read_whether_or_not_the_events_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fragments that bring arguments alone are joined where nobody keeps them; places stay those of each."""
    kept = [files.open_file(path, keep_events=True).reading for path in EVERY]
    joined = 0

    def join(fragments: list[ToolCall]) -> None:
        nonlocal joined
        before = len(fragments)
        join_run(fragments)
        joined += before - len(fragments)

    join_run = message._join_run
    monkeypatch.setattr(message, "_join_run", join)
    for size in (1, 2, 5):
        monkeypatch.setattr(message, "RUN", size)
        assert [files.open_file(path).reading for path in EVERY] == kept
    assert joined > 100


def test_arguments_that_go_on_are_placed_within_what_was_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message, "RUN", 4)
    opening = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
    pieces = ['{"a', '":', " 1}", " ", "", "{", "} and", " more"]
    deltas = [opening, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
    texts = [json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]}) for delta in deltas]
    body = "".join(f"data: {text}\n\n" for text in texts).encode()
    recording = Recording(body=body, end="eof")
    found = read(recording, "chat")
    note = found.structure.notes["tool.arguments-sent-again"]
    assert note.detail == "{"
    assert body[note.at : note.at + note.length].endswith(b'{"arguments": "{"}}]}}]}\n')
    kept = read(recording, "chat", None, [])
    assert (found.message, found.structure) == (kept.message, kept.structure)


@pytest.mark.parametrize("view", ["message", "events", "structure", "timeline", "bytes"])
def test_every_view_shows_the_same(monkeypatch: pytest.MonkeyPatch, view: str) -> None:
    arguments = ("show", FIXTURES / "vllm" / "text.sse", QUIRKS / "048-no-done-marker.sse", "--as", view)
    held = harness(*arguments), harness(*arguments, "--json"), harness("lint", *arguments[1:3])
    monkeypatch.setattr(files, "LARGE", 0)
    assert (harness(*arguments), harness(*arguments, "--json"), harness("lint", *arguments[1:3])) == held


@pytest.mark.parametrize("more", [(), ("--json",), ("--events",)])
def test_diff_and_expect_say_the_same(monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]) -> None:
    text, call = FIXTURES / "vllm" / "text.sse", FIXTURES / "transformers" / "text.sse"
    held = harness("diff", text, call, *more), harness("expect", text, call)
    monkeypatch.setattr(files, "LARGE", 0)
    assert (harness("diff", text, call, *more), harness("expect", text, call)) == held
    assert held[0].code < 2


def test_a_body_that_is_not_the_sidecars_is_told_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.sse"
    path.write_bytes(b"data: 1\n\n")
    path.with_suffix(".json").write_text(json.dumps({"format": "sse-harness/1", "sha256": "0" * 64}), "utf-8")
    warning = store.load(path).warning
    assert warning is not None
    assert store.look(path, 0).warning == warning


def test_pieces_are_cut_where_they_are_long() -> None:
    recording = Recording(body=b"abcdefgh", reads=[Read(end=1, microseconds=0), Read(end=6, microseconds=1)])
    assert list(recording.in_pieces(2)) == [b"a", b"bc", b"de", b"f", b"gh"]
    assert recording.pieces() == [b"a", b"bcdef", b"gh"]
    assert list(msgspec.structs.replace(recording, body=b"").in_pieces()) == []


def peak_megabytes(path: Path, *arguments: str) -> float:
    """The most memory that a run held."""
    script = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    told = subprocess.run([sys.executable, "-c", script, *COMMAND, *arguments, path], capture_output=True, text=True,
                          check=True)  # fmt: skip
    code, peak = map(int, told.stdout.split())
    assert code == 0
    return peak / (MEGABYTE if sys.platform == "darwin" else 1024)


@pytest.mark.skipif(os.name == "nt", reason="no resource usage there")
def test_memory_is_for_what_a_stream_says(tmp_path: Path) -> None:
    body = (FIXTURES / "vllm" / "text.sse").read_bytes()
    events = body.split(b"\n\n")
    small, large = tmp_path / "small.sse", tmp_path / "large.sse"
    small.write_bytes(body)
    middle, count = b"\n\n".join(events[1:-4]) + b"\n\n", 0
    with large.open("wb") as file:
        file.write(events[0] + b"\n\n")
        while file.tell() < 48 * MEGABYTE:
            file.write(middle * 100)
            count += 100
        file.write(b"\n\n".join(events[-4:]))
    for arguments in (("lint",), ("show",), ("show", "--as", "structure")):
        assert peak_megabytes(large, *arguments) < peak_megabytes(small, *arguments) + 16
