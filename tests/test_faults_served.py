"""Faults over a real socket: what the recorder keeps, what the gate says, and that docs/faults.md tells it."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from reading import FIXTURES, ROOT, fixture_of

from harness.conventions import CONVENTIONS
from harness.dialects import BUILT_IN
from harness.endpoint import Endpoint, Timeouts
from harness.faults import FAULTS, apply, parse_fault
from harness.recorder import record
from harness.recording import Recording
from harness.replay import Replay
from harness.steps import heard, plan
from harness.store import load


def _tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = _tool("fault_table")
PAGE = (ROOT / "docs" / "faults.md").read_text("utf-8")
PATIENCE = Timeouts(connect=5, first_event=0.4, idle=0.4, total=20)

CUT, REJECTED = "differs: stream.cut", "differs: http.rejected"
IN_STREAM, NOT_A_STREAM = "differs: error.in-stream", "differs: stream.not-a-stream"
HALF = "differs: stream.cut, sse.data-not-json"
# What a gate says of two calls: (chat), or (chat, Anthropic) where these are not the same.
SAID: dict[str, tuple[str, ...]] = {
    "cut:event=2": (CUT,),
    "cut": (CUT,),
    "reset:event=2": (CUT,),
    "stall:event=2": ("differs: stream.stalled",),
    "nothing": ("not measured: no event came",),
    "nothing:seconds=0": ("differs: stream.empty",),
    "slow:gap=0.01": ("conforms",),
    "drip:size=64,gap=0.001": ("conforms",),
    "pieces": ("conforms",),
    "bad-chunks": (CUT,),
    "gzip": ("conforms: http.content-encoding",),
    "media-type": ("differs: http.media-type",),
    "status:code=400": (REJECTED,),
    "status:code=401": ("not measured: HTTP 401",),
    "status:code=500": ("not measured: HTTP 500",),
    "status:code=502,body=html": ("not measured: HTTP 502",),
    "rate-limit:retry-after=0": ("conforms",),
    "page": (NOT_A_STREAM,),
    "page:body=json": (f"{IN_STREAM}, http.media-type",),
    "drop-marker": ("differs: end.marker-missing",),
    "double-marker": ("differs: end.marker-repeated", "differs: end.data-after-marker"),
    "drop-finish": ("differs: finish.missing",),
    "error": (IN_STREAM,),
    "error:marker=true": (IN_STREAM,),
    "half-event": (HALF, f"{HALF}, sse.multi-line-data"),
    "garbage": ("differs: sse.data-swallowed", "differs: sse.event-name-missing, sse.unknown-field"),
    "invalid-utf8": ("differs: sse.invalid-utf8, tool.arguments-not-json",),
    "repeat": (
        "differs: tool.arguments-sent-again, tool.name-repeated, role.repeated",
        "differs: tool.arguments-not-json, anthropic.start-repeated",
    ),
    "reuse-index": ("differs: tool.index-reused", "differs: anthropic.block-index-reused"),
    "comments": ("conforms: sse.comments",),
    "bom": ("differs: sse.bom",),
    "crlf": ("conforms: sse.line-endings",),
    "huge-event": ("conforms: sse.long-line",),
}


def test_every_fault_is_measured() -> None:
    assert {fault.partition(":")[0] for fault in SAID} == set(FAULTS)
    assert list(SAID) == list(TABLE.ROWS)


@pytest.mark.parametrize("fault", SAID)
def test_what_the_gate_says_of_a_fault(fault: str) -> None:
    assert TABLE.told(fault, "chat") == SAID[fault][0]
    assert TABLE.told(fault, "anthropic") == SAID[fault][-1]


# One fixture of ours in each dialect. A stall is long enough for the client to give up.
STREAMS = {
    **{dialect: fixture_of(dialect, "tool-call", "text") for dialect in BUILT_IN},
    "chat": "vllm/text", "responses": "vllm-responses/parallel-tools", "anthropic": "vllm-anthropic/tool-call",
    "completions": "vllm-completions/text", "gemini": "gemini/reasoning",
}  # fmt: skip


def loaded(dialect: str) -> Recording:
    return load(FIXTURES / f"{STREAMS[dialect]}.sse").recording


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_recorder_keeps_what_the_plan_says_it_hears(dialect: str) -> None:
    whole = loaded(dialect)
    quick = [fault for fault in SAID if fault.partition(":")[0] not in ("slow", "drip", "stall", "nothing", "pieces")]
    for fault in [*quick, "nothing:seconds=0", "stall:event=1" if dialect == "chat" else "reset:byte=1"]:
        planned = heard(apply([parse_fault(fault)], plan(whole)), whole, PATIENCE)
        with Replay({"p": {"text": whole}}, faults=[fault]) as server:
            url = server.base_url + CONVENTIONS[dialect].path
            kept = record(Endpoint(url=url, body=b"{}", dialect=dialect, retries=0, timeouts=PATIENCE))
        assert (fault, kept.status, kept.end, kept.decoded_from) == (
            fault, planned.status, planned.end, planned.decoded_from
        )  # fmt: skip
        assert kept.body == planned.body, fault
        assert kept.headers["content-type"] == planned.headers["content-type"]


def test_only_the_first_requests_meet_a_fault_with_times() -> None:
    whole = loaded("chat")
    with Replay({"p": {"text": whole, "stop": whole}}, faults=["cut:event=1,times=2", "bom:times=1"]) as server:

        def asked(shape: str) -> Recording:
            return record(Endpoint(url=server.url("p", shape) + "/chat/completions", body=b"{}"))

        first, second, third, other = asked("text"), asked("text"), asked("text"), asked("stop")
        told = [exchange.faults for exchange in server.journal]
    assert (first.end, second.end, third.end, other.end) == ("cut", "cut", "eof", "cut")
    assert first.body == other.body == b"\xef\xbb\xbf" + second.body
    assert third.body == whole.body
    assert told == [["cut:event=1,times=2", "bom:times=1"], ["cut:event=1,times=2"], [],
                    ["cut:event=1,times=2", "bom:times=1"]]  # fmt: skip


def test_a_rate_limit_passes_when_it_is_waited_out() -> None:
    whole = loaded("chat")
    with Replay({"p": {"text": whole}}, faults=["rate-limit:retry-after=0,times=2"]) as server:
        kept = record(Endpoint(url=server.base_url + "/chat/completions", body=b"{}", retries=2))
        assert [exchange.status for exchange in server.journal] == [429, 429, 200]
    assert (kept.status, kept.body) == (200, whole.body)


def _openai(url: str) -> Any:
    openai = pytest.importorskip("openai")
    asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with openai.OpenAI(base_url=url, api_key="none") as client, client.chat.completions.stream(**asked) as stream:
        return stream.get_final_completion().choices[0].message.content


def _anthropic(url: str) -> Any:
    anthropic = pytest.importorskip("anthropic")
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    base = url.removesuffix("/v1")
    with anthropic.Anthropic(base_url=base, api_key="none") as client, client.messages.stream(**asked) as stream:
        return stream.get_final_text()


@pytest.mark.parametrize(("client", "name"), [(_openai, "vllm/text"), (_anthropic, "vllm-anthropic/text")])
def test_clients_get_through_a_rate_limit_with_their_own_retries(client: Callable[[str], Any], name: str) -> None:
    recording = load(FIXTURES / f"{name}.sse").recording
    with Replay({"p": {"text": recording}}, faults=["rate-limit"]) as server:
        assert str(client(server.base_url)).startswith("Hello there!")
        assert [exchange.status for exchange in server.journal] == [429, 200]


# -- docs/faults.md ------------------------------------------------------------------------------------------------


def rows() -> dict[str, list[str]]:
    """Cells of the page's table, by fault."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in lines}


def test_the_page_lists_every_fault_as_it_is_written() -> None:
    for line in TABLE.listed():
        assert f"\n{line}\n" in PAGE
    assert [line for line in PAGE.splitlines() if line.startswith("- `")] == list(TABLE.listed())


def test_the_page_says_what_the_gate_says() -> None:
    found = rows()
    assert list(found) == list(SAID)
    for fault, said in SAID.items():
        assert found[fault][:2] == [said[0], said[-1]]
        assert len(found[fault]) == 5
        assert all(found[fault])


def test_the_page_is_about_the_pinned_clients() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["sdk"]
    pinned = [pin.replace("==", " ") for pin in extras]
    header = next(line for line in PAGE.splitlines() if line.startswith("| fault |"))
    columns = header.strip("| ").split(" | ")[3:]
    assert len(columns) == 3
    for column in columns:
        assert column in pinned, "a client changed: run tools/fault_table.py"


def test_the_page_without_its_measurements_is_what_the_tool_writes() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    header = next(line for line in PAGE.splitlines() if line.startswith("| fault |"))
    assert TABLE.page(lines, header.strip("| ").split(" | ")[3:]) == PAGE


def test_the_pages_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (code,) = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
    place: dict[str, Any] = {}
    exec(code, place)
    assert Path("fixtures/vllm/text.sse").read_bytes().startswith(place["body_of"](place["steps"]))
    assert place["heard"](place["steps"]).end == "cut"
