from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.history import Repair, Repaired, assistant_message, check_history, repair_arguments, tool_message
from harness.message import Call, Message


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ('{"city": "Paris"}', Repaired('{"city": "Paris"}', "intact")),
        ('{"a": {"b": [1, 2', Repaired('{"a": {"b": [1, 2]}}', "closed")),
        ('[{"a": "}]"', Repaired('[{"a": "}]"}]', "closed")),
        ('{"a": "\\"{["', Repaired('{"a": "\\"{["}', "closed")),
        ('{"city": "Par', Repaired("{}", "emptied")),  # a string is not closed
        ('{"a": 1,', Repaired("{}", "emptied")),
        ('{"a": 1]', Repaired("{}", "emptied")),
        ('{"a": 1}}', Repaired("{}", "emptied")),
        ("", Repaired("{}", "emptied")),
        ("  ", Repaired("{}", "emptied")),
        ("plain text", Repaired("{}", "emptied")),
        ('"text"', Repaired('"text"', "intact")),  # parses, so it is what the model wanted to say
        ('{"a": NaN}', Repaired("{}", "emptied")),
        ('{"a": ' + "9" * 5000 + "}", Repaired('{"a": ' + "9" * 5000 + "}", "intact")),
        ("[" * 200_000, Repaired("{}", "emptied")),
    ],
)
def test_repair(text: str, repaired: Repaired) -> None:
    assert repair_arguments(text) == repaired


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12,
), st.data())  # fmt: skip
def test_what_repair_returns_always_parses_and_whole_json_is_never_touched(value: Any, data: st.DataObject) -> None:
    whole = json.dumps(value)
    assert repair_arguments(whole) == Repaired(whole, "intact")
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    repaired = repair_arguments(cut)
    json.loads(repaired.text)
    assert repaired.text.startswith(cut) or repaired == Repaired("{}", "emptied")


Sent = tuple[str, str, str]


def message(*calls: Sent, text: str = "", kind: str = "function", refusal: str | None = None) -> Message:
    """What was read: calls as (id, name, arguments)."""
    made = [
        Call(index=index, id=call_id, name=name, arguments=arguments, type=kind)
        for index, (call_id, name, arguments) in enumerate(calls)
    ]
    return Message(text=text, tool_calls=made, refusal=refusal, finish_reason="tool_calls", terminal="done")


TWO = message(("call_1", "get_weather", '{"city":"Paris"}'), ("", "get_time", ""))


def test_assistant_message_holds_ids_as_sent_and_no_content_beside_calls() -> None:
    assert assistant_message(TWO) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}},
            {"id": "", "type": "function", "function": {"name": "get_time", "arguments": ""}},
        ],
    }
    assert assistant_message(TWO).repaired == ()
    assert assistant_message(message(("c", "f", "{}"), text="Well."))["content"] == "Well."
    assert assistant_message(message()) == {"role": "assistant", "content": ""}
    assert assistant_message(message(refusal="No.")) == {"role": "assistant", "content": None, "refusal": "No."}


def test_assistant_message_repairs_only_when_asked_and_says_so() -> None:
    cut = message(("a", "f", '{"x": [1'), ("b", "g", "{}"), ("c", "h", '{"y": "z'))
    before = copy.deepcopy(cut)
    plain, repaired = assistant_message(cut), assistant_message(cut, repair=True)
    assert [call["function"]["arguments"] for call in plain["tool_calls"]] == ['{"x": [1', "{}", '{"y": "z']
    assert [call["function"]["arguments"] for call in repaired["tool_calls"]] == ['{"x": [1]}', "{}", "{}"]
    assert repaired.repaired == (Repair(0, "closed"), Repair(2, "emptied"))
    assert cut == before
    assert json.loads(json.dumps(repaired)) == repaired


def test_a_custom_call_has_input_that_is_never_repaired() -> None:
    made = assistant_message(message(("c1", "grammar", "{ free ["), kind="custom"), repair=True)
    assert made["tool_calls"] == [{"id": "c1", "type": "custom", "custom": {"name": "grammar", "input": "{ free ["}}]
    assert made.repaired == ()


def history(of: Message = TWO, *, repair: bool = False) -> list[dict[str, Any]]:
    """A request's messages in order: a question, the assistant message, one result per call."""
    results = [tool_message(call, f"result {call.index}") for call in of.tool_calls]
    return [{"role": "user", "content": "Weather?"}, dict(assistant_message(of, repair)), *results]


def test_a_round_trip_is_in_order() -> None:
    assert check_history(history(), TWO) == []
    assert check_history([*history(), {"role": "user", "content": "Thanks"}]) == []
    assert check_history([*history(), *history()], TWO) == []  # the same ids again in a later turn
    assert check_history(history(message(text="Hi")), message(text="Hi")) == []
    call = assistant_message(TWO)["tool_calls"][0]
    assert tool_message(call, "x") == {"role": "tool", "tool_call_id": "call_1", "content": "x"}


def test_calls_whose_ids_are_all_empty_are_answered_by_order() -> None:
    nameless = message(("", "f", "{}"), ("", "g", "{}"))
    assert check_history(history(nameless), nameless) == []
    assert codes(history(nameless)[:-1], nameless) == [("result-missing", 3)]


def test_cut_arguments_must_be_repaired_before_they_go_back() -> None:
    cut = message(("a", "f", '{"x": [1'))
    assert check_history(history(cut, repair=True), cut) == []
    assert codes(history(cut), cut) == [("arguments-not-json", 1)]
    rewritten = history()
    rewritten[1]["tool_calls"][0]["function"]["arguments"] = '{ "city" : "Paris" }'
    assert check_history(rewritten, TWO) == []


def codes(messages: list[Any], against: Message | None = None) -> list[tuple[str, int]]:
    return [(problem.code, problem.position) for problem in check_history(messages, against)]


Change = Callable[[list[dict[str, Any]]], object]


def calls(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = messages[1]["tool_calls"]
    return found


PAIR = message(("call_1", "get_weather", '{"city":"Paris"}'), ("call_2", "get_time", '{"n":1}'))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda m: m.insert(1, m.pop(2)), [("result-before-call", 1), ("result-missing", 4)]),
        (lambda m: m.pop(), [("result-missing", 3)]),
        (lambda m: m.insert(3, {"role": "user", "content": "?"}), [("result-missing", 3), ("result-late", 4)]),
        (lambda m: m.append(dict(m[2])), [("result-duplicate", 4)]),
        (lambda m: m.append({**m[2], "tool_call_id": "call_9"}), [("result-unknown", 4)]),
        (lambda m: m.append(m.pop(2)), [("result-order", 2)]),
        (lambda m: m[2].update(content=None), [("result-empty", 2)]),
        (lambda m: m[2].pop("tool_call_id"), [("id-missing", 2), ("result-missing", 4)]),
        (lambda m: m[1].update(content=""), [("content-not-null", 1)]),
        (lambda m: m[1].update(content="Calling."), [("content-not-null", 1)]),
        (lambda m: (calls(m).pop(), m.pop()), [("call-lost", 1)]),
        (lambda m: calls(m).reverse(), [("call-order", 1), ("result-order", 2)]),
        (lambda m: (calls(m)[0].update(id="x"), m[2].update(tool_call_id="x")), [("id-altered", 1)]),
        (lambda m: calls(m)[0]["function"].update(name="other"), [("name-altered", 1)]),
        (lambda m: calls(m)[0]["function"].update(arguments="{}"), [("arguments-altered", 1)]),
        (lambda m: calls(m)[1]["function"].update(arguments='{"n":true}'), [("arguments-altered", 1)]),
        (lambda m: m.pop(1), [("result-unknown", 1), ("result-unknown", 2), ("assistant-missing", 3)]),
        (lambda m: m.insert(0, "hello"), [("message-malformed", 0)]),
        (lambda m: calls(m)[0].pop("id"), [("id-missing", 1), ("result-unknown", 2)]),
    ],
)  # fmt: skip
def test_each_mistake_has_its_code_and_place(change: Change, found: list[tuple[str, int]]) -> None:
    messages = copy.deepcopy(history(PAIR))
    change(messages)
    assert codes(messages, PAIR) == found


def test_an_invented_id_is_told_from_an_altered_one() -> None:
    messages = history()
    calls(messages)[1]["id"] = messages[3]["tool_call_id"] = "call_generated"
    (problem,) = check_history(messages, TWO)
    assert problem.code == "id-invented"
    assert problem.message == 'the id is "call_generated", but none was sent: it must stay empty'
    assert check_history(messages) == []  # by itself it is in order


def test_text_that_was_read_must_come_back() -> None:
    spoken = message(("c", "f", "{}"), text="Let me see.")
    lost = history(spoken)
    lost[1]["content"] = None
    assert codes(lost, spoken) == [("text-altered", 1)]


def test_added_calls_and_changed_types_show() -> None:
    messages = history(message(("c", "f", "x"), kind="custom"))
    assert codes(messages, message(("c", "f", "x"))) == [("type-altered", 1)]
    added = history(PAIR)
    assert codes(added, message(("call_1", "get_weather", '{"city":"Paris"}'))) == [("call-added", 1)]


def anthropic(of: Message, *, results: bool = True) -> list[dict[str, Any]]:
    uses = [{"type": "tool_use", "id": c.id, "name": c.name, "input": json.loads(c.arguments)} for c in of.tool_calls]
    answers = [{"type": "tool_result", "tool_use_id": c.id, "content": "r"} for c in of.tool_calls]
    text = [{"type": "text", "text": of.text}] if of.text else []
    asked: list[dict[str, Any]] = [{"role": "user", "content": "?"}, {"role": "assistant", "content": [*text, *uses]}]
    return [*asked, {"role": "user", "content": answers}] if results else asked


def test_the_anthropic_form_is_checked_alike() -> None:
    spoken = message(("toolu_1", "f", '{"a":1}'), ("toolu_2", "g", "{}"), text="Let me see.")
    good = anthropic(spoken)
    assert check_history(good, spoken) == []
    with_text = copy.deepcopy(good)
    with_text[2]["content"].append({"type": "text", "text": "and now?"})
    assert check_history(with_text, spoken) == []
    assert codes(anthropic(spoken, results=False), spoken) == [("result-missing", 2), ("result-missing", 2)]
    good[2]["content"].reverse()
    good[1]["content"][1]["input"] = {}
    assert codes(good, spoken) == [("arguments-altered", 1), ("result-order", 2)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["tool", "assistant", "tool_use", "", "c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["role", "content", "tool_calls", "id", "type", "function", "arguments", "tool_use_id"]),
        inner, max_size=4,
    ), max_leaves=20,
)  # fmt: skip


@given(st.lists(JSON, max_size=4))
def test_no_history_makes_it_raise(messages: list[Any]) -> None:
    for problem in check_history(messages, TWO):
        assert 0 <= problem.position <= len(messages)
        assert problem.message
