"""Facts of Ollama streams: one fault one finding; and none changes with wording, number of lines or times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mutations import ndjson
from vendors import (
    MARKERS,
    Fault,
    Payloads,
    against,
    bent_once,
    facts,
    facts_alone,
    faulty,
    grave,
    halves,
    labelled_wrong,
    recorded,
    renamed,
    told,
    wire_streams,
    wordless,
)  # fmt: skip

from harness.compare import compare
from harness.recording import Recording
from harness.reduce import reduce
from harness.structure import read

HEAD = {"model": "m-1", "created_at": "2024-01-01T00:00:00Z"}
COUNTS = {"total_duration": 5, "load_duration": 1, "prompt_eval_count": 9, "eval_count": 4}
DONE = {**HEAD, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop", **COUNTS}


def line(content: str = "", **more: Any) -> dict[str, Any]:
    return {**HEAD, "message": {"role": "assistant", "content": content, **more}, "done": False}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


TEXT = [line("Hello"), line(" there."), DONE]
CALLS = [line(tool_calls=[call("get_weather", city="Paris")]), line(tool_calls=[call("list_cities")]), DONE]
THOUGHT = [line(thinking="Two plus two."), *TEXT]
GENERATED = [
    {**HEAD, "response": "Hello", "done": False},
    {**HEAD, "response": "", "done": True, "done_reason": "stop", "context": [1, 2], **COUNTS},
]
DOCUMENTED: dict[str, Payloads] = {"text": TEXT, "calls": CALLS, "thought": THOUGHT, "generated": GENERATED}


def at(place: int, *path: Any, to: Any = ...) -> Fault:
    """A member of one line is another value; without one it is absent."""

    def fault(payloads: Payloads) -> None:
        node: Any = payloads[place]
        for name in path[:-1]:
            node = node[name]
        if to is ...:
            del node[path[-1]]
        else:
            node[path[-1]] = to

    return fault


def uncounted(payloads: Payloads) -> None:
    del payloads[-1]["prompt_eval_count"], payloads[-1]["eval_count"]


FIRST = ("message", "tool_calls", 0, "function")
FAULTS: list[tuple[str, Payloads, Fault, dict[str, str]]] = [
    ("no done line", TEXT, lambda payloads: payloads[:-1], {"stream.cut": "f"}),
    ("done never true", TEXT, at(-1, "done", to=False), {"end.marker-missing": "f"}),
    ("no reason", TEXT, at(-1, "done_reason"), {"finish.missing": "f"}),
    ("a reason nobody knows", TEXT, at(-1, "done_reason", to="tired"), {"finish.unknown-value": "n"}),
    ("text in the done line", TEXT, at(-1, "message", "content", to="!"), {"finish.with-content": "n"}),
    ("text after the reason", TEXT, lambda payloads: [*payloads[:2], {**DONE, "done": False}, line("!"), DONE],
     {"finish.repeated": "n"}),
    ("a call in the done line", CALLS, at(-1, "message", "tool_calls", to=[call("f")]), {"ollama.call-in-done": "n"}),
    ("a line after done", TEXT, lambda payloads: payloads.append(line("!")), {"ollama.data-after-done": "n"}),
    ("done twice", TEXT, lambda payloads: payloads.append(DONE), {"ollama.data-after-done": "n"}),
    ("arguments as text", CALLS, at(0, *FIRST, "arguments", to='{"city": "Paris"}'), {"ollama.arguments-string": "f"}),
    ("arguments as text that does not parse", CALLS, at(0, *FIRST, "arguments", to="Paris"),
     {"ollama.arguments-string": "f"}),
    ("no arguments", CALLS, at(0, *FIRST, "arguments"), {"ollama.message-members": "f"}),
    ("no name", CALLS, at(0, *FIRST, "name"), {"tool.name-missing": "f"}),
    ("calls no list", CALLS, at(0, "message", "tool_calls", to=call("f")), {"tool.list-wrong-type": "f"}),
    ("no role", TEXT, at(1, "message", "role"), {"ollama.message-members": "f"}),
    ("no message in the done line", TEXT, at(-1, "message"), {"ollama.message-members": "f"}),
    ("no counts", TEXT, uncounted, {"usage.missing": "n"}),
    ("counts of zeros", TEXT, lambda payloads: payloads[-1].update(prompt_eval_count=0, eval_count=0),
     {"usage.zero": "n"}),
    ("counts on every line", TEXT, lambda payloads: payloads[0].update(COUNTS), {"usage.repeated": "n"}),
    ("an error", TEXT, lambda payloads: [payloads[0], {"error": "m"}], {"error.in-stream": "f"}),
    ("no text", TEXT, lambda payloads: [DONE], {"stream.no-content": "f"}),
]  # fmt: skip


@pytest.mark.parametrize(("payloads", "fault", "expected"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_one_fault_is_one_finding(payloads: Payloads, fault: Fault, expected: dict[str, str]) -> None:
    baseline, candidate = facts(payloads, "ollama"), facts(faulty(payloads, fault), "ollama")
    assert told(baseline) == {}
    assert grave(candidate) == expected
    differ = against(baseline, candidate)
    assert {code: severity for code, severity in differ.items() if severity != "c"} == expected
    for finding in compare([baseline], candidate).findings:
        assert "()" not in finding.message


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_forms_are_no_findings(name: str) -> None:
    found = facts(DOCUMENTED[name], "ollama", headers={"content-type": "application/x-ndjson; charset=utf-8"})
    assert told(found) == {}
    assert found.get("ollama.form") == ("generate" if name == "generated" else "chat")


def test_content_types() -> None:
    assert told(facts(TEXT, "ollama", headers={"content-type": "text/event-stream"})) == {"http.media-type": "n"}


def test_done_of_chat_is_foreign() -> None:
    assert grave(facts(ndjson(TEXT) + b"[DONE]\n", "ollama")) == {"end.marker-foreign": "n"}


def test_an_error_line_is_the_end_of_the_answer() -> None:
    """What follows it is no line after done."""
    found = facts([TEXT[0], {"error": "m"}, TEXT[1]], "ollama")
    assert told(found) == {"error.in-stream": "f"}
    assert found.get("error") == {
        "delivery": "data", "place": "mid", "beside-content": False, "envelope": "error-string",
    }  # fmt: skip


def test_a_message_with_calls_or_thinking_alone_loses_neither() -> None:
    """Servers that speak like Ollama leave an empty content out."""
    bare = [
        {**HEAD, "message": {"role": "assistant", "thinking": "Hm."}, "done": False},
        {**HEAD, "message": {"role": "assistant", "tool_calls": [call("f", a=1)]}, "done": False}, DONE,
    ]  # fmt: skip
    message = reduce(ndjson(bare), "ollama").message()
    assert (message.reasoning, [call.name for call in message.tool_calls]) == ("Hm.", ["f"])
    assert told(facts(bare, "ollama")) == {}


def test_forms_of_calls() -> None:
    found = facts(faulty(CALLS, at(0, "message", "tool_calls", 0, "id", to="call_1")), "ollama")
    assert found.get("tool") == {
        "arguments-type": {"object": True}, "id": {"first": {"string": True, "absent": True}},
        "arguments-form": {"json": True}, "arguments-split": {"whole": True},
    }  # fmt: skip


def test_counts_that_are_lost() -> None:
    """A prompt that was cached is not counted by old servers: the ledger reads zero all the same."""
    assert against(facts(TEXT, "ollama"), facts(faulty(TEXT, at(-1, "prompt_eval_count")), "ollama")) == {
        "usage.counters": "n"
    }
    assert against(facts(TEXT, "ollama"), facts(faulty(TEXT, at(-1, "load_duration")), "ollama")) == {
        "usage.details": "c"
    }
    early = facts([{**TEXT[0], **COUNTS}, *TEXT[1:]], "ollama")
    assert early.get("usage.position") == {"line": True, "done": True}


def test_log_probabilities() -> None:
    assert facts(TEXT, "ollama").get("logprobs") is False
    assert facts([{**TEXT[0], "logprobs": [{"token": "Hello"}]}, *TEXT[1:]], "ollama").get("logprobs") is True


# -- what must not change a fact ----------------------------------------------------------------------------------


def split(payloads: Payloads) -> Payloads:
    """Each line with a piece of text or thinking in two."""
    out: Payloads = []
    for payload in payloads:
        message = payload.get("message") or {}
        for holder, name in ((message, "content"), (message, "thinking"), (payload, "response")):
            parts = halves(holder.get(name))
            if parts is not None and not payload.get("done"):
                for part in parts:
                    half = {**holder, name: part}
                    out.append(half if holder is payload else {**payload, "message": half})
                break
        else:
            out.append(payload)
    return out


REWRITES: dict[str, Callable[[Payloads], Payloads]] = {
    "split": split,
    "rename": lambda payloads: renamed(payloads, ("id", "model", "created_at")),
    "letters": lambda payloads: wordless(payloads, ("content", "thinking", "response", "city")),
}
RECORDED = dict(recorded("ollama", "ollama-native", b'"done":false'))


@pytest.mark.parametrize("name", REWRITES)
def test_structure_is_the_same_after(name: str) -> None:
    wrong = {}
    for stream, payloads in {**DOCUMENTED, **RECORDED}.items():
        ours, theirs = (facts_alone(facts(side, "ollama")) for side in (payloads, REWRITES[name](payloads)))
        if name == "letters":  # markers are found by their letters
            ours, theirs = ([line for line in side if not MARKERS.search(line)] for side in (ours, theirs))
        if ours != theirs:
            wrong[stream] = set(ours) ^ set(theirs)
    assert not wrong
    assert REWRITES[name](TEXT) != TEXT, "the rewrite does nothing"


def test_every_member_bent_once() -> None:
    assert bent_once([THOUGHT[0], TEXT[0], *CALLS], "ollama") > 500


# -- labels and recorded streams ----------------------------------------------------------------------------------


def test_labels_of_the_quirks() -> None:
    assert labelled_wrong("ollama") == []


def test_the_servers_own_streams_have_no_grave_finding() -> None:
    for name, body in wire_streams("ollama-native"):
        assert grave(facts(body, "ollama")) == {}, name


def test_facts_of_a_documented_stream() -> None:
    assert [line.removeprefix("wire.") for line in facts_alone(facts(THOUGHT, "ollama"))] == [
        "choice.count = 1", "end.marker = present", "end.state = eof", "finish.class.stop = true",
        "finish.place.alone = true", "finish.value.stop = true", "http.status = 200", "logprobs = false",
        "ollama.call-in-done = false", "ollama.data-after-done = false", "ollama.form = chat",
        "reasoning.field.thinking = true", "result = ok", "text.markup = false", "text.think = false",
        "usage.base.input = true", "usage.base.output = true", "usage.counters.eval_count = true",
        "usage.counters.prompt_eval_count = true", "usage.details.load_duration = true",
        "usage.details.total_duration = true", "usage.position.done = true", "usage.present = true",
        "usage.repeated = false", "usage.zero = false",
    ]  # fmt: skip


def test_an_end_that_tells_when_the_answer_began_is_no_second_answer() -> None:
    began, later = "2024-01-01T00:00:00.1Z", "2024-01-01T00:00:00.2Z"
    parts = [{**line("a"), "created_at": began}, {**line("b"), "created_at": later}]

    def restarted(*more: dict[str, Any]) -> bool:
        return "stream.restarted" in read(Recording(body=ndjson([*parts, *more]), end="eof"), "ollama").structure.notes

    assert not restarted({**DONE, "created_at": began})
    assert restarted(parts[0], {**DONE, "created_at": later})
