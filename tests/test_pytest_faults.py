"""The marker's `fault` and the pytest fixture `replayed`, in pytest runs of their own."""

from __future__ import annotations

import shutil

import pytest
from reading import FIXTURES, QUIRKS

import harness.pytest_streams  # noqa: F401

QUICK = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio", "-W", "default")


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    shutil.copytree(FIXTURES / "vllm", pytester.path / "fixtures" / "vllm")
    (pytester.path / "providers.yaml").write_text("providers: {}\n", "ascii")
    return pytester


def run(folder: pytest.Pytester, text: str) -> pytest.RunResult:
    folder.makepyfile(f"import pytest\n\n{text}")
    return folder.runpytest_inprocess(*QUICK)


def test_a_recorded_stream_and_a_quirk_are_broken_as_the_marker_says(folder: pytest.Pytester) -> None:
    result = run(folder, """
@pytest.mark.sse(provider="vllm", shape="text", fault="cut:event=3")
def test_recorded(recorded):
    assert recorded.message.terminal == "truncated"
    assert recorded.recording.end == "cut"
    assert "stream.cut" in recorded.structure.notes
    assert recorded.body.count(b"data:") == 3

@pytest.mark.sse(provider="vllm", shape="text")
def test_whole(recorded):
    assert recorded.message.terminal == "done"

def broken(pieces):
    b"".join(pieces)
    return {"text": "", "tool_calls": []}

@pytest.mark.sse(dialect="chat", fault=["error:event=1", "crlf"])
def test_quirk(sse_quirk):
    if sse_quirk.expect["terminal"] == "error":
        assert b"\\r\\n" in sse_quirk.body
        assert sse_quirk.differences(broken) == ["returned normally, but the stream has an error"]
""")  # fmt: skip
    assert result.ret == 0
    chat = [path for path in QUIRKS.glob("*.json") if b'"family": "chat"' in path.read_bytes()]
    result.assert_outcomes(passed=2 + len(chat))


def test_a_client_is_tested_against_a_server_that_breaks(folder: pytest.Pytester) -> None:
    result = run(folder, """
import httpx

def asked(replayed, **body):
    return httpx.post(replayed.base_url + "/chat/completions", json=body)

@pytest.mark.sse(provider="vllm", shape="text")
def test_whole(replayed):
    assert asked(replayed).text.endswith("data: [DONE]\\n\\n")

@pytest.mark.sse(provider="vllm")
def test_all_shapes(replayed):
    assert "get_weather" in asked(replayed, tools=[{"type": "function", "function": {"name": "get_weather"}}]).text
    assert [exchange.shape for exchange in replayed.journal] == ["tool-call"]

@pytest.mark.sse(provider="vllm", shape="text", fault="rate-limit:retry-after=0")
def test_retry(replayed):
    assert [asked(replayed).status_code for _ in range(3)] == [429, 200, 200]

@pytest.mark.sse(provider="vllm", shape="text", fault="reset:event=2")
def test_reset(replayed):
    with pytest.raises(httpx.ReadError):
        asked(replayed)
""")  # fmt: skip
    result.assert_outcomes(passed=4)


def test_what_cannot_be_is_one_line(folder: pytest.Pytester) -> None:
    result = run(folder, """
@pytest.mark.sse(provider="vllm", shape="text", fault="nope")
def test_recorded(recorded): ...

@pytest.mark.sse(provider="vllm", shape="nope")
def test_replayed(replayed): ...

@pytest.mark.sse(provider="nobody")
def test_nobody(replayed): ...

def test_unmarked(replayed): ...

@pytest.mark.sse(dialect="gemini", fault="cut:evnt=1")
def test_quirk(sse_quirk): ...
""")  # fmt: skip
    out = result.stdout.str()
    assert "no fault 'nope': use one of cut," in out
    assert "no fixture of nope; `harness record vllm --shape nope` makes it" in out
    assert "no fixtures here" in out
    assert "replayed needs @pytest.mark.sse(provider=..., shape=...): provider is missing" in out
    assert "'evnt' is unknown: write cut[:event=,byte=]" in out
    assert result.ret == 1
    assert "Traceback" not in out
