from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.conventions import CONVENTIONS, Convention
from harness.matching import Found, Missing, choose, dialect_of, endings, likely_shapes, model_of
from harness.recording import Recording, Sent, sha256
from harness.replay import read_fixtures

TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {}}}
HI = [{"role": "user", "content": "hi"}]
WEATHER = [{"role": "user", "content": "weather?"}]
LOOP = [{"role": "user", "content": "[[loop]]"}]


def fixture(body: Any = None, dialect: str | None = "chat", file: bytes | None = None) -> Recording:
    sent = Sent(path="/chat/completions", body=body, shape_sha256=sha256(file) if file is not None else None)
    return Recording(body=b"", dialect=dialect, request=sent)


SHAPES = {
    "error": fixture({"model": "a", "messages": LOOP, "max_tokens": 480}),
    "stop": fixture({"model": "a", "messages": HI, "stop": ["scripted"]}),
    "text": fixture({"model": "a", "messages": HI}),
    "text.2": fixture({"model": "a", "messages": HI}),
    "tool-call": fixture({"model": "a", "messages": WEATHER, "tools": [TOOL]}, file=b'{"my": "file"}\n'),
}
ONE = {"vllm": SHAPES}
TWO = {"vllm": SHAPES, "claude": {"text": fixture(dialect="anthropic")}, "bare": {"text": fixture(dialect=None)}}


def chosen(body: Any, path: str = "/v1/chat/completions", shape: str = "") -> str:
    found = choose(ONE, path, json.dumps(body).encode(), shape)
    return found.shape if isinstance(found, Found) else found.message


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        # as recorded, whatever the model
        ({"model": "b", "messages": LOOP, "max_tokens": 480}, "error"),
        ({"messages": HI, "stop": ["scripted"]}, "stop"),
        ({"messages": HI}, "text"),
        # the shape's own file
        ({"messages": WEATHER, "tools": [TOOL], "model": "b"}, "tool-call"),
        # by what it looks like
        ({"messages": WEATHER, "tools": [TOOL], "tool_choice": "auto", "stream": True}, "tool-call"),
        ({"messages": [], "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "none"}}}, "error"),
        ({"messages": LOOP, "tools": [TOOL], "max_tokens": 9}, "error"),
        ({"messages": HI, "stop": ["x"]}, "stop"),
        ({"messages": [{"role": "user", "content": "else"}]}, "text"),
        ({"messages": HI, "tools": [TOOL]}, "tool-call"),
        ({"messages": [*WEATHER, {"role": "assistant"}, {"role": "tool"}], "tools": [TOOL]}, "tool-call"),
        ({}, "text"),
    ],
)
def test_a_request_finds_its_shape(body: dict[str, Any], shape: str) -> None:
    assert chosen(body) == shape


def test_the_file_of_a_shape_is_known_by_its_digest() -> None:
    assert choose(ONE, "/chat/completions", b'{"my": "file"}\n') == Found("vllm", "tool-call")


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"[1]", b"\xff", b'{"messages": 7, "tools": [null, {}], "tool_choice": 1}']
)
def test_any_body_is_answered(body: bytes) -> None:
    assert isinstance(choose(ONE, "/chat/completions", body), Found | Missing)


@pytest.mark.parametrize(
    ("path", "header", "found"),
    [
        ("/vllm/tool-call/v1/chat/completions", "", Found("vllm", "tool-call")),
        ("/vllm/v1/chat/completions", "", Found("vllm", "text")),
        ("/openai/v1/vllm/chat/completions", "stop", Found("vllm", "stop")),
        ("/vllm/text.2/v1/chat/completions", "", Found("vllm", "text.2")),
        ("/claude/v1/messages", "", Found("claude", "text")),
        ("/v1/messages", "", Missing("several providers are replayed (claude, bare): name one as the model, or in the "
                                     "base_url: /<provider>/v1")),
        ("/bare/text/v1beta/models/text:streamGenerateContent", "", Found("bare", "text")),
        ("/bare/v1beta/models/g:streamGenerateContent", "", Found("bare", "text")),
        ("/bare/api/chat", "", Found("bare", "text")),
        ("/claude/v1/chat/completions", "", Missing("claude has no chat fixture", "claude")),
        ("/vllm/txt/v1/chat/completions", "", Missing("vllm has no fixture of shape txt", "vllm", "txt")),
        ("/vllm/v1/chat/completions", "nope", Missing("vllm has no chat fixture of shape nope", "vllm", "nope")),
    ],
)  # fmt: skip
def test_path_and_header_name_provider_and_shape(path: str, header: str, found: Found | Missing) -> None:
    assert choose(TWO, path, b'{"messages": []}', header) == found


MANY = {
    "one": {"text": fixture({"model": "m-1", "messages": HI}), "stop": fixture({"model": "m-1", "stop": ["x"]})},
    "two": {"text": fixture({"model": "m-2", "messages": HI})},
    "three": {"text": fixture({"model": "m-2", "messages": WEATHER})},
}


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("one", Found("one", "text")),
        ("one/stop", Found("one", "stop")),
        ("m-1", Found("one", "text")),
        ("two", Found("two", "text")),
        ("m-2", "(two, three)"),
        ("one/nope", "(one, two, three)"),
        ("", "(one, two, three)"),
        (7, "(one, two, three)"),
    ],
)
def test_of_several_providers_the_model_names_one(model: Any, found: Found | str) -> None:
    got = choose(MANY, "/v1/chat/completions", json.dumps({"model": model, "messages": HI}).encode())
    if isinstance(found, str):
        assert isinstance(got, Missing)
        assert found in got.message
    else:
        assert got == found


def test_the_model_may_stand_in_the_path() -> None:
    path = "/v1beta/models/g-1:streamGenerateContent"
    assert model_of(path, b"{}") == "g-1"
    recorded = Recording(body=b"", dialect="gemini", request=Sent(path=path, body={"contents": HI}))
    offered = {"a": {"text": recorded}, "b": {"text": fixture(dialect="gemini")}}
    assert choose(offered, path, b"{}") == Found("a", "text")
    assert choose(offered, path.replace("g-1", "b"), b"{}") == Found("b", "text")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"model": "b", "messages": HI, "stop": ["scripted"]}, Found("vllm", "stop")),
        ({"messages": HI}, Found("vllm", "text")),
        ({"messages": HI, "stop": ["other"]}, "; the nearest is stop, which differs in stop"),
        ({"messages": HI, "seed": 1}, "; the nearest is text, which differs in seed"),
        ({"messages": WEATHER, "tools": [], "seed": 1}, "; the nearest is tool-call, which differs in seed, tools"),
        ([], ": it is no JSON object"),
    ],
)
def test_strict_matching_guesses_nothing(body: Any, found: Found | str) -> None:
    got = choose(ONE, "/chat/completions", json.dumps(body).encode(), strict=True)
    if isinstance(found, str):
        assert got == Missing(f"vllm has no chat fixture of exactly this request{found}", "vllm")
    else:
        assert got == found


def test_strict_matching_knows_files_names_and_fixtures_without_a_request() -> None:
    assert choose(ONE, "/chat/completions", b'{"my": "file"}\n', strict=True) == Found("vllm", "tool-call")
    assert choose(ONE, "/stop/v1/chat/completions", b"{}", strict=True) == Found("vllm", "stop")
    bare = {"p": {"text": Recording(body=b"")}}
    got = choose(bare, "/chat/completions", b"{}", strict=True)
    assert got == Missing("p has no chat fixture of exactly this request: none says what was asked", "p")


def test_with_one_provider_the_path_may_name_the_shape_alone() -> None:
    assert choose(ONE, "/stop/v1/chat/completions", b"") == Found("vllm", "stop")


def test_the_only_fixture_answers_whatever_is_asked() -> None:
    one = {"p": {"tool-call": fixture()}}
    assert choose(one, "/chat/completions", b"?") == Found("p", "tool-call")
    assert isinstance(choose(one, "/chat/completions", b"?", "text"), Missing)


def test_a_shape_that_is_not_there_is_not_replaced_by_another() -> None:
    few = {"p": {"text": fixture(), "stop": fixture()}}
    found = choose(few, "/chat/completions", json.dumps({"messages": HI, "tools": [TOOL]}).encode())
    assert isinstance(found, Missing)
    assert "x-harness-shape" in found.message


@pytest.mark.parametrize(
    ("dialect", "body", "first"),
    [
        ("anthropic", {"tools": [{"name": "a"}], "tool_choice": {"type": "tool", "name": "b"}}, "error"),
        ("anthropic", {"tools": [{"name": "a"}], "tool_choice": {"type": "tool", "name": "a"}}, "tool-call"),
        ("anthropic", {"stop_sequences": ["x"]}, "stop"),
        ("anthropic", {"thinking": {"type": "enabled"}}, "reasoning"),
        ("gemini", {"tools": [{"functionDeclarations": [{"name": "a"}]}], "contents": []}, "tool-call"),
        ("gemini", {"generationConfig": {"stopSequences": ["x"]}}, "stop"),
        ("chat", {"response_format": {"type": "json_schema"}}, "structured"),
        ("chat", {"logprobs": True, "messages": HI}, "logprobs"),
        ("chat", {"messages": [{"role": "system"}, *HI]}, "text"),
        ("chat", {"messages": [7, None]}, "multi-turn"),
        ("responses", {"text": {"format": {"type": "json_schema"}}}, "structured"),
        ("responses", {"reasoning": {"effort": "low"}}, "reasoning"),
        ("responses", {"input": [*HI, {"type": "function_call_output"}]}, "multi-turn"),
        ("responses", {"input": "hi"}, "text"),
        ("another", {"input": "hi"}, "text"),
    ],
)
def test_what_a_body_looks_like_in_every_dialect(dialect: str, body: dict[str, Any], first: str) -> None:
    assert likely_shapes(dialect, body)[0] == first


def test_request_paths_end_as_their_dialect_says() -> None:
    assert set(endings().values()) == set(CONVENTIONS)
    assert endings().items() >= {
        ":streamGenerateContent": "gemini", "/chat/completions": "chat", "/completions": "completions",
        "/responses": "responses", "/messages": "anthropic", "/api/chat": "ollama", "/v2/chat": "cohere",
    }.items()  # fmt: skip
    for path in ("/v1/chat/completions", "/api/chat/completions", "/chat/completions"):
        assert dialect_of(path) == "chat"
    assert dialect_of("/v1/completions") == "completions"
    assert dialect_of("/v1/embeddings") is None


def test_the_paths_of_dialects_that_were_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a path of its own, with the model in it, and one that is asked where chat is."""
    monkeypatch.setitem(CONVENTIONS, "acme", Convention(path="/models/{model}/talk", model_in="path"))
    monkeypatch.setitem(CONVENTIONS, "chatty", Convention(path="/chat/completions"))
    assert (dialect_of("/v1/models/m/talk"), dialect_of("/chat/completions")) == ("acme", "chat")
    offered = {"one": {"text": fixture(dialect="acme")}, "two": {"text": fixture(dialect="acme")},
               "three": {"text": fixture(dialect="chatty"), "stop": fixture({"messages": HI}, "chatty")},
               "four": {"text": fixture(dialect="nobody")}}  # fmt: skip
    assert choose(offered, "/one/v1/models/m/talk", b"") == Found("one", "text")
    assert choose(offered, "/v1/models/two/talk", b"") == Found("two", "text")
    assert choose(offered, "/v1/chat/completions", json.dumps({"messages": HI}).encode()) == Found("three", "stop")
    assert choose(offered, "/four/v1/chat/completions", b"") == Missing("four has no chat fixture", "four")
    assert model_of("/v1/models/m-1/talk", b"") == "m-1"


REQUESTS = Path(__file__).parent.parent / "requests" / "chat"
FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.mark.parametrize("shape", ["text", "tool-call", "stop", "error"])
@pytest.mark.parametrize("provider", ["dynamo", "litellm", "openai", "transformers", "vllm"])
def test_the_request_files_find_their_shape_among_the_fixtures(provider: str, shape: str) -> None:
    offered, _ = read_fixtures(FIXTURES / provider)
    found = choose(offered, "/v1/chat/completions", (REQUESTS / f"{shape}.json").read_bytes())
    assert found == Found(provider, shape)
