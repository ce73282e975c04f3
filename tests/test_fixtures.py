"""Fixtures and quirks at rest: none is missing, none is altered, and each reads as what its bytes say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml
from reading import CANONICAL, FIXTURES, QUIRKS, ROOT, differences, quirk, quirks, read

from harness.events import Finish, ToolCall
from harness.findings import Severity
from harness.recording import END_STATES, SIDECAR_FORMAT, Sidecar, sha256

CASES = ROOT.parent / "shared" / "cases"  # where the quirks are kept in step with; not part of a checkout
IMPORTED = ("dynamo", "litellm", "litellm-over-anthropic", "transformers", "vllm")
SYNTHETIC = ("alibaba-compatible", "dashscope", "ollama", "openai")
BODIES = sorted(FIXTURES.glob("*/*.sse"))
PARIS = {"city": "Paris", "unit": "celsius"}
ILE = {"city": "Paris, Île-de-France", "unit": "celsius"}
SCRIPTED = "Hello there! This is a small "


class Said(NamedTuple):
    """What a fixture says, read from its bytes by eye. `call`: id, name, arguments; `tokens`: input, output."""

    text: str = ""
    call: tuple[str, str, Any] | None = None
    finish: str | None = None
    tokens: tuple[int, int] | None = None
    error: str | None = None


SAID = {
    "vllm/text": Said(SCRIPTED + "scripted model.", None, "stop", (7, 53)),
    "vllm/tool-call": Said("", ("chatcmpl-tool-bcab95be3866d43c", "get_weather", PARIS), "tool_calls", (258, 28)),
    "vllm/stop": Said(SCRIPTED, None, "stop", (7, 12)),
    "vllm/error": Said("tick tock ", error="EngineCore encountered an issue."),
    "litellm/text": Said(SCRIPTED + "scripted model.", None, "stop", (7, 53)),
    "litellm/tool-call": Said("", ("Mgxywz5rB7ySbadzhZgGMfREktEerx3G", "get_weather", PARIS), "tool_calls", (201, 28)),
    "litellm/stop": Said(SCRIPTED, None, "stop", (7, 12)),
    "litellm/error": Said("tick tock ", error="litellm.InternalServerError: InternalServerError: Hosted_vllm"),
    "litellm-over-anthropic/text": Said(SCRIPTED + "scripted model.", None, "stop", (7, 53)),
    "litellm-over-anthropic/tool-call": Said(
        "", ("uxBXvvYTNp2tNCI14UIABrxg8SObO29m", "get_weather", PARIS), "tool_calls", (201, 28)
    ),
    "litellm-over-anthropic/stop": Said(SCRIPTED, None, "stop", (7, 12)),
    # The upstream's error is nowhere on the wire: half an answer that says it is whole.
    "litellm-over-anthropic/error": Said("tick tock ", None, "stop", (13, 226)),
    "transformers/text": Said(SCRIPTED + "scripted model.", None, "stop", (7, 53)),
    "transformers/tool-call": Said(
        "", ("a969233e-9c0a-4727-bbce-cac2b23d96e5_tool_call_0", "get_weather", PARIS), "tool_calls", (258, 28)
    ),
    # The stop string itself is in the text.
    "transformers/stop": Said(SCRIPTED + "scripted", None, "stop", (7, 12)),
    "transformers/error": Said("", error="`max_new_tokens` must be greater than 0"),
    "dynamo/text": Said(SCRIPTED + "scripted model.", None, "stop", (7, 53)),
    "dynamo/tool-call": Said(
        "", ("call-827f4699-179d-483a-b73b-39a8c9a22bd2", "get_weather", PARIS), "tool_calls", (258, 28)
    ),
    "dynamo/stop": Said(SCRIPTED, None, "stop", (7, 12)),
    "dynamo/error": Said("tick tock tick t", error="Internal server error"),
    "openai/text": Said("Good morning! Καλημέρα from a café in 東京", None, "stop", (14, 19)),
    "openai/tool-call": Said("", ("call_0SynthParis00Weather01", "get_weather", ILE), "tool_calls", (71, 20)),
    "openai/stop": Said("one two three ", None, "stop", (15, 5)),
    "openai/error": Said(error="tool_choice names 'get_time'"),
    "dashscope/text": Said("早上好，今天的茶是龙井", None, "stop", (16, 23)),
    "dashscope/tool-call": Said("", ("call_5a1e7e5701c0ffee00bead", "get_weather", ILE), "tool_calls", (158, 24)),
    # Cut by the model: the text as it came, never repaired.
    "dashscope/tool-call.2": Said(
        "",
        ("call_5a1e7e5702c0ffee00bead", "get_weather", '{"city": "Paris, Île-de-France", "unit": "celsius"'),
        "tool_calls",
        (158, 24),
    ),
    "dashscope/stop": Said("one two three ", None, "stop", (19, 5)),
    "dashscope/error": Said(error="The function named in tool_choice is missing"),
    "alibaba-compatible/text": Said("Hello from the tide tables: the sea at Peñíscola", None, "stop", (18, 31)),
    # The overwrite trap: both came first and were followed by "".
    "alibaba-compatible/tool-call": Said(
        "", ("call_a11baba0c0ffee0000000001", "get_weather", ILE), "tool_calls", (164, 27)
    ),
    "alibaba-compatible/stop": Said("one two three ", None, "stop", (20, 5)),
    "alibaba-compatible/error": Said(error="tool_choice: no function of that name"),
    "ollama/text": Said("Hi there, salt & pepper are ready, crème brûlée", None, "stop", (33, 15)),
    "ollama/tool-call": Said("", ("", "get_weather", ILE), "tool_calls", (171, 25)),
    "ollama/tool-call.2": Said("", ("call_zr4k9w2m", "get_weather", ILE), "tool_calls", (171, 49)),
    "ollama/stop": Said("one two three ", None, "stop", (36, 6)),
    "ollama/error": Said(error="tiny-teapot does not support tools"),
}


def name_of(body: Path) -> str:
    return f"{body.parent.name}/{body.stem}"


def sidecar_of(body: Path) -> Sidecar:
    return msgspec.json.decode(body.with_suffix(".json").read_bytes(), type=Sidecar)


def skip_reason(provider: str, shape: str) -> str | None:
    """The reason in providers.yaml why a shape is not recorded."""
    config = ROOT / "providers.yaml"
    entries = yaml.safe_load(config.read_text(encoding="utf-8"))["providers"] if config.exists() else {}
    reason: str | None = ((entries.get(provider) or {}).get("shapes") or {}).get(shape, {}).get("skip")
    return reason


def test_every_provider_has_every_canonical_shape_or_a_reason() -> None:
    providers = {path.name for path in FIXTURES.iterdir() if path.is_dir()}
    assert providers >= {*IMPORTED, *SYNTHETIC}
    holes = [
        f"{provider}/{shape}"
        for provider in sorted(providers)
        for shape in CANONICAL
        if not (FIXTURES / provider / f"{shape}.sse").exists() and not skip_reason(provider, shape)
    ]
    assert holes == []


@pytest.mark.parametrize("body", BODIES, ids=name_of)
def test_sidecar_describes_the_bytes(body: Path) -> None:
    sidecar = sidecar_of(body)
    assert re.fullmatch(r"[a-z0-9-]+(\.[2-9])?", body.stem)
    assert sidecar.format == SIDECAR_FORMAT
    assert sidecar.sha256 == sha256(body.read_bytes())
    assert sidecar.shape == body.stem.partition(".")[0]
    assert sidecar.end in END_STATES
    assert sidecar.status
    assert sidecar.dialect
    assert sidecar.headers["content-type"]
    assert sidecar.request is not None
    assert (sidecar.request.method, sidecar.request.path) == ("POST", "/chat/completions")
    assert sidecar.request.body["stream"] is True


@pytest.mark.parametrize("body", BODIES, ids=name_of)
def test_provenance_is_complete(body: Path) -> None:
    provenance = sidecar_of(body).provenance
    assert provenance is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\d.*", provenance.date or "")
    assert provenance.tool
    assert provenance.server
    if body.parent.name in SYNTHETIC:
        assert provenance.kind == "synthetic"
        assert "invented" in (provenance.origin or ""), "a synthetic fixture says what it is after, and that it is ours"
    else:
        assert provenance.kind in ("recorded", "imported")
        assert provenance.version
    if body.parent.name in IMPORTED:
        assert provenance.kind == "imported"
        assert provenance.origin


@pytest.mark.parametrize("body", BODIES, ids=name_of)
def test_headers_at_rest_tell_no_time_and_no_ids(body: Path) -> None:
    allowed = {"cache-control", "content-encoding", "content-length", "content-type", "server", "transfer-encoding",
               "x-accel-buffering"}  # fmt: skip
    if body.parent.name in (*IMPORTED, *SYNTHETIC):
        assert set(sidecar_of(body).headers) <= allowed


@pytest.mark.parametrize("body", BODIES, ids=name_of)
def test_fixture_reads_the_same_whole_and_byte_by_byte(body: Path) -> None:
    data, dialect = body.read_bytes(), sidecar_of(body).dialect or "chat"
    assert read(data, dialect, 1) == read(data, dialect)


def test_every_fixture_here_was_read_by_eye() -> None:
    ours = {name_of(body) for body in BODIES if body.parent.name in (*IMPORTED, *SYNTHETIC)}
    assert ours == set(SAID)


@pytest.mark.parametrize("name", sorted(SAID))
def test_fixture_says_what_its_bytes_say(name: str) -> None:
    said = SAID[name]
    message, _ = read((FIXTURES / f"{name}.sse").read_bytes(), "chat")
    assert message["text"].startswith(said.text)
    assert bool(message["text"]) == bool(said.text)
    assert message["finish_raw"] == said.finish
    if said.call:
        call = message["tool_calls"][0]
        got = call["arguments"] if isinstance(said.call[2], str) else json.loads(call["arguments"])
        assert (call["id"], call["name"], got) == said.call
    else:
        assert message["tool_calls"] == []
    if said.error:
        assert message["error"]["message"].startswith(said.error)
        assert message["terminal"] == "error"
    else:
        assert message["error"] is None
    usage = message["usage"]
    assert (usage and (usage["input_tokens"], usage["output_tokens"])) == said.tokens


@pytest.mark.parametrize("provider", [*IMPORTED, *SYNTHETIC])
def test_stop_ends_before_the_stop_string(provider: str) -> None:
    body = FIXTURES / provider / "stop.sse"
    sidecar = sidecar_of(body)
    assert sidecar.request is not None
    stop = sidecar.request.body["stop"]
    assert stop == ["scripted"]
    text = read(body.read_bytes(), "chat")[0]["text"]
    assert "five" not in text
    # transformers keeps the stop string in the text: a finding, not a bad fixture
    assert ("scripted" in text) == (provider == "transformers")


def test_seed_overwrite_trap_is_in_the_bytes() -> None:
    """SEEDS A: real id and name first, "" in every later fragment; the reading keeps the first ones."""
    body = (FIXTURES / "alibaba-compatible" / "tool-call.sse").read_bytes()
    fragments = [event for event in read(body, "chat")[1] if isinstance(event, ToolCall)]
    assert fragments[0].id
    assert fragments[0].name == "get_weather"
    assert {(fragment.id, fragment.name) for fragment in fragments[1:]} == {("", "")}
    assert len(fragments) > 4


def test_seed_ollama_calls_have_no_id_or_one_index_for_all() -> None:
    calls = read((FIXTURES / "ollama" / "tool-call.2.sse").read_bytes(), "chat")[0]["tool_calls"]
    assert [(call["id"], json.loads(call["arguments"])["city"]) for call in calls] == [
        ("call_zr4k9w2m", "Paris, Île-de-France"),
        ("call_b7q1x5ne", "Paris, Ontario"),
    ]
    first = read((FIXTURES / "ollama" / "tool-call.sse").read_bytes(), "chat")[1]
    assert [event.id for event in first if isinstance(event, ToolCall)] == [""]


def test_errors_come_by_status_and_in_the_stream() -> None:
    by_status = {provider for provider in (*IMPORTED, *SYNTHETIC)
                 if sidecar_of(FIXTURES / provider / "error.sse").status == 400}  # fmt: skip
    assert by_status == {"openai", "alibaba-compatible", "ollama"}
    silent = read((FIXTURES / "dashscope" / "error.sse").read_bytes(), "chat")
    assert silent[0]["text"] == ""
    assert not any(isinstance(event, Finish) for event in silent[1])


def test_bodies_are_exempt_from_line_end_conversion() -> None:
    assert "*.sse -text" in (ROOT / ".gitattributes").read_text(encoding="ascii").splitlines()
    assert b"\r\n\r\n" in (QUIRKS / "002-crlf-line-endings.sse").read_bytes()
    if (ROOT / ".git").exists() and shutil.which("git"):
        paths = ["fixtures/vllm/text.sse", "harness/quirks/002-crlf-line-endings.sse"]
        command = ["git", "check-attr", "text", *paths]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert said.splitlines() == [f"{path}: text: unset" for path in paths]


def test_expected_gates_are_well_formed() -> None:
    gates = yaml.safe_load((ROOT / "tests" / "expected_gates.yaml").read_text(encoding="utf-8"))
    assert set(gates) == set(IMPORTED)
    for shapes in gates.values():
        assert tuple(shapes) == CANONICAL
        for findings in shapes.values():
            assert findings == sorted(findings)
            assert len({rule for rule, _ in findings}) == len(findings)
            assert all(Severity(severity) for _, severity in findings)


@pytest.mark.parametrize("spec", quirks(), ids=lambda path: path.stem)
def test_quirk_reads_right_whole_and_byte_by_byte(spec: Path) -> None:
    case, body = quirk(spec)
    message, events = read(body, case["family"])
    assert differences(message, case["expect"]) == []
    assert read(body, case["family"], 1) == (message, events)


def test_differences_are_seen() -> None:
    """The comparison itself: each kind of wrong reading is found, and equal JSON written otherwise is none."""
    case, body = quirk(QUIRKS / "055-two-choices-interleaved.json")
    message, _ = read(body, "chat")
    wrong = json.loads(json.dumps(message))
    wrong["choices"][1]["text"] = "Red fish."
    assert len(differences(wrong, case["expect"])) == 1
    case, body = quirk(QUIRKS / "022-id-empty-on-continuation.json")
    message, _ = read(body, "chat")
    call = message["tool_calls"][0]
    call["arguments"] = ' { "city" : "Paris" } '
    assert differences(message, case["expect"]) == []
    call["arguments"] = "{}"
    assert len(differences(message, case["expect"])) == 1
    call["id"] = ""
    message["text"] = "x"
    message["usage"] = {"input_tokens": 1, "output_tokens": 1}
    assert len(differences(message, case["expect"])) == 3


@pytest.mark.skipif(not CASES.is_dir(), reason="the source of the quirks is not here")
def test_quirks_equal_their_source() -> None:
    families = {json.loads(spec.read_bytes())["family"] for spec in quirks()}
    wanted = [spec for spec in sorted(CASES.glob("[0-9]*.json")) if json.loads(spec.read_bytes())["family"] in families]
    assert [spec.name for spec in quirks()] == [spec.name for spec in wanted]
    assert sorted(path.name for path in QUIRKS.iterdir()) == sorted(
        name for spec in wanted for name in (spec.name, spec.with_suffix(".sse").name)
    )
    for spec in wanted:
        for source in (spec, spec.with_suffix(".sse")):
            assert (QUIRKS / source.name).read_bytes() == source.read_bytes(), source.name
