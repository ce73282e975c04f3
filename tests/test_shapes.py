from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.asked import Asked
from harness.conventions import CONVENTIONS
from harness.shapes import _JUDGES, ASKED_ROWS, CANONICAL, SHAPES, View, asked_of, exercised, forced, stop_marks


def ok(**facts: Any) -> View:
    return View(**{"result": "ok", "status": 200, "finish_class": "stop", **facts})


@pytest.mark.parametrize(
    ("shape", "facts", "reason"),
    [
        ("text", {"text": "hi"}, None),
        ("text", {"text": " \n"}, "no text"),
        ("text", {"text": "hi", "n_calls": 1, "finish_class": "calls"}, "called a tool"),
        ("text", {"text": "hi", "finish_class": None}, None),
        ("multi-turn", {"text": "hi"}, None),
        ("multi-turn", {"n_calls": 1}, "called a tool"),
        ("tool-call", {"n_calls": 1, "finish_class": "calls"}, None),
        ("tool-call", {"n_calls": 1}, None),
        ("tool-call", {"text": "I cannot"}, "answered without calling the tool"),
        ("tool-call", {"text": "<tool_call>", "markup": True}, None),
        ("tool-call", {"text": "I cannot", "forced": True}, None),
        ("tool-call", {"text": "I cannot", "finish_class": "calls"}, None),
        ("parallel-tools", {"n_calls": 2}, None),
        ("parallel-tools", {"n_calls": 1}, "one call only"),
        ("parallel-tools", {"n_calls": 1, "forced": True}, "one call only"),
        ("parallel-tools", {"text": "no"}, "answered without calling the tool"),
        ("parallel-tools", {"text": "<tool_call>", "markup": True}, None),
        ("stop", {"text": "one two three "}, None),
        ("stop", {"text": "one two three scripted", "stop_in_text": True}, None),
        ("stop", {"text": "one scripted five", "stop_in_text": True, "after_stop_in_text": True}, None),
        ("stop", {"text": "one two three five", "after_stop_in_text": True}, "stop not reached"),
        ("stop", {"text": " "}, "stop not reached"),
        ("stop", {"text": "one", "finish_class": "other"}, "stop not reached"),
        ("stop", {"text": "one", "finish_class": None}, None),
        ("stop", {"text": "one", "stop_named": False}, "stop not reached"),
        ("stop", {"text": "one", "stop_named": True}, None),
        ("error", {"text": "hi"}, "the request was answered"),
        ("error", {"text": "hi", "finish_class": "length"}, "the request was answered"),
        ("error", {"finish_class": "error"}, None),
        ("reasoning", {"text": "hi"}, "no reasoning"),
        ("reasoning", {"text": "hi", "reasoning_tokens": 0}, "no reasoning"),
        ("reasoning", {"text": "hi", "reasoning_tokens": 3}, None),
        ("reasoning", {"text": "hi", "reasoning": True}, None),
        ("reasoning", {"text": "<think>", "think": True}, None),
        ("structured", {"text": "{}"}, None),
        ("structured", {"text": ""}, "no text"),
        ("structured", {"text": "no", "refusal": True}, "refused"),
        ("structured", {"text": "no", "n_calls": 1, "finish_class": "calls"}, "called a tool"),
        ("refusal", {"text": "sure"}, "did not refuse"),
        ("refusal", {"refusal": True}, None),
        ("refusal", {"finish_class": "filter"}, None),
        ("logprobs", {"text": "a"}, None),
        ("logprobs", {"text": ""}, "no text"),
        ("logprobs", {"text": "a", "finish_class": "length"}, None),
        ("mine", {"text": ""}, None),
        ("mine", {"finish_class": "length"}, "stopped by the length limit"),
    ],
)
def test_whether_a_shape_was_exercised(shape: str, facts: dict[str, Any], reason: str | None) -> None:
    assert exercised(shape, ok(**facts)) == reason


ALL = [*SHAPES, "mine"]


def test_length_and_filter() -> None:
    for shape in set(ALL) - {"logprobs", "error"}:
        assert exercised(shape, ok(text="a", finish_class="length")) == "stopped by the length limit"
    for shape in set(ALL) - {"refusal", "error"}:
        assert exercised(shape, ok(text="a", finish_class="filter")) == "content filter"
    # Nothing but a reason why there is nothing: not a fault, not a measurement.
    assert exercised("text", ok(result="nothing", finish_class="length")) == "stopped by the length limit"
    assert exercised("text", ok(result="nothing", finish_class="filter")) == "content filter"
    assert exercised("refusal", ok(result="nothing", finish_class="filter")) is None
    assert exercised("logprobs", ok(result="nothing", finish_class="length")) == "no text"


def test_where_rules_must_speak_a_shape_is_exercised() -> None:
    for shape in ALL:
        for result in ("cut", "nothing", "error"):
            assert exercised(shape, ok(result=result)) is None
            assert exercised(shape, View(result=result)) is None  # a bare file
        for status in (400, 405, 413, 415, 422, 501, 409, 418):
            assert exercised(shape, View(result="nothing", status=status)) is None
        assert exercised(shape, ok(text="a", finish_class="error")) is None
        if shape != "error":
            assert exercised(shape, ok(finish_class="calls")) is None


def test_statuses_that_measure_nothing() -> None:
    for shape in ALL:
        for status in (301, 302, 401, 402, 403, 404, 407, 408, 425, 429):
            assert exercised(shape, View(result="error", status=status, json_body=True)) == f"HTTP {status}"
        for status in (500, 502, 503, 529):
            assert exercised(shape, View(result="error", status=status)) == f"HTTP {status}"
            told = exercised(shape, View(result="error", status=status, json_body=True))
            assert told == (None if shape == "error" else f"HTTP {status}")


def test_an_answer_where_the_baseline_failed_is_measured() -> None:
    assert exercised("error", ok(text="hi"), baseline_failed=True) is None
    assert exercised("text", ok(text=""), baseline_failed=True) == "no text"


def test_the_shapes_are_those_of_the_design() -> None:
    assert tuple(SHAPES)[:4] == CANONICAL
    assert set(_JUDGES) == set(SHAPES) - {"error"}
    assert set(ASKED_ROWS) == set(CONVENTIONS)
    assert all(sentence.endswith(".") and len(sentence) < 120 for sentence in SHAPES.values())


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize(
    ("dialect", "body", "expected"),
    [
        ("chat", {}, Asked(usage=False, stream=False)),
        (
            "chat",
            {
                "tools": [tool("a"), tool("b"), {"type": "custom", "custom": {"name": "c"}}, tool("a")],
                "tool_choice": tool("b"), "stream_options": {"include_usage": True}, "n": 2, "logprobs": True,
                "stop": "x", "response_format": {"type": "json_schema"}, "max_completion_tokens": 9, "max_tokens": 7,
                "stream": True,
            },
            Asked(
                tools=("a", "b", "c"), tool_choice="named", tool_name="b", usage=True, n=2, logprobs=True,
                stop=("x",), json_output=True, max_tokens=9,
            ),
        ),
        (
            "chat",
            {"functions": [{"name": "old"}], "function_call": {"name": "old"}, "max_tokens": 5, "stop": ["a", "b"]},
            Asked(
                tools=("old",), tool_choice="named", tool_name="old", usage=False, max_tokens=5, stop=("a", "b"),
                stream=False,
            ),
        ),
        (
            "chat",
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}},
            Asked(tool_choice="required", usage=False, stream=False),
        ),
        (
            "responses",
            {
                "tools": [{"type": "function", "name": "a"}, {"type": "web_search"}, {"type": "mcp", "name": "z"}],
                "tool_choice": {"type": "function", "name": "a"}, "include": ["message.output_text.logprobs"],
                "text": {"format": {"type": "json_object"}}, "max_output_tokens": 9, "stream": True,
            },
            Asked(tools=("a",), tool_choice="named", tool_name="a", logprobs=True, json_output=True, max_tokens=9),
        ),
        (
            "responses",
            {"tool_choice": {"type": "allowed_tools", "mode": "auto"}, "text": {"format": {"type": "text"}}},
            Asked(tool_choice="auto", stream=False),
        ),
        (
            "anthropic",
            {
                "tools": [{"name": "a", "input_schema": {}}, {"type": "web_search_20250305", "name": "web_search"}],
                "tool_choice": {"type": "any"}, "stop_sequences": ["x"], "max_tokens": 5, "stream": True,
            },
            Asked(tools=("a",), tool_choice="required", stop=("x",), max_tokens=5),
        ),
        (
            "anthropic",
            {"tool_choice": {"type": "tool", "name": "a"}, "output_config": {"format": {"type": "json_schema"}}},
            Asked(tool_choice="named", tool_name="a", json_output=True, stream=False),
        ),
        (
            "gemini",
            {
                "tools": [{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}, {"googleSearch": {}}],
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["b"]}},
                "generationConfig": {
                    "candidateCount": 2, "responseLogprobs": True, "stopSequences": ["x"], "maxOutputTokens": 5,
                    "responseMimeType": "application/json", "responseSchema": {"anyOf": []},
                },
            },
            Asked(
                tools=("a", "b"), tool_choice="named", tool_name="b", n=2, logprobs=True, stop=("x",),
                json_output=True, max_tokens=5,
            ),
        ),
        (
            "gemini",
            {"tool_config": {"function_calling_config": {"mode": "NONE"}}},
            Asked(tool_choice="none"),
        ),
        (
            "ollama",
            {"tools": [tool("a")], "options": {"stop": ["x"], "num_predict": 5}, "format": {"type": "object"}},
            Asked(tools=("a",), stop=("x",), max_tokens=5, json_output=True),
        ),
        (
            "ollama",
            {"stream": False, "options": {"num_predict": -1}, "format": "json"},
            Asked(stream=False, json_output=True),
        ),
        (
            "completions",
            {"logprobs": 0, "n": 3, "stop": "x", "stream": True, "max_tokens": 5},
            Asked(usage=False, logprobs=True, n=3, stop=("x",), max_tokens=5),
        ),
        (
            "cohere",
            {
                "tools": [tool("a")], "tool_choice": "REQUIRED", "stop_sequences": ["x"], "logprobs": True,
                "response_format": {"type": "json_object", "json_schema": {}}, "max_tokens": 5, "stream": True,
            },
            Asked(tools=("a",), tool_choice="required", logprobs=True, stop=("x",), json_output=True, max_tokens=5),
        ),
    ],
)  # fmt: skip
def test_what_a_request_asked_for(dialect: str, body: dict[str, Any], expected: Asked) -> None:
    assert asked_of(dialect, body) == expected


def test_a_request_nobody_knows() -> None:
    assert asked_of("chat", None) is None
    assert asked_of("chat", [1]) is None
    assert asked_of("nobody", {}) is None
    assert stop_marks("nobody", {}, "x") == (False, False)
    assert stop_marks("chat", None, "x") == (False, False)


MEMBERS = sorted(
    {name for row in ASKED_ROWS.values() for path in (row.n, row.stop, *row.choice, *row.format) for name in path}
    | {"tools", "functions", "messages", "content", "parts", "text", "role", "type", "mode", "name", "function",
       "functionDeclarations", "allowedFunctionNames", "stream_options", "include_usage", "logprobs", "include"}
)  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(MEMBERS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
    max_leaves=20,
)


@given(dialect=st.sampled_from(sorted(ASKED_ROWS)), body=anything, text=st.text(max_size=3))
def test_no_body_is_too_odd(dialect: str, body: Any, text: str) -> None:
    asked = asked_of(dialect, body)
    assert (asked is not None) is isinstance(body, dict)
    assert all(type(mark) is bool for mark in stop_marks(dialect, body, text))
    assert type(forced(asked)) is bool
    if asked is not None:
        assert all(type(name) is str and name for name in asked.tools)
        assert (asked.tool_choice == "named") is bool(asked.tool_name)
        assert asked.tool_choice in ("", "none", "auto", "required", "named")
        assert asked.n >= 0 <= asked.max_tokens


def test_forced() -> None:
    assert not forced(None)
    assert not forced(Asked(tools=("a",), tool_choice="auto"))
    assert not forced(Asked(tool_choice="required"))
    assert forced(Asked(tools=("a",), tool_choice="required"))
    assert forced(Asked(tools=("a",), tool_choice="named", tool_name="a"))
    assert not forced(Asked(tools=("a",), tool_choice="named", tool_name="b"))


SAID = "Repeat exactly: one two three scripted five"


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("chat", {"stop": ["scripted"], "messages": [{"role": "user", "content": SAID}]}),
        (
            "chat",
            {
                "stop": "scripted",
                "messages": [
                    {"role": "user", "content": "scripted never"},
                    {"role": "user", "content": [{"type": "text", "text": SAID}]},
                    {"role": "assistant", "content": "scripted six"},
                ],
            },
        ),
        ("completions", {"stop": "scripted", "prompt": SAID}),
        ("completions", {"stop": "scripted", "prompt": ["x", SAID]}),
        ("anthropic", {"stop_sequences": ["scripted"], "messages": [{"role": "user", "content": SAID}]}),
        (
            "gemini",
            {"generationConfig": {"stopSequences": ["scripted"]}, "contents": [{"parts": [{"text": SAID}]}]},
        ),
        ("ollama", {"options": {"stop": ["scripted"]}, "messages": [{"role": "user", "content": SAID}]}),
        ("cohere", {"stop_sequences": ["scripted"], "messages": [{"role": "user", "content": SAID}]}),
    ],
)
def test_stop_marks(dialect: str, body: dict[str, Any]) -> None:
    assert stop_marks(dialect, body, "one two three ") == (False, False)
    assert stop_marks(dialect, body, "one two three scripted") == (True, False)
    assert stop_marks(dialect, body, "One Two Three Five") == (False, True)
    assert stop_marks(dialect, body, SAID) == (True, True)


def test_a_prompt_that_does_not_quote_the_stop_string_says_nothing_of_what_follows() -> None:
    body = {"stop": ["scripted"], "messages": [{"role": "user", "content": "hi"}]}
    assert stop_marks("chat", body, "Hello there! This is a small ") == (False, False)
