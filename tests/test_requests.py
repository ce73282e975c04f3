"""The shape requests that are shipped: plain bodies, each asking for what its shape must exercise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from reading import FIXTURES, ROOT

from harness.asked import Asked
from harness.bodies import request_file, shapes_offered
from harness.config import load_project
from harness.conventions import CONVENTIONS
from harness.data import shipped_requests
from harness.matching import CONVERSATION, Found, choose, likely_shapes
from harness.recording import Recording
from harness.replay import read_fixtures
from harness.shapes import CANONICAL, SHAPES, asked_of, forced, stop_marks

REQUESTS = ROOT / "requests"
FILES = sorted(REQUESTS.glob("*/*.json"))
PROJECT = load_project(None, ROOT)

# Shapes that an API does not have (requests/README.md says why).
ABSENT = {
    "chat": set[str](),
    "responses": {"stop"},
    "anthropic": {"logprobs"},
    "gemini": set[str](),
    "ollama": {"refusal"},
    "completions": {"tool-call", "parallel-tools", "reasoning", "structured", "refusal", "multi-turn"},
    "cohere": {"refusal"},
}
SWITCHED_USAGE = ("chat", "completions")
LIMITED = {"anthropic": 1024, "completions": 256}
SAMPLING = {"temperature", "top_p", "top_k", "p", "k", "seed", "topP", "topK"}
LIMITS = {"max_completion_tokens", "max_output_tokens", "maxOutputTokens", "num_predict", "budget_tokens",
          "token_budget", "thinkingBudget"}  # fmt: skip
TOOLS: dict[str, Any] = {"tools": ("get_weather",)}
AUTO: dict[str, Any] = {**TOOLS, "tool_choice": "auto"}
ASKS: dict[str, dict[str, Any]] = {
    "text": {}, "tool-call": AUTO, "stop": {"stop": ("scripted",)},
    "error": {**TOOLS, "tool_choice": "named", "tool_name": "get_time"}, "parallel-tools": AUTO, "reasoning": {},
    "structured": {"json_output": True}, "refusal": {}, "logprobs": {"logprobs": True}, "multi-turn": AUTO,
}  # fmt: skip
# Where a dialect asks for a shape in another way.
ASKS_OTHERWISE: dict[tuple[str, str], dict[str, Any]] = {
    ("chat", "refusal"): {"json_output": True},
    ("responses", "refusal"): {"json_output": True},
    ("completions", "error"): {},
    ("ollama", "error"): {},
    ("cohere", "error"): {"tool_choice": "required"},
    **{(dialect, shape): TOOLS for dialect in ("ollama", "cohere") for shape, asks in ASKS.items() if asks == AUTO},
}


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def body_of(path: Path) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(path.read_bytes())
    return body


def members(value: Any) -> set[str]:
    """The names of all members, at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(members, value.values()))
    return set().union(*map(members, value)) if isinstance(value, list) else set()


def test_every_dialect_has_every_shape_its_api_has() -> None:
    assert {path.name for path in REQUESTS.iterdir() if path.is_dir()} == set(CONVENTIONS) == set(ABSENT)
    for dialect, absent in ABSENT.items():
        assert shapes_offered(PROJECT, dialect) == [shape for shape in SHAPES if shape not in absent]
        assert {"text", "error"} <= set(CANONICAL) - absent
    told = "list in ABSENT which shapes the API lacks, and say in requests/README.md why"
    assert shipped_requests().keys() == ABSENT.keys(), told
    assert {f"{dialect}/{shape}" for dialect, files in shipped_requests().items() for shape in files} == {
        name_of(path) for path in FILES
    }


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_is_a_plain_body(path: Path) -> None:
    dialect, body = path.parent.name, body_of(path)
    convention = CONVENTIONS[dialect]
    assert request_file(PROJECT, dialect, path.stem).body == body
    assert path.read_text(encoding="utf-8") == json.dumps(body, indent=2, ensure_ascii=False) + "\n"
    if convention.model_in == "body":
        assert isinstance(body["model"], str)
    else:
        assert "model" not in body
    if convention.stream_member:
        assert body["stream"] is True
    else:
        assert "stream" not in body
    assert not members(body) & SAMPLING
    assert not members(body) & LIMITS
    assert body.get("max_tokens") == LIMITED.get(dialect)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_what_is_asked_is_what_the_shape_means(path: Path) -> None:
    dialect, shape = path.parent.name, path.stem
    asked = asked_of(dialect, body_of(path))
    asks = ASKS_OTHERWISE.get((dialect, shape), ASKS[shape])
    usage = True if dialect in SWITCHED_USAGE else None
    assert asked == Asked(usage=usage, max_tokens=LIMITED.get(dialect, 0), **asks)
    assert not forced(asked)  # no shape demands a call that can be made


def test_thinking_is_asked_for_by_name() -> None:
    """No fact says so, as how is different everywhere."""
    asked: dict[str, dict[str, Any]] = {
        "chat": {"reasoning_effort": "medium"},
        "responses": {"reasoning": {"effort": "medium", "summary": "auto"}},
        "anthropic": {"thinking": {"type": "adaptive", "display": "summarized"}},
        "gemini": {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
        "ollama": {"think": True},
        "cohere": {"thinking": {"type": "enabled"}},
    }
    assert asked.keys() == {dialect for dialect, absent in ABSENT.items() if "reasoning" not in absent}
    for dialect, wanted in asked.items():
        body = shipped_requests()[dialect]["reasoning"]
        assert {name: body.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("dialect", [dialect for dialect, absent in ABSENT.items() if "stop" not in absent])
def test_what_follows_the_stop_string_is_known(dialect: str) -> None:
    body = shipped_requests()[dialect]["stop"]
    assert stop_marks(dialect, body, "one two three ") == (False, False)
    assert stop_marks(dialect, body, "one two three scripted") == (True, False)
    assert stop_marks(dialect, body, "one two three five") == (False, True)


@pytest.mark.parametrize("dialect", [dialect for dialect, absent in ABSENT.items() if "multi-turn" not in absent])
def test_the_history_holds_a_call_and_its_result(dialect: str) -> None:
    body = shipped_requests()[dialect]["multi-turn"]
    text = json.dumps(body)
    said = body.get("messages") or body.get("input") or body.get("contents")
    assert isinstance(said, list)
    assert len(said) == 3
    assert text.count("get_weather") >= 2  # the tool, and the call; Gemini and Ollama name it in the result too
    assert "sunny" in json.dumps(said[-1])
    for name in ("call_paris", "toolu_paris", "get_weather_paris"):  # whatever the id is called, both sides have it
        assert text.count(f'"{name}"') in (0, 2)
    assert likely_shapes(dialect, dict(body))[0] == "multi-turn"


def test_schemas_are_those_the_strictest_api_takes() -> None:
    """Strict modes want every property required and no other allowed."""
    def schemas(value: Any) -> list[dict[str, Any]]:
        if isinstance(value, list):
            return [found for entry in value for found in schemas(entry)]
        if not isinstance(value, dict):
            return []
        own = [value] if value.get("type") == "object" and "properties" in value else []
        return own + [found for entry in value.values() for found in schemas(entry)]

    for dialect, files in shipped_requests().items():
        for shape in ("structured", "refusal"):
            found = schemas(files.get(shape, {}))
            assert len(found) == (shape in files and bool(asked_of(dialect, files[shape]).json_output))  # type: ignore[union-attr]
            for schema in found:
                assert schema["required"] == list(schema["properties"])
                assert schema["additionalProperties"] is False


@pytest.mark.parametrize("dialect", sorted(CONVENTIONS))
def test_no_request_can_be_taken_for_another(dialect: str) -> None:
    """A replay takes a body for the shape whose members it has, so no file may hold another's."""
    said = [json.dumps(next(body[name] for name in CONVERSATION if name in body))
            for body in shipped_requests()[dialect].values()]  # fmt: skip
    assert len(set(said)) == len(said)


def fixtures_by_dialect() -> dict[str, dict[str, Mapping[str, Recording]]]:
    """Provider and its fixtures, under each dialect they are in."""
    found: dict[str, dict[str, Mapping[str, Recording]]] = {}
    for provider, shapes in read_fixtures(FIXTURES)[0].items():
        (dialect,) = {recording.dialect or "" for recording in shapes.values()}
        found.setdefault(dialect, {})[provider] = shapes
    return found


BY_DIALECT = fixtures_by_dialect()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_replay_answers_a_request_file_with_its_shape(path: Path) -> None:
    """As curl sends it, and as `harness gate` does: another model, and a member more."""
    dialect, shape = path.parent.name, path.stem
    under = CONVENTIONS[dialect].path.partition("?")[0].replace("{model}", "m")
    assert dialect in BY_DIALECT, f"fixtures/ has none in the dialect {dialect}"
    changed = {**body_of(path), **({"model": "other"} if CONVENTIONS[dialect].model_in == "body" else {}), "user": "me"}
    for sent in (path.read_bytes(), json.dumps(changed).encode()):
        for provider, shapes in BY_DIALECT[dialect].items():
            found = choose({provider: shapes}, under, sent, files=shipped_requests())
            if shape in shapes:
                assert found == Found(provider, shape)
            else:
                assert not isinstance(found, Found), f"{provider} answers {shape} with {found}"


def test_providers_patch_only_shapes_with_a_request() -> None:
    config = yaml.safe_load((ROOT / "providers.yaml").read_text(encoding="utf-8"))
    for name, entry in config["providers"].items():
        offered = shapes_offered(PROJECT, entry["dialect"])
        assert set(entry.get("shapes", {})) <= set(offered), name
