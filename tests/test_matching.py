from __future__ import annotations

import json
from typing import Any

import pytest

from harness.matching import Found, Missing, choose, likely_shapes
from harness.recording import Recording, Sent, sha256

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
        ("/v1/messages", "", Missing("several providers are replayed (claude, bare): name one in the base_url: "
                                     "/<provider>/v1")),
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
    ("body", "first"),
    [
        ({"tools": [{"name": "a"}], "tool_choice": {"type": "tool", "name": "b"}}, "error"),
        ({"tools": [{"name": "a"}], "tool_choice": {"type": "tool", "name": "a"}}, "tool-call"),
        ({"tools": [{"functionDeclarations": [{"name": "a"}]}], "contents": []}, "tool-call"),
        ({"stop_sequences": ["x"]}, "stop"),
        ({"generationConfig": {"stopSequences": ["x"]}}, "stop"),
        ({"response_format": {"type": "json_schema"}}, "structured"),
        ({"text": {"format": {"type": "json_schema"}}}, "structured"),
        ({"logprobs": True}, "logprobs"),
        ({"reasoning": {"effort": "low"}}, "reasoning"),
        ({"messages": [{"role": "system"}, *HI]}, "text"),
        ({"input": [*HI, {"type": "function_call_output"}]}, "multi-turn"),
        ({"input": "hi"}, "text"),
    ],
)
def test_what_a_body_looks_like_in_every_dialect(body: dict[str, Any], first: str) -> None:
    assert likely_shapes(body)[0] == first
