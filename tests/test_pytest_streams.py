"""What the plugin keeps of fixtures that were read: nothing that shows, no change of another test and no old bytes."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from reading import FIXTURES

from harness import pytest_streams
from harness.pytest_streams import Known
from harness.runs.files import open_file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A provider's fixtures, and nothing counts as written just now."""
    monkeypatch.setattr(pytest_streams, "_settled", lambda stamp: True)
    shutil.copytree(FIXTURES / "vllm", tmp_path / "vllm")
    return tmp_path


def written(path: Path, data: bytes) -> None:
    """Write the file; its time is another one, however coarse the file system's clock is."""
    before = path.stat().st_mtime_ns
    path.write_bytes(data)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_a_fixture_is_read_once_and_told_as_it_was_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, path = Known(), folder / "vllm" / "text.sse"
    found = [known.opened(path, None), open_file(path)]
    monkeypatch.setattr(pytest_streams, "open_file", None)
    assert found == [known.opened(path, None)] * 2


def test_no_test_sees_what_another_changed(folder: Path) -> None:
    known, path = Known(), folder / "vllm" / "text.sse"
    for _ in range(3):
        shown = known.opened(path, None)
        assert shown.reading.message.text != "changed"
        assert shown.reading.structure.wire["result"] == "ok"
        shown.reading.message.text = "changed"
        shown.reading.structure.wire.clear()


def test_what_is_written_between_tests_is_seen(folder: Path) -> None:
    known, path = Known(), folder / "vllm" / "text.sse"
    body = path.read_bytes()
    assert known.opened(path, None).reading.message.terminal == "done"
    written(path, body.replace(b"data: [DONE]\n\n", b": a comment \n\n"))
    with pytest.warns(pytest.PytestWarning, match="sha256 differs"):
        assert known.opened(path, None).reading.message.terminal == "finish"
    with pytest.warns(pytest.PytestWarning, match="sha256 differs"):  # once more, told once more
        known.opened(path, None)
    path.with_suffix(".json").unlink()
    assert known.opened(path, None).known_by == "content"
    assert known.opened(path, "anthropic").dialect == "anthropic"
    path.unlink()
    assert [one.name for one in known.takes(folder, "vllm", "text")] == []
    assert [one.name for one in known.takes(folder, "vllm", "stop")] == ["stop.sse"]


def test_new_takes_are_seen(folder: Path) -> None:
    known, path = Known(), folder / "vllm" / "text.sse"
    assert known.takes(folder, "vllm", "text") == known.takes(folder, "vllm", "text") == [path]
    before = path.parent.stat().st_mtime_ns
    shutil.copy(path, folder / "vllm" / "text.2.sse")
    os.utime(path.parent, ns=(before + 10**9, before + 10**9))
    assert known.takes(folder, "vllm", "text") == [path, folder / "vllm" / "text.2.sse"]


def test_what_was_just_written_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.sse"
    shutil.copyfile(FIXTURES / "vllm" / "text.sse", path)
    stamp = pytest_streams._stamp(str(path), str(tmp_path / "none"))
    assert not pytest_streams._settled(stamp)
    assert stamp[1] is None
    latest = path.stat().st_ctime_ns
    assert abs(time.time_ns() - latest) < 60 * 10**9
    known = Known()
    known.opened(path, None)
    assert not known.files
