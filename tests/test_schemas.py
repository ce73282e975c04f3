"""What is printed and stored as JSON keeps to docs/schema, names and order of DESIGN included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import strategies
from commandline import harness
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from mutations import faulty, ndjson, sse
from reading import FIXTURES, ROOT, quirks

from harness.answers import CaseOutcome
from harness.events import KINDS
from harness.findings import ClientRun, Finding, Report, ShapeResult
from harness.jsontext import to_json
from harness.recording import END_STATES, Sidecar
from harness.reduce import Reducer
from harness.runs.files import message_json
from harness.store import load

SCHEMAS = ROOT / "docs" / "schema"
NAMES = ("message", "events", "structure", "lint", "diff", "gate-report", "sidecar", "expected", "rules")
BODIES = [*sorted(FIXTURES.glob("*/*.sse")), *(spec.with_suffix(".sse") for spec in quirks())]
PROVIDERS = ("vllm", "transformers", "litellm", "litellm-over-anthropic", "dynamo", "openai", "ollama")

# The words of DESIGN, in its order.
MESSAGE = ("file", "text", "reasoning", "refusal", "tool_calls", "finish_reason", "finish_raw", "terminal", "usage",
           "error", "choices", "notes")  # fmt: skip
CALL = ("index", "id", "name", "arguments", "type")
CHOICE = ("choice", "text", "reasoning", "refusal", "tool_calls", "finish_reason", "finish_raw")
FINDING = ("rule", "severity", "accepted", "path", "baseline", "candidate", "message", "remedy", "evidence", "breaks",
           "dropped_from")  # fmt: skip
EVIDENCE = ("side", "take", "at", "length")
REPORT = ("format", "baseline", "candidate", "outcome", "shapes", "acceptances", "not_covered", "cutover",
          "fail_on")  # fmt: skip
SHAPE = ("shape", "outcome", "reason", "takes", "findings", "shared", "remarks", "clients")
CLIENT = ("name", "version", "baseline", "candidate", "quirks", "says")
SIDECAR = ("format", "provenance", "dialect", "shape", "request", "status", "headers", "decoded_from", "reads", "end",
           "sha256")  # fmt: skip
KIND_FIELDS = {
    "start": "id model role", "text": "choice text whole", "reasoning": "choice text whole",
    "refusal": "choice text whole", "tool_call": "choice index wire_index id name arguments whole",
    "item": "choice item_type phase id raw", "audio": "choice data transcript", "finish": "choice reason raw",
    "usage": "input_tokens output_tokens raw", "error": "type code message", "end": "marker", "ping": "",
    "unknown": "name raw",
}  # fmt: skip


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    return found


@cache
def validator(name: str, part: str = "") -> Draft202012Validator:
    whole = schema(name)
    checker = Draft202012Validator.FORMAT_CHECKER
    found = {**whole["$defs"][part], "$defs": whole["$defs"]} if part else whole
    return Draft202012Validator(found, format_checker=checker)


def problems(name: str, value: Any, part: str = "") -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in validator(name, part).iter_errors(value)]


def order(value: dict[str, Any]) -> tuple[str, ...]:
    return tuple(value)


def objects(*arguments: object) -> list[dict[str, Any]]:
    """What a verb prints as JSON, an object for each body, in order."""
    done = harness(*arguments, *BODIES)
    assert (done.err, done.code in (0, 1)) == ("", True)
    assert [found["file"] for found in done.objects] == [str(path) for path in BODIES]
    return done.objects


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_schemas_and_closed(name: str) -> None:
    found = schema(name)
    Draft202012Validator.check_schema(found)
    assert found["$id"] == f"{name}.schema.json"
    for where, node in nodes(found):
        if isinstance(node, dict) and node.get("type") == "object" and "properties" in node:
            assert node["additionalProperties"] is False, where
            assert node["required"] == list(node["properties"]), where


def nodes(value: Any, where: str = "$") -> Iterator[tuple[str, Any]]:
    yield where, value
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from nodes(child, f"{where}.{key}")


def test_what_several_schemas_hold_is_the_same_in_each() -> None:
    findings = [schema(name)["$defs"]["finding"] for name in ("lint", "diff", "gate-report")]
    assert findings[0] == findings[1] == findings[2]
    message, expected, events = schema("message"), schema("expected"), schema("events")
    assert message["$defs"]["note"] == events["$defs"]["note"]
    for part in ("call", "choice"):
        assert message["$defs"][part] == expected["$defs"][part]
    inner = {name: value for name, value in message["properties"].items() if name not in ("file", "notes")}
    assert expected["properties"]["message"]["properties"] == inner


def test_names_and_order_are_those_of_design() -> None:
    """The records, the schemas and DESIGN say the same, so each may be changed only with the others."""
    message, report = schema("message"), schema("gate-report")
    finding = report["$defs"]["finding"]["properties"]
    shape = report["properties"]["shapes"]["items"]["properties"]
    assert order(message["properties"]) == MESSAGE
    assert order(message["$defs"]["call"]["properties"]) == CALL
    assert order(message["$defs"]["choice"]["properties"]) == CHOICE
    assert order(finding) == FINDING == Finding.__struct_fields__
    assert order(finding["evidence"]["items"]["properties"]) == EVIDENCE
    assert order(report["properties"]) == REPORT == Report.__struct_fields__
    assert order(shape) == SHAPE == ShapeResult.__struct_fields__
    assert order(report["$defs"]["client_run"]["properties"]) == CLIENT == ClientRun.__struct_fields__
    assert report["$defs"]["outcome"]["enum"] == [str(outcome) for outcome in CaseOutcome]
    assert order(schema("sidecar")["properties"]) == SIDECAR == Sidecar.__struct_fields__
    assert schema("sidecar")["properties"]["end"]["enum"] == list(END_STATES)
    assert order(schema("lint")["properties"]) == ("file", "outcome", "findings")
    assert order(schema("diff")["properties"]) == ("outcome", "findings", "events")


def test_every_kind_of_event_has_its_fields() -> None:
    parts = schema("events")["$defs"]
    assert set(KINDS) == set(KIND_FIELDS) == set(parts) - {"note"}
    for kind, fields in KIND_FIELDS.items():
        names = order(parts[kind]["properties"])
        assert names == ("kind", *KINDS[kind].__struct_fields__)
        assert names[: len(fields.split()) + 3] == ("kind", *fields.split(), "at", "length")


def test_messages() -> None:
    for found in objects("show", "--json", "--as", "message"):
        assert problems("message", found) == [], found["file"]
        assert order(found) == MESSAGE
        assert [order(choice) for choice in found["choices"]] == [CHOICE] * len(found["choices"])
        assert all(order(call) == CALL for choice in found["choices"] for call in choice["tool_calls"])
        first = next((choice for choice in found["choices"] if choice["choice"] == 0), None)
        if first is not None:
            assert {name: found[name] for name in CHOICE[1:]} == {name: first[name] for name in CHOICE[1:]}


def test_events() -> None:
    kinds = set()
    for path, found in zip(BODIES, objects("show", "--json", "--as", "events"), strict=True):
        assert problems("events", found) == [], found["file"]
        size = path.stat().st_size if "065" not in path.name else 1 << 20  # that body is decoded
        for event in found["events"]:
            kinds.add(event["kind"])
            assert event["at"] + event["length"] <= size
    assert kinds >= {"start", "text", "reasoning", "refusal", "tool_call", "finish", "usage", "error", "end", "unknown"}


def test_structures() -> None:
    for found in objects("show", "--json", "--as", "structure"):
        assert problems("structure", found) == [], found["file"]
        assert order(found) == ("file", "dialect", "wire", "behaviour")


def test_lint() -> None:
    rules = set()
    for found in objects("lint", "--json"):
        assert problems("lint", found) == [], found["file"]
        assert order(found) == ("file", "outcome", "findings")
        for finding in found["findings"]:
            rules.add(finding["rule"])
            assert order(finding) == FINDING
            assert {evidence["side"] for evidence in finding["evidence"]} == {"candidate"}
    assert len(rules) > 40


@pytest.mark.parametrize("shape", ["text", "tool-call", "stop", "error"])
def test_diff(shape: str) -> None:
    seen = set()
    for baseline in PROVIDERS:
        for candidate in PROVIDERS:
            done = harness(
                "diff", "--json", FIXTURES / baseline / f"{shape}.sse", FIXTURES / candidate / f"{shape}.sse"
            )
            assert problems("diff", done.one) == []
            assert order(done.one) == ("outcome", "findings", "events")
            assert done.code == {"conforms": 0, "differs": 1, "not-measured": 3}[done.one["outcome"]]
            seen.add(done.one["outcome"])
    assert seen >= {"conforms", "differs"}


@pytest.mark.parametrize("baseline", PROVIDERS)
def test_gate_reports(baseline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    entries = "".join(
        f"  {name}:\n    dialect: chat\n    base_url: http://127.0.0.1:9/v1\n    model: tiny\n    auth: none\n"
        "    accept:\n"
        "      - {rule: usage.position, reason: tokens are counted locally}\n"
        "      - {rule: 'finish.*', shape: text, reason: all are read, until: 2020-01-01}\n"
        "      - {rule: tool.id-missing, reason: was so once}\n"
        for name in PROVIDERS
    )
    (tmp_path / "providers.yaml").write_text(f"providers:\n{entries}", "utf-8")
    monkeypatch.chdir(tmp_path)
    states = set()
    for candidate in (*PROVIDERS, "vllm-anthropic", "llamacpp-responses", "gemini", "cohere", "ollama-native"):
        done = harness("gate", baseline, candidate, "--recorded", "--json", "--report", "r/report.json")
        report = done.one
        assert problems("gate-report", report) == []
        assert json.loads(Path("r/report.json").read_text("utf-8")) == report
        assert order(report) == REPORT
        for shape in report["shapes"]:
            assert order(shape) == SHAPE
            assert all(order(finding) == FINDING for finding in shape["findings"])
        states |= {use["state"] for use in report["acceptances"]}
        assert msgspec.to_builtins(msgspec.convert(report, Report)) == report
    assert "expired" in states


def test_not_measured_and_skipped_shapes_keep_to_the_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    (tmp_path / "providers.yaml").write_text(
        "providers:\n  down:\n    dialect: chat\n    base_url: http://127.0.0.1:9/v1\n    model: tiny\n    auth: none\n"
        "    shapes: {error: {skip: cannot be provoked}}\n", "utf-8",
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    report = harness("gate", "vllm", "down", "--json").one
    assert problems("gate-report", report) == []
    outcomes = {shape["shape"]: (shape["outcome"], shape["takes"]) for shape in report["shapes"]}
    assert outcomes == {**dict.fromkeys(("text", "tool-call", "stop"), ("not-measured", 0)), "error": ("skipped", 0)}


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*/*.json")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_sidecars(path: Path) -> None:
    found = json.loads(path.read_text("utf-8"))
    if path.name.endswith(".expected.json"):
        assert problems("expected", found) == []
    else:
        assert problems("sidecar", found) == []
        assert order(found) == SIDECAR


def test_expectations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in BODIES[::3]:  # each is read twice
        for neighbour in (path, path.with_suffix(".json")):
            (tmp_path / neighbour.name).write_bytes(neighbour.read_bytes())
        body = tmp_path / path.name
        assert harness("expect", "--write", body).code == 0
        found = json.loads(body.with_suffix(".expected.json").read_text("utf-8"))
        assert problems("expected", found) == [], path
        assert order(found) == ("message", "structure_format", "structure")
        assert order(found["message"]) == MESSAGE[1:-1]
        assert found["structure"] == sorted(found["structure"])
        assert harness("expect", body).code == 0


def test_rules() -> None:
    found = harness("rules", "--json").objects
    assert len(found) > 100
    for rule in found:
        assert problems("rules", rule) == []
    assert harness("rules", "tool.index-reused", "--json").one in found


@strategies.PROFILE
@given(strategies.bodies())
def test_bent_chat_streams_keep_to_the_schemas(body: bytes) -> None:
    holds(body, "chat")


CASES = [spec for spec in quirks() if spec.with_suffix(".sse").stat().st_size < 8000 and "065" not in spec.name]


@strategies.PROFILE
@given(st.data())
def test_bent_streams_of_all_dialects_keep_to_the_schemas(data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from(CASES))
    dialect = load(spec.with_suffix(".sse")).recording.dialect or "chat"
    payloads = [decoded for decoded in payloads_of(spec.with_suffix(".sse")) if decoded is not None]
    bent = data.draw(faulty(payloads))
    holds(ndjson(bent) if dialect == "ollama" else sse(bent, names=dialect in ("responses", "anthropic")), dialect)


def payloads_of(path: Path) -> Iterator[Any]:
    for line in path.read_bytes().split(b"\n"):
        try:
            yield json.loads(line.removeprefix(b"data:"))
        except ValueError:
            yield None


def holds(body: bytes, dialect: str) -> None:
    """Message, events, notes and findings of the body keep to their schemas."""
    reducer = Reducer(dialect)
    events = json.loads(to_json([*reducer.feed(body), *reducer.finish()]))
    for event in events:
        assert problems("events", event, event["kind"]) == []
    message = json.loads(to_json(message_json("x.sse", reducer.message())))
    assert problems("message", message) == []
