from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import check, faulty, read, sse

from harness.dialects.anthropic import BLOCKS
from harness.events import End, Error, Event, Finish, Item, Ping, Reasoning, Start, Text, ToolCall, Unknown, Usage
from harness.message import Message

SHARED = Path(__file__).resolve().parents[2] / "shared"
RECORDED = sorted(SHARED.glob("corpus-local/*/messages/*.sse"))


def start(**more: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": [], **more}
    return {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}, **message}}


def block(index: Any, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **members}}


def delta(index: Any, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}}


def stop(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ending(reason: str | None, **more: Any) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None, **more},
         "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]  # fmt: skip


def reading(payloads: list[Any]) -> tuple[list[Event], Message]:
    """Events and message; the same whatever the cut, with and without event lines."""
    events = check(sse(payloads, names=True), "anthropic", 1)
    bare, reducer = read(sse(payloads), "anthropic")
    assert [type(event) for event in bare] == [type(event) for event in events]
    return events, reducer.message()


def codes(message: Message) -> set[str]:
    return {note.code for note in message.notes}


def test_the_documented_course_of_a_message() -> None:
    events, message = reading([
        start(), {"type": "ping"},
        block(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Two plus"), delta(0, "thinking_delta", thinking=" two."),
        delta(0, "signature_delta", signature="c2ln"), stop(0),
        block(1, "text", text="", citations=[]),
        delta(1, "text_delta", text=" 4"), delta(1, "citations_delta", citation={"cited_text": "four"}),
        delta(1, "text_delta", text=" \n"), stop(1),
        *ending("end_turn"),
    ])  # fmt: skip
    assert (message.reasoning, message.text) == ("Two plus two.", " 4 \n")
    assert (message.finish_reason, message.finish_raw, message.terminal) == ("stop", "end_turn", "done")
    assert message.usage is not None
    assert (message.usage.input_tokens, message.usage.output_tokens) == (9, 5)
    kinds = [type(event) for event in events]
    assert kinds == [
        Start, Usage, Ping, Item, Reasoning, Reasoning, Item, Item, Item, Text, Item, Text, Item, Finish, Usage, End,
    ]  # fmt: skip
    assert isinstance(events[0], Start)
    assert (events[0].id, events[0].model, events[0].role) == ("msg_1", "m-1", "assistant")
    items = [(event.item_type, event.phase) for event in events if isinstance(event, Item)]
    assert items == [
        ("thinking", "start"), ("thinking", "delta"), ("thinking", "stop"), ("text", "start"), ("text", "delta"),
        ("text", "stop"),
    ]  # fmt: skip
    assert isinstance(events[-1], End)
    assert events[-1].marker == "message_stop"
    assert message.notes == []


def test_calls_are_fragments_with_id_and_name_at_the_start_only() -> None:
    events, message = reading([
        start(),
        block(0, "tool_use", id="toolu_1", name="get_weather", input={}),
        delta(0, "input_json_delta", partial_json=""), delta(0, "input_json_delta", partial_json='{"ci'),
        delta(0, "input_json_delta", partial_json='ty":"Oslo"}'), stop(0),
        block(1, "tool_use", id="toolu_2", name="list", input={}),
        delta(1, "input_json_delta", partial_json=""), stop(1),
        *ending("tool_use"),
    ])  # fmt: skip
    fragments = [
        (event.index, event.wire_index, event.id, event.name, event.arguments, event.whole)
        for event in events if isinstance(event, ToolCall)
    ]  # fmt: skip
    assert fragments == [
        (0, 0, "toolu_1", "get_weather", None, False), (0, 0, None, None, "", False),
        (0, 0, None, None, '{"ci', False), (0, 0, None, None, 'ty":"Oslo"}', False),
        (1, 1, "toolu_2", "list", None, False), (1, 1, None, None, "", False), (1, 1, None, None, "{}", False),
    ]  # fmt: skip
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
        ("toolu_1", "get_weather", '{"city":"Oslo"}'), ("toolu_2", "list", "{}"),
    ]  # fmt: skip
    assert message.finish_reason == "tool_calls"


def test_empty_input_stands_when_its_block_is_never_stopped() -> None:
    _, message = reading([start(), block(0, "tool_use", id="t", name="list", input={}), *ending("tool_use")])
    assert message.tool_calls[0].arguments == "{}"


@pytest.mark.parametrize("given", [{"city": "Paris"}, '{"city": "Paris"}'])
def test_input_complete_in_the_start_block_is_read_and_noted(given: Any) -> None:
    stream = [start(), block(0, "tool_use", id="t", name="w", input=given), stop(0), *ending("tool_use")]
    _, message = reading(stream)
    assert json.loads(message.tool_calls[0].arguments) == {"city": "Paris"}
    assert codes(message) == {"anthropic.input-in-start"}


def test_deltas_replace_the_input_of_the_start_block() -> None:
    pieces = [delta(0, "input_json_delta", partial_json=piece) for piece in ("", '{"city":', '"Oslo"}')]
    stream = [start(), block(0, "tool_use", id="t", name="w", input={"city": "Paris"}), *pieces, stop(0)]
    _, message = reading(stream + ending("tool_use"))
    assert message.tool_calls[0].arguments == '{"city":"Oslo"}'


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use"])
def test_calls_the_server_runs_itself_are_items(kind: str) -> None:
    events, message = reading([
        start(), block(0, kind, id="srv_1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":"x"}'), stop(0), *ending("end_turn"),
    ])  # fmt: skip
    items = [(event.item_type, event.phase, event.id) for event in events if isinstance(event, Item)]
    assert items == [(kind, phase, "srv_1") for phase in ("start", "delta", "stop")]
    assert message.tool_calls == []
    assert message.notes == []


@pytest.mark.parametrize("kind", sorted(BLOCKS - {"text", "thinking", "tool_use"}))
def test_every_documented_block_is_an_item(kind: str) -> None:
    events, message = reading([start(), block(0, kind, data="x", content=[]), stop(0), *ending("end_turn")])
    items = [(event.item_type, event.phase) for event in events if isinstance(event, Item)]
    assert items == [(kind, "start"), (kind, "stop")]
    assert not any(isinstance(event, Unknown) for event in events)
    assert (message.text, message.reasoning, message.tool_calls) == ("", "", [])


def test_a_compaction_delta_is_part_of_its_item() -> None:
    events, message = reading([
        start(), block(0, "compaction", content=None), delta(0, "compaction_delta", content="summary"), stop(0),
        *ending("compaction"),
    ])  # fmt: skip
    assert [event.phase for event in events if isinstance(event, Item)] == ["start", "delta", "stop"]
    assert (message.text, message.finish_reason, message.finish_raw) == ("", "other", "compaction")


@pytest.mark.parametrize(("raw", "reason"), [
    ("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("tool_use", "tool_calls"),
    ("model_context_window_exceeded", "length"), ("refusal", "content_filter"), ("pause_turn", "other"),
    ("compaction", "other"), ("something_new", "other"),
])  # fmt: skip
def test_stop_reasons(raw: str, reason: str) -> None:
    _, message = reading([start(), *ending(raw)])
    assert (message.finish_reason, message.finish_raw) == (reason, raw)


@pytest.mark.parametrize("raw", [None, ""])
def test_no_stop_reason(raw: str | None) -> None:
    _, message = reading([start(), *ending(raw)])
    assert (message.finish_reason, message.finish_raw, message.terminal) == (None, None, "done")


def test_what_a_message_delta_has_beside_the_reason_is_kept_as_items() -> None:
    last, end = ending("refusal", stop_details={"type": "refusal"}, container={"id": "c"})
    events, _ = reading([start(), {**last, "context_management": {"applied_edits": []}}, end])
    items = [event.item_type for event in events if isinstance(event, Item)]
    assert items == ["stop_details", "container", "context_management"]


def test_an_error_keeps_what_came_before_and_ends_the_reading() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    _, message = reading([start(), block(0, "text", text=""), delta(0, "text_delta", text="Hel"), error, *ending("x")])
    assert message.error is not None
    assert (message.error.type, message.error.code, message.error.message) == ("overloaded_error", None, "Overloaded")
    assert (message.text, message.finish_reason, message.terminal) == ("Hel", None, "error")


@pytest.mark.parametrize("payload", [
    {"error": {"type": "api_error", "message": "boom"}}, {"type": "server_error", "code": 500, "message": "boom"},
])  # fmt: skip
def test_errors_of_other_shapes(payload: dict[str, Any]) -> None:
    _, message = reading([start(), payload])
    assert message.error is not None
    assert message.error.message == "boom"


def test_unknown_events_blocks_and_deltas_are_kept_and_change_nothing() -> None:
    events, message = reading([
        start(), {"type": "notice", "message": "new"}, block(0, "hologram", x=1), delta(0, "hologram_delta", y=2),
        delta(0, "text_delta", text="seen"), stop(0), *ending("end_turn"),
    ])  # fmt: skip
    unknown = [event.name for event in events if isinstance(event, Unknown)]
    assert unknown == ["notice", "content_block.hologram", "delta.hologram_delta"]
    assert (message.text, message.error, message.terminal) == ("seen", None, "done")


def test_a_block_start_always_opens_a_new_block() -> None:
    call = [delta(0, "input_json_delta", partial_json=piece) for piece in ('{"a":', "1}")]
    stream = [start()]
    for number in (1, 2):
        stream += [block(0, "tool_use", id=f"t{number}", name="f", input={}), *call, stop(0)]
    _, message = reading(stream + ending("tool_use"))
    assert [(found.id, found.arguments) for found in message.tool_calls] == [("t1", '{"a":1}'), ("t2", '{"a":1}')]
    assert "anthropic.block-index-reused" in codes(message)


def test_blocks_that_overlap_do_not_mix() -> None:
    _, message = reading([
        start(), block(0, "text", text=""), block(1, "text", text=""), block(2, "tool_use", id="t", name="f", input={}),
        delta(0, "text_delta", text="one "), delta(1, "text_delta", text="three "),
        delta(2, "input_json_delta", partial_json='{"a"'), delta(0, "text_delta", text="two "),
        delta(1, "text_delta", text="four"), delta(2, "input_json_delta", partial_json=":1}"), *ending("tool_use"),
    ])  # fmt: skip
    assert message.text == "one two three four"
    assert message.tool_calls[0].arguments == '{"a":1}'


def test_calls_are_in_order_of_the_wire_index() -> None:
    _, message = reading([
        start(), block(3, "tool_use", id="b", name="f", input={}), stop(3),
        block(1, "tool_use", id="a", name="f", input={}), stop(1), *ending("tool_use"),
    ])  # fmt: skip
    assert [(call.index, call.id) for call in message.tool_calls] == [(0, "a"), (1, "b")]


@pytest.mark.parametrize("index", [0, None, "1", 1.0])
def test_input_under_a_wrong_index_goes_to_the_open_call(index: Any) -> None:
    piece = delta(index, "input_json_delta", partial_json='{"a":1}')
    stream = [start(), block(0, "text", text=""), block(1, "tool_use", id="t", name="f", input={}), piece, stop(1)]
    _, message = reading(stream + ending("tool_use"))
    assert [(call.id, call.arguments) for call in message.tool_calls] == [("t", '{"a":1}')]
    assert ("anthropic.delta-wrong-block" in codes(message)) is (index == 0)


def test_pieces_whose_block_never_began_are_read_all_the_same() -> None:
    _, message = reading([
        start(), delta(0, "text_delta", text="Hi"), delta(0, "thinking_delta", thinking="hm"),
        delta(1, "input_json_delta", partial_json='{"a":'), delta(1, "input_json_delta", partial_json="1}"),
        *ending("tool_use"),
    ])  # fmt: skip
    assert (message.text, message.reasoning) == ("Hi", "hm")
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [("", "", '{"a":1}')]
    assert codes(message) == {"anthropic.delta-wrong-block"}


def test_values_of_the_wrong_type_are_noted() -> None:
    events, message = reading([
        start(), block(0, "text", text=""), delta(0, "text_delta", text=["x"]), stop(0),
        block(1, "tool_use", id=7, name="f", input={}), delta(1, "input_json_delta", partial_json={"a": 1}), stop(1),
        *ending("tool_use"),
    ])  # fmt: skip
    assert codes(message) == {"text.not-a-string", "tool.arguments-object"}
    assert [event.raw for event in events if isinstance(event, Unknown)] == [["x"]]
    assert (message.tool_calls[0].id, message.tool_calls[0].arguments) == ("7", '{"a":1}')


def test_content_in_message_start_is_kept_but_not_read() -> None:
    events, message = reading([start(content=[{"type": "text", "text": "early"}]), *ending("end_turn")])
    assert [event.name for event in events if isinstance(event, Unknown)] == ["message_start.content"]
    assert message.text == ""


def test_nothing_counts_after_message_stop() -> None:
    _, message = reading([start(), *ending("end_turn"), delta(0, "text_delta", text="late")])
    assert message.text == ""
    assert codes(message) == {"end.data-after-marker"}


def test_an_error_in_plain_text() -> None:
    events, _ = read(b"event: error\ndata: upstream gone\n\n", "anthropic")
    assert [event.message for event in events if isinstance(event, Error)] == ["upstream gone"]


STREAM = [
    start(), {"type": "ping"}, block(0, "thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="hm"), delta(0, "signature_delta", signature="s"), stop(0),
    block(1, "text", text="A"), delta(1, "text_delta", text="B"), stop(1),
    block(2, "server_tool_use", id="s", name="web_search", input={}),
    delta(2, "input_json_delta", partial_json="{}"), stop(2),
    block(3, "tool_use", id="t", name="f", input={}), delta(3, "input_json_delta", partial_json='{"a":'),
    delta(3, "input_json_delta", partial_json="1}"), stop(3), block(4, "tool_use", id="u", name="g", input={}), stop(4),
    *ending("tool_use"), {"type": "error", "error": {"type": "e", "message": "m"}},
]  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(faulty(STREAM), st.integers(1, 40), st.booleans())
def test_whatever_comes_is_read(stream: list[Any], piece: int, names: bool) -> None:
    check(sse(stream, names), "anthropic", piece)


@pytest.mark.skipif(not RECORDED, reason="no recorded streams here")
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_recorded_streams(path: Path) -> None:
    body = path.read_bytes()
    events = check(body, "anthropic", 7)
    assert not any(isinstance(event, Unknown) for event in events)
    if path.stem == "text":
        message = read(body, "anthropic")[1].message()
        # A reasoning parser takes text without an end tag for thinking.
        assert message.text + message.reasoning == scripts()["text"]
        assert (message.finish_raw, message.terminal) == ("end_turn", "done")


def scripts() -> dict[str, str]:
    """The scripts of the servers' model, known to the byte."""
    source = (SHARED / "servers" / "make_tiny_model.py").read_text()
    spec = importlib.util.spec_from_loader("scripts", loader=None)
    assert spec is not None
    names: dict[str, Any] = vars(importlib.util.module_from_spec(spec))
    exec(source[source.index("CALL = ") : source.index("TAGS = ")], names)
    found: dict[str, str] = names["SCRIPTS"]
    return found
