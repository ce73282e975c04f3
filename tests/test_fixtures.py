"""Fixtures and quirks at rest: none is missing, none is altered, and each reads as what its bytes say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
import yaml
from llamacpp import skip_unless_installed
from reading import CANONICAL, FIXTURES, QUIRKS, ROOT, differences, quirk, quirks, read
from said import SAID

from harness.bodies import request_for, shapes_offered
from harness.config import load_project
from harness.conventions import CONVENTIONS
from harness.data import shipped_requests
from harness.events import Finish, ToolCall
from harness.findings import Severity
from harness.recording import END_STATES, SIDECAR_FORMAT, Sidecar, sha256
from harness.runs.taking import reading_of
from harness.shapes import SHAPES, asked_of
from harness.store import load
from harness.structure import signature, structure

CASES = ROOT.parent / "shared" / "cases"  # where the quirks are kept in step with; not part of a checkout
GATED = ("dynamo", "litellm", "litellm-over-anthropic", "transformers", "vllm")  # tests/expected_gates.yaml
IMPORTED = (
    *GATED, "dynamo-anthropic", "dynamo-completions", "dynamo-responses", "litellm-anthropic",
    "litellm-bridge-responses", "litellm-completions", "litellm-responses", "vllm-anthropic", "vllm-completions",
    "vllm-responses",
)  # fmt: skip
RECORDED = ("llamacpp", "llamacpp-anthropic", "llamacpp-completions", "llamacpp-responses")
# All others are synthetic, and have every shape of their API but for these, which show what a seed is about.
SYNTHETIC = tuple(sorted({path.name for path in FIXTURES.iterdir() if path.is_dir()} - {*IMPORTED, *RECORDED}))
SEEDED = ("alibaba-compatible", "dashscope", "ollama", "openai")
COMPLETE = tuple(name for name in SYNTHETIC if name not in SEEDED)
BODIES = sorted(FIXTURES.glob("*/*.sse"))
CORPUS = ROOT.parent / "shared" / "corpus-local"  # what the imported ones are taken from; not part of a checkout
PROJECT = load_project(None, ROOT)


def name_of(body: Path) -> str:
    return f"{body.parent.name}/{body.stem}"


def sidecar_of(body: Path) -> Sidecar:
    return msgspec.json.decode(body.with_suffix(".json").read_bytes(), type=Sidecar)


def dialect_of(provider: str) -> str:
    """The one dialect of a provider's fixtures."""
    (dialect,) = {sidecar_of(body).dialect for body in (FIXTURES / provider).glob("*.sse")}
    assert dialect is not None
    return dialect


def providers() -> list[str]:
    return sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())


def skip_reason(provider: str, shape: str) -> str | None:
    """The reason in providers.yaml why a shape is not recorded."""
    entry = PROJECT.providers.get(provider)
    return entry.shape(shape).skip if entry is not None else None


def holes(provider: str, shapes: Sequence[str]) -> list[str]:
    """Shapes with a request file that have neither a fixture nor a reason."""
    offered = shapes_offered(PROJECT, dialect_of(provider))
    return [
        f"{provider}/{shape}"
        for shape in shapes
        if shape in offered and not (FIXTURES / provider / f"{shape}.sse").exists() and not skip_reason(provider, shape)
    ]


def test_every_provider_has_every_canonical_shape_or_a_reason() -> None:
    """A dialect's canonical shapes are those of the four that its API has, so those with a request file."""
    assert set(providers()) >= {*IMPORTED, *RECORDED, *SEEDED}
    assert {dialect_of(provider) for provider in providers()} == set(CONVENTIONS)
    assert [hole for provider in providers() for hole in holes(provider, CANONICAL)] == []


@pytest.mark.parametrize("provider", [*RECORDED, *COMPLETE])
def test_the_most_complete_providers_have_every_shape_of_their_api(provider: str) -> None:
    assert holes(provider, tuple(SHAPES)) == []
    there = {body.stem for body in (FIXTURES / provider).glob("*.sse")}
    assert there <= set(shapes_offered(PROJECT, dialect_of(provider)))
    assert not {shape for shape in there if skip_reason(provider, shape)}, "skipped, and recorded all the same"


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
    convention = CONVENTIONS[sidecar.dialect]
    ending = convention.path.partition("?")[0].replace("{model}", "gemini-3.5-flash")
    assert sidecar.request.method == "POST"
    assert sidecar.request.path.endswith(ending)
    assert sidecar.request.body.get("stream") is (True if convention.stream_member else None)


@pytest.mark.parametrize("body", BODIES, ids=name_of)
def test_fixture_exercises_its_shape(body: Path) -> None:
    """As `harness record` judges a take; what did not end by itself, or did not do what was asked, is no fixture."""
    recording = load(body).recording
    assert recording.end == "eof"
    assert recording.request is not None
    found = reading_of(recording, recording.dialect or "", recording.shape or "", recording.request.body)
    swallowed = name_of(body) == "litellm-over-anthropic/error"  # the upstream's failure, which is a finding
    assert found.unmeasured == ("the request was answered" if swallowed else "")
    assert (found.result == "error") == (recording.shape == "error" and not swallowed)


@pytest.mark.parametrize("body", [body for body in BODIES if body.parent.name in RECORDED], ids=name_of)
def test_recordings_are_of_the_requests_as_they_are(body: Path) -> None:
    """The request file has not changed since, and providers.yaml still makes the same body of it."""
    sent = sidecar_of(body).request
    assert sent is not None
    provider = PROJECT.provider(body.parent.name)
    prepared = request_for(PROJECT, provider, provider.resolve({}), body.stem)
    assert sent.shape_sha256 == prepared.file.sha256
    assert sent.body == prepared.body


@pytest.mark.parametrize("provider", COMPLETE)
def test_synthetic_fixtures_answer_the_shipped_requests(provider: str) -> None:
    for body in (FIXTURES / provider).glob("*.sse"):
        sent = sidecar_of(body).request
        assert sent is not None
        assert sent.body == shipped_requests()[dialect_of(provider)][body.stem], body.name


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
    if body.parent.name in RECORDED:
        assert provenance.kind == "recorded"
        assert provenance.server == "llama.cpp (xllamacpp)"
        assert (provenance.tool or "").startswith("sse-harness ")


@pytest.mark.parametrize("body", BODIES, ids=name_of)
def test_headers_at_rest_tell_no_time_and_no_ids(body: Path) -> None:
    allowed = {"cache-control", "content-encoding", "content-length", "content-type", "server", "transfer-encoding",
               "x-accel-buffering"}  # fmt: skip
    assert set(sidecar_of(body).headers) <= allowed


@pytest.mark.parametrize("body", BODIES, ids=name_of)
def test_fixture_reads_the_same_whole_and_byte_by_byte(body: Path) -> None:
    data, dialect = body.read_bytes(), sidecar_of(body).dialect or "chat"
    assert read(data, dialect, 1) == read(data, dialect)


def test_every_fixture_here_was_read_by_eye() -> None:
    assert {name_of(body) for body in BODIES} == set(SAID), "tests/said.py has a row for each fixture: what it says"


@pytest.mark.parametrize("name", sorted(SAID))
def test_fixture_says_what_its_bytes_say(name: str) -> None:
    said = SAID[name]
    message, _ = read((FIXTURES / f"{name}.sse").read_bytes(), dialect_of(name.partition("/")[0]))
    if isinstance(said.text, dict):
        assert json.loads(message["text"]) == said.text
    else:
        assert message["text"].startswith(said.text)
        assert bool(message["text"]) == bool(said.text)
    for got, beginning in ((message["reasoning"], said.reasoning), (message["refusal"] or "", said.refusal)):
        assert got.startswith(beginning)
        assert bool(got) == bool(beginning)
    assert message["finish_raw"] == said.finish
    calls = [call for call in (said.call, said.second) if call]
    if len(calls) < 2:  # a further call of the first fixtures is told by a test of its own
        assert bool(message["tool_calls"]) == bool(calls)
    else:
        assert len(message["tool_calls"]) == 2
        assert message["tool_calls"][0]["id"] != message["tool_calls"][1]["id"]
    for call, wanted in zip(message["tool_calls"], calls, strict=False):
        got = call["arguments"] if isinstance(wanted[2], str) else json.loads(call["arguments"])
        assert (call["name"], got) == wanted[1:]
        assert call["id"] == wanted[0] or (wanted[0] is None and call["id"])
    if said.error:
        assert message["error"]["message"].startswith(said.error)
        assert message["terminal"] == "error"
    else:
        assert message["error"] is None
    usage = message["usage"]
    assert (usage and (usage["input_tokens"], usage["output_tokens"])) == said.tokens


@pytest.mark.parametrize("body", [body for body in BODIES if body.stem == "stop"], ids=name_of)
def test_stop_ends_before_the_stop_string(body: Path) -> None:
    sidecar = sidecar_of(body)
    assert sidecar.request is not None
    asked = asked_of(sidecar.dialect or "", sidecar.request.body)
    assert asked is not None
    assert asked.stop == ("scripted",)
    text = read(body.read_bytes(), sidecar.dialect or "")[0]["text"]
    assert "five" not in text
    # transformers keeps the stop string in the text: a finding, not a bad fixture
    assert ("scripted" in text) == (body.parent.name == "transformers")


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
    by_status = {body.parent.name for body in BODIES if body.stem == "error" and sidecar_of(body).status != 200}
    assert by_status - set(COMPLETE) == {
        "openai", "alibaba-compatible", "ollama", "vllm-responses", "litellm-responses", "vllm-completions",
    }  # fmt: skip
    assert by_status >= {"openai-responses", "anthropic", "gemini", "ollama-native", "cohere"}
    for provider in RECORDED:  # one answer begun, and broken in the middle
        message = read((FIXTURES / provider / "error.sse").read_bytes(), dialect_of(provider))[0]
        assert len(message["text"]) > 500
    silent = read((FIXTURES / "dashscope" / "error.sse").read_bytes(), "chat")
    assert silent[0]["text"] == ""
    assert not any(isinstance(event, Finish) for event in silent[1])


def test_signatures_are_in_the_bytes_and_in_no_channel() -> None:
    for name in ("anthropic/reasoning", "gemini/reasoning", "gemini/tool-call"):
        body = FIXTURES / f"{name}.sse"
        assert b"U3ludGhldGlj" in body.read_bytes()
        assert "U3ludGhldGlj" not in json.dumps(read(body.read_bytes(), name.partition("/")[0])[0])


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
    assert set(gates) == set(GATED)
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
    wanted = sorted(CASES.glob("[0-9]*.json"))
    assert len(wanted) == 101
    assert {json.loads(spec.read_bytes())["family"] for spec in wanted} == {
        "chat", "responses", "anthropic", "gemini", "ollama",
    }  # fmt: skip
    held = [spec.name for spec in quirks()]
    assert held[: len(wanted)] == [spec.name for spec in wanted], "what is added has the numbers after those"
    assert sorted(path.name for path in QUIRKS.iterdir()) == sorted(
        name for spec in held for name in (spec, f"{spec.removesuffix('.json')}.sse")
    )
    for spec in wanted:
        for source in (spec, spec.with_suffix(".sse")):
            assert (QUIRKS / source.name).read_bytes() == source.read_bytes(), source.name


def tool(name: str) -> ModuleType:
    """A script of tools/ as a module."""
    spec = spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the source of the imported fixtures is not here")
def test_an_import_run_again_changes_nothing(tmp_path: Path) -> None:
    script = tool("import_local")
    written = script.import_fixtures(CORPUS, tmp_path)
    assert {path.parent.name for path in written} == set(IMPORTED)
    for path in written:
        for suffix in (".sse", ".json"):
            ours = FIXTURES / path.parent.name / f"{path.stem}{suffix}"
            assert path.with_suffix(suffix).read_bytes() == ours.read_bytes(), ours
    assert sum(1 for body in BODIES if body.parent.name in IMPORTED) == len(written)


@pytest.mark.live
@pytest.mark.parametrize("provider", RECORDED)
def test_the_server_still_says_what_is_recorded(provider: str, tmp_path: Path) -> None:
    """The dev script, in a project of its own: the fixtures' structure again, and sidecars that name the server."""
    skip_unless_installed()
    shutil.copyfile(ROOT / "providers.yaml", tmp_path / "providers.yaml")
    project = load_project(None, tmp_path)
    results = tool("record_llamacpp").record(project, [provider], ["text", "error"])
    assert [(result.shape, result.good) for result in results] == [("text", True), ("error", True)]
    for result in results:
        again, ours = load(result.path), load(FIXTURES / provider / f"{result.shape}.sse")
        assert again.warning is ours.warning is None
        assert again.recording.provenance is not None
        assert again.recording.provenance.server == "llama.cpp (xllamacpp)"
        assert again.recording.provenance.version
        first, second = (signature(structure(one.recording, one.recording.dialect or "")) for one in (again, ours))
        assert first == second
