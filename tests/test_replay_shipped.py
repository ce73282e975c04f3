"""`harness replay --shipped`: recordings that came with the package, in any folder; `harness demo`, short and whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import pytest
from commandline import harness, harness_process

from harness.data import data_path
from harness.replay import Replay


def test_shipped_recordings_are_served_by_name_in_any_folder(tmp_path: Path) -> None:
    given = ("replay", "--shipped", "vllm", "--shipped", "transformers", "--strict")
    with harness_process(*given, cwd=tmp_path) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("READY ").strip().removesuffix("/v1")
        for name in ("vllm", "transformers"):
            got = httpx.post(f"{url}/{name}/text/v1/chat/completions", json={}, timeout=20).content
            assert got == (data_path("fixtures") / name / "text.sse").read_bytes()
        process.terminate()


def test_an_unknown_name_lists_those_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = harness("replay", "--shipped", "vlm").failed(2)
    assert line.startswith("harness: --shipped vlm: no recordings of that name; did you mean 'vllm'? there are ")
    assert "transformers" in line


def test_the_demo_is_short_and_with_verbose_whole() -> None:
    short, whole = harness("demo"), harness("demo", "--verbose")
    assert short.code == whole.code == 0
    lines = short.out.splitlines()
    assert len(lines) < 60
    assert set(lines) <= set(whole.out.splitlines())
    assert short.out.count("FATAL end.marker-missing") == whole.out.count("FATAL end.marker-missing") == 3
    assert "at the cutover:" not in short.out
    assert whole.out.count("at the cutover:") == whole.out.count("not covered by this gate:") == 2


def test_parity_on_recorded_streams_is_not_measured_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = data_path("fixtures") / "vllm"
    (tmp_path / "fixtures").mkdir()
    shutil.copytree(shipped, tmp_path / "fixtures" / "a")
    with Replay(shipped) as server:
        (tmp_path / "providers.yaml").write_text(
            f"providers:\n  a: {{dialect: chat, base_url: '{server.base_url}', model: m, auth: none}}\n"
        )
        done = harness("gate", "a", "a", "--parity", "--shape", "text")
    assert done.code == 3
    shape, _, not_covered = done.out.partition("not covered by this gate:")
    assert "only streams are recorded of vllm/text" in shape
    assert "shape text: not measured" in not_covered
