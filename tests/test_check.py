from __future__ import annotations

import copy
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.answers import FEATURES, Answer, CaseOutcome, Expected, Verdict, judge
from harness.cases import quirk_cases
from harness.claims import Claims, KnownFailure
from harness.cuts import FAMILIES
from harness.errors import UsageError
from harness.findings import Outcome
from harness.history import Problem
from harness.jsontext import to_json
from harness.recording import Read, Recording, sidecar_of
from harness.reduce import Reducer
from harness.reports.check import check_text
from harness.runs.check import check, target_of
from harness.runs.check_report import CaseResult, CheckReport
from harness.targets import CallableTarget, reference

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "docs" / "examples"
DELTA = '{"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":%s}]}'


def event(text: str, finish: str = "null") -> str:
    return f"data: {DELTA % (text, finish)}\n\n"


GOOD = event("Hé") + event("llo", '"stop"') + "data: [DONE]\n\n"
FAILS = event("He") + 'data: {"error":{"type":"server_error","message":"down"}}\n\n'
CUT = event("He")


def expected(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "text": "Héllo", "reasoning": "", "tool_calls": [], "finish_reason": "stop", "finish_raw": "stop",
        "terminal": "done", "usage": None, "error": None,
    }  # fmt: skip
    return {**base, **changes}


EXPECT = {
    "good": (GOOD, expected()),
    "fails": (FAILS, expected(text="He", finish_reason=None, finish_raw=None, terminal="error",
                              error={"type": "server_error", "code": None, "message": "down"})),
    "cut": (CUT, expected(text="He", finish_reason=None, finish_raw=None, terminal="truncated")),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three small cases: good, fails, cut."""
    for name, (body, expect) in EXPECT.items():
        (tmp_path / f"{name}.sse").write_bytes(body.encode())
        case = {"family": "chat", "kind": "x", "fault": "x", "verdict": "fatal", "expect": expect, "why": "x"}
        (tmp_path / f"{name}.json").write_text(json.dumps(case))
    return tmp_path


def reading(pieces: Iterable[bytes]) -> dict[str, Any]:
    """Message JSON by our own reducer."""
    reducer = Reducer()
    for piece in pieces:
        reducer.feed(piece)
    reducer.finish()
    found: dict[str, Any] = msgspec.to_builtins(reducer.message())
    return found


Change = Callable[[dict[str, Any]], object]


def changed(change: Change) -> Callable[[Iterable[bytes]], Any]:
    """The right reading, spoilt."""

    def target(pieces: Iterable[bytes]) -> Any:
        message = reading(pieces)
        change(message)
        return message

    return target


def of(report: CheckReport, case: str) -> CaseResult:
    return next(result for result in report.cases if result.case == case)


def outcomes(report: CheckReport) -> dict[str, str]:
    return {result.case: str(result.outcome) for result in report.cases}


def test_the_reference_is_right_on_every_quirk_at_every_cut_in_time() -> None:
    started = time.process_time()
    report = check(CallableTarget(reference))
    assert time.process_time() - started < 60
    assert {result.case for result in report.cases if not result.outcome.good} == set()
    assert report.outcome is Outcome.CONFORMS
    assert len(report.cases) == len(list(quirk_cases())) >= 64
    assert "skipped" not in report.counts
    assert report.counts["told"] >= 5
    assert report.not_observed == []
    assert report.cuts == list(FAMILIES)


def test_outcomes_of_a_target_that_returns_whatever_comes(folder: Path) -> None:
    def careless(pieces: Iterable[bytes]) -> dict[str, Any]:
        return {"role": "assistant", "content": reading(pieces)["text"]}

    report = check(CallableTarget(careless), folder=folder)
    assert outcomes(report) == {"cut": "accepted-truncation", "fails": "accepted-error", "good": "right"}
    assert report.outcome is Outcome.DIFFERS
    assert of(report, "fails").failures[0].differences == ["returned normally, but the stream has an error"]
    hidden = "not in any answer, so not compared: reasoning, choices, finish_reason, terminal, usage, error"
    assert hidden in report.not_observed


def test_raising_is_right_on_failed_and_cut_streams_and_wrong_on_good_ones(folder: Path) -> None:
    def strict(pieces: Iterable[bytes]) -> None:
        raise ValueError("I take nothing")

    report = check(CallableTarget(strict), folder=folder)
    assert outcomes(report) == {"cut": "told", "fails": "told", "good": "raised"}
    (failed,) = of(report, "good").failures
    assert failed.smallest == "whole"
    assert [line.partition(" at ")[0] for line in failed.differences] == ["ValueError: I take nothing"]
    assert "bytes" in failed.also


def test_a_message_that_says_that_it_failed_is_told_and_still_compared(folder: Path) -> None:
    report = check(CallableTarget(changed(lambda m: None)), folder=folder)
    assert outcomes(report) == {"cut": "told", "fails": "told", "good": "right"}
    lost = check(CallableTarget(changed(lambda m: m.update(text=""))), folder=folder)
    assert outcomes(lost) == {"cut": "wrong", "fails": "wrong", "good": "wrong"}
    assert of(lost, "good").failures[0].differences == ['text: "" is not "Héllo"']


def by_piece(pieces: Iterable[bytes]) -> dict[str, Any]:
    """Decodes each piece by itself, so that a character cut in two is lost."""
    return reading(piece.decode("utf-8", "replace").encode() for piece in pieces)


def test_a_failure_is_shrunk_to_the_smallest_cut_and_its_command_line_reproduces_it(folder: Path) -> None:
    target = CallableTarget(by_piece, "here:by_piece")
    report = check(target, folder=folder)
    assert outcomes(report) == {"cut": "told", "fails": "told", "good": "wrong"}
    (failed,) = of(report, "good").failures
    inside = GOOD.encode().index(b"\xa9")
    assert failed.smallest == f"at:{inside}"
    assert failed.cuts == "bytes"
    assert "inside-characters" in failed.also
    assert failed.repro == f"harness check here:by_piece --case good --cut at:{inside}"
    again = check(target, folder=folder, cases=["good"], cuts=[failed.smallest])
    assert [(result.case, str(result.outcome)) for result in again.cases] == [("good", "wrong")]
    uncut = check(target, folder=folder, cases=["good"], cuts=["whole"])
    assert outcomes(uncut) == {"good": "right"}


def test_a_hung_target_costs_its_time_limit_once_a_case(folder: Path) -> None:
    def hangs(pieces: Iterable[bytes]) -> None:
        time.sleep(0.4)

    report = check(CallableTarget(hangs, timeout=0.05), folder=folder, cases=["good"])
    (result,) = report.cases
    assert (result.outcome, result.runs) == (CaseOutcome.HUNG, 1)


class Dumped:
    """As the models of SDKs are."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def model_dump(self, mode: str) -> Any:
        if self.value is None:
            raise ValueError("no value")
        return self.value


class Barred(dict[str, Any]):
    """An answer that lets nobody look at it."""

    def get(self, key: str, default: Any = None) -> Any:
        raise LookupError(key)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (Barred(text="Hi"), "returned a Barred that cannot be read: LookupError"),
        (None, "returned null: return message JSON or an assistant message"),
        ("Hello", 'returned "Hello"'),
        (iter([]), "returned list_iterator"),
        ({}, "an object with nothing"),
        ({"content": "Hi"}, "an object with content: return message JSON"),
        ({"text": "", "messages": "x"}, "messages is \"x\": return a list"),
        (b"{}", "returned bytes"),
        (Dumped(None), "returned a Dumped that cannot be read: ValueError('no value')"),
    ],
)
def test_what_is_no_message_broke(value: Any, says: str) -> None:
    verdict = judge(Answer(state="accepted", value=value), Expected(terminal="done"))
    assert verdict.outcome is CaseOutcome.BROKE
    assert verdict.differences[0].startswith(says)


CALLS: list[dict[str, Any]] = [
    {"index": 0, "id": "call_1", "name": "f", "arguments": '{"a": [1, true]}'},
    {"index": 1, "id": None, "name": "g", "arguments": ""},
]
WANTED = msgspec.convert(
    {
        "text": "Hi", "reasoning": "Hm", "tool_calls": CALLS, "finish_reason": "tool_calls",
        "finish_raw": "function_call", "terminal": "done", "usage": {"input_tokens": 3, "output_tokens": None},
        "error": None, "other_choices": [{"choice": 1, "text": "Yo", "tool_calls": []}],
    },
    Expected,
)  # fmt: skip


def answer() -> dict[str, Any]:
    first = {**CALLS[0], "arguments": '{"a":[1.0,true]}'}
    second = {"index": 1, "id": "", "name": "g", "arguments": "{}"}
    other = {"choice": 1, "text": "Yo", "tool_calls": None}
    return {
        "text": "Hi", "reasoning": "Hm", "refusal": "", "tool_calls": [first, second], "finish_reason": "tool_calls",
        "finish_raw": "function_call", "terminal": "done", "usage": {"input_tokens": 3, "output_tokens": None, "x": 1},
        "error": None, "choices": [{"choice": 0}, other],
    }  # fmt: skip


def verdict_on(value: Any, features: Iterable[str] = FEATURES) -> Verdict:
    return judge(Answer(state="accepted", value=value), WANTED, tuple(features))


def test_null_absent_and_empty_are_the_same_and_arguments_are_compared_as_json() -> None:
    verdict = verdict_on(answer())
    assert (verdict.outcome, verdict.differences) == (CaseOutcome.RIGHT, ())
    assert verdict.compared == set(FEATURES) - {"recovery"}


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda m: m.update(text=None), 'text: null is not "Hi"'),
        (lambda m: m.update(text=["Hi"]), 'text: ["Hi"] is not "Hi"'),
        (lambda m: m.pop("reasoning"), 'reasoning: null is not "Hm"'),
        (lambda m: m.update(refusal="No"), 'refusal: "No" is not null'),
        (lambda m: m["tool_calls"].pop(), 'tool_calls (id, name): [["call_1","f"]] is not [["call_1","f"],[null,"g"]]'),
        (lambda m: m["tool_calls"].reverse(),
         'tool_calls (id, name): [[null,"g"],["call_1","f"]] is not [["call_1","f"],[null,"g"]]'),
        (lambda m: m["tool_calls"][1].update(id="made_up"),
         'tool_calls (id, name): [["call_1","f"],["made_up","g"]] is not [["call_1","f"],[null,"g"]]'),
        (lambda m: m["tool_calls"][0].update(index=5), "index of call 0: 5 is not 0"),
        (lambda m: m["tool_calls"][0].update(arguments='{"a":[1,1]}'),
         'arguments of call 0: "{\\"a\\":[1,1]}" is not "{\\"a\\": [1, true]}"'),
        (lambda m: m["tool_calls"][0].update(arguments={"a": [1, True]}), None),
        (lambda m: m.update(tool_calls={"0": 1}),
         'tool_calls: {"0":1} is not [{"index":0,"id":"call_1","name":"f","arguments":"{\\"a\\": [1, true]}"},'
         '{"index":1,"id":null,"name...'),
        (lambda m: m.update(finish_reason="stop"), 'finish_reason: "stop" is not "tool_calls"'),
        (lambda m: m.update(finish_raw="tool_calls"), 'finish_raw: "tool_calls" is not "function_call"'),
        (lambda m: m.pop("finish_raw"), None),
        (lambda m: m.update(terminal="finish"), 'terminal: "finish" is not "done"'),
        (lambda m: m["usage"].update(output_tokens=1),
         'usage: {"input_tokens":3,"output_tokens":1,"x":1} is not {"input_tokens":3,"output_tokens":null}'),
        (lambda m: m.update(error={"message": "x"}), 'error: {"message":"x"} is not null'),
        (lambda m: m.update(error={"message": None}), None),
        (lambda m: m["choices"].pop(), 'choices beside 0: [] is not ["1"]'),
        (lambda m: m["choices"][1].update(text="Hi"), 'text of choice 1: "Hi" is not "Yo"'),
        (lambda m: m["choices"][1].update(tool_calls=[CALLS[1]]),
         'tool_calls of choice 1 (id, name): [[null,"g"]] is not []'),
    ],
)  # fmt: skip
def test_each_difference_is_one_short_line(change: Change, difference: str | None) -> None:
    value = copy.deepcopy(answer())
    change(value)
    assert verdict_on(value).differences == (() if difference is None else (difference,))


def test_a_long_text_is_shown_around_its_first_difference() -> None:
    want = Expected(terminal="done", text="x" * 500 + "right" + "y" * 500)
    got = Answer(state="accepted", value={"text": "x" * 500 + "wrong" + "y" * 500})
    (line,) = judge(got, want, ()).differences
    assert "xxxwrong" in line
    assert "xxxright" in line
    assert len(line) < 260


def test_what_is_not_claimed_is_not_compared() -> None:
    value = {"text": "Hi", "tool_calls": answer()["tool_calls"]}
    assert len(verdict_on(value).differences) == 5
    assert verdict_on(value, ["tool_calls"]) == Verdict(outcome=CaseOutcome.RIGHT, compared=frozenset({"tool_calls"}))


OPENAI: dict[str, Any] = {
    "role": "assistant", "content": "Hi",
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":[1,true]}'}},
        {"id": "", "type": "custom", "custom": {"name": "g", "input": ""}},
    ],
}  # fmt: skip
PARTS = {**OPENAI, "content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}
ANTHROPIC = {
    "role": "assistant", "stop_reason": "tool_use",
    "content": [
        {"type": "thinking", "thinking": "Hm", "signature": "s"},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": [1, True]}},
        {"type": "tool_use", "id": "", "name": "g", "input": {}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("value", [OPENAI, PARTS, ANTHROPIC, Dumped(OPENAI), {"message": OPENAI}])
def test_assistant_messages_are_compared_on_what_they_show(value: Any) -> None:
    verdict = verdict_on(value)
    assert verdict.differences == ()
    assert verdict.outcome is CaseOutcome.RIGHT
    assert verdict.compared - {"reasoning"} == {"tool_calls", "refusal"}


def test_an_assistant_message_shows_text_refusal_and_calls() -> None:
    wrong = copy.deepcopy(OPENAI)
    wrong["tool_calls"][0]["function"]["arguments"] = "{}"
    wrong["refusal"] = "No"
    wrong["content"] = None
    assert [line.partition(":")[0] for line in verdict_on(wrong).differences] == [
        "text", "refusal", "arguments of call 0",
    ]  # fmt: skip


def test_the_next_requests_history_is_checked_where_it_is_returned() -> None:
    results = [{"role": "tool", "tool_call_id": call_id, "content": "r"} for call_id in ("call_1", "")]
    assert verdict_on((OPENAI, [OPENAI, *results])).outcome is CaseOutcome.RIGHT
    assert "messages" in verdict_on((OPENAI, [OPENAI, *results])).compared
    for form in (
        (OPENAI, [OPENAI, *reversed(results)]),
        {"message": OPENAI, "messages": [OPENAI, *reversed(results)]},
        {**answer(), "messages": [OPENAI, *reversed(results)]},
    ):
        (line,) = verdict_on(form).differences
        assert line == 'messages[1]: the result for "" stands where that for "call_1" is due'


LEAVES = st.none() | st.booleans() | st.floats() | st.sampled_from(["assistant", "text", "tool_use", "thinking", ""])
MEMBERS = st.sampled_from(
    ["role", "content", "type", "tool_calls", "function", "custom", "choices", "choice", "usage", "text", "id", "error",
     "terminal", "messages", "message", "function_call", "reasoning", "arguments", "thinking"]
)  # fmt: skip
# Nested by hand: st.recursive warns now and then that these strategies do not recurse, and warnings are errors here.
JSON: st.SearchStrategy[Any] = LEAVES
for _ in range(3):
    JSON = LEAVES | st.lists(JSON, max_size=3) | st.dictionaries(MEMBERS, JSON, max_size=4)


@given(JSON)
def test_no_answer_makes_judging_raise(value: Any) -> None:
    for want in (WANTED, Expected(terminal="error")):
        verdict = judge(Answer(state="accepted", value=value), want)
        assert verdict.outcome.good or verdict.differences


def test_numbers_too_long_to_be_written_are_told_by_their_kind() -> None:
    verdict = judge(Answer(state="accepted", value={"text": 10**5000}), Expected(text="Hi", terminal="done"))
    assert verdict.differences[0] == 'text: <int> is not "Hi"'


def test_a_finish_that_is_a_failure_may_be_raised() -> None:
    want = Expected(terminal="finish", finish_reason="error", finish_raw="MALFORMED_FUNCTION_CALL")
    assert judge(Answer(state="rejected", reason="x"), want).outcome is CaseOutcome.TOLD
    assert judge(Answer(state="accepted", value={"text": ""}), want).outcome is CaseOutcome.WRONG


def test_cases_that_need_what_is_not_claimed_are_skipped_by_name() -> None:
    target = CallableTarget(reference, claims=Claims(dialects=("chat",), features=("finish_reason",)))
    report = check(target, cuts=["whole"])
    reasons = {result.case: result.reason for result in report.cases if result.outcome is CaseOutcome.SKIPPED}
    assert reasons["021-interleaved-parallel-calls"] == "needs tool_calls, which is not claimed"
    assert reasons["059-refusal-delta"] == "needs refusal, which is not claimed"
    assert reasons["055-two-choices-interleaved"] == "needs choices, which is not claimed"
    assert reasons["045-error-in-unknown-field"] == "needs recovery, which is not claimed"
    assert "001-data-no-space" not in reasons
    assert report.outcome is Outcome.CONFORMS
    assert "1 case skipped: needs choices, which is not claimed" in report.not_observed
    nothing = check(CallableTarget(reference, claims=Claims(dialects=("cohere",))), cases=["001*"])
    assert nothing.outcome is Outcome.NOT_MEASURED
    assert nothing.cases[0].reason == "dialect chat is not claimed"


def test_a_target_without_claims_is_asked_chat_only(folder: Path) -> None:
    case = json.loads((folder / "good.json").read_text())
    (folder / "good.json").write_text(json.dumps({**case, "family": "anthropic"}))
    report = check(CallableTarget(reading), folder=folder)
    assert of(report, "good").reason == "dialect anthropic is not claimed"
    assert report.not_observed[0] == "dialects: the target claims none, so it was asked chat only"


def test_known_failures_are_used_and_one_that_passes_is_reported(folder: Path) -> None:
    known = (
        KnownFailure(case="good", reason="accents"),
        KnownFailure(case="cut", reason="was fixed"),
    )
    report = check(CallableTarget(by_piece, claims=Claims(known_failures=known)), folder=folder)
    assert report.outcome is Outcome.CONFORMS
    assert of(report, "good").known == "accents"
    assert [use.state for use in report.known_failures] == ["fails", "passes"]
    text = check_text(report)
    assert "good: still fails (accents)" in text
    assert "cut: passes now: take it out of known_failures (was fixed)" in text
    only = check(CallableTarget(by_piece, claims=Claims(known_failures=known)), folder=folder, cases=["cut"])
    assert [use.state for use in only.known_failures] == ["unmeasured", "passes"]


def test_the_gravest_faults_must_be_known_by_name(folder: Path) -> None:
    def careless(pieces: Iterable[bytes]) -> dict[str, Any]:
        return {"role": "assistant", "content": reading(pieces)["text"]}

    def run(outcome: CaseOutcome | None) -> CheckReport:
        known = KnownFailure(case="cut", reason="counts", outcome=outcome)
        target = CallableTarget(careless, claims=Claims(known_failures=(known,)))
        return check(target, folder=folder, cases=["cut"], cuts=["whole"])

    assert run(None).outcome is Outcome.DIFFERS
    assert run(None).known_failures[0].state == "other-failure"
    assert run(CaseOutcome.ACCEPTED_TRUNCATION).outcome is Outcome.CONFORMS


def test_names_that_do_not_exist_are_usage_errors(folder: Path) -> None:
    target = CallableTarget(reading)
    with pytest.raises(UsageError, match="no case 'goood'; did you mean 'good'"):
        check(target, folder=folder, cases=["goood"])
    with pytest.raises(UsageError, match="no family of cuts 'byte'"):
        check(target, folder=folder, cuts=["byte"])
    with pytest.raises(UsageError, match="is given each stream in one piece: leave --cut out"):
        check(CallableTarget(reading, payloads=True), folder=folder, cuts=["bytes"])
    claims = Claims(known_failures=(KnownFailure(case="x", reason="y"),))
    with pytest.raises(UsageError, match="known_failures: no case 'x'"):
        check(CallableTarget(reading, claims=claims), folder=folder)
    (folder / "good.json").write_text('{"family": "chat", "verdict": "fatal", "expect": {"text": 1}}')
    with pytest.raises(UsageError, match=r"good\.json: .*text"):
        check(target, folder=folder)


@pytest.fixture
def fixtures(tmp_path: Path) -> Path:
    """A recorded answer with its message, a refused request, and an answer nobody read yet."""
    root = tmp_path / "fixtures"
    (root / "mine").mkdir(parents=True)
    for shape, status in (("text", 200), ("error", 400), ("stop", 200)):
        body = GOOD.encode() if status == 200 else b'{"error": {"message": "no"}}'
        reads = [Read(end=20, microseconds=1), Read(end=len(body), microseconds=2)]
        recording = Recording(body=body, reads=reads, status=status, end="eof", dialect="chat", shape=shape)
        (root / "mine" / f"{shape}.sse").write_bytes(body)
        (root / "mine" / f"{shape}.json").write_text(to_json(sidecar_of(recording)))
    for shape in ("text", "error"):
        message = reading([(root / "mine" / f"{shape}.sse").read_bytes()])
        del message["notes"]
        (root / "mine" / f"{shape}.expected.json").write_text(json.dumps({"message": message, "structure": []}))
    return root


def test_fixtures_are_checked_against_their_expected_message_as_they_were_read(fixtures: Path) -> None:
    seen: list[list[int]] = []

    def target(pieces: Iterable[bytes]) -> dict[str, Any]:
        parts = list(pieces)
        seen.append([len(part) for part in parts])
        return reading(parts)

    report = check(CallableTarget(target), fixtures=fixtures, quirks=False, cuts=["recorded"])
    assert outcomes(report) == {"mine/error": "skipped", "mine/text": "right"}
    assert of(report, "mine/error").reason == "status 400 with a body that is no stream: the target sees bodies only"
    whole = [len(GOOD.encode())]  # the probe that tells what the answers hold
    assert seen == [whole, [20, len(GOOD.encode()) - 20]]
    assert report.not_observed[-1] == (
        f"fixtures without .expected.json: mine/stop; `harness expect --write {fixtures}/mine/stop.sse` writes it: "
        "read it over"
    )
    counts = CallableTarget(changed(lambda m: m.update(usage={"input_tokens": 1})))
    wrong = check(counts, fixtures=fixtures, quirks=False)
    assert of(wrong, "mine/text").outcome is CaseOutcome.WRONG
    (fixtures / "mine" / "text.expected.json").write_text("{")
    with pytest.raises(UsageError, match=r"text\.expected\.json: .*harness expect .* --write"):
        check(CallableTarget(target), fixtures=fixtures, quirks=False)


def test_what_is_typed_for_missing_expectations_leaves_none_out_and_touches_no_other(fixtures: Path) -> None:
    def command() -> str:
        said = check(CallableTarget(reading), fixtures=fixtures, quirks=False, cuts=["whole"]).not_observed[-1]
        return said.partition("`harness expect --write ")[2].partition("`")[0]

    for name in ("a", "b", "c", "d"):
        (fixtures / "mine" / f"{name}.sse").write_bytes(GOOD.encode())
    # Two of the folder have one, which may have been corrected by hand.
    assert command().split() == [f"{fixtures}/mine/{name}.sse" for name in ("a", "b", "c", "d", "stop")]
    for path in fixtures.rglob("*.expected.json"):
        path.unlink()
    assert command() == f"{fixtures}/mine"
    for name in ("m", "n", "o"):
        (fixtures / name).mkdir()
        (fixtures / name / "text.sse").write_bytes(GOOD.encode())
    assert command() == str(fixtures)


def test_over_http_a_refusal_is_seen_too(fixtures: Path, tmp_path: Path) -> None:
    script = tmp_path / "client.py"
    script.write_text(
        "import os, sys, urllib.request\n"
        f"sys.path.insert(0, {str(EXAMPLES)!r})\n"
        "from accumulator import accumulate\n"
        "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
        "request = urllib.request.Request(os.environ['BASE_URL'] + '/chat/completions', b'{\"stream\": true}')\n"
        "with opener.open(request) as response:\n"
        "    print(__import__('json').dumps(accumulate(iter(lambda: response.read1(), b''))))\n"
    )
    target = target_of(None, [sys.executable, "-S", str(script)], mode="http", features=["tool_calls"])
    report = check(target, fixtures=fixtures, quirks=False, cuts=["whole", "recorded"])
    assert outcomes(report) == {"mine/error": "told", "mine/text": "right"}
    assert report.not_observed[0].startswith("cuts as such")


def test_the_report_as_json_keeps_to_its_schema(folder: Path) -> None:
    known = (KnownFailure(case="cut", reason="x"),)
    report = check(CallableTarget(by_piece, claims=Claims(known_failures=known)), folder=folder)
    schema = json.loads((ROOT / "docs" / "schema" / "check.json").read_text())
    value = json.loads(to_json(report))
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)
    assert list(value) == [
        "format", "target", "outcome", "summary", "counts", "runs", "cuts", "cases", "known_failures", "diagnosis",
        "not_observed",
    ]  # fmt: skip
    made = msgspec.json.schema(CheckReport)
    assert {key: schema[key] for key in made} == made, "check.json is written anew from this"


def test_the_text_leads_with_the_gravest_and_shows_each_command_line(folder: Path) -> None:
    def careless(pieces: Iterable[bytes]) -> dict[str, Any]:
        return {"role": "assistant", "content": by_piece(pieces)["text"] + "\x1b[31m"}

    text = check_text(check(CallableTarget(careless, "a:b"), folder=folder))
    lines = text.splitlines()
    assert lines[0].startswith("a:b: DIFFERS (1 wrong, 1 accepted-truncation, 1 accepted-error; ")
    assert [line.strip() for line in lines if line.startswith("  ") and "(chat)" in line] == [
        "ACCEPTED AN ERROR   fails (chat)", "ACCEPTED A TRUNCATION   cut (chat)", "WRONG   good (chat)",
    ]  # fmt: skip
    assert "      $ harness check a:b --case fails --cut whole" in lines
    assert "\x1b" not in text


def each_piece(pieces: Iterable[bytes]) -> dict[str, Any]:
    """Takes each piece for whole lines."""
    return reading(line + b"\n\n" for piece in pieces for line in piece.split(b"\n") if line)


def test_the_summary_says_what_many_failures_have_in_common_and_what_to_do() -> None:
    report = check(CallableTarget(each_piece, claims=Claims(features=("tool_calls",))))
    text = check_text(report)
    assert re.search(r"^in short:\n  \d+ cases fail only when cut: an unfinished line is not kept between pieces: ",
                     text, re.MULTILINE)  # fmt: skip
    assert text.index("in short:") < text.index("your accumulator behaves") < text.index("  WRONG")
    characters = check(CallableTarget(by_piece)).summary
    assert any("only when cut: a character's bytes are not kept together" in line for line in characters)


def test_failures_of_one_place_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one_place.py").write_text(
        "import json\nfrom json import loads\ndef accumulate(pieces):\n"
        "    text = ''\n    for line in b''.join(pieces).splitlines():\n"
        "        if line.startswith(b'data: {'):\n            text += loads(line[6:])['choices'][0]['delta']['no']\n"
        "    return text\ndef numbers(pieces):\n    return json.loads('no')\n"
    )
    report = check(target_of("one_place:accumulate"), cuts=["whole"])
    summary = next(line for line in report.summary if "alike" in line)
    assert re.fullmatch(r"\d+ cases fail alike, such as 0\S+: KeyError: 'no' at one_place\.py:7", summary)
    # What is not the user's is passed over: here the last frame is Python's own.
    (failed,) = check(target_of("one_place:numbers"), cases=["001*"], cuts=["whole"]).cases[0].failures
    assert failed.differences[0].startswith("JSONDecodeError: Expecting value: line 1 column 1 (char 0) at one_place")


def test_streams_that_were_taken_for_answers_are_counted() -> None:
    def careless(pieces: Iterable[bytes]) -> dict[str, Any]:
        return {"role": "assistant", "content": reading(pieces)["text"]}

    summary = check(CallableTarget(careless), cuts=["whole"]).summary
    assert any(line.endswith("that end in an error are returned as whole answers: raise where an error comes")
               for line in summary)  # fmt: skip


def test_the_clearest_failures_are_printed_and_all_where_they_are_asked_for() -> None:
    report = check(CallableTarget(each_piece))
    few, every = check_text(report), check_text(report, every=True)
    failing = [result for result in report.cases if not result.outcome.good]
    assert few.count("what is odd in it: ") == 10 < len(failing) == every.count("what is odd in it: ")
    assert f"\n  and {len(failing) - 10} more: --all\n" in few
    assert "--all" not in every
    for result in failing:
        assert f"{result.case} (chat" in every
        assert result.fault in every


def test_contested_cases_come_last_and_say_how_to_keep_them_and_known_ones_count_as_known() -> None:
    def careless(pieces: Iterable[bytes]) -> dict[str, Any]:
        return {"role": "assistant", "content": reading(pieces)["text"]}

    contested = "045-error-in-unknown-field"
    text = check_text(check(CallableTarget(careless), cases=["04*"], cuts=["whole"]))
    shown = [line for line in text.splitlines() if "(chat" in line]
    assert shown[-1].endswith(f"{contested} (chat; contested: readers differ with good reason)")
    assert shown[0].startswith("  ACCEPTED AN ERROR   043")
    assert ("meant so? put it under known_failures in a claims file (docs/targets.md): "
            f"- {{case: {contested}, outcome: accepted-error, reason: ...}}") in text  # fmt: skip
    known = KnownFailure(case=contested, reason="as the standard says", outcome=CaseOutcome.ACCEPTED_ERROR)
    target = CallableTarget(careless, claims=Claims(known_failures=(known,)))
    report = check(target, cases=[contested], cuts=["whole"])
    assert check_text(report).splitlines()[0].endswith("careless: CONFORMS (1 known; 1 run)")
    assert report.counts == {"accepted-error": 1}


def test_a_reader_that_hangs_only_when_cut_is_told_the_likely_reason(folder: Path) -> None:
    def slow(pieces: Iterable[bytes]) -> dict[str, Any]:
        parts = list(pieces)
        if len(parts) > 1:
            time.sleep(0.4)
        return reading(parts)

    report = check(CallableTarget(slow, timeout=0.1), folder=folder, cases=["good"])
    (failed,) = of(report, "good").failures
    hint = "your buffer is searched again for each piece; look for the line end in the new piece only"
    assert failed.differences == ["not done after 0.1 seconds", hint]
    assert report.summary == [f"good fails, not done in time when cut: {hint}"]


def test_progress_is_told_case_by_case(folder: Path) -> None:
    told: list[str] = []
    check(CallableTarget(reading), folder=folder, jobs=2, progress=lambda result: told.append(result.case))
    assert told == ["cut", "fails", "good"]


def test_targets_are_named_in_one_way(tmp_path: Path) -> None:
    claims = tmp_path / "claims.yaml"
    claims.write_text("features: [tool_calls]\n")
    target = target_of("harness.targets:reference", claims=claims, dialects=["chat"])
    assert (target.claims.dialects, target.claims.features) == (("chat",), ("tool_calls",))
    assert target.command(["--cut", "bytes"])[3:] == ["--dialect", "chat", "--claims", str(claims), "--cut", "bytes"]
    assert target_of("harness.targets:reference", payloads=True).unseen != ()
    wrong: list[tuple[str | None, list[str], dict[str, Any], str]] = [
        (None, [], {}, "name one target"),
        ("a:b", ["cat"], {}, "name one target"),
        (None, ["cat"], {"payloads": True}, "--payloads is for a Python callable"),
        ("a:b", [], {"mode": "jsonl"}, "--jsonl is for a command"),
    ]
    for place, command, options, says in wrong:
        with pytest.raises(UsageError, match=says):
            target_of(place, command, **options)


# The examples of docs/targets.md.

FEW = ["002*", "012*", "021*", "022*", "043*", "049*"]


def repeat(repro: str) -> CheckReport:
    """Run a report's command line again, without the shell."""
    words = shlex.split(repro)
    assert words[:2] == ["harness", "check"]
    options, command = words[2 : words.index("--")], words[words.index("--") + 1 :]
    assert options.pop(0) == "--jsonl"
    named = dict(zip(options[::2], options[1::2], strict=True))
    target = target_of(None, command, mode="jsonl", claims=Path(named["--claims"]))
    return check(target, cases=[named["--case"]], cuts=[named["--cut"]])


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed")
    return found


def javascript(node: str, script: str, *, jsonl: bool) -> Any:
    command = [node, str(EXAMPLES / script), *(["--jsonl"] if jsonl else [])]
    return target_of(None, command, mode="jsonl" if jsonl else "stdin", claims=EXAMPLES / "javascript.yaml")


def test_the_javascript_example_is_right_where_it_is_cut(node: str) -> None:
    report = check(javascript(node, "accumulator.mjs", jsonl=True), cases=FEW, jobs=2)
    assert report.outcome is Outcome.CONFORMS
    assert report.counts == {"right": 4, "told": 2}
    assert report.runs > 30


def test_the_javascript_example_is_right_on_every_case_on_stdin_and_the_report_says_what_that_leaves_out(
    node: str,
) -> None:
    report = check(javascript(node, "accumulator.mjs", jsonl=False), jobs=2)
    assert report.outcome is Outcome.CONFORMS
    assert report.cuts == ["whole"]
    assert report.not_observed[0].startswith("cuts: the body is on stdin in one piece")


def test_keying_calls_by_arrival_is_caught_and_the_command_line_shows_it_again(node: str) -> None:
    report = check(javascript(node, "by_arrival.mjs", jsonl=True), cases=FEW, jobs=2)
    assert report.outcome is Outcome.DIFFERS
    assert [result.case for result in report.cases if not result.outcome.good] == ["021-interleaved-parallel-calls"]
    (failed,) = of(report, "021-interleaved-parallel-calls").failures
    again = repeat(failed.repro)
    assert outcomes(again) == {"021-interleaved-parallel-calls": "wrong"}
    assert again.cases[0].failures[0].differences == failed.differences


def test_the_python_example_conforms_with_its_known_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    report = check(target_of("accumulator:accumulate", claims=Path("python.yaml")))
    assert report.outcome is Outcome.CONFORMS
    assert {use.state for use in report.known_failures} == {"fails"}


def test_the_rust_example_conforms_with_its_known_failures(tmp_path: Path) -> None:
    rustc = shutil.which("rustc")
    if rustc is None:
        pytest.skip("rustc is not installed")
    program = tmp_path / "accumulator"
    subprocess.run([rustc, str(EXAMPLES / "accumulator.rs"), "-o", str(program)], check=True, timeout=120)
    report = check(
        target_of(None, [str(program), "--jsonl"], mode="jsonl", claims=EXAMPLES / "rust.yaml"),
        cuts=["whole", "bytes", "seeded:1"], jobs=2,
    )  # fmt: skip
    assert report.outcome is Outcome.CONFORMS
    assert {use.state for use in report.known_failures} == {"fails"}


def test_the_page_for_users_names_everything() -> None:
    page = (ROOT / "docs" / "targets.md").read_text()
    listed = [line[:28] for line in (Problem.__doc__ or "").splitlines()]
    codes = [word for line in listed for word in re.findall(r"\b[a-z]+-[a-z-]+\b", line)]
    assert len(codes) > 15
    names = [*FEATURES, *map(str, CaseOutcome), *(family.partition(":")[0] for family in FAMILIES), *codes]
    assert [name for name in names if f"`{name}" not in page] == []


def test_what_is_undeclared_and_in_no_answer_is_not_compared_and_said() -> None:
    def text_only(pieces: Iterable[bytes]) -> dict[str, Any]:
        answer = reading(list(pieces))
        return {name: answer[name] for name in ("text", "tool_calls", "finish_raw")}

    report = check(CallableTarget(text_only), cases=["001-*", "021-*", "059-*", "049-*"], cuts=["whole"])
    assert outcomes(report) == {
        "001-data-no-space": "right", "021-interleaved-parallel-calls": "right", "059-refusal-delta": "skipped",
        "049-cut-between-events": "accepted-truncation",
    }  # fmt: skip
    assert "not in the answers, so not compared: reasoning, refusal, choices, terminal, usage, error" in (
        report.not_observed
    )
