"""The message: what events add up to, whatever dialect they come from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import PROFILE

from harness.events import Audio, End, Error, Event, Finish, Note, Reasoning, Refusal, Text, ToolCall, Usage
from harness.jsontext import to_json
from harness.message import (
    Message,
    MessageFold,
    complete_at,
    first_id,
    heal,
    join_arguments,
    joined_name,
)

PLACE: dict[str, Any] = {"at": 0, "length": 0}


def text(piece: str, choice: int = 0, key: str | int | None = None, whole: bool = False) -> Text:
    return Text(choice=choice, text=piece, whole=whole, key=key, **PLACE)


def fragment(index: int = 0, arguments: str | None = None, **more: Any) -> ToolCall:
    members = {"choice": 0, "wire_index": index, "id": None, "name": None, "whole": False, **PLACE, **more}
    return ToolCall(index=index, arguments=arguments, **members)


def finish(raw: str, choice: int = 0) -> Finish:
    return Finish(choice=choice, reason=raw, raw=raw, **PLACE)


def usage(tokens_in: int | None, tokens_out: int | None) -> Usage:
    return Usage(input_tokens=tokens_in, output_tokens=tokens_out, raw=None, **PLACE)


def fold(*events: Event) -> Message:
    found = MessageFold()
    found.extend(events)
    found.finish()
    return found.message()


def test_nothing_adds_up_to_an_empty_message() -> None:
    assert fold() == Message()
    assert json.loads(to_json(fold())) == {
        "text": "", "reasoning": "", "refusal": None, "tool_calls": [], "finish_reason": None, "finish_raw": None,
        "terminal": "truncated", "usage": None, "error": None, "choices": [], "notes": [],
    }  # fmt: skip


def test_json_has_the_contracted_keys_in_order() -> None:
    note = Note("sse.bom", 0, 3)
    found = MessageFold()
    found.extend([text("a"), fragment(0, "{}", id="call_a", name="f"), finish("stop"), usage(1, 2)])
    found.finish()
    written = json.loads(to_json(found.message([note])))
    assert list(written) == [
        "text", "reasoning", "refusal", "tool_calls", "finish_reason", "finish_raw", "terminal", "usage", "error",
        "choices", "notes",
    ]  # fmt: skip
    assert list(written["tool_calls"][0]) == ["index", "id", "name", "arguments", "type"]
    assert list(written["choices"][0]) == [
        "choice", "text", "reasoning", "refusal", "tool_calls", "finish_reason", "finish_raw",
    ]  # fmt: skip
    assert written["usage"] == {"input_tokens": 1, "output_tokens": 2}
    assert written["notes"] == [{"code": "sse.bom", "at": 0, "length": 3, "detail": ""}]


def test_channels_are_joined_apart() -> None:
    found = fold(
        text("a"), Reasoning(choice=0, text="r", whole=False, **PLACE), text("b"),
        Refusal(choice=0, text="", whole=False, **PLACE), Reasoning(choice=0, text="s", whole=False, **PLACE),
    )  # fmt: skip
    assert (found.text, found.reasoning, found.refusal) == ("ab", "rs", "")


def test_items_are_joined_in_order_of_their_first_piece() -> None:
    """Responses: two items interleave; each item's pieces belong together."""
    assert fold(text("a", key="x"), text("b", key="y"), text("A", key="x"), text("B", key="y")).text == "aAbB"


def test_a_whole_value_replaces_the_pieces_of_its_item_alone() -> None:
    pieces = [text("a", key="x"), text("b", key="y"), text("WHOLE", key="x", whole=True), text("B", key="y")]
    assert fold(*pieces).text == "WHOLEbB"
    assert fold(text("a"), text("b", whole=True), text("c")).text == "bc"


def test_pieces_under_one_key_and_under_none_do_not_mix() -> None:
    assert fold(text("a"), text("b", key=0), text("c"), text("d", key=0, whole=True)).text == "acd"


def test_choices_come_in_order_and_choice_0_stands_on_top() -> None:
    found = fold(text("two", 2), text("zero"), finish("stop", 2), finish("length"))
    assert [(choice.choice, choice.text, choice.finish_reason) for choice in found.choices] == [
        (0, "zero", "length"), (2, "two", "stop"),
    ]  # fmt: skip
    assert (found.text, found.finish_reason) == ("zero", "length")
    assert (fold(text("one", 1)).text, len(fold(text("one", 1)).choices)) == ("", 1)


def test_a_choice_of_sound_alone_is_a_choice() -> None:
    assert [choice.choice for choice in fold(Audio(choice=1, data="UklG", transcript=None, **PLACE)).choices] == [1]


def test_calls_are_numbered_by_wire_index_then_by_appearance() -> None:
    events = [
        fragment(0, "{}", name="c", wire_index=7), fragment(1, "{}", name="x", wire_index=None),
        fragment(2, "{}", name="a", wire_index=2), fragment(3, "{}", name="y", wire_index="0"), fragment(2, " "),
    ]  # fmt: skip
    assert [(call.index, call.name) for call in fold(*events).tool_calls] == [(0, "a"), (1, "c"), (2, "x"), (3, "y")]
    assert [event.index for event in events] == [1, 2, 0, 3, 0], "the events say the same"


def test_a_message_on_the_way_has_the_calls_so_far() -> None:
    found = MessageFold()
    found.extend([fragment(0, '{"a":', name="f", wire_index=3)])
    assert [call.arguments for call in found.message().tool_calls] == ['{"a":']
    found.extend([fragment(1, "{}", name="g", wire_index=1), fragment(0, "1}", wire_index=3)])
    found.finish()
    assert [(call.index, call.name, call.arguments) for call in found.message().tool_calls] == [
        (0, "g", "{}"), (1, "f", '{"a":1}'),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "terminal"),
    [
        ([text("a")], "truncated"), ([finish("stop")], "finish"), ([finish("stop"), End("[DONE]", 0, 0)], "done"),
        ([End("[DONE]", 0, 0)], "done"), ([Error("t", 1, "m", 0, 0), End("[DONE]", 0, 0)], "error"),
    ],
)  # fmt: skip
def test_terminals(events: list[Event], terminal: str) -> None:
    assert fold(*events).terminal == terminal


def test_each_count_is_the_last_value_sent() -> None:
    found = fold(usage(3, None), usage(None, 1), usage(None, 5), usage(None, None)).usage
    assert found is not None
    assert (found.input_tokens, found.output_tokens) == (3, 5)
    assert fold(usage(None, None)).usage is None


def test_the_first_error_counts_and_what_came_before_is_kept() -> None:
    found = fold(text("a"), Error(type=None, code=503, message="no", at=0, length=0), Error("t", 1, "second", 0, 0))
    assert found.error is not None
    assert (found.error.type, found.error.code, found.error.message) == (None, 503, "no")
    assert found.text == "a"


def test_the_last_finish_reason_counts() -> None:
    assert fold(finish("stop"), finish("length")).finish_raw == "length"


# -- identity of a call -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "want"),
    [(["call_a", "", None], "call_a"), (["", None, "call_a"], "call_a"), (["a", "b"], "a"), ([None, ""], ""), ([], "")],
)
def test_the_id_is_the_first_that_is_not_empty(ids: list[str | None], want: str) -> None:
    assert first_id([fragment(id=value) for value in ids]) == want


@pytest.mark.parametrize(
    ("names", "want"),
    [
        (["get_weather", "", None], "get_weather"), (["get_", "weather"], "get_weather"), (["f", "f", "f"], "f"),
        ([None, "f"], "f"), (["get_", "weather", "get_weather"], "get_weather"), ([], ""),
    ],
)  # fmt: skip
def test_names_are_joined_and_repeats_count_once(names: list[str | None], want: str) -> None:
    assert joined_name([fragment(name=value) for value in names]) == want


def test_a_whole_name_replaces() -> None:
    assert joined_name([fragment(name="get_"), fragment(name="get_weather", whole=True)]) == "get_weather"


# -- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "want", "again"),
    [
        (["", None, '{"a"', ":1}"], '{"a":1}', None),
        (['{"a":1}', "\n", " "], '{"a":1}\n ', None),
        (['{"a":1}', '{"a":1}'], '{"a":1}', 1),
        (['{"a"', ":1}", '{"a":1}', ' {"a":1} '], '{"a":1}', 2),
        (['{"a":1}{"a":1}'], '{"a":1}', 0),
        (['{"a":1}', '{"b":2}'], '{"a":1}{"b":2}', 1),
        (['{"a":1}', "", "}"], '{"a":1}}', 2),
        (["[1]", "[1]"], "[1]", 1),
        (["1", "1"], "11", None),
        (['"a"', '"a"'], '"a""a"', None),
        (['{"a": [1, '], '{"a": [1, ', None),
        ([None], "", None),
        ([], "", None),
    ],
)
def test_arguments_are_joined_and_a_repeat_counts_once(pieces: list[str | None], want: str, again: int | None) -> None:
    fragments = [fragment(arguments=piece) for piece in pieces]
    joined, culprit = join_arguments(fragments)
    assert joined == want
    assert (None if culprit is None else [item is culprit for item in fragments].index(True)) == again


def test_a_whole_value_replaces_pieces_and_an_empty_one_replaces_nothing() -> None:
    pieces = [fragment(arguments='{"a":'), fragment(arguments="1}")]
    assert join_arguments([*pieces, fragment(arguments='{"a":2}', whole=True)])[0] == '{"a":2}'
    assert join_arguments([*pieces, fragment(arguments="", whole=True)])[0] == '{"a":1}'


def test_custom_input_is_not_taken_for_json() -> None:
    joined, again = join_arguments([fragment(arguments="{}", type="custom"), fragment(arguments="{}", type="custom")])
    assert (joined, again) == ("{}{}", None)


@pytest.mark.parametrize(
    ("value", "end"),
    [
        ("{}", 2), (' {"a": "}"} x', 11), ("[1, [2]] []", 8), ("{", None), ("", None), ("  ", None), ("1", None),
        ('"a"', None), ("null", None), ("{'a': 1}", None), ('{"a":1,}', None), ("[" * 100_000, None),
    ],
)  # fmt: skip
def test_where_the_value_ends(value: str, end: int | None) -> None:
    assert complete_at(value) == end


# -- characters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "want"),
    [
        ("a\ud83d\ude00b", "a\U0001f600b"), ("\ud83d", "\ud83d"), ("\ude00\ud83d", "\ude00\ud83d"), ("é", "é"),
        ("", ""), ("\ud83d\ud83d\ude00", "\ud83d\U0001f600"),
    ],
)  # fmt: skip
def test_halves_that_meet_form_a_character(pieces: str, want: str) -> None:
    assert heal(pieces) == want


UNITS = st.text(st.characters(), max_size=8)


@PROFILE
@given(UNITS, st.data())
def test_text_cut_anywhere_between_its_utf_16_units_is_whole_again(value: str, data: st.DataObject) -> None:
    """What a server with UTF-16 strings does to a text is undone; nothing else is changed."""
    units = value.encode("utf-16-le", "surrogatepass")
    ends = sorted(2 * data.draw(st.integers(0, len(units) // 2)) for _ in range(3))
    cuts = zip([0, *ends], [*ends, len(units)], strict=True)
    pieces = [units[start:end].decode("utf-16-le", "surrogatepass") for start, end in cuts]
    whole = heal(value)
    assert fold(*map(text, pieces)).text == whole
    assert fold(*(fragment(arguments=piece) for piece in pieces)).tool_calls[0].arguments == whole
    assert whole.encode("utf-16-le", "surrogatepass") == units
