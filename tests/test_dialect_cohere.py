from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import check, faulty, read, sse

from harness.events import End, Event, Finish, Item, Reasoning, Start, Text, ToolCall, Unknown, Usage
from harness.message import Message


def event(kind: str, index: Any = None, **message: Any) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, **({"delta": {"message": message}} if message else {})}


def call_start(index: Any, call_id: str, name: str, arguments: Any = "") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return event("tool-call-start", index, tool_calls={"id": call_id, "type": "function", "function": function})


def call_delta(index: Any, arguments: Any) -> dict[str, Any]:
    return event("tool-call-delta", index, tool_calls={"function": {"arguments": arguments}})


def end(reason: str | None = "COMPLETE", **more: Any) -> dict[str, Any]:
    billed, tokens = {"input_tokens": 1, "output_tokens": 2}, {"input_tokens": 9, "output_tokens": 4.0}
    usage = {"billed_units": billed, "tokens": tokens}
    return {"type": "message-end", "delta": {"finish_reason": reason, "usage": usage, **more}}


START = {"id": "r-1", **event("message-start", role="assistant", content=[], tool_plan="", tool_calls=[])}


def reading(payloads: list[Any], tail: bytes = b"data: [DONE]\n\n") -> tuple[list[Event], Message]:
    """Events and message; the same whatever the cut, with and without event lines."""
    events = check(sse(payloads, names=True) + tail, "cohere", 1)
    bare, reducer = read(sse(payloads) + tail, "cohere")
    assert [type(found) for found in bare] == [type(found) for found in events]
    return events, reducer.message()


def codes(message: Message) -> set[str]:
    return {note.code for note in message.notes}


def test_the_documented_course_of_an_answer() -> None:
    events, message = reading([
        START, event("content-start", 0, content={"type": "thinking", "thinking": ""}),
        event("content-delta", 0, content={"thinking": "hm"}), event("content-end", 0),
        event("content-start", 1, content={"type": "text", "text": "A "}),
        event("content-delta", 1, content={"text": " B\n"}),
        event("citation-start", 0, citations={"start": 0, "end": 1, "text": "A"}), event("citation-end", 0),
        event("content-end", 1), {"type": "debug", "prompt": "p"}, end(),
    ])  # fmt: skip
    assert [type(found) for found in events] == [
        Start, Item, Reasoning, Item, Item, Text, Text, Item, Item, Item, Item, Finish, Usage, End,
    ]  # fmt: skip
    assert isinstance(events[0], Start)
    assert (events[0].id, events[0].model, events[0].role) == ("r-1", None, "assistant")
    assert (message.reasoning, message.text) == ("hm", "A  B\n")
    assert (message.finish_reason, message.finish_raw, message.terminal) == ("stop", "COMPLETE", "done")
    assert message.usage is not None
    assert (message.usage.input_tokens, message.usage.output_tokens) == (9, 4)
    items = [(found.item_type, found.phase) for found in events if isinstance(found, Item)]
    assert items == [
        ("content", "start"), ("content", "stop"), ("content", "start"), ("citation", "start"), ("citation", "stop"),
        ("content", "stop"), ("debug", "whole"),
    ]  # fmt: skip
    assert isinstance(events[-1], End)
    assert events[-1].marker == "message-end"
    assert message.notes == []  # the vendor itself sends [DONE] after its end


def test_the_plan_is_reasoning_and_calls_are_keyed_by_index() -> None:
    events, message = reading([
        START, event("tool-plan-delta", tool_plan="I will "), event("tool-plan-delta", tool_plan="look."),
        call_start(0, "c-1", "f"), call_start(1, "c-2", "g"), call_delta(0, '{"a":'), call_delta(1, "{}"),
        call_delta(0, "1}"), event("tool-call-end", 0), event("tool-call-end", 1), end("TOOL_CALL"),
    ])  # fmt: skip
    assert (message.reasoning, message.text) == ("I will look.", "")
    assert [(found.id, found.name, found.arguments) for found in message.tool_calls] == [
        ("c-1", "f", '{"a":1}'), ("c-2", "g", "{}"),
    ]  # fmt: skip
    fragments = [found for found in events if isinstance(found, ToolCall)]
    assert [(found.index, found.wire_index, found.id) for found in fragments] == [
        (0, 0, "c-1"), (1, 1, "c-2"), (0, 0, None), (1, 1, None), (0, 0, None),
    ]  # fmt: skip
    assert (message.finish_reason, message.finish_raw) == ("tool_calls", "TOOL_CALL")


def test_a_call_start_always_opens_a_call() -> None:
    stream = [START, call_start(0, "c-1", "f"), call_delta(0, "{}"), call_start(0, "c-2", "g"), call_delta(0, "[]")]
    _, message = reading([*stream, end("TOOL_CALL")])
    assert [(found.id, found.arguments) for found in message.tool_calls] == [("c-1", "{}"), ("c-2", "[]")]
    assert codes(message) == {"tool.index-reused"}


@pytest.mark.parametrize("index", [None, 0.0])
def test_a_delta_without_an_index_goes_to_the_call_opened_last(index: Any) -> None:
    _, message = reading([START, call_start(0, "c-1", "f"), call_delta(index, "{}"), end("TOOL_CALL")])
    assert [(found.id, found.arguments) for found in message.tool_calls] == [("c-1", "{}")]


def test_a_delta_of_a_call_that_never_began_is_read() -> None:
    _, message = reading([START, call_delta(3, '{"a":'), call_delta(3, "1}"), end("TOOL_CALL")])
    assert [(found.id, found.name, found.arguments) for found in message.tool_calls] == [("", "", '{"a":1}')]


def test_calls_as_a_list_and_arguments_as_an_object_are_read() -> None:
    start = call_start(0, "c-1", "f", {"a": 1})
    start["delta"]["message"]["tool_calls"] = [start["delta"]["message"]["tool_calls"]]
    _, message = reading([START, start, end("TOOL_CALL")])
    assert message.tool_calls[0].arguments == '{"a":1}'
    assert codes(message) == {"tool.arguments-object"}


@pytest.mark.parametrize(("raw", "reason"), [
    ("COMPLETE", "stop"), ("STOP_SEQUENCE", "stop"), ("MAX_TOKENS", "length"), ("TOOL_CALL", "tool_calls"),
    ("ERROR", "error"), ("TIMEOUT", "error"), ("SOMETHING_NEW", "other"), (None, None),
])  # fmt: skip
def test_finish_reasons(raw: str | None, reason: str | None) -> None:
    _, message = reading([START, end(raw)])
    assert (message.finish_reason, message.finish_raw, message.terminal) == (reason, raw, "done")


def test_a_failure_stands_in_the_last_event() -> None:
    events, message = reading([START, end("ERROR", usage={}, error="invalid tool", error_type="INVALID_TOOL")])
    assert message.error is not None
    assert (message.error.type, message.error.code, message.error.message) == ("INVALID_TOOL", None, "invalid tool")
    assert (message.finish_reason, message.terminal, message.usage) == ("error", "error", None)
    assert isinstance(events[-1], End)
    assert message.notes == []


def test_billed_units_are_no_counts() -> None:
    _, message = reading([START, end(usage={"billed_units": {"input_tokens": 1, "output_tokens": 2}})])
    assert message.usage is None


@pytest.mark.parametrize("error", [{"message": "boom", "code": 500}, {"type": "error", "error": {"message": "boom"}}])
def test_an_error_in_mid_stream_keeps_what_came_before(error: dict[str, Any]) -> None:
    _, message = reading([START, event("content-delta", 0, content={"text": "Hel"}), error, end()])
    assert message.error is not None
    assert (message.error.message, message.text, message.terminal) == ("boom", "Hel", "error")


def test_done_without_a_message_end_is_no_end() -> None:
    _, message = reading([START])
    assert message.terminal == "truncated"
    assert codes(message) == {"end.marker-foreign"}


@pytest.mark.parametrize("tail", [b"", b"data: [DONE]", b"data: [DONE]\n"])
def test_what_comes_after_the_end_need_not_be_whole(tail: bytes) -> None:
    _, message = reading([START, end()], tail)
    assert (message.terminal, message.notes) == ("done", [])


def test_other_data_after_the_end_changes_nothing() -> None:
    _, message = reading([START, end(), event("content-delta", 0, content={"text": "late"})])
    assert (message.text, codes(message)) == ("", {"end.data-after-marker"})


def test_what_nobody_documents_is_unknown() -> None:
    events, message = reading([
        START, event("hologram", 0), event("content-delta", 0, content=3), event("tool-call-delta", 0, tool_calls=[4]),
        event("content-delta", 0, content={"text": ["x"], "image": "AA"}), end(),
    ])  # fmt: skip
    assert [found.name for found in events if isinstance(found, Unknown)] == [
        "hologram", "content-delta", "tool-call-delta", "text", "content.image",
    ]  # fmt: skip
    assert codes(message) == {"text.not-a-string"}


STREAM = [
    START, event("tool-plan-delta", tool_plan="I will"), call_start(0, "c-1", "f"), call_delta(0, '{"a":'),
    call_delta(0, "1}"), event("tool-call-end", 0), call_start(1, "c-2", "g"), call_delta(1, "{}"),
    event("content-start", 0, content={"type": "text", "text": "A"}), event("content-delta", 0, content={"text": "B"}),
    event("citation-start", 0, citations={"start": 0}), event("citation-end", 0), event("content-end", 0),
    {"type": "debug", "prompt": "p"}, end("ERROR", error="boom", error_type="E"),
]  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(faulty(STREAM), st.integers(1, 40), st.booleans())
def test_whatever_comes_is_read(stream: list[Any], size: int, names: bool) -> None:
    check(sse(stream, names) + b"data: [DONE]\n\n", "cohere", size)
