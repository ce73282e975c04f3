"""Facts of Cohere streams: one fault one finding; and none changes with wording, deltas or ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mutations import sse
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
    recorded,
    renamed,
    told,
    wire_streams,
    wordless,
)  # fmt: skip

from harness.compare import compare

USAGE = {
    "billed_units": {"input_tokens": 7, "output_tokens": 4}, "tokens": {"input_tokens": 9, "output_tokens": 5},
    "cached_tokens": 0,
}  # fmt: skip
START = {"type": "message-start", "id": "m-1", "delta": {"message": {"role": "assistant", "content": []}}}


def event(kind: str, number: int | None = None, **message: Any) -> dict[str, Any]:
    head: dict[str, Any] = {"type": kind} if number is None else {"type": kind, "index": number}
    return {**head, "delta": {"message": message}} if message else head


def content(number: int, kind: str, *pieces: str) -> Payloads:
    deltas = [event("content-delta", number, content={kind: piece}) for piece in pieces]
    return [event("content-start", number, content={"type": kind, kind: ""}), *deltas, event("content-end", number)]


def tool(number: int, call: str, *pieces: str) -> Payloads:
    opened = {"id": call, "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    deltas = [event("tool-call-delta", number, tool_calls={"function": {"arguments": piece}}) for piece in pieces]
    return [event("tool-call-start", number, tool_calls=opened), *deltas, event("tool-call-end", number)]


def documented(*parts: Payloads, reason: str = "COMPLETE") -> Payloads:
    """The events of a message with these parts, as the vendor sends them."""
    ended = {"type": "message-end", "delta": {"finish_reason": reason, "usage": USAGE}}
    return [START, *(event for part in parts for event in part), ended]


PLAN = [event("tool-plan-delta", tool_plan="I will look.")]
TEXT = documented(content(0, "text", "Hello", " there."))
CALLS = documented(PLAN, tool(0, "a", '{"city":', '"Paris"}'), tool(1, "b", '{"city": "Oslo"}'), reason="TOOL_CALL")
ONE_CALL = documented(tool(0, "a", "{}"), reason="TOOL_CALL")
THOUGHT = documented(content(0, "thinking", "Two plus", " two."), content(1, "text", "It is", " four."))
DOCUMENTED = {"text": TEXT, "calls": CALLS, "thought": THOUGHT}


def place_of(payloads: Payloads, kind: str, which: int = 0) -> int:
    return [place for place, payload in enumerate(payloads) if payload.get("type") == kind][which]


def without(kind: str, which: int = 0) -> Fault:
    def fault(payloads: Payloads) -> None:
        del payloads[place_of(payloads, kind, which)]

    return fault


def twice(kind: str, which: int = 0) -> Fault:
    def fault(payloads: Payloads) -> None:
        place = place_of(payloads, kind, which)
        payloads.insert(place, payloads[place])

    return fault


def changed(kind: str, *path: str, to: Any = ...) -> Fault:
    def fault(payloads: Payloads) -> None:
        node = payloads[place_of(payloads, kind)]
        for name in path[:-1]:
            node = node[name]
        if to is ...:
            del node[path[-1]]
        else:
            node[path[-1]] = to

    return fault


def overlapping(payloads: Payloads) -> None:
    """The first call ends after the second has started."""
    ended = payloads.pop(place_of(payloads, "tool-call-end"))
    payloads.insert(place_of(payloads, "tool-call-start", 1) + 1, ended)


END, CALL = "message-end", ("delta", "message", "tool_calls")
FAULTS: list[tuple[str, Payloads, Fault, dict[str, str]]] = [
    ("no message-start", TEXT, without("message-start"), {"cohere.start-missing": "n"}),
    ("no content-start", TEXT, without("content-start"), {"cohere.not-open": "n"}),
    ("no content-end", TEXT, without("content-end"), {"cohere.not-ended": "n"}),
    ("content-start twice", TEXT, twice("content-start"), {"cohere.not-ended": "n"}),
    ("content-end twice", TEXT, twice("content-end"), {"cohere.not-open": "n"}),
    ("no start of a call", CALLS, without("tool-call-start"), {"tool.name-missing": "f"}),
    ("no end of a call", CALLS, without("tool-call-end"), {"cohere.not-ended": "n"}),
    ("no end of the last call", CALLS, without("tool-call-end", 1), {"cohere.not-ended": "n"}),
    ("calls that overlap", CALLS, overlapping, {"cohere.calls-overlap": "n"}),
    ("one index for two calls", CALLS, lambda payloads: [
        {**payload, "index": 0} if "index" in payload else payload for payload in payloads
    ], {"tool.index-reused": "f"}),
    ("a call as a list", CALLS, changed("tool-call-start", *CALL, to=[CALLS[2]["delta"]["message"]["tool_calls"]]),
     {"cohere.calls-list": "f"}),
    ("no id", ONE_CALL, changed("tool-call-start", *CALL, "id"), {"tool.id-missing": "f"}),
    ("no name", ONE_CALL, changed("tool-call-start", *CALL, "function", "name"), {"tool.name-missing": "f"}),
    ("no type", TEXT, lambda payloads: payloads[2].pop("type") and payloads, {"cohere.type-missing": "f"}),
    ("no reason", TEXT, changed(END, "delta", "finish_reason", to=None), {"finish.missing": "f"}),
    ("a reason nobody knows", TEXT, changed(END, "delta", "finish_reason", to="TIRED"), {"finish.unknown-value": "n"}),
    ("plain reason with calls", CALLS, changed(END, "delta", "finish_reason", to="COMPLETE"),
     {"finish.stop-with-calls": "n"}),
    ("reason for a call, none came", TEXT, changed(END, "delta", "finish_reason", to="TOOL_CALL"),
     {"finish.calls-without-call": "f"}),
    ("no message-end", TEXT, without(END), {"stream.cut": "f"}),
    ("no message-end after an open call", CALLS, lambda payloads: payloads[:4], {"stream.cut": "f"}),
    ("no usage", TEXT, changed(END, "delta", "usage"), {"usage.missing": "n"}),
    ("billed units only", TEXT, changed(END, "delta", "usage", "tokens"), {"usage.missing": "n"}),
    ("counts of zeros", TEXT, changed(END, "delta", "usage", "tokens", to={"input_tokens": 0, "output_tokens": 0}),
     {"usage.zero": "n"}),
    ("a failure", TEXT, changed(END, "delta", to={"finish_reason": "ERROR", "error": "m", "error_type": "t"}),
     {"error.in-stream": "f"}),
    ("a time-out", TEXT, changed(END, "delta", "finish_reason", to="TIMEOUT"), {"error.finish-reason": "f"}),
]  # fmt: skip


def laid_out(payloads: Payloads) -> bytes:
    """As the vendor lays it out; an event without a type keeps the name of its place in TEXT."""
    names = [payload.get("type") or TEXT[place]["type"] for place, payload in enumerate(payloads)]
    blocks = sse(payloads).split(b"data: ")[1:]
    body = b"".join(f"event: {name}\n".encode() + b"data: " + block for name, block in zip(names, blocks, strict=True))
    return body + b"data: [DONE]\n\n"


@pytest.mark.parametrize(("payloads", "fault", "expected"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_one_fault_is_one_finding(payloads: Payloads, fault: Fault, expected: dict[str, str]) -> None:
    baseline, candidate = (facts(laid_out(side), "cohere") for side in (payloads, faulty(payloads, fault)))
    assert told(baseline) == {}
    assert grave(candidate) == expected
    differ = against(baseline, candidate)
    assert {code: severity for code, severity in differ.items() if severity != "c"} == expected
    for finding in compare([baseline], candidate).findings:
        assert "()" not in finding.message


def test_event_names() -> None:
    """The SDK goes by the payload's type: names that are gone are a difference, names that disagree a finding."""
    named, bare = facts(laid_out(TEXT), "cohere"), facts(sse(TEXT), "cohere")
    assert told(bare) == {}
    assert against(named, bare) == {"sse.event-names": "c"}
    other = laid_out(TEXT).replace(b"event: content-delta", b"event: message")
    assert grave(facts(other, "cohere")) == {"sse.event-name-differs": "n"}


def test_an_unknown_event_is_cosmetic() -> None:
    assert told(facts([*TEXT[:2], {"type": "weather"}, *TEXT[2:]], "cohere")) == {"cohere.unknown-event": "c"}


def test_the_trailing_done_is_the_vendors_own() -> None:
    assert told(facts(sse(TEXT, names=True), "cohere")) == told(facts(laid_out(TEXT), "cohere")) == {}


def test_a_failure_stands_in_the_terminal_event() -> None:
    found = facts(faulty(TEXT, changed(END, "delta", to={"finish_reason": "ERROR", "error": "m"})), "cohere")
    assert (found.get("error.delivery"), found.get("error.envelope")) == ("terminal-event", "error-string")
    top = facts([*TEXT[:3], {"message": "m", "code": 500}], "cohere")
    assert (top.get("error.delivery"), top.get("error.envelope")) == ("data", "top-level")
    assert against(found, top) == {"error.delivery": "f", "error.envelope": "f", "end.marker-after-error": "f"}


def test_planning_or_thinking_is_the_models_choice() -> None:
    assert facts(THOUGHT, "cohere").get("reasoning.field") == {"thinking": True}
    assert against(facts(THOUGHT, "cohere"), facts(CALLS, "cohere")) == {}
    assert against(facts(CALLS, "cohere"), facts(THOUGHT, "cohere")) == {}


def test_log_probabilities() -> None:
    found = facts([*TEXT[:2], {**TEXT[2], "logprobs": {"token_ids": [1]}}, *TEXT[3:]], "cohere")
    assert found.get("logprobs") is True


# -- what must not change a fact ----------------------------------------------------------------------------------


def split(payloads: Payloads) -> Payloads:
    """Each delta with a piece in two."""
    out: Payloads = []
    for payload in payloads:
        message = payload.get("delta", {}).get("message", {})
        if payload["type"] == "content-delta":
            name, piece = next(iter(message["content"].items()))
            parts = [{"content": {name: part}} for part in halves(piece) or [piece]]
        elif payload["type"] == "tool-call-delta":
            piece = message["tool_calls"]["function"]["arguments"]
            parts = [{"tool_calls": {"function": {"arguments": part}}} for part in halves(piece) or [piece]]
        else:
            out.append(payload)
            continue
        out += [{**payload, "delta": {"message": part}} for part in parts]
    return out


REWRITES: dict[str, Callable[[Payloads], Payloads]] = {
    "split": split,
    "rename": lambda payloads: renamed(payloads, ("id",)),
    "letters": lambda payloads: wordless(payloads, ("text", "thinking", "tool_plan")),
}
RECORDED = dict(recorded("cohere", "cohere-v2", b"message-start"))


@pytest.mark.parametrize("name", REWRITES)
def test_structure_is_the_same_after(name: str) -> None:
    wrong = {}
    for stream, payloads in {**DOCUMENTED, **RECORDED}.items():
        ours, theirs = (facts_alone(facts(side, "cohere")) for side in (payloads, REWRITES[name](payloads)))
        if name == "letters":  # markers are found by their letters
            ours, theirs = ([line for line in side if not MARKERS.search(line)] for side in (ours, theirs))
        if ours != theirs:
            wrong[stream] = set(ours) ^ set(theirs)
    assert not wrong
    assert REWRITES[name](THOUGHT) != THOUGHT, "the rewrite does nothing"


def test_every_member_bent_once() -> None:
    assert bent_once(documented(PLAN, content(0, "text", "Hi"), tool(0, "a", "{}")), "cohere") > 500


def test_the_vendors_own_streams_have_only_findings_that_happened() -> None:
    """One of them failed: an invalid call, told in message-end."""
    found = {name: grave(facts(body, "cohere")) for name, body in wire_streams("cohere-v2")}
    assert [codes for codes in found.values() if codes] in ([], [{"error.in-stream": "f"}])


def test_facts_of_a_documented_stream() -> None:
    assert [line.removeprefix("wire.") for line in facts_alone(facts(laid_out(CALLS), "cohere"))] == [
        "choice.count = 1", "cohere.ended = true", "cohere.opened = true", "cohere.overlap = false",
        "cohere.start = first", "end.marker = present", "end.state = eof", "finish.class.tool_calls = true",
        "finish.place.alone = true", "finish.value.TOOL_CALL = true", "http.status = 200", "logprobs = false",
        "result = ok", "sse.comments = false", "sse.data-space = true", "sse.event-names = all",
        "sse.line-endings.lf = true", "tool.arguments-form.json = true", "tool.arguments-split.pieces = true",
        "tool.id.first.string = true", "tool.index.present = true", "tool.name.first.string = true",
        "usage.base.input = true", "usage.base.output = true", "usage.counters.tokens/input_tokens = true",
        "usage.counters.tokens/output_tokens = true", "usage.details.billed_units/input_tokens = true",
        "usage.details.billed_units/output_tokens = true", "usage.details.cached_tokens = true",
        "usage.position.message-end = true", "usage.present = true", "usage.repeated = false", "usage.zero = false",
    ]  # fmt: skip
