from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import check, faulty, read, sse

from harness.dialects.gemini import PARTS, StreamedCall
from harness.events import Audio, Event, Finish, Item, Reasoning, Start, Text, ToolCall, Unknown, Usage
from harness.message import Message


def chunk(*parts: Any, reason: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "modelVersion": "m-1", "responseId": "r-1", **more}


def usage(prompt: int, candidates: int) -> dict[str, Any]:
    return {"promptTokenCount": prompt, "candidatesTokenCount": candidates, "totalTokenCount": prompt + candidates}


def call(name: str | None, args: Any = None, **more: Any) -> dict[str, Any]:
    given = {"name": name, "args": args, **more}
    return {"functionCall": {key: value for key, value in given.items() if value is not None}}


def reading(payloads: list[Any]) -> tuple[list[Event], Message]:
    """Events and message; the same whatever the cut."""
    body = sse(payloads)
    return check(body, "gemini", 1), read(body, "gemini")[1].message()


def codes(message: Message) -> set[str]:
    return {note.code for note in message.notes}


def test_the_documented_course_of_a_response() -> None:
    events, message = reading([
        chunk({"text": "Two plus two.", "thought": True}, usageMetadata=usage(9, 1)),
        chunk({"text": "It is "}, {"text": "4 \n"}),
        chunk({"text": "", "thoughtSignature": "c2ln"}, reason="STOP", usageMetadata=usage(9, 4)),
    ])  # fmt: skip
    assert [type(event) for event in events] == [Start, Reasoning, Usage, Text, Text, Item, Finish, Usage]
    assert isinstance(events[0], Start)
    assert (events[0].id, events[0].model, events[0].role) == ("r-1", "m-1", "model")
    assert (message.reasoning, message.text) == ("Two plus two.", "It is 4 \n")
    assert (message.finish_reason, message.finish_raw, message.terminal) == ("stop", "STOP", "finish")
    assert message.usage is not None
    assert (message.usage.input_tokens, message.usage.output_tokens) == (9, 4)
    assert message.notes == []


def test_each_function_call_is_a_call_of_its_own() -> None:
    events, message = reading([
        chunk(call("weather", {"city": "Öslo", "days": 2}), {"text": "and "}),
        chunk(call("weather", {"city": "Rome"}, id="c-2"), call("list"), reason="STOP"),
    ])  # fmt: skip
    fragments = [event for event in events if isinstance(event, ToolCall)]
    assert [(event.index, event.wire_index, event.id, event.name, event.arguments) for event in fragments] == [
        (0, None, None, "weather", '{"city":"Öslo","days":2}'), (1, None, "c-2", "weather", '{"city":"Rome"}'),
        (2, None, None, "list", "{}"),
    ]  # fmt: skip
    assert [found.id for found in message.tool_calls] == ["", "c-2", ""]
    assert (message.finish_reason, message.finish_raw, message.text) == ("tool_calls", "STOP", "and ")


def test_a_call_after_the_stop_makes_it_a_stop_for_calls() -> None:
    _, message = reading([chunk({"text": "x"}, reason="STOP"), chunk(call("f", {"a": 1}))])
    assert (message.finish_reason, message.finish_raw) == ("tool_calls", "STOP")
    _, message = reading([chunk({"text": "x"}, reason="MAX_TOKENS"), chunk(call("f", {"a": 1}))])
    assert message.finish_reason == "length"


def test_arguments_as_a_string_are_kept_and_noted() -> None:
    _, message = reading([chunk(call("f", '{"a":1}'), reason="STOP")])
    assert message.tool_calls[0].arguments == '{"a":1}'
    assert codes(message) == {"gemini.arguments-string"}


@pytest.mark.parametrize(("raw", "reason"), [
    ("STOP", "stop"), ("MAX_TOKENS", "length"), ("CONTINUATION", "length"), ("SAFETY", "content_filter"),
    ("RECITATION", "content_filter"), ("BLOCKLIST", "content_filter"), ("PROHIBITED_CONTENT", "content_filter"),
    ("SPII", "content_filter"), ("IMAGE_SAFETY", "content_filter"), ("IMAGE_PROHIBITED_CONTENT", "content_filter"),
    ("IMAGE_RECITATION", "content_filter"), ("MODEL_ARMOR", "content_filter"), ("ESCALATION", "content_filter"),
    ("MALFORMED_FUNCTION_CALL", "error"), ("MALFORMED_RESPONSE", "error"), ("MISSING_THOUGHT_SIGNATURE", "error"),
    ("UNEXPECTED_TOOL_CALL", "other"), ("TOO_MANY_TOOL_CALLS", "other"), ("LANGUAGE", "other"), ("OTHER", "other"),
    ("IMAGE_OTHER", "other"), ("NO_IMAGE", "other"), ("PUP_LIMITED_DISABLED", "other"), ("SOMETHING_NEW", "other"),
    ("FINISH_REASON_UNSPECIFIED", "other"),
])  # fmt: skip
def test_finish_reasons(raw: str, reason: str) -> None:
    _, message = reading([{"candidates": [{"content": {}, "finishReason": raw, "finishMessage": "why"}]}])
    assert (message.finish_reason, message.finish_raw, message.terminal) == (reason, raw, "finish")


@pytest.mark.parametrize(("raw", "reason"), [
    ("SAFETY", "content_filter"), ("BLOCKLIST", "content_filter"), ("PROHIBITED_CONTENT", "content_filter"),
    ("IMAGE_SAFETY", "content_filter"), ("MODEL_ARMOR", "content_filter"), ("JAILBREAK", "content_filter"),
    ("OTHER", "other"), ("BLOCKED_REASON_UNSPECIFIED", "other"),
])  # fmt: skip
def test_a_blocked_prompt_finishes_with_its_block_reason(raw: str, reason: str) -> None:
    _, message = reading([{"promptFeedback": {"blockReason": raw, "safetyRatings": []}, "modelVersion": "m-1"}])
    assert (message.finish_reason, message.finish_raw, message.terminal) == (reason, raw, "finish")
    assert codes(message) == {"gemini.prompt-blocked"}


def test_feedback_without_a_block_reason_says_nothing() -> None:
    _, message = reading([chunk({"text": "x"}, promptFeedback={"safetyRatings": []})])
    assert (message.finish_raw, message.terminal, message.notes) == (None, "truncated", [])


@pytest.mark.parametrize("kind", sorted(PARTS))
def test_every_documented_part_is_an_item(kind: str) -> None:
    events, message = reading([chunk({kind: {"id": "i-1", "data": "x"}}, reason="STOP")])
    items = [(event.item_type, event.id) for event in events if isinstance(event, Item)]
    assert items == [(kind, "i-1")]
    assert not any(isinstance(event, Unknown) for event in events)
    assert (message.text, message.tool_calls, message.finish_reason) == ("", [], "stop")


def test_sound_is_audio_and_pictures_are_items() -> None:
    sound, picture = ({"inlineData": {"mimeType": kind, "data": "AAAA"}} for kind in ("audio/L16;rate=8", "image/png"))
    events, _ = reading([chunk(sound, picture, reason="STOP")])
    assert [event.data for event in events if isinstance(event, Audio)] == ["AAAA"]
    assert [event.item_type for event in events if isinstance(event, Item)] == ["inlineData"]


def test_what_a_candidate_has_beside_content_is_kept_as_items() -> None:
    first = chunk({"text": "x"})
    first["candidates"][0] |= {
        "groundingMetadata": {"webSearchQueries": []}, "citationMetadata": {}, "safetyRatings": [], "avgLogprobs": -0.1,
        "hologram": 1,
    }  # fmt: skip
    events, _ = reading([first])
    assert [event.item_type for event in events if isinstance(event, Item)] == ["groundingMetadata", "citationMetadata"]
    assert [event.name for event in events if isinstance(event, Unknown)] == ["candidate.hologram"]


def test_an_error_in_mid_stream_keeps_what_came_before() -> None:
    error = {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE", "details": []}}
    _, message = reading([chunk({"text": "Half"}), error, chunk({"text": " more"}, reason="STOP")])
    assert message.error is not None
    assert (message.error.type, message.error.code, message.error.message) == ("UNAVAILABLE", 503, "Overloaded")
    assert (message.text, message.terminal, message.finish_raw) == ("Half", "error", None)


def test_an_error_that_was_never_an_event_has_its_status_as_type() -> None:
    body = json.dumps({"error": {"code": 400, "message": "Bad", "status": "INVALID_ARGUMENT"}}, indent=2).encode()
    message = read(body, "gemini")[1].message()
    assert message.error is not None
    assert (message.error.type, message.error.code) == ("INVALID_ARGUMENT", 400)


def test_an_array_in_place_of_events_is_no_stream() -> None:
    body = json.dumps([chunk({"text": "x"}, reason="STOP")], indent=1).encode()
    assert codes(read(body, "gemini")[1].message()) == {"stream.not-a-stream"}


def test_candidates_are_choices() -> None:
    first = {"candidates": [{"content": {"parts": [{"text": "a"}]}}, {"content": {"parts": [call("f")]}, "index": 1}]}
    last = {"candidates": [{"finishReason": "STOP"}, {"finishReason": "STOP", "index": 1}]}
    _, message = reading([first, last])
    assert [(choice.text, len(choice.tool_calls), choice.finish_reason) for choice in message.choices] == [
        ("a", 0, "stop"), ("", 1, "tool_calls"),
    ]  # fmt: skip


def test_what_nobody_documents_is_unknown() -> None:
    events, message = reading([
        {"hologram": 1}, {"candidates": 3}, {"candidates": [None, {"content": 4}, {"content": {"parts": 5}}]},
        chunk({"text": ["x"]}, {"hologram": 6}, 7, {"functionCall": {}}, {"functionCall": "f"}),
        {"promptFeedback": 8},
    ])  # fmt: skip
    assert [event.name for event in events if isinstance(event, Unknown)] == [
        "payload", "candidates[]", "candidates[]", "candidate.content", "content.parts", "part.text", "part.hologram",
        "parts[]", "part.functionCall", "part.functionCall", "promptFeedback",
    ]  # fmt: skip
    assert codes(message) == {"text.not-a-string"}


# -- arguments that Vertex streams in pieces --------------------------------------------------------------------------


def piece(path: str, value: Any, more: bool = False) -> dict[str, Any]:
    name = {bool: "boolValue", type(None): "nullValue", str: "stringValue"}.get(type(value), "numberValue")
    entry: dict[str, Any] = {"jsonPath": path, name: "NULL_VALUE" if value is None else value}
    return {**entry, "willContinue": True} if more else entry


def test_streamed_arguments_are_put_together_from_their_paths() -> None:
    events, message = reading([
        chunk(call("book", id="c-1", willContinue=True)),
        chunk(call(None, partialArgs=[piece("$.city", "New ", True)], willContinue=True)),
        chunk(call(None, partialArgs=[piece("$.city", "Delhi")], willContinue=True)),
        chunk(call(None, partialArgs=[piece("$.people[0].name", "Ann"), piece("$.people[0]['age']", 41),
                                      piece('$.people[1]["name"]', "Bo"), piece("$.ok", True), piece("$.no", None)],
                   willContinue=True)),
        chunk(call(None), reason="STOP"),
    ])  # fmt: skip
    fragments = [event for event in events if isinstance(event, ToolCall)]
    assert [(event.index, event.id, event.name) for event in fragments] == [(0, "c-1", "book")] + [(0, None, None)] * 4
    assert [event.arguments for event in fragments[:-1]] == [None] * 4
    assert json.loads(message.tool_calls[0].arguments) == {
        "city": "New Delhi", "people": [{"name": "Ann", "age": 41}, {"name": "Bo"}], "ok": True, "no": None,
    }  # fmt: skip
    assert (message.finish_reason, len(message.tool_calls)) == ("tool_calls", 1)


def test_streamed_calls_follow_each_other() -> None:
    _, message = reading([
        chunk(call("f", willContinue=True), call(None, partialArgs=[piece("$.a", 1)])),
        chunk(call("f", partialArgs=[piece("$.a", 2)], willContinue=True)),
        chunk(call("g", {"b": 3})),
        chunk(call("h", willContinue=True)),
        chunk(reason="STOP"),
    ])  # fmt: skip
    assert [(found.name, found.arguments) for found in message.tool_calls] == [
        ("f", '{"a":1}'), ("f", '{"a":2}'), ("g", '{"b":3}'), ("h", "{}"),
    ]  # fmt: skip


@pytest.mark.parametrize("last", [[], [{"error": {"code": 500, "message": "m", "status": "INTERNAL"}}]])
def test_a_streamed_call_that_is_cut_keeps_what_it_has(last: list[Any]) -> None:
    entry = [piece("$.city", "Osl", True)]
    _, message = reading([chunk(call("f", partialArgs=entry, willContinue=True)), *last])
    assert message.tool_calls[0].arguments == '{"city":"Osl"}'
    assert message.terminal == ("error" if last else "truncated")


@pytest.mark.parametrize("entry", [
    7, {"stringValue": "no path"}, piece("city", "x"), piece("$", "x"), piece("$.a[x]", "x"), piece("$..a", "x"),
    piece("$.list.name", 1), piece("$.list[999999]", 1), piece("$[0]", 1), piece("$" + ".a" * 65, 1),
])  # fmt: skip
def test_a_partial_argument_without_a_place_is_unknown(entry: Any) -> None:
    parts = [piece("$.list[0]", 0), entry]
    events, message = reading([chunk(call("f", partialArgs=parts), reason="STOP")])
    assert [event.raw for event in events if isinstance(event, Unknown)] == [entry]
    assert json.loads(message.tool_calls[0].arguments)["list"] == [0]


KEYS = st.text(st.characters(exclude_characters=".[]'\"", codec="utf-8"), min_size=1, max_size=4)
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6)



def branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, min_size=1, max_size=3) | st.dictionaries(KEYS, inner, min_size=1, max_size=3)


TREES = st.dictionaries(KEYS, st.recursive(LEAVES, branches, max_leaves=8))


def partial_args(value: Any, path: str, size: int) -> Iterator[dict[str, Any]]:
    """A value as a server streams it: leaf by leaf, strings in pieces."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from partial_args(inner, f"{path}.{key}", size)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from partial_args(inner, f"{path}[{place}]", size)
    elif isinstance(value, str) and len(value) > size:
        for at in range(0, len(value), size):
            yield piece(path, value[at : at + size], more=at + size < len(value))
    else:
        yield piece(path, value)


@given(TREES, st.integers(1, 3))
def test_pieces_of_any_arguments_add_up_to_them(arguments: dict[str, Any], size: int) -> None:
    streamed = StreamedCall(0, None, "f", None)
    assert all(streamed.put(entry) for entry in partial_args(arguments, "$", size))
    assert json.loads(streamed.arguments()) == arguments


# -- whatever comes ---------------------------------------------------------------------------------------------------

STREAM = [
    chunk({"text": "hm", "thought": True}, usageMetadata=usage(9, 1)),
    chunk({"text": "A"}, {"executableCode": {"language": "PYTHON", "code": "1"}}, call("f", {"a": 1}, id="c")),
    chunk(call("g", id="d", partialArgs=[piece("$.a[0]", "x", True)], willContinue=True)),
    chunk(call(None, partialArgs=[piece("$.a[0]", "y"), piece("$.b.c", 1)], willContinue=True)),
    chunk(call(None), {"inlineData": {"mimeType": "audio/wav", "data": "AA"}}),
    {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage(9, 2)},
    chunk({"text": "", "thoughtSignature": "s"}, reason="STOP", usageMetadata=usage(9, 4)),
    {"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}},
]  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(faulty(STREAM), st.integers(1, 40))
def test_whatever_comes_is_read(stream: list[Any], size: int) -> None:
    check(sse(stream), "gemini", size)
