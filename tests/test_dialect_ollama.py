from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import check, faulty, ndjson, read

from harness.events import End, Event, Finish, Item, Reasoning, Start, Text, ToolCall, Unknown, Usage
from harness.message import Message


def line(content: Any = "", done: bool = False, **message: Any) -> dict[str, Any]:
    return {"model": "m-1", "message": {"role": "assistant", "content": content, **message}, "done": done}


def last(reason: str | None = "stop", **more: Any) -> dict[str, Any]:
    counters = {"total_duration": 5, "prompt_eval_count": 9, "eval_count": 4}
    return {**line(done=True), **({} if reason is None else {"done_reason": reason}), **counters, **more}


def call(name: str, arguments: Any, **function: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments, **function}}


def reading(payloads: list[Any]) -> tuple[list[Event], Message]:
    """Events and message; the same whatever the cut."""
    body = ndjson(payloads)
    return check(body, "ollama", 1), read(body, "ollama")[1].message()


def codes(message: Message) -> set[str]:
    return {note.code for note in message.notes}


def test_the_documented_course_of_a_chat() -> None:
    events, message = reading([line(thinking="hm"), line("Hello "), line(" there\n"), last()])
    assert [type(event) for event in events] == [Start, Reasoning, Text, Text, Finish, Usage, End]
    assert isinstance(events[0], Start)
    assert (events[0].id, events[0].model, events[0].role) == (None, "m-1", "assistant")
    assert (message.reasoning, message.text) == ("hm", "Hello  there\n")
    assert (message.finish_reason, message.finish_raw, message.terminal) == ("stop", "stop", "done")
    assert message.usage is not None
    assert (message.usage.input_tokens, message.usage.output_tokens) == (9, 4)
    assert isinstance(events[-1], End)
    assert events[-1].marker == "done"
    assert message.notes == []


def test_calls_come_whole_with_objects_for_arguments() -> None:
    events, message = reading([
        line(tool_calls=[{"id": "call_1", **call("f", {"b": "ü"}, index=1)}]),
        line(tool_calls=[call("g", {}, index=0)]), line(tool_calls=[call("h", None)]), last(),
    ])  # fmt: skip
    fragments = [event for event in events if isinstance(event, ToolCall)]
    assert [(event.wire_index, event.id, event.name, event.arguments) for event in fragments] == [
        (1, "call_1", "f", '{"b":"ü"}'), (0, None, "g", "{}"), (None, None, "h", "{}"),
    ]  # fmt: skip
    assert [(found.index, found.id, found.name) for found in message.tool_calls] == [
        (0, "", "g"), (1, "call_1", "f"), (2, "", "h"),
    ]  # fmt: skip
    assert (message.finish_reason, message.finish_raw) == ("tool_calls", "stop")
    assert message.notes == []


def test_arguments_as_a_string_are_kept_and_noted() -> None:
    _, message = reading([line(tool_calls=[call("f", '{"a": 1}')]), last()])
    assert message.tool_calls[0].arguments == '{"a": 1}'
    assert codes(message) == {"ollama.arguments-string"}


def test_a_call_in_the_done_line_is_read_and_noted() -> None:
    _, message = reading([{**last(), **line(done=True, tool_calls=[call("f", {})])}])
    assert (message.tool_calls[0].name, message.finish_reason) == ("f", "tool_calls")
    assert codes(message) == {"ollama.call-in-done"}


@pytest.mark.parametrize("entries", [call("f", {"a": 1}), [{"name": "f", "arguments": {"a": 1}}]])
def test_calls_of_other_shapes_are_read(entries: Any) -> None:
    _, message = reading([line(tool_calls=entries), last()])
    assert [(found.name, found.arguments) for found in message.tool_calls] == [("f", '{"a":1}')]


@pytest.mark.parametrize(("raw", "reason"), [
    ("stop", "stop"), ("length", "length"), ("load", "other"), ("unload", "other"),
])  # fmt: skip
def test_done_reasons(raw: str, reason: str) -> None:
    _, message = reading([line("x"), last(raw)])
    assert (message.finish_reason, message.finish_raw) == (reason, raw)


def test_the_end_counts_without_a_reason() -> None:
    _, message = reading([line("x"), last(None)])
    assert (message.finish_raw, message.terminal) == (None, "done")


def test_generate_has_its_answer_at_the_top() -> None:
    lines = [{"model": "m-1", "response": text, "done": False} for text in ("Hel", "lo")]
    end = {"model": "m-1", "response": "", "done": True, "done_reason": "length", "context": [1, 2], "eval_count": 2}
    events, message = reading([{**lines[0], "response": "", "thinking": "hm"}, *lines, end])
    assert (message.text, message.reasoning, message.finish_reason) == ("Hello", "hm", "length")
    assert message.usage is not None
    assert (message.usage.input_tokens, message.usage.output_tokens) == (None, 2)
    assert not any(isinstance(event, Unknown) for event in events)


def test_pictures_are_items() -> None:
    events, _ = reading([line(images=["AAAA"]), {"model": "m", "completed": 1, "total": 4, "done": False},
                         {"model": "m", "image": "AAAA", "done": True}])  # fmt: skip
    assert [event.item_type for event in events if isinstance(event, Item)] == ["images", "completed", "image"]


@pytest.mark.parametrize("error", [
    {"error": "out of memory"}, {"model": "m-1", "error": "out of memory", "done": False},
    {"error": {"message": "out of memory"}}, {"message": "out of memory", "code": 500},
])  # fmt: skip
def test_an_error_line_keeps_what_came_before(error: dict[str, Any]) -> None:
    _, message = reading([line("Hel"), error, line("lo"), last()])
    assert message.error is not None
    assert message.error.message == "out of memory"
    assert (message.text, message.finish_raw, message.terminal) == ("Hel", None, "error")


def test_nothing_counts_after_done() -> None:
    _, message = reading([line("x"), last(), line("late")])
    assert message.text == "x"
    assert codes(message) == {"end.data-after-marker"}


def test_the_last_line_may_go_without_its_end() -> None:
    body = ndjson([line("x"), last()])
    whole = [type(event) for event in read(body, "ollama")[0]]
    assert [type(event) for event in check(body[:-1], "ollama", 3)] == whole
    assert read(body[:-1], "ollama")[1].message() == read(body, "ollama")[1].message()
    assert codes(read(body[:-2], "ollama")[1].message()) == {"stream.partial-event"}


def test_what_nobody_documents_is_unknown() -> None:
    events, message = reading([
        {"status": "pulling"}, line(["x"]), line(hologram=1), line(thinking=["hm"]), line(tool_calls=[1]),
        {"message": "text", "done": False}, {"response": ["x"], "done": False}, last(),
    ])  # fmt: skip
    assert [event.name for event in events if isinstance(event, Unknown)] == [
        "line", "content", "message.hologram", "thinking", "tool_calls[]", "message", "response",
    ]  # fmt: skip
    assert (message.text, codes(message)) == ("", {"text.not-a-string"})


STREAM = [
    line(thinking="hm"), line("Hello"), line(tool_calls=[{"id": "c", **call("f", {"a": 1}, index=0)}]),
    {"model": "m-1", "response": "x", "thinking": "y", "done": False},
    line(images=["AA"], tool_calls=[call("g", {})]), last(), {"error": "boom"},
]  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(faulty(STREAM), st.integers(1, 40))
def test_whatever_comes_is_read(stream: list[Any], size: int) -> None:
    check(ndjson(stream), "ollama", size)
