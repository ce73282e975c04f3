from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import check, faulty, read, sse

from harness.events import End, Error, Event, Finish, Start, Text, Unknown, Usage
from harness.message import Message

SHARED = Path(__file__).resolve().parents[2] / "shared"
RECORDED = sorted(SHARED.glob("corpus-local/*/completions/*.sse"))
SCRIPT = (
    'Hello there! This is a small scripted model. It says "quoted words", a back\\slash,\n'
    "a new line, caf\u00e9, \u4e16\u754c and \U0001f600. That is all."
)
DONE = b"data: [DONE]\n\n"


def chunk(text: Any = "", finish: Any = None, number: Any = 0, **more: Any) -> dict[str, Any]:
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1700000000, "model": "m-1"}
    choice = {"text": text, "index": number, "logprobs": None, "finish_reason": finish}
    return {**head, "choices": [choice], **more}


def reading(payloads: list[Any], done: bytes = DONE) -> tuple[list[Event], Message]:
    body = sse(payloads) + done
    return check(body, "completions", 1), read(body, "completions")[1].message()


def codes(message: Message) -> set[str]:
    return {note.code for note in message.notes}


WHOLE = [
    chunk("Hel"), chunk(""), chunk("lo \n", "length"),
    chunk(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2}),
]  # fmt: skip


def test_the_documented_course() -> None:
    events, message = reading(WHOLE)
    assert [type(event) for event in events] == [Start, Text, Text, Finish, Usage, End]
    assert (message.text, message.finish_reason, message.finish_raw) == ("Hello \n", "length", "length")
    assert (message.terminal, message.notes) == ("done", [])
    assert message.usage is not None
    assert (message.usage.input_tokens, message.usage.output_tokens) == (3, 2)
    assert isinstance(events[0], Start)
    assert (events[0].id, events[0].model, events[0].role) == ("cmpl-1", "m-1", None)
    assert isinstance(events[-1], End)
    assert events[-1].marker == "[DONE]"


def test_several_choices() -> None:
    pair = chunk()
    pair["choices"] = [{"text": "b"}, {"text": "c", "index": None}]
    ends = [chunk("", "stop", 0), chunk("", "length", 1)]
    _, message = reading([chunk("A", number=0), chunk("X", number=1), pair, *ends])
    assert [(choice.choice, choice.text, choice.finish_raw) for choice in message.choices] == [
        (0, "Ab", "stop"), (1, "Xc", "length"),
    ]  # fmt: skip
    assert message.text == "Ab"


def test_ends() -> None:
    assert reading(WHOLE, b"")[1].terminal == "finish"
    assert reading(WHOLE[:1], b"")[1].terminal == "truncated"
    assert reading(WHOLE[:1])[1].terminal == "done"
    reasons = ("stop", "content_filter", "eos", "why", "", 7)
    assert [reading([chunk("a", reason)])[1].finish_reason for reason in reasons] == [
        "stop", "content_filter", "stop", "other", None, "other",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "kind", "code", "told"),
    [({"error": {"type": "server_error", "code": 500, "message": "m"}}, "server_error", 500, "m"),
     ({"error": "text"}, None, None, "text"), (chunk("", error={"message": "m"}), None, None, "m"),
     ({**chunk(), "choices": [{"index": 0, "error": {"message": "m", "code": "c"}}]}, None, "c", "m"),
     ({"object": "error", "message": "m", "code": 40301}, None, 40301, "m")],
)  # fmt: skip
def test_errors_keep_what_came_before(payload: dict[str, Any], kind: Any, code: Any, told: Any) -> None:
    later = chunk("more", usage={"prompt_tokens": 1, "completion_tokens": 1})
    events, message = reading([chunk("Hello"), payload, later])
    assert message.error is not None
    assert (message.error.type, message.error.code, message.error.message) == (kind, code, told)
    assert (message.text, message.terminal) == ("Hello", "error")
    assert message.usage is not None  # billed all the same
    assert sum(isinstance(event, Error) for event in events) == 1
    assert "error.data-after" in codes(message)


def test_an_event_named_error_is_one() -> None:
    message = read(b'event: error\ndata: {"message":"m","code":1}\n\n', "completions")[1].message()
    assert message.error is not None
    assert (message.error.message, message.terminal) == ("m", "error")


def test_usage_wherever_it_stands() -> None:
    inside = chunk("a")
    inside["choices"][0]["usage"] = {"prompt_tokens": 5}
    _, message = reading([inside, {"usage": {"completion_tokens": 6}}, {**chunk(), "choices": None}])
    assert message.usage is not None
    assert (message.usage.input_tokens, message.usage.output_tokens) == (5, 6)


def test_what_nobody_documents_is_unknown() -> None:
    chat = chunk()
    chat["choices"] = [{"index": 0, "delta": {"content": "x"}}, 5]
    events, message = reading([{"type": "ping"}, {"content": "x"}, chat, chunk(["t"]), chunk(None), None])
    assert [event.name for event in events if isinstance(event, Unknown)] == [
        "ping", "payload", "choices[].delta", "choices[]", "choices[].text",
    ]  # fmt: skip
    assert message.text == ""
    assert codes(message) == {"sse.data-not-object", "text.not-a-string"}


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([WHOLE, [chunk("a", number=1), {"error": {"message": "m"}}, chunk("b")]]).flatmap(faulty),
       st.integers(1, 60))  # fmt: skip
def test_faulty_payloads_never_raise_and_the_cut_never_shows(payloads: list[Any], piece: int) -> None:
    check(sse(payloads) + DONE, "completions", piece)


@pytest.mark.skipif(not RECORDED, reason="no recorded streams here")
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_recorded_streams(path: Path) -> None:
    body = path.read_bytes()
    events = check(body, "completions", 7)
    assert not any(isinstance(event, Unknown) for event in events)
    if path.stem == "text":
        message = read(body, "completions")[1].message()
        assert (message.text, message.finish_raw) == (SCRIPT, "stop")
