"""The chat dialect clause by clause: hand-written streams, and what their events and message must be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from strategies import (
    CALLED,
    COUNTED,
    DONE,
    ERROR,
    ROLE,
    STOP,
    TEXT,
    TOKENS,
    call,
    calls,
    choice,
    chunk,
    event,
    stream,
)

from harness.events import (
    Audio,
    End,
    Error,
    Event,
    Finish,
    Item,
    Reasoning,
    Refusal,
    Start,
    Text,
    ToolCall,
    Unknown,
    Usage,
)
from harness.jsontext import to_json
from harness.message import Message
from harness.reduce import Reducer

Told = tuple[int, str, str, str]  # index, id, name, arguments


def read(body: bytes) -> tuple[list[Event], Message]:
    """Read one byte at a time: the cut never shows."""
    reducer = Reducer("chat")
    events: list[Event] = []
    for at in range(len(body)):
        events += reducer.feed(body[at : at + 1])
    events += reducer.finish()
    return events, reducer.message()


def message(*payloads: Any) -> Message:
    return read(stream(*payloads))[1]


def told(found: Message, number: int = 0) -> list[Told]:
    choice = next(choice for choice in found.choices if choice.choice == number)
    return [(call.index, call.id, call.name, call.arguments) for call in choice.tool_calls]


def codes(found: Message) -> set[str]:
    return {note.code for note in found.notes}


# -- calls --------------------------------------------------------------------------------------------------------

A, B = call(0, "call_a", "f", ""), call(1, "call_b", "g", "")
CALLS: list[tuple[str, Sequence[Any], list[Told], set[str]]] = [
    ("interleaved pieces go by index",
     [calls(A), calls(B), calls(call(1, arguments='{"b":')), calls(call(0, arguments='{"a":')),
      calls(call(0, arguments="1}"), call(1, arguments="2}"))],
     [(0, "call_a", "f", '{"a":1}'), (1, "call_b", "g", '{"b":2}')], set()),
    ("empty strings overwrite nothing",
     [calls(A), calls(call(0, "", "", "{")), calls(call(0, "", "", "}"))], [(0, "call_a", "f", "{}")], set()),
    ("nulls overwrite nothing",
     [calls(A), calls({"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": "{}"}})],
     [(0, "call_a", "f", "{}")], set()),
    ("an id that comes late is the id", [calls(call(0, None, "f", "{")), calls(call(0, "call_a", arguments="}"))],
     [(0, "call_a", "f", "{}")], set()),
    ("no id stays empty", [calls(call(0, None, "f", "{}")), calls(call(1, "", "g", "{}"))],
     [(0, "", "f", "{}"), (1, "", "g", "{}")], set()),
    ("repeated ids and names are one call",
     [calls(call(0, "call_a", "f", "{")), calls(call(0, "call_a", "f", "}"))], [(0, "call_a", "f", "{}")], set()),
    ("one index, new id and name: another call",
     [calls(call(0, "call_a", "f", "{}")), calls(call(0, "call_b", "g", '{"b":')), calls(call(0, arguments="1}"))],
     [(0, "call_a", "f", "{}"), (1, "call_b", "g", '{"b":1}')], {"tool.index-reused"}),
    ("one index, no ids, a new name after complete arguments: another call",
     [calls(call(0, None, "f", '{"a":1}')), calls(call(0, None, "g", '{"b":1}'))],
     [(0, "", "f", '{"a":1}'), (1, "", "g", '{"b":1}')], {"tool.index-reused"}),
    ("another id without a name: the same call with its first id",
     [calls(A), calls(call(0, "call_z", arguments="{}"))], [(0, "call_a", "f", "{}")], {"tool.id-changes"}),
    ("no index: pieces go to the call opened last",
     [calls(call(None, "call_a", "f", '{"a":')), calls(call(None, arguments="1}")),
      calls(call(None, "call_b", "g", "{")), calls(call(None, arguments="}"))],
     [(0, "call_a", "f", '{"a":1}'), (1, "call_b", "g", "{}")], {"tool.index-missing"}),
    ("no index, two calls in one delta",
     [calls(call(None, "call_a", "f", "{}"), call(None, "call_b", "g", "{}"))],
     [(0, "call_a", "f", "{}"), (1, "call_b", "g", "{}")], {"tool.index-missing"}),
    ("a null index", [calls({**call(0, "call_a", "f", "{}"), "index": None})], [(0, "call_a", "f", "{}")],
     {"tool.index-missing"}),
    ("indexes as text", [calls(call("0", "call_a", "f", "")), calls(call("1", "call_b", "g", "{}")),
                         calls(call("0", arguments="{}"))],
     [(0, "call_a", "f", "{}"), (1, "call_b", "g", "{}")], {"tool.index-missing"}),
    ("indexes as floats", [calls(call(1.0, "call_b", "g", "{}")), calls(call(0.0, "call_a", "f", "{}"))],
     [(0, "call_a", "f", "{}"), (1, "call_b", "g", "{}")], {"tool.index-missing"}),
    ("sparse indexes are numbered from 0", [calls(call(3, "call_a", "f", "{}")), calls(call(7, "call_b", "g", "{}"))],
     [(0, "call_a", "f", "{}"), (1, "call_b", "g", "{}")], set()),
    ("a negative index", [calls(call(-1, "call_a", "f", "{}"))], [(0, "call_a", "f", "{}")], set()),
    ("out of wire order: sorted by index at the end",
     [calls(call(2, "call_c", "h", "{}")), calls(call(0, "call_a", "f", "")), calls(call(1, "call_b", "g", "{}")),
      calls(call(0, arguments="{}"))],
     [(0, "call_a", "f", "{}"), (1, "call_b", "g", "{}"), (2, "call_c", "h", "{}")], set()),
    ("a name in pieces is joined", [calls(call(0, "call_a", "get_")), calls(call(0, name="weather", arguments="{}"))],
     [(0, "call_a", "get_weather", "{}")], {"tool.name-split"}),
    ("a late name", [calls(call(0, "call_a", arguments="{")), calls(call(0, name="f", arguments="}"))],
     [(0, "call_a", "f", "{}")], set()),
    ("arguments as an object", [calls(call(0, "call_a", "f", {"a": [1, "ü"], "b": None}))],
     [(0, "call_a", "f", '{"a":[1,"ü"],"b":null}')], {"tool.arguments-object"}),
    ("arguments null first", [calls({"index": 0, "id": "call_a", "function": {"name": "f", "arguments": None}}),
                              calls(call(0, arguments="{}"))], [(0, "call_a", "f", "{}")], set()),
    ("arguments sent again whole count once",
     [calls(call(0, "call_a", "f", '{"a":')), calls(call(0, arguments="1}")), calls(call(0, arguments='{"a":1}'))],
     [(0, "call_a", "f", '{"a":1}')], set()),
    ("other arguments after complete ones are kept",
     [calls(call(0, "call_a", "f", '{"a":1}')), calls(call(0, arguments='{"b":2}'))],
     [(0, "call_a", "f", '{"a":1}{"b":2}')], set()),
    ("cut arguments are not repaired", [calls(call(0, "call_a", "f", '{"a": [1, '))],
     [(0, "call_a", "f", '{"a": [1, ')], set()),
    ("an object in place of the list", [chunk({"tool_calls": call(0, "call_a", "f", "{}")})],
     [(0, "call_a", "f", "{}")], {"tool.list-wrong-type"}),
    ("fields one level up", [calls({"index": 0, "id": "call_a", "name": "f", "arguments": "{}"})],
     [(0, "call_a", "f", "{}")], set()),
    ("ids that are no text", [calls(call(0, 17, "f", "{}"))], [(0, "17", "f", "{}")], set()),
    ("two fragments of one call in one delta", [calls(A, call(0, arguments="{"), call(0, arguments="}"))],
     [(0, "call_a", "f", "{}")], set()),
    ("half a character in each of two fragments",
     [calls(call(0, "call_a", "f", '{"a":"\ud83d')), calls(call(0, arguments='\ude00"}'))],
     [(0, "call_a", "f", '{"a":"\U0001f600"}')], set()),
]  # fmt: skip


@pytest.mark.parametrize(("payloads", "want", "notes"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_calls(payloads: Sequence[Any], want: list[Told], notes: set[str]) -> None:
    found = message(ROLE, *payloads, CALLED)
    assert told(found) == want
    assert codes(found) == notes
    assert (found.finish_reason, found.terminal) == ("tool_calls", "done")


def test_a_fragment_says_what_was_sent() -> None:
    """`""` and null are kept apart, and the wire index is as it came: the diagnosis of the empty-string trap."""
    events, _ = read(stream(calls(A), calls(call(0, "", "", "{")), calls({"index": 0, "id": None, "function": {}})))
    fragments = [event for event in events if isinstance(event, ToolCall)]
    sent = [(event.index, event.wire_index, event.id, event.name, event.arguments) for event in fragments]
    assert sent == [(0, 0, "call_a", "f", ""), (0, 0, "", "", "{"), (0, 0, None, None, None)]


def test_events_have_the_final_index_after_the_end() -> None:
    events, found = read(stream(calls(call(5, "call_b", "g", "{}")), calls(call(2, "call_a", "f", "{}"))))
    fragments = [event for event in events if isinstance(event, ToolCall)]
    assert [(event.index, event.wire_index) for event in fragments] == [(1, 5), (0, 2)]
    assert [name for _, _, name, _ in told(found)] == ["f", "g"]


def test_calls_of_several_choices_are_apart() -> None:
    found = message(
        chunk(choices=[choice({"tool_calls": [A]}), choice({"tool_calls": [call(0, "call_x", "x", "{}")]}, number=1)]),
        calls(call(0, arguments="{}")), CALLED, chunk(finish="stop", number=1),
    )  # fmt: skip
    assert told(found) == [(0, "call_a", "f", "{}")]
    assert told(found, 1) == [(0, "call_x", "x", "{}")]
    assert [(choice.choice, choice.finish_reason) for choice in found.choices] == [(0, "tool_calls"), (1, "stop")]


def test_the_legacy_call_has_no_id() -> None:
    found = message(ROLE, chunk({"function_call": {"name": "f", "arguments": ""}}),
                    chunk({"function_call": {"arguments": '{"a":1}'}}), chunk(finish="function_call"))  # fmt: skip
    assert told(found) == [(0, "", "f", '{"a":1}')]
    assert (found.finish_reason, found.finish_raw) == ("tool_calls", "function_call")
    assert codes(found) == {"tool.legacy-function-call"}


def test_a_call_under_its_old_name_too_is_one_call() -> None:
    pieces = [call(0, "call_a", "f", "{"), call(0, "call_a", "f", "}")]
    deltas = [{"function_call": piece["function"], "tool_calls": [piece]} for piece in pieces]
    found = message(ROLE, *map(chunk, deltas), CALLED)
    assert told(found) == [(0, "call_a", "f", "{}")]
    assert codes(found) == set()
    other = {"name": "g", "arguments": "[]"}
    two = message(ROLE, chunk({"tool_calls": [call(0, "call_a", "f", "{}")], "function_call": other}), CALLED)
    assert told(two) == [(0, "call_a", "f", "{}"), (1, "", "g", "[]")]
    assert codes(two) == {"tool.legacy-function-call"}


def test_a_custom_call_has_free_text() -> None:
    custom = {"index": 0, "id": "call_a", "type": "custom", "custom": {"name": "run", "input": ""}}
    found = message(ROLE, calls(custom), calls({"index": 0, "custom": {"input": "{} SELECT"}}),
                    calls({"index": 0, "custom": {"input": " 1"}}), CALLED)  # fmt: skip
    assert [(call.type, call.name, call.arguments) for call in found.tool_calls] == [("custom", "run", "{} SELECT 1")]


# -- text and its neighbours --------------------------------------------------------------------------------------


def test_text_is_never_trimmed_or_deduplicated() -> None:
    found = message(ROLE, *(chunk({"content": piece}) for piece in (" ", "ha", "ha", "\n", "", "\u2028")), STOP)
    assert found.text == " haha\n\u2028"


@pytest.mark.parametrize(
    ("deltas", "thinking"),
    [
        ([{"reasoning_content": "a"}, {"reasoning_content": "b"}], "ab"),
        ([{"reasoning": "a"}, {"reasoning_text": "b"}, {"thinking": "c"}], "abc"),
        ([{"reasoning": "a", "reasoning_content": "a"}, {"reasoning": "b", "reasoning_content": "b"}], "ab"),
        ([{"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a"}]}], "a"),
        ([{"reasoning_details": [{"text": "a"}, {"summary": "b"}, {"type": "encrypted", "data": "x"}]}], "ab"),
        ([{"reasoning": "", "reasoning_details": [{"text": "a"}]}, {"reasoning": None}], "a"),
        ([{"reasoning_content": [{"type": "text", "text": "a"}]}], "a"),
    ],
)  # fmt: skip
def test_reasoning_under_every_name(deltas: list[dict[str, Any]], thinking: str) -> None:
    found = message(ROLE, *map(chunk, deltas), chunk({"content": "so"}), STOP)
    assert (found.reasoning, found.text) == (thinking, "so")


def test_content_as_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}, {"type": "text", "text": "m"}]},
        {"type": "text", "text": "Hel"}, "lo", {"type": "output_text", "text": "!"}, {"type": "text", "text": ""},
        {"type": "refusal", "refusal": "no"}, {"type": "image_url", "image_url": "x"}, 7,
    ]  # fmt: skip
    events, found = read(stream(ROLE, chunk({"content": parts}), STOP))
    assert (found.text, found.reasoning, found.refusal) == ("Hello!", "hmm", "no")
    assert [(event.name, event.raw) for event in events if isinstance(event, Unknown)] == [
        ("content.image_url", parts[6]), ("content.None", 7),
    ]  # fmt: skip
    assert codes(found) == {"text.not-a-string"}


def test_refusal_is_a_channel_apart() -> None:
    events, found = read(stream(ROLE, chunk({"refusal": "I can"}), chunk({"refusal": "not"}), STOP))
    assert (found.refusal, found.text) == ("I cannot", "")
    assert sum(isinstance(event, Refusal) for event in events) == 2
    assert message(*TEXT).refusal is None


def test_audio_is_kept_as_sent() -> None:
    events, found = read(stream(chunk({"audio": {"data": "UklG"}}), chunk({"audio": {"transcript": "Hi"}}), STOP))
    assert [(event.data, event.transcript) for event in events if isinstance(event, Audio)] == [
        ("UklG", None), (None, "Hi"),
    ]  # fmt: skip
    assert [choice.choice for choice in found.choices] == [0]


def test_a_message_beside_deltas_is_a_copy_and_alone_it_is_all_there_is() -> None:
    beside = [chunk(choices=[{**choice({"content": piece}), "message": {"content": "ab"}}]) for piece in "ab"]
    assert message(*beside, STOP).text == "ab"
    after = chunk(choices=[{**choice(None, "stop"), "message": {"content": "ab"}}])
    assert message(*beside, after).text == "ab"
    whole = {"content": "ab", "tool_calls": [call(0, "call_a", "f", "{}")]}
    found = message(chunk(choices=[{"index": 0, "message": whole, "finish_reason": "stop"}]))
    assert (found.text, told(found), found.finish_reason) == ("ab", [(0, "call_a", "f", "{}")], "stop")


def test_several_choices() -> None:
    found = message(
        chunk(choices=[choice({"content": "a"}), choice({"content": "b"}, number=1)]),
        chunk({"content": "B"}, number=1), chunk({"content": "A"}), STOP, chunk(finish="length", number=1),
    )  # fmt: skip
    assert [(choice.choice, choice.text, choice.finish_reason) for choice in found.choices] == [
        (0, "aA", "stop"), (1, "bB", "length"),
    ]  # fmt: skip
    assert (found.text, found.finish_reason) == ("aA", "stop")


def test_choices_without_an_index_go_by_position() -> None:
    found = message(chunk(choices=[{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]))
    assert [(choice.choice, choice.text) for choice in found.choices] == [(0, "a"), (1, "b")]


def test_a_stream_of_choice_one_alone_has_an_empty_top() -> None:
    found = message(chunk({"content": "b"}, number=1), chunk(finish="stop", number=1))
    assert (found.text, found.finish_reason, [choice.choice for choice in found.choices]) == ("", None, [1])


def test_the_start_says_who_it_is() -> None:
    events, _ = read(stream(*TEXT))
    assert [(event.id, event.model, event.role) for event in events if isinstance(event, Start)] == [
        ("chatcmpl-1", "m-1", "assistant"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", "stop"), ("end_turn", "stop"), ("eos", "stop"), ("length", "length"), ("max_tokens", "length"),
        ("tool_calls", "tool_calls"), ("tool_use", "tool_calls"), ("function_call", "tool_calls"),
        ("content_filter", "content_filter"), ("SAFETY", "content_filter"), ("error", "error"), ("eos_token", "other"),
        ("pause_turn", "other"),
    ],
)  # fmt: skip
def test_finish_reasons(raw: str, reason: str) -> None:
    found = message(ROLE, chunk(finish=raw))
    assert (found.finish_reason, found.finish_raw) == (reason, raw)


def test_a_reason_counts_beside_text_and_log_probabilities() -> None:
    """As servers send it that hold the last token back until they know why it was the last."""
    sure = {"content": [{"token": "b", "logprob": -0.5}]}
    last = chunk(choices=[choice({"content": "b"}, "length", logprobs=sure)])
    events, found = read(stream(ROLE, chunk({"content": "a"}), last))
    assert [type(event) for event in events] == [Start, Text, Text, Finish, End]
    assert (found.text, found.finish_reason, found.finish_raw, found.terminal) == ("ab", "length", "length", "done")
    assert codes(found) == set()
    bare = message(ROLE, chunk({"content": "a"}), chunk(choices=[choice({}, "stop", logprobs=sure)]))
    assert (bare.text, bare.finish_reason, codes(bare)) == ("a", "stop", set())


def test_the_last_reason_that_says_something_counts() -> None:
    found = message(chunk({"content": "a"}, ""), chunk(finish="stop"), chunk(finish="length"), chunk(finish=None))
    assert (found.finish_reason, found.finish_raw) == ("length", "length")
    events, _ = read(stream(chunk(finish="stop"), chunk({"content": "later"})))
    assert [type(event) for event in events] == [Start, Finish, Text, End]
    assert message(chunk(finish={"type": "stop"})).finish_raw == '{"type":"stop"}'


# -- usage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payloads",
    [
        [*TEXT, COUNTED],
        [*TEXT[:-1], chunk(finish="stop", usage=TOKENS)],
        [chunk({"content": "a"}, usage={**TOKENS, "completion_tokens": n}) for n in (1, 2)] + [chunk(usage=TOKENS)],
        [*TEXT, chunk(usage=TOKENS)],
        [*TEXT, {"usage": TOKENS}],
        [*TEXT, chunk(choices=None, usage=TOKENS)],
        [*TEXT, chunk(choices=[choice(usage=TOKENS)])],
        [*TEXT, chunk(x_groq={"id": "req_1", "usage": TOKENS})],
        [*TEXT, chunk(usage={"input_tokens": 9, "output_tokens": 5})],
        [*TEXT, chunk(usage={"prompt_tokens": 9.0, "completion_tokens": 5.0})],
        [*TEXT, chunk(usage={"prompt_tokens": 9}), chunk(usage={"completion_tokens": 5})],
        [*TEXT, COUNTED, chunk(usage=None), chunk(usage={}), chunk(usage={"prompt_tokens": None})],
    ],
)
def test_usage_counts_wherever_it_stands(payloads: Sequence[Any]) -> None:
    usage = message(*payloads).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (9, 5)


@pytest.mark.parametrize("usage", [None, {}, [], "9", 9, {"prompt_tokens": "9"}, {"prompt_tokens": True}])
def test_no_usage(usage: Any) -> None:
    assert message(*TEXT, chunk(usage=usage)).usage is None


def test_usage_is_kept_as_sent() -> None:
    events, _ = read(stream(*TEXT, COUNTED))
    assert [event.raw for event in events if isinstance(event, Usage)] == [TOKENS]


def test_huge_counts_are_exact() -> None:
    huge = 2**70 + 1
    found = message(*TEXT, chunk(usage={"prompt_tokens": huge, "completion_tokens": 10**30}))
    assert found.usage is not None
    assert (found.usage.input_tokens, found.usage.output_tokens) == (huge, 10**30)
    assert json.loads(to_json(found))["usage"]["input_tokens"] == huge
    exact = message(ROLE, calls(call(0, "call_a", "f", {"n": huge, "x": 1e2})), CALLED)
    assert exact.tool_calls[0].arguments == f'{{"n":{huge},"x":100.0}}'


# -- errors -------------------------------------------------------------------------------------------------------

PRETTY = json.dumps({"error": ERROR}, indent=2).encode()
HALF = stream(*TEXT[:2], done=False)  # some text, then the error
ERRORS: list[tuple[str, bytes, tuple[Any, Any, Any]]] = [
    ("object", event({"error": ERROR}), ("server_error", 503, "overloaded")),
    ("object with a text code", event({"error": {"code": "limit", "message": "no"}}), (None, "limit", "no")),
    ("string", event({"error": "overloaded", "error_type": "overload"}), ("overload", None, "overloaded")),
    ("top level", event({"object": "error", **ERROR}), ("server_error", 503, "overloaded")),
    ("top level with a type", event({"type": "error", "message": "no"}), ("error", None, "no")),
    ("top level with a code", event({"code": 503, "message": "no"}), (None, 503, "no")),
    ("detail", event({"detail": "Not Found"}), (None, None, "Not Found")),
    ("named event with an object", event({"error": ERROR}, "error"), ("server_error", 503, "overloaded")),
    ("named event with anything", event({"reason": "no"}, "error"), (None, None, None)),
    ("named event with text", event(b"upstream gone", "error"), (None, None, "upstream gone")),
    ("field", b'error: {"message":"no","code":1}\n\n', (None, 1, "no")),
    ("field with an envelope", b'error: {"error":{"message":"no"}}\n\n', (None, None, "no")),
    ("bare line", b'{"error": {"message": "no"}}\n', (None, None, "no")),
    ("bare and unterminated", b'{"error": {"message": "no"}}', (None, None, "no")),
    ("bare, pretty-printed", PRETTY, ("server_error", 503, "overloaded")),
    ("bare, pretty-printed with CRLF", PRETTY.replace(b"\n", b"\r\n") + b"\r\n", ("server_error", 503, "overloaded")),
    ("bare detail", b'{"detail":"Not Found"}', (None, None, "Not Found")),
    ("in a choice", event(chunk(choices=[choice(error=ERROR)])), ("server_error", 503, "overloaded")),
    ("in the finish chunk", event(chunk(choices=[choice(finish="error", error={"code": 502, "message": "no"})])),
     (None, 502, "no")),
    ("beside content", event(chunk({"content": ""}, error=ERROR)), ("server_error", 503, "overloaded")),
    ("under x_groq", event(chunk(x_groq={"error": "failed"})), (None, None, "failed")),
    ("unterminated", event({"error": ERROR})[:-1], ("server_error", 503, "overloaded")),
    ("empty fields", event({"error": {"message": "", "type": "", "code": ""}}), (None, None, None)),
    ("a list", event({"error": ["a", "b"]}), (None, None, '["a","b"]')),
]  # fmt: skip


@pytest.mark.parametrize(("body", "want"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
@pytest.mark.parametrize("before", [b"", HALF], ids=["first", "mid"])
def test_errors_of_every_shape(before: bytes, body: bytes, want: tuple[Any, Any, Any]) -> None:
    events, found = read(before + body)
    assert found.error is not None
    assert (found.error.type, found.error.code, found.error.message) == want
    assert found.terminal == "error"
    assert found.text == ("Hel" if before else "")
    assert sum(isinstance(event, Error) for event in events) == 1


def test_what_comes_after_an_error_changes_nothing_but_the_bill() -> None:
    found = message(*TEXT[:2], {"error": ERROR}, chunk({"content": "ghost"}), {"error": "second"}, COUNTED)
    assert (found.text, found.finish_reason, found.terminal) == ("Hel", None, "error")
    assert found.error is not None
    assert found.error.message == "overloaded"
    assert found.usage is not None
    assert "error.data-after" in codes(found)


@pytest.mark.parametrize("member", [None, "", {}, [], False, 0])
def test_an_empty_error_member_is_none(member: Any) -> None:
    found = message(ROLE, chunk({"content": "a"}, error=member), STOP)
    assert (found.error, found.text, found.terminal) == (None, "a", "done")


# -- ends and framing ---------------------------------------------------------------------------------------------


def test_terminals() -> None:
    assert message(*TEXT).terminal == "done"
    assert read(stream(*TEXT, done=False))[1].terminal == "finish"
    assert read(stream(*TEXT[:-1], done=False))[1].terminal == "truncated"
    assert read(b"")[1].terminal == "truncated"
    assert read(DONE)[1].terminal == "done"


def test_data_after_the_end_adds_nothing() -> None:
    found = read(stream(*TEXT) + event(chunk({"content": "ghost"})) + event({"error": "late"}))[1]
    assert (found.text, found.error, found.terminal) == ("Hello wörld \U0001f600", None, "done")
    assert codes(found) == {"end.data-after-marker"}


def test_the_end_marker_again() -> None:
    events, found = read(stream(*TEXT) + DONE + DONE)
    assert sum(isinstance(event, End) for event in events) == 1
    assert codes(found) == {"end.marker-repeated", "end.data-after-marker"}


@pytest.mark.parametrize("marker", [b"data: [DONE]\n\n", b"data:[DONE]\n\n", b"data: [DONE] \r\n\r\n", b"data: [DONE]"])
def test_end_markers(marker: bytes) -> None:
    found = read(stream(*TEXT, done=False) + marker)[1]
    assert found.terminal == "done"
    assert ("end.marker-unterminated" in codes(found)) == (not marker.endswith(b"\n"))


def test_an_end_marker_inside_json_is_text() -> None:
    found = message(ROLE, chunk({"content": "data: [DONE]\n\n"}), STOP)
    assert (found.text, found.finish_reason) == ("data: [DONE]\n\n", "stop")


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_an_unterminated_last_event_is_read_and_noted(ending: bytes) -> None:
    found = read(stream(*TEXT[:2], done=False) + event(chunk({"content": "lo"}, finish="stop"))[:-2] + ending)[1]
    assert (found.text, found.finish_reason) == ("Hello", "stop")
    assert codes(found) == {"sse.last-event-unterminated"}


def test_half_an_event_at_the_end_adds_nothing() -> None:
    found = read(stream(*TEXT[:2], done=False) + event(chunk({"content": "lo"}))[:60])[1]
    assert (found.text, found.terminal) == ("Hel", "truncated")
    assert codes(found) == {"stream.partial-event"}


def test_glued_events_are_each_read() -> None:
    lines = [event(payload)[:-1] for payload in TEXT]
    found = read(b"".join(lines) + b"data: [DONE]\n\n")[1]
    assert (found.text, found.terminal) == ("Hello wörld \U0001f600", "done")
    assert codes(found) == {"sse.events-glued"}


def test_a_pretty_printed_event_is_one_event() -> None:
    body = b"".join(b"data: " + line + b"\n" for line in json.dumps(TEXT[1], indent=1).encode().split(b"\n")) + b"\n"
    found = read(body)[1]
    assert (found.text, codes(found)) == ("Hel", set())


def test_what_cannot_be_decoded_adds_nothing_and_ends_nothing() -> None:
    broken = event(b"{broken") + event(b"null") + event(b"[1]")
    found = read(stream(*TEXT[:2], done=False) + broken + stream(*TEXT[2:]))[1]
    assert (found.text, found.terminal) == ("Hello wörld \U0001f600", "done")
    assert codes(found) == {"sse.data-not-json", "sse.data-not-object"}


@pytest.mark.parametrize(
    "body", [b'{"object":"chat.completion","choices":[{"message":{"content":"a"}}]}', b"<html>no</html>", b"hello\n"]
)
def test_a_body_that_is_no_stream(body: bytes) -> None:
    found = read(body)[1]
    assert (found.text, found.terminal, codes(found)) == ("", "truncated", {"stream.not-a-stream"})


def test_what_no_dialect_knows_is_unknown_and_kept() -> None:
    payload = {"type": "moderation", "flags": [1]}
    events, found = read(stream(ROLE, payload, STOP))
    assert [(event.name, event.raw) for event in events if isinstance(event, Unknown)] == [("moderation", payload)]
    assert found.terminal == "done"


def test_what_stands_beside_the_answer_in_a_delta_is_an_item_or_unknown() -> None:
    cited, sealed = [{"type": "url_citation"}], [{"type": "reasoning.encrypted", "data": "x"}]
    deltas = {"content": "a", "annotations": cited, "channel": "final", "extra": None}, {"reasoning_details": sealed}
    events, found = read(stream(ROLE, *map(chunk, deltas), STOP))
    assert [(event.item_type, event.raw) for event in events if isinstance(event, Item)] == [
        ("annotations", cited), ("reasoning_details", sealed),
    ]  # fmt: skip
    assert [(event.name, event.raw) for event in events if isinstance(event, Unknown)] == [("delta.channel", "final")]
    assert (found.text, found.reasoning, codes(found)) == ("a", "", set())


@pytest.mark.parametrize(
    ("choices", "name", "raw", "note"),
    [
        ([choice("text")], "delta", "text", "chunk.delta-wrong-type"),
        ([choice(["text"])], "delta", ["text"], "chunk.delta-wrong-type"),
        ({"0": choice()}, "choices", {"0": choice()}, "chunk.choices-wrong-type"),
        (["text"], "choices[]", "text", ""),
    ],
)
def test_what_stands_where_an_object_is_due_is_unknown_and_kept(choices: Any, name: str, raw: Any, note: str) -> None:
    events, found = read(stream(ROLE, chunk(choices=choices), STOP))
    assert [(event.name, event.raw) for event in events if isinstance(event, Unknown)] == [(name, raw)]
    assert codes(found) == ({note} if note else set())


# -- characters and numbers ---------------------------------------------------------------------------------------


def test_two_halves_of_a_character_in_two_deltas_form_it() -> None:
    found = message(ROLE, chunk({"content": "a\ud83d"}), chunk({"content": "\ude00b"}), STOP)
    assert found.text == "a\U0001f600b"


def test_a_half_that_stays_alone_is_kept_and_can_be_written() -> None:
    found = message(ROLE, chunk({"content": "a\ud83d"}), chunk({"content": "b"}), STOP)
    assert found.text == "a\ud83db"
    assert json.loads(to_json(found).encode())["text"] == "a\ud83db"


def test_invalid_utf8_is_replaced_and_noted() -> None:
    body = stream(chunk({"content": "caf\u00e9"}), STOP).replace(b"\\u00e9", b"\xc3")
    found = read(body)[1]
    assert (found.text, codes(found)) == ("caf\ufffd", {"sse.invalid-utf8"})


def test_nan_is_read_and_noted() -> None:
    events, found = read(stream(*TEXT[:-1], chunk(finish="stop", x=float("nan")), chunk(usage={"x": float("inf")})))
    assert (found.text, found.finish_reason) == ("Hello wörld \U0001f600", "stop")
    assert codes(found) == {"sse.json-constant"}
    assert [event["raw"] for event in json.loads(to_json(events)) if event["kind"] == "usage"] == [{"x": "inf"}]


@pytest.mark.parametrize("levels", [300, 390, 500, 960, 990, 3000, 100_000])
@pytest.mark.parametrize(
    "payload",
    [
        b'{"type":"x","a":%s}', b'{"error":{"message":%s}}', b'{"choices":[{"index":0,"delta":{"content":%s}}]}',
        b'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":%s,"function":{"arguments":1}}]}}]}',
        b'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}}]}',
        b'{"choices":[],"usage":{"prompt_tokens":9,"x":%s}}', b"%s",
    ],
)  # fmt: skip
def test_deep_nesting_is_read_or_noted_and_what_was_read_can_be_written(payload: bytes, levels: int) -> None:
    """However deep in the stack the caller is: no RecursionError escapes, and the reading is the same."""
    body = stream(ROLE, done=False) + event(payload % (b"[" * levels + b"]" * levels)) + stream(*TEXT[1:])

    def deeper(calls: int) -> str:
        if calls:
            return deeper(calls - 1)
        reducer = Reducer("chat")
        events = [*reducer.feed(body), *reducer.finish()]
        return to_json(events) + to_json(events, indent=1) + to_json(reducer.message())

    written = deeper(0)
    assert deeper(200) == written
    assert ("sse.data-not-json" in written) == (levels > 400)
    if b"error" not in payload:
        assert json.loads(to_json(read(body)[1]))["text"].endswith("Hello wörld \U0001f600")


def test_deep_arguments_are_text() -> None:
    arguments = '{"a":' * 5000 + "1" + "}" * 5000
    assert told(message(ROLE, calls(call(0, "call_a", "f", arguments)), CALLED)) == [(0, "call_a", "f", arguments)]


def test_a_name_that_is_no_text() -> None:
    assert told(message(ROLE, calls(call(0, "call_a", {"n": 1}, "{}")), CALLED)) == [(0, "call_a", '{"n":1}', "{}")]


def test_reasoning_beside_text_in_one_delta() -> None:
    events, found = read(stream(ROLE, chunk({"reasoning_content": "hm", "content": "so"}), STOP))
    assert (found.reasoning, found.text) == ("hm", "so")
    assert [type(event) for event in events if isinstance(event, Text | Reasoning)] == [Reasoning, Text]
