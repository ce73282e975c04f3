"""What to re-point at a cutover: read from the facts of both sides, silent where nothing is to be done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from commandline import harness
from reading import FIXTURES

from harness.clean import clean_stream
from harness.cutover import Side, cutover
from harness.findings import Finding, Outcome, Severity, ShapeResult
from harness.recording import Read, Recording
from harness.reports.markdown import gate_markdown
from harness.reports.once import cutover_once
from harness.reports.text import gate_text
from harness.runs.accepting import load_report
from harness.shapes import SHAPES
from harness.store import load
from harness.structure import structure
from harness.thresholds import timing_of

TEXT: dict[str, Any] = {"text": "Hello there.", "usage": {"input_tokens": 9, "output_tokens": 4}}
CALLS = [{"id": name, "name": "get_weather", "arguments": "{}"} for name in ("a", "b", "c")]
ERROR = {"type": "server_error", "code": 500, "message": "overloaded"}
FAILED = {"text": "Hello th", "terminal": "error", "error": ERROR}


def side(body: bytes, dialect: str = "chat", reads: list[Read] | None = None, status: int = 200) -> Side:
    recording = Recording(body=body, reads=reads or [], status=status, end="eof", dialect=dialect)
    return Side(recording=recording, structure=structure(recording, dialect))


def says(expect: Mapping[str, Any], dialect: str = "chat") -> Side:
    return side(clean_stream(dialect, expect, well_ended=expect is not FAILED), dialect)


def result(shape: str, outcome: Outcome = Outcome.CONFORMS, *rules: str, reason: str = "") -> ShapeResult:
    findings = [
        Finding(rule=rule, severity=Severity.FATAL, path="", baseline=None, candidate=None, message="", remedy="",
                evidence=[])
        for rule in rules
    ]  # fmt: skip
    return ShapeResult(shape=shape, outcome=outcome, findings=findings, reason=reason)


def told(topic: str, *more: ShapeResult, **pairs: tuple[Side, Side]) -> list[str]:
    """The sentences of a topic. `pairs`: baseline and candidate of each shape, _ for - in its name."""
    named = {name.replace("_", "-"): pair for name, pair in pairs.items()}
    results = [*more, *(result(shape) for shape in named if shape not in {given.shape for given in more})]
    sides = {shape: {("baseline", 1): old, ("candidate", 1): new} for shape, (old, new) in named.items()}
    found = cutover(results, sides)
    assert all(": " in sentence for sentence in found)
    return [sentence.partition(": ")[2] for sentence in found if sentence.startswith(f"{topic}: ")]


# -- errors -------------------------------------------------------------------------------------------------------


def test_an_envelope_that_stays_is_no_work() -> None:
    assert told("retry wrapper", error=(says(FAILED), says(FAILED))) == []
    assert told("retry wrapper", text=(says(TEXT), says(TEXT))) == []


def test_another_envelope_names_both() -> None:
    as_string = side(b'data: {"error":"overloaded"}\n\n')
    assert told("retry wrapper", error=(says(FAILED), as_string)) == [
        "a failure is a data event after HTTP 200, a string under `error`; it was a data event after HTTP 200, an "
        "object under `error` with code (number), message, type. What retries, or tells users, must match the new form"
    ]


def test_a_status_in_place_of_an_event() -> None:
    refused = side(json.dumps({"error": ERROR}).encode(), status=503)
    (sentence,) = told("retry wrapper", error=(says(FAILED), refused))
    assert sentence.startswith("a failure is HTTP 503, an object under `error` with code (number), message, type; it")


def test_a_failure_that_is_swallowed() -> None:
    (sentence,) = told("retry wrapper", error=(says(FAILED), says(TEXT)))
    assert sentence.startswith("a failure is told in no way at all; it was a data event after HTTP 200")


# -- calls and usage ----------------------------------------------------------------------------------------------


def test_several_calls_in_flight() -> None:
    one, two = says({"tool_calls": CALLS[:1]}), says({"tool_calls": CALLS[:2]})
    assert told("parallel calls", tool_call=(two, one)) == []
    (sentence,) = told("parallel calls", tool_call=(one, one), parallel_tools=(one, two))
    assert sentence.startswith("the candidate makes 2 calls in one answer (parallel-tools), the baseline never made m")
    (sentence,) = told("parallel calls", parallel_tools=(says({"tool_calls": CALLS}), two))
    assert "so does the baseline (3)" in sentence


def test_where_usage_is_read() -> None:
    moved = side(clean_stream("chat", {"text": "Hello there."}).replace(
        b'"finish_reason":"stop"}]', b'"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":4}'
    ))  # fmt: skip
    assert told("usage", text=(says(TEXT), says(TEXT))) == []
    assert told("usage", text=(says(TEXT), moved)) == [
        "it stands on the finish chunk; it stood on an extra chunk without choices. Read it wherever it stands",
        "total_tokens is gone. What charts or bills by that reads nothing",
    ]
    (sentence,) = told("usage", text=(says(TEXT), says({"text": "Hello."})))
    assert sentence.startswith("the candidate sends none")
    assert told("usage", text=(says({"text": "Hello."}), says({"text": "Hello."}))) == []


def test_another_dialect_is_another_client() -> None:
    pair = (says(TEXT), says(TEXT, "anthropic"))
    assert told("client", text=pair, stop=pair) == [
        "it speaks chat, the candidate speaks anthropic: requests go to /messages, the key is in the header x-api-key"
    ]
    assert told("usage", text=pair) == [], "its places and names are its own"
    assert told("client", text=(says(TEXT), says(TEXT))) == []
    assert told("client", text=(says(TEXT, "anthropic"), says(TEXT, "ollama"))) == [
        "it speaks anthropic, the candidate speaks ollama: requests go to /api/chat, the key is in no header"
    ]


# -- time ---------------------------------------------------------------------------------------------------------


def timed(*milliseconds: int) -> Side:
    """The stream of TEXT with an event at each time; a comment and half an event come before and count for nothing."""
    events = clean_stream("chat", TEXT).split(b"\n\n")[:-1]
    body, reads = b": ping\n\n" + events[0][:20], []
    reads.append(Read(end=len(body), microseconds=1000))
    body += events[0][20:] + b"\n\n"
    for number, at in enumerate(milliseconds):
        if number:
            body += events[number] + b"\n\n"
        if number == len(milliseconds) - 1:
            body += b"".join(event + b"\n\n" for event in events[number + 1 :])
        reads.append(Read(end=len(body), microseconds=at * 1000))
    return side(body, reads=reads)


def test_what_is_timed_are_events() -> None:
    """First event and longest silence, in milliseconds."""

    def waits(timed: Side) -> list[int | None] | None:
        timing = timing_of(timed.recording, "chat")
        if timing is None:
            return None
        return [found.microseconds // 1000 if found else None for found in (timing.first_event, timing.longest_gap)]

    assert waits(timed(40, 100, 500)) == [40, 400]
    assert waits(timed(40)) == [40, None]
    assert waits(says(TEXT)) is None, "no times are known"
    silent = side(b": ping\n\n", reads=[Read(end=8, microseconds=5)])
    assert waits(silent) == [None, None], "no event came"
    assert told("timeouts", text=(timed(40), silent)) == []


def test_timeouts_are_suggested_from_what_was_measured() -> None:
    assert told("timeouts", text=(timed(40, 60, 90), says(TEXT))) == [], "no times of the candidate"
    text, stop = (timed(40, 60, 90), timed(1900, 2000, 2050)), (timed(250, 300), timed(700, 4900))
    assert told("timeouts", text=text, stop=stop) == [
        "the first event took 1.9 s at most (text), 0.2 s on the baseline; the longest silence was 4.2 s. Seen in "
        "the first stream of 2 shapes, so first_event 6 s and idle 13 s or more"
    ]
    assert told("timeouts", text=(says(TEXT), timed(40, 90))) == [
        "the first event took less than 0.1 s at most, that of the baseline is not known; the longest silence was "
        "less than 0.1 s. Seen in the first stream of 1 shape, so first_event 5 s and idle 5 s or more"
    ]


# -- what is not there --------------------------------------------------------------------------------------------


def test_features_that_are_lost() -> None:
    pair = (says(TEXT), says(TEXT))
    assert told("features", text=pair) == []
    skipped = result("logprobs", Outcome.SKIPPED, reason="not offered")
    rejected = result("structured", Outcome.DIFFERS, "http.rejected")
    assert told("features", skipped, rejected, structured=pair) == [
        "the baseline has what the candidate lacks: log probabilities (skipped: not offered), structured output (the "
        "request is rejected). Nothing in between can make that up"
    ]
    assert told("features", result("text", Outcome.SKIPPED, reason="x")) == [], "every endpoint has that"


def test_log_probabilities_that_stop_coming() -> None:
    with_them = side(clean_stream("chat", TEXT).replace(b'"logprobs":null', b'"logprobs":{"content":[{"token":"a"}]}'))
    assert told("features", text=(with_them, says(TEXT))) == [
        "the baseline has what the candidate lacks: log probabilities (none come in shape text). Nothing in between "
        "can make that up"
    ]
    assert told("features", text=(with_them, with_them)) == told("features", text=(says(TEXT), with_them)) == []
    assert told("features", text=(with_them, says(FAILED))) == [], "a failure says nothing about it"


def test_what_was_not_exercised() -> None:
    missed = result("stop", Outcome.NOT_MEASURED, reason="stop not reached")
    assert told("not exercised", missed, *(result(shape) for shape in SHAPES if shape not in ("stop", "refusal"))) == [
        "stop (stop not reached), refusal. Keep a way back for what depends on them"
    ]
    assert told("not exercised", *map(result, SHAPES)) == []


def test_a_shape_that_was_not_measured_gives_no_facts() -> None:
    two = says({"tool_calls": CALLS[:2]})
    missed = result("text", Outcome.NOT_MEASURED, reason="called a tool")
    assert told("parallel calls", missed, text=(says(TEXT), two)) == []


@pytest.mark.parametrize("missing", ["baseline", "candidate"])
def test_one_side_alone_says_nothing(missing: str) -> None:
    sides = {"text": {(name, 1): says(TEXT) for name in ("baseline", "candidate") if name != missing}}
    assert cutover([result(shape) for shape in SHAPES], sides) == []


# -- in reports ---------------------------------------------------------------------------------------------------


def test_every_form_of_the_report_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIXTURES.parent)
    paths = [tmp_path / f"r.{form}" for form in ("json", "md", "html")]
    done = harness("gate", "llamacpp", "transformers", "--recorded",
                   *(part for path in paths for part in ("--report", path)))  # fmt: skip
    assert done.code == 1
    report = load_report(paths[0])
    topics = [sentence.partition(": ")[0] for sentence in report.cutover]
    assert topics == ["retry wrapper", "usage", "usage", "not exercised"]
    assert done.out == f"{gate_text(report, bodies())}\n"
    section = done.out.partition("\nat the cutover:\n")[2].partition("\n\n")[0]
    assert section.splitlines() == [f"  {sentence}" for sentence in cutover_once(report)]
    assert done.out.index("\nat the cutover:\n") < done.out.index("\nnot covered by this gate:\n")
    written = paths[1].read_text("utf-8")
    assert written == gate_markdown(report, bodies())
    items = written.partition("## At the cutover\n\n")[2].partition("\n\n")[0].splitlines()
    assert [item.partition(":")[0] for item in items] == [f"- **{topic}**" for topic in topics]
    assert all(f"<b>{topic}</b>" in paths[2].read_text("utf-8") for topic in topics)


def bodies() -> dict[str, dict[tuple[str, int], bytes]]:
    """What the evidence of that gate points into."""
    found: dict[str, dict[tuple[str, int], bytes]] = {}
    for name, provider in (("baseline", "llamacpp"), ("candidate", "transformers")):
        for path in (FIXTURES / provider).glob("*.sse"):
            found.setdefault(path.stem, {})[name, 1] = load(path).recording.body
    return found
