from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import check, faulty, read, sse

from harness.dialects.responses import ITEM_EVENTS, OLD_NAMES, READERS
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
from harness.message import Message

SHARED = Path(__file__).resolve().parents[2] / "shared"
RECORDED = sorted(SHARED.glob("corpus-local/*/responses/*.sse"))
CORPUS = sorted(SHARED.glob("corpus/openai-responses/*/*.sse"))
SCRIPT = (
    'Hello there! This is a small scripted model. It says "quoted words", a back\\slash,\n'
    "a new line, caf\u00e9, \u4e16\u754c and \U0001f600. That is all."
)

# -- builders: members that are None are left out


def ev(kind: str, item_id: Any = None, place: Any = None, **members: Any) -> dict[str, Any]:
    """One event; `kind` without its `response.`."""
    payload = {"type": f"response.{kind}", "item_id": item_id, "output_index": place, **members}
    return {key: value for key, value in payload.items() if value is not None}


def text(delta: str, item_id: Any = "msg_1", place: Any = 0, part: Any = 0) -> dict[str, Any]:
    return ev("output_text.delta", item_id, place, content_index=part, delta=delta)


def arguments(delta: str, item_id: Any = "fc_1", place: Any = 0) -> dict[str, Any]:
    return ev("function_call_arguments.delta", item_id, place, delta=delta)


def item(phase: str, kind: str, item_id: Any, place: Any = None, **members: Any) -> dict[str, Any]:
    """An output_item event."""
    body = {"id": item_id, "type": kind, **members}
    return ev(f"output_item.{phase}", place=place, item={key: v for key, v in body.items() if v is not None})


def message_item(item_id: Any, *texts: str, **members: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"id": item_id, "type": "message", "role": "assistant", "content": content, **members}


def call_item(item_id: Any, call_id: Any, name: Any, value: str, **members: Any) -> dict[str, Any]:
    return {"id": item_id, "type": "function_call", "call_id": call_id, "name": name, "arguments": value, **members}


def part(phase: str, kind: str, item_id: Any, place: Any = 0, index: int = 0, **members: Any) -> dict[str, Any]:
    return ev(f"content_part.{phase}", item_id, place, content_index=index, part={"type": kind, **members})


CREATED = ev("created", response={"id": "resp_1", "model": "m-1", "status": "in_progress", "output": []})
USAGE = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}


def terminal(status: str = "completed", output: Any = (), **members: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "model": "m-1", "status": status, "output": list(output), "usage": USAGE, **members}
    return ev(status, response=response)


def reading(payloads: list[Any]) -> tuple[list[Event], Message]:
    """Events and message; the same whatever the cut, with and without event lines."""
    events = check(sse(payloads, names=True), "responses", 1)
    bare, reducer = read(sse(payloads), "responses")
    assert [type(event) for event in bare] == [type(event) for event in events]
    return events, reducer.message()


def codes(message: Message) -> set[str]:
    return {note.code for note in message.notes}


def calls(message: Message) -> list[tuple[str, str, str, str]]:
    return [(call.id, call.name, call.arguments, call.type) for call in message.tool_calls]


# -- the documented course


WHOLE_TEXT = [
    CREATED, ev("in_progress", response={"id": "resp_1"}),
    item("added", "message", "msg_1", 0, role="assistant", content=[]),
    part("added", "output_text", "msg_1", text="", annotations=[]),
    text("Hello"), text(" there. \n"),
    ev("output_text.annotation.added", "msg_1", 0, content_index=0, annotation={"type": "url_citation"}),
    ev("output_text.done", "msg_1", 0, content_index=0, text="Hello there. \n"),
    part("done", "output_text", "msg_1", text="Hello there. \n"),
    ev("output_item.done", place=0, item=message_item("msg_1", "Hello there. \n")),
    terminal(output=[message_item("msg_1", "Hello there. \n")]),
]  # fmt: skip
WHOLE_CALL = [
    item("added", "function_call", "fc_1", 1, call_id="call_1", name="get_weather", arguments=""),
    arguments('{"city":', place=1), arguments('"Paris"}', place=1),
    ev("function_call_arguments.done", "fc_1", 1, arguments='{"city":"Paris"}'),
    ev("output_item.done", place=1, item=call_item("fc_1", "call_1", "get_weather", '{"city":"Paris"}')),
]  # fmt: skip
THINKING = [
    item("added", "reasoning", "rs_1", 2, summary=[]),
    ev("reasoning_summary_part.added", "rs_1", 2, summary_index=0, part={"type": "summary_text", "text": ""}),
    ev("reasoning_summary_text.delta", "rs_1", 2, summary_index=0, delta="Two plus"),
    ev("reasoning_summary_text.delta", "rs_1", 2, summary_index=0, delta=" two."),
    ev("reasoning_summary_text.done", "rs_1", 2, summary_index=0, text="Two plus two."),
    ev("reasoning_summary_part.done", "rs_1", 2, summary_index=0,
       part={"type": "summary_text", "text": "Two plus two."}),
    item("done", "reasoning", "rs_1", 2, summary=[{"type": "summary_text", "text": "Two plus two."}],
         encrypted_content="c2ln"),
]  # fmt: skip


def test_the_documented_course_of_a_text() -> None:
    events, message = reading(WHOLE_TEXT)
    assert [type(event) for event in events] == [
        Start, Item, Item, Text, Text, Item, Item, Item, Usage, Finish, End,
    ]  # fmt: skip
    assert (message.text, message.finish_reason, message.finish_raw) == ("Hello there. \n", "stop", "completed")
    assert (message.terminal, message.notes, message.tool_calls) == ("done", [], [])
    assert message.usage is not None
    assert (message.usage.input_tokens, message.usage.output_tokens) == (9, 4)
    assert [(e.item_type, e.phase, e.id) for e in events if isinstance(e, Item)] == [
        ("message", "added", "msg_1"), ("output_text", "part.added", "msg_1"), ("annotation", "added", "msg_1"),
        ("output_text", "part.done", "msg_1"), ("message", "done", "msg_1"),
    ]  # fmt: skip
    assert isinstance(events[0], Start)
    assert (events[0].id, events[0].model) == ("resp_1", "m-1")
    assert isinstance(events[-1], End)
    assert events[-1].marker == "response.completed"
    assert not any(event.whole for event in events if isinstance(event, Text))


def test_every_event_carries_its_bytes() -> None:
    body = sse([*WHOLE_TEXT[:-1], *WHOLE_CALL, *THINKING, WHOLE_TEXT[-1]])
    for event in check(body, "responses", 7):
        data = body[event.at : event.at + event.length]
        assert data.startswith(b"data: {")
        assert data.rstrip().endswith(b"}")


def test_a_call_is_told_once_and_its_id_is_the_call_id() -> None:
    events, message = reading([CREATED, *WHOLE_CALL, terminal()])
    assert calls(message) == [("call_1", "get_weather", '{"city":"Paris"}', "function")]
    fragments = [(e.index, e.wire_index, e.id, e.name, e.arguments, e.whole) for e in events if isinstance(e, ToolCall)]
    assert fragments == [
        (0, 1, "call_1", "get_weather", "", False),
        (0, 1, None, None, '{"city":', False), (0, 1, None, None, '"Paris"}', False),
    ]  # fmt: skip
    assert (message.finish_reason, message.finish_raw) == ("tool_calls", "completed")


def test_a_custom_call_passes_free_text() -> None:
    _, message = reading([
        item("added", "custom_tool_call", "ctc_1", 0, call_id="call_1", name="run_shell", input=""),
        ev("custom_tool_call_input.delta", "ctc_1", 0, delta="{echo"),
        ev("custom_tool_call_input.delta", "ctc_1", 0, delta=" hi}{"),
        ev("custom_tool_call_input.done", "ctc_1", 0, input="{echo hi}{"),
        item("done", "custom_tool_call", "ctc_1", 0, call_id="call_1", name="run_shell", input="{echo hi}{"),
        terminal(),
    ])  # fmt: skip
    assert calls(message) == [("call_1", "run_shell", "{echo hi}{", "custom")]


def test_reasoning_is_a_channel_apart() -> None:
    events, message = reading([CREATED, *THINKING, terminal()])
    assert (message.reasoning, message.text, message.finish_reason) == ("Two plus two.", "", "stop")
    assert [event.text for event in events if isinstance(event, Reasoning)] == ["Two plus", " two."]
    raw = [event.raw for event in events if isinstance(event, Item) and event.phase == "done"]
    assert raw[0]["encrypted_content"] == "c2ln"


def test_summary_and_thinking_both_count_but_one_text_under_two_names_counts_once() -> None:
    summary = [{"type": "summary_text", "text": "In short."}]
    content = [{"type": "reasoning_text", "text": "At length."}]
    pieces = [
        item("added", "reasoning", "rs_1", 0, summary=[]),
        ev("reasoning_text.delta", "rs_1", 0, content_index=0, delta="At "),
        ev("reasoning_text.delta", "rs_1", 0, content_index=0, delta="length."),
        ev("reasoning_text.done", "rs_1", 0, content_index=0, text="At length."),
    ]
    _, message = reading([*pieces, item("done", "reasoning", "rs_1", 0, summary=summary, content=content), terminal()])
    assert message.reasoning == "At length.In short."
    same = [{"type": "summary_text", "text": "At length."}]
    _, message = reading([*pieces, item("done", "reasoning", "rs_1", 0, summary=same), terminal()])
    assert message.reasoning == "At length."


def test_text_in_a_reasoning_item_is_thinking() -> None:
    output = [{"type": "reasoning", "id": "rs_1", "content": [{"type": "output_text", "text": "Hm."}]}]
    _, message = reading([terminal(output=output)])
    assert (message.text, message.reasoning) == ("", "Hm.")


def test_a_refusal() -> None:
    events, message = reading([
        item("added", "message", "msg_1", 0, content=[]), part("added", "refusal", "msg_1", refusal=""),
        ev("refusal.delta", "msg_1", 0, content_index=0, delta="I can't"),
        ev("refusal.delta", "msg_1", 0, content_index=0, delta=" help."),
        ev("refusal.done", "msg_1", 0, content_index=0, refusal="I can't help."),
        part("done", "refusal", "msg_1", refusal="I can't help."),
        item("done", "message", "msg_1", 0, content=[{"type": "refusal", "refusal": "I can't help."}]),
        terminal(),
    ])  # fmt: skip
    assert (message.refusal, message.text) == ("I can't help.", "")
    assert [event.text for event in events if isinstance(event, Refusal)] == ["I can't", " help."]


def test_a_part_that_could_refuse_is_no_refusal() -> None:
    _, message = reading([
        part("added", "refusal", "msg_1", refusal=""), part("added", "output_text", "msg_1", index=1, text=""),
        text("Yes.", part=1), terminal(),
    ])  # fmt: skip
    assert (message.refusal, message.text) == (None, "Yes.")


@pytest.mark.parametrize("prefix", ["output_audio", "audio"])
def test_sound_and_transcript(prefix: str) -> None:
    transcript = "output_audio_transcript" if prefix == "output_audio" else "audio.transcript"
    events, message = reading([
        ev(f"{prefix}.delta", "msg_1", 0, delta="UklG"), ev(f"{transcript}.delta", "msg_1", 0, delta="Hel"),
        ev(f"{transcript}.delta", "msg_1", 0, delta="lo"), ev(f"{prefix}.done", "msg_1", 0),
        ev(f"{transcript}.done", "msg_1", 0, transcript="Hello"), terminal(),
    ])  # fmt: skip
    audio = [(event.data, event.transcript) for event in events if isinstance(event, Audio)]
    assert audio == [("UklG", None), (None, "Hel"), (None, "lo")]
    assert codes(message) == (set() if prefix == "output_audio" else {"responses.deprecated-event"})
    events, _ = reading([ev(f"{transcript}.done", transcript="Hello"), terminal()])
    assert [event.transcript for event in events if isinstance(event, Audio)] == ["Hello"]
    events, _ = reading([part("done", "output_audio", "msg_1", data="", transcript="Hello"), terminal()])
    assert [event.transcript for event in events if isinstance(event, Audio)] == ["Hello"]


@pytest.mark.parametrize(("kind", "ending"), [(kind, e) for kind, endings in ITEM_EVENTS.items() for e in endings])
def test_what_the_server_runs_itself_is_an_item_and_no_call(kind: str, ending: str) -> None:
    delta = {"delta": '{"a":1}', "arguments": "{}", "code": "1+1"}
    events, message = reading([
        item("added", kind, "x_1", 0, status="in_progress"), ev(kind + ending, "x_1", 0, **delta),
        item("done", kind, "x_1", 0, status="completed", arguments="{}", name="n"),
        terminal(output=[{"id": "x_1", "type": kind, "arguments": "{}"}]),
    ])  # fmt: skip
    items = [(event.item_type, event.phase, event.id) for event in events if isinstance(event, Item)]
    assert items == [(kind, "added", "x_1"), (kind, ending[1:], "x_1"), (kind, "done", "x_1")]
    assert (message.tool_calls, message.finish_reason, message.text) == ([], "stop", "")
    assert not any(isinstance(event, Unknown) for event in events)


@pytest.mark.parametrize("kind", ["computer_call", "local_shell_call", "mcp_approval_request", "tool_search_call"])
def test_items_without_events_of_their_own(kind: str) -> None:
    done = item("done", kind, "x_1", 0, action={"type": "click"})
    events, message = reading([done, terminal(output=[{"type": kind}])])
    assert [(event.item_type, event.phase) for event in events if isinstance(event, Item)] == [(kind, "done")]
    assert message.tool_calls == []
    events, _ = reading([terminal(output=[{"id": "x_1", "type": kind}])])
    assert [(event.item_type, event.phase) for event in events if isinstance(event, Item)] == [(kind, "final")]


def test_every_event_of_the_vendors_own_union_is_read() -> None:
    openai = pytest.importorskip("openai.types.responses")
    union = get_args(get_args(openai.ResponseStreamEvent)[0])
    names = {get_args(model.model_fields["type"].annotation)[0] for model in union}
    assert names > {"response.completed", "error"}
    assert names <= READERS.keys() | OLD_NAMES.keys()
    assert set(OLD_NAMES.values()) <= READERS.keys()
    assert not OLD_NAMES.keys() & READERS.keys()


# -- old names, other members


@pytest.mark.parametrize("old", sorted(OLD_NAMES))
def test_old_names_are_read_as_the_new_ones(old: str) -> None:
    members = {"delta": "x", "text": "x", "arguments": "x", "transcript": "x", "annotation": {}}
    head = {"item_id": "i_1", "output_index": 0}
    events, message = reading([{"type": old, **head, **members}, terminal()])
    new, plain = reading([{"type": OLD_NAMES[old], **head, **members}, terminal()])
    assert [type(event) for event in events] == [type(event) for event in new]
    assert not any(isinstance(event, Unknown) for event in events)
    assert codes(message) == {"responses.deprecated-event"}
    assert codes(plain) == set()


def test_a_plain_message_is_text() -> None:
    for member in ("delta", "text", "content"):
        _, message = reading([{"type": "message", member: "Hel"}, {"type": "message", member: "lo"}, terminal()])
        assert message.text == "Hello", member
        assert "responses.deprecated-event" in codes(message)
    named = b'event: message\ndata: {"delta":"Hi"}\n\n'
    assert read(named, "responses")[1].message().text == "Hi"
    _, message = reading([{**message_item("msg_1", "Hello"), "status": "completed"}, terminal()])
    assert message.text == "Hello"
    _, message = reading([message_item(None, "One."), message_item(None, "Two."), terminal()])
    assert message.text == "One.Two."
    events, message = reading([{"type": "message", "role": "assistant"}, terminal()])
    assert [event.name for event in events if isinstance(event, Unknown)] == ["message"]


def test_a_piece_in_another_member_is_read_and_noted() -> None:
    for member, value in (("text", "Hi"), ("part", "Hi"), ("part", {"text": "Hi"}), ("content", "Hi")):
        _, message = reading([ev("output_text.delta", "msg_1", 0, content_index=0, **{member: value}), terminal()])
        assert message.text == "Hi", member
        assert codes(message) == {"responses.piece-elsewhere"}
    _, message = reading([ev("output_text.delta", "msg_1", 0, delta={"text": "Hi"}), terminal()])
    assert (message.text, codes(message)) == ("Hi", {"responses.piece-elsewhere"})
    for member in ("arguments", "text", "part", "input"):
        pieces = [ev("function_call_arguments.delta", "fc_1", 1, **{member: piece}) for piece in ("{", "}")]
        _, message = reading([WHOLE_CALL[0], *pieces, terminal()])
        assert calls(message) == [("call_1", "get_weather", "{}", "function")]
        assert codes(message) == {"responses.piece-elsewhere"}
    _, message = reading([ev("output_text.done", "msg_1", 0, content_index=0, part={"text": "Hi"}), terminal()])
    assert (message.text, codes(message)) == ("Hi", {"responses.piece-elsewhere"})
    _, message = reading([ev("content_part.done", "msg_1", 0, content_index=0, text="Hi"), terminal()])
    assert (message.text, codes(message)) == ("Hi", {"responses.piece-elsewhere"})


def test_pieces_of_another_type() -> None:
    events, message = reading([ev("output_text.delta", "msg_1", 0, delta=5), text("a"), terminal()])
    assert message.text == "a"
    assert codes(message) == {"text.not-a-string"}
    assert [event.name for event in events if isinstance(event, Unknown)] == ["response.output_text.delta"]
    _, message = reading([WHOLE_CALL[0], ev("function_call_arguments.done", "fc_1", 1, arguments={"a": 1}), terminal()])
    assert calls(message) == [("call_1", "get_weather", '{"a":1}', "function")]
    assert codes(message) == {"tool.arguments-object"}


# -- which item


def test_interleaved_calls_are_told_apart_by_id() -> None:
    _, message = reading([
        item("added", "function_call", "fc_a", 0, call_id="call_a", name="a", arguments=""),
        item("added", "function_call", "fc_b", 1, call_id="call_b", name="b", arguments=""),
        arguments("{", "fc_a", 0), arguments('{"x"', "fc_b", 1), arguments("}", "fc_a", 0), arguments(":1}", "fc_b", 1),
        ev("function_call_arguments.done", "fc_b", 1, arguments='{"x":1}'),
        ev("function_call_arguments.done", "fc_a", 0, arguments="{}"),
        terminal(),
    ])  # fmt: skip
    assert calls(message) == [("call_a", "a", "{}", "function"), ("call_b", "b", '{"x":1}', "function")]


@pytest.mark.parametrize(
    ("item_id", "place"), [("same", 0), ("other", 0), (None, 0), ("same", None), (None, None)]
)  # fmt: skip
def test_items_are_matched_by_id_else_by_place_else_by_type(item_id: Any, place: Any) -> None:
    """Each event gives the same id, another or none."""
    ids = iter(f"msg_{n}" for n in range(9)) if item_id == "other" else iter([item_id] * 9)
    _, message = reading([
        item("added", "message", next(ids), place, content=[]),
        text("Hel", next(ids), place), text("lo", next(ids), place),
        ev("output_text.done", next(ids), place, content_index=0, text="Hello"),
        ev("output_item.done", place=place, item=message_item(next(ids), "Hello")),
        terminal(output=[message_item(next(ids), "Hello")]),
    ])  # fmt: skip
    assert message.text == "Hello"


def test_output_under_other_ids_matches_in_order_if_nothing_is_missing_else_by_place() -> None:
    streamed = [item("added", "reasoning", "rs_1", 0, summary=[]), text("One.", "msg_1", 1), text("Two.", "msg_2", 2)]
    output = [message_item("x", "One!"), message_item("y", "Two!")]
    _, message = reading([*streamed, terminal(output=output)])  # positions are 0 and 1
    assert message.text == "One!Two!"
    _, message = reading([*streamed, terminal(output=[{"type": "reasoning"}, *output, message_item("z", "Three!")])])
    assert message.text == "One!Two!Three!"
    partial = [{"type": "reasoning"}, {"type": "x"}, message_item("z", "Two!")]
    _, message = reading([*streamed, terminal(output=partial)])
    assert message.text == "One.Two!"
    _, message = reading([text("One.", "msg_1", 1), terminal(output=[*output, message_item("z", "Three!")])])
    assert sorted(message.text.split("!")) == ["", "One", "Three", "Two"]


def test_a_message_and_a_call_at_one_place() -> None:
    _, message = reading([
        item("added", "message", "msg_1", 0, content=[]), text("Let me see."),
        item("added", "function_call", "fc_1", 0, call_id="call_1", name="n", arguments=""), arguments("{}"),
        terminal(output=[message_item("msg_1", "Let me see."), call_item("fc_1", "call_1", "n", "{}")]),
    ])  # fmt: skip
    assert message.text == "Let me see."
    assert calls(message) == [("call_1", "n", "{}", "function")]


def test_two_calls_that_share_place_or_item_id() -> None:
    for ids in (("fc_a", "fc_b"), ("fc", "fc"), (None, None)):
        done = [call_item(ids[0], "call_a", "a", "{}"), call_item(ids[1], "call_b", "b", "[]")]
        for phase in ("added", "done"):
            _, message = reading([*(ev(f"output_item.{phase}", place=0, item=entry) for entry in done), terminal()])
            if phase == "added" or ids[0] != "fc":
                expected = [("call_a", "a", "{}", "function"), ("call_b", "b", "[]", "function")]
                assert calls(message) == expected, (ids, phase)
    _, message = reading([  # one item id for all calls, told apart by place
        item("added", "function_call", "fc", 0, call_id="call_a", name="a", arguments=""),
        item("added", "function_call", "fc", 1, call_id="call_b", name="b", arguments=""),
        arguments("{}", "fc", 0), arguments("[]", "fc", 1), terminal(),
    ])  # fmt: skip
    assert calls(message) == [("call_a", "a", "{}", "function"), ("call_b", "b", "[]", "function")]


def test_an_item_sent_again_at_another_place_is_a_copy() -> None:
    again = [
        item("added", "message", "msg_1", 1, content=[]), part("added", "output_text", "msg_1", 1, text=""),
        ev("output_text.done", "msg_1", 1, content_index=0, text="Hello there. \n"),
        ev("output_item.done", place=1, item=message_item("msg_1", "Hello there. \n")),
    ]  # fmt: skip
    _, message = reading([*WHOLE_TEXT[:-1], *again, WHOLE_TEXT[-1]])
    assert message.text == "Hello there. \n"


def test_pieces_before_their_item_is_added() -> None:
    _, message = reading([
        text("Hel"), arguments("{", "fc_1", 1), item("added", "message", "msg_x", 0, content=[]),
        item("added", "function_call", "fc_x", 1, call_id="call_1", name="n", arguments=""),
        text("lo", "msg_x"), arguments("}", "fc_x", 1), terminal(),
    ])  # fmt: skip
    assert message.text == "Hello"
    assert calls(message) == [("call_1", "n", "{}", "function")]


def test_interleaved_items_come_out_in_the_order_they_opened() -> None:
    opened = [
        item("added", "message", "msg_a", 0, content=[]), part("added", "output_text", "msg_a", 0, text=""),
        item("added", "message", "msg_b", 1, content=[]), part("added", "output_text", "msg_b", 1, text=""),
    ]  # fmt: skip
    _, message = reading([
        *opened, text("b1 ", "msg_b", 1), text("a1 ", "msg_a", 0), text("b2 ", "msg_b", 1), text("a2 ", "msg_a", 0),
        terminal(),
    ])  # fmt: skip
    assert message.text == "a1 a2 b1 b2 "
    _, message = reading([text("x", part=1), text("a", part=0), text("y", part=1), terminal()])
    assert message.text == "xya"


def test_the_last_id_wins_over_the_cache() -> None:
    """Pieces go where the one before went only while nothing says otherwise."""
    _, message = reading([
        item("added", "message", None, 0, content=[]), text("a", None, 0),
        item("added", "message", None, 0, content=[]), text("b", None, 0),
        ev("output_item.done", place=0, item=message_item(None, "B")), terminal(),
    ])  # fmt: skip
    assert message.text == "aB"


# -- done against deltas


def test_done_values_replace_what_was_joined() -> None:
    done = ev("output_text.done", "msg_1", 0, content_index=0, text="Hello")
    events, message = reading([text("Helo"), done, terminal()])
    assert message.text == "Hello"
    assert [(event.text, event.whole) for event in events if isinstance(event, Text)] == [
        ("Helo", False), ("Hello", True),
    ]  # fmt: skip
    _, message = reading([text("Helo"), part("done", "output_text", "msg_1", text="Hello"), terminal()])
    assert message.text == "Hello"
    closed = ev("output_item.done", place=0, item=message_item("msg_1", "Hello"))
    _, message = reading([text("Helo"), closed, terminal()])
    assert message.text == "Hello"
    _, message = reading([text("Helo"), terminal(output=[message_item("msg_1", "Hello")])])
    assert message.text == "Hello"


def test_empty_values_replace_nothing() -> None:
    _, message = reading([
        text("Hello"), *WHOLE_CALL[:3], ev("output_text.done", "msg_1", 0, content_index=0, text=""),
        part("done", "output_text", "msg_1", text=""), ev("output_item.done", place=0, item=message_item("msg_1", "")),
        ev("function_call_arguments.done", "fc_1", 1, arguments=""),
        ev("output_item.done", place=1, item=call_item("fc_1", "", "", "")),
        terminal(output=[{"id": "msg_1", "type": "message", "content": None}, {"type": "function_call"}]),
    ])  # fmt: skip
    assert message.text == "Hello"
    assert calls(message) == [("call_1", "get_weather", '{"city":"Paris"}', "function")]


def test_parts_of_one_item() -> None:
    streamed = [text("One."), text("Two", part=1)]
    _, message = reading([*streamed, terminal(output=[message_item("msg_1", "One.", "Two.")])])
    assert message.text == "One.Two."
    _, message = reading([*streamed, terminal(output=[message_item("msg_1", "All of it.")])])
    assert message.text == "All of it."
    _, message = reading([*streamed, terminal(output=[message_item("msg_1", "One.", "Two.", "Three.")])])
    assert message.text == "One.Two.Three."
    events, message = reading([  # counted from 1 in the deltas, from 0 afterwards
        text("Hi", part=1), ev("output_text.done", "msg_1", 0, content_index=0, text="Hi"),
        terminal(output=[message_item("msg_1", "Hi")]),
    ])  # fmt: skip
    assert [event.text for event in events if isinstance(event, Text)] == ["Hi"]
    _, message = reading([text("Hi", part=1), terminal(output=[message_item("msg_1", "Hi!")])])
    assert message.text == "Hi!"
    _, message = reading([text("B", part=2), terminal(output=[message_item("msg_1", "A", "x", "B")])])
    assert message.text == "AxB"


def test_calls_whose_value_comes_at_once() -> None:
    opened = item("added", "function_call", "fc_1", 0, call_id="call_1", name="n", arguments="")
    done = ev("function_call_arguments.done", "fc_1", 0, arguments="{}")
    closed = ev("output_item.done", place=0, item=call_item("fc_1", "call_1", "n", "{}"))
    final = terminal(output=[call_item("fc_1", "call_1", "n", "{}")])
    for payloads in ([opened, done, closed, final], [opened, done], [closed], [final], [done, closed], [opened, final],
                     [arguments("{"), arguments("}"), closed], [arguments("{"), final]):  # fmt: skip
        _, message = reading([*payloads, terminal()])
        assert calls(message) == [("call_1", "n", "{}", "function")], payloads
        assert message.finish_reason == "tool_calls"


def test_a_call_that_changes_its_id_keeps_the_first() -> None:
    _, message = reading([
        *WHOLE_CALL[:3], ev("output_item.done", place=1, item=call_item("fc_1", "call_2", "get_weather", "{}")),
        terminal(),
    ])  # fmt: skip
    assert calls(message) == [("call_1", "get_weather", "{}", "function")]
    assert codes(message) == {"tool.id-changes"}
    events, _ = reading(WHOLE_CALL[1:3])
    assert [event.id for event in events if isinstance(event, ToolCall)] == [None, None]


def test_calls_are_numbered_by_place() -> None:
    _, message = reading([
        item("added", "function_call", "b", 3, call_id="call_b", name="b", arguments="{}"),
        item("added", "function_call", "a", 1, call_id="call_a", name="a", arguments="{}"), terminal(),
    ])  # fmt: skip
    assert [call.id for call in message.tool_calls] == ["call_a", "call_b"]


def test_output_of_a_status_event_counts_before_anything_was_streamed() -> None:
    resumed = ev("in_progress", response={"id": "r", "output": [message_item("msg_1", "Hel")]})
    _, message = reading([resumed, text("lo"), resumed, terminal()])
    assert message.text == "Hello"


# -- the end


@pytest.mark.parametrize(
    ("details", "raw", "reason"),
    [({"reason": "max_output_tokens"}, "max_output_tokens", "length"),
     ({"reason": "content_filter"}, "content_filter", "content_filter"), ({"reason": "moods"}, "moods", "other"),
     ({"reason": 7}, "7", "other"), (None, "incomplete", "other"),
     ("max_output_tokens", "max_output_tokens", "length")],
)  # fmt: skip
def test_incomplete(details: Any, raw: str, reason: str) -> None:
    events, message = reading([text("Once"), *WHOLE_CALL, terminal("incomplete", incomplete_details=details)])
    assert (message.finish_raw, message.finish_reason, message.terminal) == (raw, reason, "done")
    assert isinstance(events[-1], End)
    assert events[-1].marker == "response.incomplete"


def test_failed_carries_its_error_in_the_response_object() -> None:
    error = {"code": "server_error", "message": "internal failure"}
    for payload in (terminal("failed", error=error), {"type": "response.failed", "error": error}):
        _, message = reading([CREATED, text("Hello th"), payload])
        assert (message.text, message.finish_raw, message.finish_reason) == ("Hello th", "failed", "error")
        assert message.error is not None
        assert (message.error.type, message.error.code, message.error.message, message.terminal) == (
            None, "server_error", "internal failure", "error",
        )  # fmt: skip
    _, message = reading([terminal("failed")])
    assert message.error is not None
    assert (message.terminal, message.error.message) == ("error", None)
    _, message = reading([terminal("completed", error={"message": "no"})])
    assert (message.terminal, message.finish_raw) == ("error", "completed")


NESTED = {"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow"}}


@pytest.mark.parametrize(
    ("payload", "kind", "code", "told"),
    [({"type": "error", "code": "c", "message": "slow", "param": None}, None, "c", "slow"),
     (NESTED, "tokens", "rate_limit_exceeded", "slow"), ({"error": {"code": 500, "message": "m"}}, None, 500, "m"),
     ({"error": "text"}, None, None, "text"), ({"detail": "Not found"}, None, None, "Not found"),
     ({"type": "response.error", "message": "m", "code": "c"}, None, "c", "m"),
     ({"type": "invalid_request_error", "message": "m"}, "invalid_request_error", None, "m")],
)  # fmt: skip
def test_errors(payload: dict[str, Any], kind: Any, code: Any, told: Any) -> None:
    events, reducer = read(sse([CREATED, text("Hello"), payload, text("more"), terminal("failed")]), "responses")
    message = reducer.message()
    assert message.error is not None
    assert (message.error.type, message.error.code, message.error.message) == (kind, code, told)
    assert (message.text, message.terminal, message.finish_raw) == ("Hello", "error", None)
    assert isinstance(events[-1], Error)
    assert codes(message) == {"error.data-after"}


def test_an_event_named_error_is_one() -> None:
    for data in (b'{"type":"error","code":"c","message":"m"}', b'{"code":"c","message":"m"}',
                 b'{"type":"response.failed","response":{"error":{"code":"c","message":"m"}}}'):  # fmt: skip
        message = read(b"event: error\ndata: " + data + b"\n\n", "responses")[1].message()
        assert message.error is not None
        assert (message.error.type, message.error.code, message.error.message) == (None, "c", "m")


def test_no_terminal_is_a_truncated_stream_and_chats_marker_is_foreign() -> None:
    _, message = reading(WHOLE_TEXT[:-1])
    assert (message.text, message.terminal, message.finish_raw) == ("Hello there. \n", "truncated", None)
    body = sse(WHOLE_TEXT) + b"data: [DONE]\n\n"
    assert read(body, "responses")[1].message().terminal == "done"
    body = sse(WHOLE_TEXT[:-1]) + b"data: [DONE]\n\n" + sse(WHOLE_TEXT[-1:])
    message = read(body, "responses")[1].message()
    assert (message.terminal, codes(message)) == ("done", {"end.marker-foreign"})


def test_the_event_name_stands_in_for_a_missing_type() -> None:
    body = b'event: response.output_text.delta\ndata: {"delta":"Hi"}\n\nevent: response.completed\ndata: {}\n\n'
    message = read(body, "responses")[1].message()
    assert (message.text, message.terminal) == ("Hi", "done")
    events = check(b'event: x\ndata: {"type":"response.output_text.delta","delta":"Hi"}\n\n', "responses", 1)
    assert [event.text for event in events if isinstance(event, Text)] == ["Hi"]


def test_what_nobody_documents_is_unknown() -> None:
    payloads: list[Any] = [
        {"type": "keepalive"}, ev("new_thing.delta", delta="x"), {"choices": []}, {"object": "response"}, {"type": [1]},
        ev("output_item.added", item=None), ev("output_item.done", item={"type": 3}),
    ]  # fmt: skip
    events, message = reading([*payloads, terminal()])
    assert [event.name for event in events if isinstance(event, Unknown)] == [
        "keepalive", "response.new_thing.delta", "payload", "response", "[1]",
        "response.output_item.added", "response.output_item.done",
    ]  # fmt: skip
    assert (message.text, message.terminal) == ("", "done")
    _, message = reading([None, [1], "x", terminal()])
    assert codes(message) == {"sse.data-not-object"}


def test_usage_under_other_names_and_places() -> None:
    other = {"prompt_tokens": 3, "completion_tokens": 2.0}
    for payload in (terminal(usage=other), {**terminal(usage=None), "usage": other}):
        events, message = reading([payload])
        assert message.usage is not None
        assert (message.usage.input_tokens, message.usage.output_tokens) == (3, 2)
        assert [event.raw for event in events if isinstance(event, Usage)] == [other]


# -- whatever a server sends

EVERYTHING = [
    *WHOLE_TEXT[:-1], *WHOLE_CALL, *THINKING,
    ev("reasoning_text.delta", "rs_1", 2, content_index=0, delta="Hm."),
    item("added", "custom_tool_call", "ctc_1", 3, call_id="call_2", name="run", input=""),
    ev("custom_tool_call_input.delta", "ctc_1", 3, delta="echo"),
    ev("refusal.delta", "msg_1", 0, content_index=1, delta="No."),
    ev("text.delta", "msg_2", 4, text="old"), {"type": "message", "content": "plain"},
    ev("web_search_call.searching", "ws_1", 5), ev("output_audio.delta", "msg_1", 0, delta="UklG"),
    terminal(output=[
        message_item("msg_1", "Hello there. \n"), call_item("fc_1", "call_1", "get_weather", "{}"),
        {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Two."}]},
    ]),
]  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(st.sampled_from([EVERYTHING, WHOLE_TEXT, [CREATED, NESTED, terminal("failed", error={"message": "m"})]])
       .flatmap(faulty), st.integers(1, 60), st.booleans())  # fmt: skip
def test_faulty_payloads_never_raise_and_the_cut_never_shows(payloads: list[Any], piece: int, names: bool) -> None:
    check(sse(payloads, names=names), "responses", piece)


@pytest.mark.skipif(not RECORDED, reason="no recorded streams here")
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_recorded_streams(path: Path) -> None:
    body = path.read_bytes()
    events = check(body, "responses", 7)
    assert not any(isinstance(event, Unknown) for event in events)
    if path.stem == "text":
        message = read(body, "responses")[1].message()
        # A reasoning parser takes text without an end tag for thinking.
        assert message.text + message.reasoning == SCRIPT
        assert (message.finish_raw, message.terminal) == ("completed", "done")


@pytest.mark.skipif(not CORPUS, reason="no corpus here")
def test_recorded_streams_of_others_hold_nothing_unknown() -> None:
    for path in CORPUS:
        events = check(path.read_bytes(), "responses", 7)
        assert not any(isinstance(event, Unknown) for event in events), path.stem
