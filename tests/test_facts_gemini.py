"""Facts of Gemini streams: one fault one finding; and none changes with wording, number of chunks or ids."""

from __future__ import annotations

import json
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
    labelled_wrong,
    recorded,
    renamed,
    told,
    wire_streams,
    wordless,
)  # fmt: skip

from harness.asked import Asked
from harness.compare import compare

COUNTS = {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14, "promptTokensDetails": []}


def candidate(*parts: dict[str, Any], reason: str | None = None, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": number}
    return found if reason is None else {**found, "finishReason": reason}


def chunk(*candidates: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": list(candidates), "usageMetadata": COUNTS, "modelVersion": "m-1", "responseId": "r-1", **more}


def text(piece: str, thought: bool = False) -> dict[str, Any]:
    return {"text": piece, "thought": True} if thought else {"text": piece}


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args}}


TEXT = [chunk(candidate(text("Hello"))), chunk(candidate(text(" there."), reason="STOP"))]
ALONE = [chunk(candidate(text("Hello there."))), chunk({"finishReason": "STOP", "index": 0})]
CALLS = [
    chunk(candidate(text("Let me look."))), chunk(candidate(call("get_weather", city="Paris"))),
    chunk(candidate(call("get_weather", city="Oslo"), call("list_cities"), reason="STOP")),
]  # fmt: skip
THOUGHT = [chunk(candidate(text("Two plus two.", thought=True))), *TEXT]
CODE = [chunk(candidate({"executableCode": {"code": "1", "language": "PYTHON"}}, reason="STOP"))]
DOCUMENTED = {"text": TEXT, "alone": ALONE, "calls": CALLS, "thought": THOUGHT, "code": CODE}


def at(place: int, *path: Any, to: Any = ...) -> Fault:
    """A member of one payload is another value; without one it is absent."""

    def fault(payloads: Payloads) -> None:
        node: Any = payloads[place]
        for name in path[:-1]:
            node = node[name]
        if to is ...:
            del node[path[-1]]
        else:
            node[path[-1]] = to

    return fault


def each(*path: Any, to: Any = ...) -> Fault:
    def fault(payloads: Payloads) -> None:
        for place in range(len(payloads)):
            at(place, *path, to=to)(payloads)

    return fault


FIRST = ("candidates", 0)
CALL = (*FIRST, "content", "parts", 0, "functionCall")
FAILURE = {"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}
FAULTS: list[tuple[str, Payloads, Fault, dict[str, str]]] = [
    ("no reason", TEXT, at(-1, *FIRST, "finishReason"), {"stream.cut": "f"}),
    ("no reason of one candidate", TEXT, lambda payloads: payloads.insert(1, chunk(candidate(text("x"), number=1))),
     {"finish.missing": "f"}),
    ("a reason nobody knows", TEXT, at(-1, *FIRST, "finishReason", to="TIRED"), {"finish.unknown-value": "n"}),
    ("reason empty", TEXT, at(0, *FIRST, "finishReason", to=""), {"finish.empty-string": "n"}),
    ("reason twice", TEXT, lambda payloads: payloads.append(payloads[-1]), {"finish.repeated": "n"}),
    ("a failed call", TEXT, at(-1, *FIRST, to={"finishReason": "MALFORMED_FUNCTION_CALL", "content": {}}),
     {"error.finish-reason": "f"}),
    ("a call nobody expected", TEXT[1:], at(0, *FIRST, to={"finishReason": "UNEXPECTED_TOOL_CALL"}),
     {"error.finish-reason": "f"}),
    ("text after the reason", TEXT, lambda payloads: payloads.append(chunk(candidate(text("!")))),
     {"finish.content-after": "n"}),
    ("a call after the reason", ALONE, lambda payloads: payloads.append(chunk(candidate(call("f")))),
     {"finish.content-after": "n"}),
    ("a call after the reason, and the reason again", ALONE,
     lambda payloads: payloads.append(chunk(candidate(call("f"), reason="STOP"))), {"finish.repeated": "n"}),
    ("no text", TEXT[1:], at(0, *FIRST, "content", "parts", to=[text("")]), {"stream.no-content": "f"}),
    ("blocked", TEXT[1:], lambda payloads: [{"promptFeedback": {"blockReason": "SAFETY"}}],
     {"gemini.prompt-blocked": "f"}),
    ("blocked for another reason", TEXT[1:], lambda payloads: [{"promptFeedback": {"blockReason": "OTHER"}}],
     {"gemini.prompt-blocked": "f"}),
    ("args as text", CALLS, at(1, *CALL, "args", to='{"city": "Paris"}'), {"gemini.arguments-string": "f"}),
    ("args as text that does not parse", CALLS, at(1, *CALL, "args", to="Paris"), {"gemini.arguments-string": "f"}),
    ("no name", CALLS, at(1, *CALL, "name"), {"tool.name-missing": "f"}),
    ("candidates no list", TEXT, at(0, "candidates", to=TEXT[0]["candidates"][0]), {"gemini.list-wrong-type": "f"}),
    ("parts no list", ALONE, at(0, *FIRST, "content", "parts", to=text("Hello")), {"gemini.list-wrong-type": "f"}),
    ("no counts", TEXT, each("usageMetadata"), {"usage.missing": "n"}),
    ("counts that count nothing", TEXT, each("usageMetadata", to={"trafficType": "ON_DEMAND"}), {"usage.missing": "n"}),
    ("counts of zeros", TEXT, each("usageMetadata", to=dict.fromkeys(COUNTS, 0)), {"usage.zero": "n"}),
    ("an error", TEXT, lambda payloads: [payloads[0], FAILURE], {"error.in-stream": "f"}),
    ("an error as text", TEXT, lambda payloads: [payloads[0], {"error": "overloaded"}], {"error.in-stream": "f"}),
    ("cut", CALLS, lambda payloads: payloads[:2], {"stream.cut": "f"}),
]  # fmt: skip


@pytest.mark.parametrize(("payloads", "fault", "expected"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_one_fault_is_one_finding(payloads: Payloads, fault: Fault, expected: dict[str, str]) -> None:
    baseline, candidate = facts(payloads, "gemini"), facts(faulty(payloads, fault), "gemini")
    assert told(baseline) == {}
    assert grave(candidate) == expected
    if "gemini.prompt-blocked" not in expected:  # a blocked prompt exercises no shape: the shapes say so
        assert compare([baseline], candidate).findings[0].rule in expected
    for finding in compare([baseline], candidate).findings:
        assert "()" not in finding.message


def test_documented_forms_are_no_findings() -> None:
    """CRLF, a reason beside text, calls without ids, args left out, counts that grow: all of it is the vendor's own."""
    growing = [
        {**payload, "usageMetadata": {**COUNTS, "candidatesTokenCount": place}} for place, payload in enumerate(TEXT)
    ]  # fmt: skip
    without_args = faulty(CALLS, at(1, *CALL, "args"))
    for payloads in (*DOCUMENTED.values(), growing, without_args):
        assert told(facts(sse(payloads).replace(b"\n", b"\r\n"), "gemini")) == {}
        assert told(facts(payloads, "gemini")) == {}
    assert told(facts(sse(TEXT).replace(b"\n", b"\r"), "gemini")) == {"sse.line-endings": "c"}


def test_done_of_chat_is_foreign() -> None:
    assert grave(facts(sse(TEXT) + b"data: [DONE]\n\n", "gemini")) == {"end.marker-foreign": "n"}


def test_forms_of_arguments() -> None:
    forms = facts(faulty(CALLS, at(2, *CALL, "args")), "gemini").get("tool.arguments-type")
    assert forms == {"object": True, "absent": True}
    pieces = {"functionCall": {"name": "f", "willContinue": True}}
    rest = {"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "b"}]}}
    streamed = [chunk(candidate(pieces)), chunk(candidate(rest)), chunk(candidate(text(""), reason="STOP"))]
    found = facts(streamed, "gemini")
    assert found.get("tool.arguments-type") == {"pieces": True}
    assert told(found) == {}


def test_place_of_the_counts() -> None:
    """The last value counts, and it is in the last chunk: what a reader of the last chunk sees is compared."""
    last, early = facts(TEXT, "gemini"), facts(faulty(TEXT, at(-1, "usageMetadata")), "gemini")
    assert (last.get("usage.position"), early.get("usage.position")) == ({"last": True}, {"not-last": True})
    assert told(early) == {}
    assert against(last, early) == {"usage.position": "n"}
    fewer = facts(faulty(TEXT, each("usageMetadata", to={"promptTokenCount": 9, "totalTokenCount": 14})), "gemini")
    assert against(last, fewer) == {"usage.counters": "n", "usage.details": "c"}


def test_place_of_the_reason() -> None:
    places = {name: facts(payloads, "gemini").get("finish.place") for name, payloads in DOCUMENTED.items()}
    assert places == {
        "text": {"with-text": True}, "alone": {"alone": True}, "calls": {"with-call": True},
        "thought": {"with-text": True}, "code": {"alone": True},
    }  # fmt: skip
    assert facts(TEXT, "gemini").get("finish.times") == "once"
    assert facts([*TEXT, TEXT[-1]], "gemini").get("finish.times") == "repeated"


def test_error_facts() -> None:
    found = facts([TEXT[0], FAILURE], "gemini")
    assert found.get("error") == {
        "delivery": "data", "place": "mid", "beside-content": False, "envelope": "error-object",
        "fields": {"code": True, "message": True, "status": True}, "code-type": "number",
    }  # fmt: skip
    assert found.get("end.marker") == "not-due"


def test_log_probabilities() -> None:
    asked = Asked(logprobs=True)
    assert grave(facts(TEXT, "gemini", asked)) == {"logprobs.missing": "f"}
    found = facts(faulty(TEXT, at(-1, *FIRST, "logprobsResult", to={"chosenCandidates": [{}]})), "gemini", asked)
    assert grave(found) == {}


# -- what must not change a fact ----------------------------------------------------------------------------------


def split(payloads: Payloads) -> Payloads:
    """Each chunk of one text in two; the reason stays with the second half."""
    out: Payloads = []
    for payload in payloads:
        found = (payload.get("candidates") or [{}])[0]
        parts = (found.get("content") or {}).get("parts") or []
        two = halves(parts[0].get("text")) if len(parts) == 1 else None
        if two is None or payload.get("promptFeedback"):
            out.append(payload)
            continue
        for half, last in zip(two, (False, True), strict=True):
            content = {**found["content"], "parts": [{**parts[0], "text": half}]}
            kept = {key: value for key, value in found.items() if last or key != "finishReason"}
            out.append({**payload, "candidates": [{**kept, "content": content}]})
    return out


REWRITES: dict[str, Callable[[Payloads], Payloads]] = {
    "split": split,
    "rename": lambda payloads: renamed(payloads, ("responseId", "id", "modelVersion", "createTime")),
    "letters": lambda payloads: wordless(payloads, ("text", "thoughtSignature", "city")),
}
RECORDED = dict(recorded("gemini", "gemini", b'"candidates"'))


@pytest.mark.parametrize("name", REWRITES)
def test_structure_is_the_same_after(name: str) -> None:
    wrong = {}
    for stream, payloads in {**DOCUMENTED, **RECORDED}.items():
        ours, theirs = (facts_alone(facts(side, "gemini")) for side in (payloads, REWRITES[name](payloads)))
        if name == "letters":  # markers are found by their letters
            ours, theirs = ([line for line in side if not MARKERS.search(line)] for side in (ours, theirs))
        if ours != theirs:
            wrong[stream] = set(ours) ^ set(theirs)
    assert not wrong
    assert REWRITES[name](TEXT) != TEXT, "the rewrite does nothing"


def test_every_member_bent_once() -> None:
    assert bent_once([*THOUGHT[:1], *CALLS[1:]], "gemini") > 500


# -- labels and recorded streams ----------------------------------------------------------------------------------


def test_labels_of_the_quirks() -> None:
    assert labelled_wrong("gemini") == []


def test_the_vendors_own_streams_have_only_findings_that_happened() -> None:
    """Two of them failed: a reason that is a failure, and no reason at all."""
    found = {name: grave(facts(body, "gemini")) for name, body in wire_streams("gemini")}
    failed = {name: codes for name, codes in found.items() if codes}
    assert list(failed.values()) in ([], [{"error.finish-reason": "f"}, {"stream.cut": "f"}])


def test_facts_of_a_documented_stream() -> None:
    found = facts(json.loads(json.dumps(CALLS)), "gemini")
    assert [line.removeprefix("wire.") for line in facts_alone(found)] == [
        "choice.count = 1", "end.marker = not-due", "end.state = eof", "finish.class.tool_calls = true",
        "finish.place.with-call = true", "finish.times = once", "finish.value.STOP = true",
        "gemini.candidates.list = true", "http.status = 200", "logprobs = false", "result = ok", "sse.comments = false",
        "sse.data-space = true", "sse.event-names = none", "sse.line-endings.lf = true", "text.markup = false",
        "text.think = false", "tool.arguments-form.json = true", "tool.arguments-split.whole = true",
        "tool.arguments-type.object = true", "tool.id.first.absent = true", "usage.base.input = true",
        "usage.base.output = true", "usage.counters.candidatesTokenCount = true",
        "usage.counters.promptTokenCount = true", "usage.counters.totalTokenCount = true",
        "usage.details.promptTokensDetails = true", "usage.position.last = true", "usage.present = true",
        "usage.zero = false",
    ]  # fmt: skip
