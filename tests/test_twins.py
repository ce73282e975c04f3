"""Twins: a stream without a fault beside each quirk. A difference is told as bad as the quirk's label, and only it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from reading import QUIRKS, differences
from reading import read as read_message

from harness.asked import Asked
from harness.clean import clean_stream, well_ended
from harness.clean.answer import LACKS, RAW
from harness.compare import Comparison, compare
from harness.cuts import FAMILIES, offsets
from harness.dialects import BUILT_IN
from harness.errors import UsageError
from harness.facts import facts_for
from harness.findings import Severity, worst
from harness.recording import Read, Recording
from harness.rules import lint
from harness.store import Loaded, load
from harness.structure import Structure, structure
from harness.testing import clean_stream as exported

CASES: dict[str, Loaded] = {path.stem: load(path) for path in sorted(QUIRKS.glob("*.sse"))}
MEDIA = {"ollama": "application/x-ndjson"}

# Case -> why comparison with its twin does not end in its label, or takes more than two findings.
OTHERWISE = {
    "010-id-retry-event-fields": "four oddities at once: event names, ids, an unknown field, and blocks of fields only",
    "033-tool-markup-in-content": "the fault is in the text, so a twin with that text has it too",
    "046-error-disguised-as-answer": "the error is the text, and nothing on the wire marks it",
    "056-growing-message-beside-delta": "two faults (message, end marker), and another first content",
    "061-inline-think-tags": "the fault is in the text, so a twin with that text has it too",
    "081-response-incomplete": "a documented end: lint names the reader that raises, and it is no difference",
}
# Case -> what its twin has all the same, for the same reasons.
IN_THE_TWIN = {
    "033-tool-markup-in-content": "tool.markup-in-text",
    "061-inline-think-tags": "reasoning.in-text",
    "081-response-incomplete": "responses.incomplete",
}


def facts(name: str) -> tuple[str, dict[str, Any]]:
    """Dialect and `expect` of a case."""
    loaded = CASES[name]
    assert loaded.case is not None
    assert loaded.recording.dialect is not None
    return loaded.recording.dialect, loaded.case["expect"]


def recorded(dialect: str, body: bytes, cuts: list[int] | None = None) -> Recording:
    """The body as it came in: whole, or in one read up to each cut, a millisecond apart."""
    ends = [*(cuts or ()), len(body)]
    reads = [Read(end=end, microseconds=1000 * number) for number, end in enumerate(ends)]
    media = MEDIA.get(dialect, "text/event-stream")
    return Recording(body=body, reads=reads, status=200, headers={"content-type": media}, end="eof", dialect=dialect)


def asked(expect: dict[str, Any]) -> Asked:
    """What a request must have asked for to get this answer."""
    tools = tuple(dict.fromkeys(call["name"] for call in expect["tool_calls"] if call["name"]))
    return Asked(tools=tools, tool_choice="auto" if tools else "", usage=True if expect["usage"] else None,
                 n=1 + len(expect.get("other_choices", ())))  # fmt: skip


@cache
def twin(name: str) -> tuple[bytes, Structure]:
    dialect, expect = facts(name)
    body = clean_stream(dialect, expect)
    return body, structure(recorded(dialect, body), dialect, asked(expect))


def against_twin(name: str) -> Comparison:
    dialect, expect = facts(name)
    return compare([twin(name)[1]], structure(CASES[name].recording, dialect, asked(expect)))


def label(name: str) -> Any:
    return (CASES[name].case or {})["verdict"]


def as_labelled(name: str) -> bool:
    """Told as bad as the label says, in two findings at most."""
    found = against_twin(name)
    return not found.not_measured and worst(found.findings) == label(name) and len(found.findings) <= 2


def test_a_case_differs_from_its_twin_as_its_label_says() -> None:
    assert len(CASES) >= 101
    assert {name for name in CASES if not as_labelled(name)} == OTHERWISE.keys()
    uncontested = [name for name, loaded in CASES.items() if loaded.case and loaded.case.get("contested") is not True]
    assert sum(map(as_labelled, uncontested)) / len(uncontested) >= 0.9


def test_what_is_told_otherwise_is_the_label_but_for_what_the_text_hides() -> None:
    hidden = {name for name in OTHERWISE if not against_twin(name).findings}
    assert hidden == {*IN_THE_TWIN, "046-error-disguised-as-answer"}
    assert all(worst(against_twin(name).findings) == label(name) for name in OTHERWISE.keys() - hidden)


@pytest.mark.parametrize("name", CASES)
def test_a_twin_says_the_message_and_has_no_fault(name: str) -> None:
    dialect, expect = facts(name)
    body, found = twin(name)
    message, _ = read_message(body, dialect)
    assert differences(message, well_ended(dialect, expect)) == []
    told = [finding.rule for finding in lint(found) if finding.severity is not Severity.COSMETIC]
    assert told == ([IN_THE_TWIN[name]] if name in IN_THE_TWIN else [])


@pytest.mark.parametrize("name", CASES)
def test_what_ended_well_is_not_mended(name: str) -> None:
    """Text, calls and the rest are the case's; ids, usage and the end are filled in only where they are missing."""
    dialect, expect = facts(name)
    mended = well_ended(dialect, expect)
    for field in ("text", "reasoning", "refusal", "other_choices"):
        if expect.get(field):
            assert mended[field] == expect[field]
    assert len(mended["tool_calls"]) == len(expect["tool_calls"])
    for ours, theirs in zip(mended["tool_calls"], expect["tool_calls"], strict=True):
        assert theirs["id"] in (None, ours["id"])
        assert theirs["name"] == ours["name"]
    if expect["usage"]:
        assert mended["usage"] == expect["usage"]
    assert mended["error"] is None
    assert mended["terminal"] == ("finish" if dialect == "gemini" else "done")
    assert well_ended(dialect, mended) == mended


@pytest.mark.parametrize("name", CASES)
def test_a_faithful_stream_says_exactly_the_message(name: str) -> None:
    """Errors, missing finishes and cut answers among them."""
    dialect, expect = facts(name)
    message, _ = read_message(clean_stream(dialect, expect, well_ended=False), dialect)
    assert differences(message, expect) == []


@pytest.mark.parametrize("name", CASES)
def test_cuts_are_no_difference(name: str) -> None:
    dialect, expect = facts(name)
    body, whole = twin(name)
    families = [family for family in FAMILIES if family not in ("whole", "recorded")]
    if len(body) > 50_000:  # 009: byte by byte, that one is for the smaller ones to show
        families.remove("bytes")
    for family in families:
        cut = structure(recorded(dialect, body, offsets(body, family)), dialect, asked(expect))
        assert compare([whole], cut).findings == [], family
        assert (cut.wire, cut.behaviour) == (whole.wire, whole.behaviour), family


# -- the encoders -------------------------------------------------------------------------------------------------

FULL: dict[str, Any] = {
    "text": "Grüße 🌍 from the pier.\n\nTwo lines.", "reasoning": "First this.", "finish_reason": "tool_calls",
    "usage": {"input_tokens": 7, "output_tokens": 9},
    "tool_calls": [
        {"id": "a", "name": "get_weather", "arguments": '{"city": "Malmö"}'},
        {"id": "b", "name": "get_time", "arguments": "{}"},
    ],
}  # fmt: skip


def full(dialect: str) -> dict[str, Any]:
    """As much as the dialect has a place for."""
    kept = {name: value for name, value in FULL.items() if name not in LACKS.get(dialect, ())}
    return kept if "tool_calls" in kept else {name: kept[name] for name in kept if name != "finish_reason"}


@pytest.mark.parametrize("dialect", BUILT_IN)
def test_every_dialect_says_a_whole_message(dialect: str) -> None:
    expect = well_ended(dialect, full(dialect))
    body = clean_stream(dialect, full(dialect))
    message, _ = read_message(body, dialect)
    assert differences(message, expect) == []
    assert expect["finish_reason"] == ("tool_calls" if "tool_calls" in full(dialect) else "stop")
    told = [finding.rule for finding in lint(structure(recorded(dialect, body), dialect))]
    assert told == (["reasoning.field-extension"] if dialect == "chat" else [])


@pytest.mark.parametrize("dialect", BUILT_IN)
def test_every_dialect_tells_an_error(dialect: str) -> None:
    expect = {"text": "Hello th", "terminal": "error", "error": {"message": "overloaded"}}
    body = clean_stream(dialect, expect, well_ended=False)
    message, _ = read_message(body, dialect)
    assert (message["text"], message["terminal"]) == ("Hello th", "error")
    assert message["error"]["message"] == "overloaded"
    told = [finding.rule for finding in lint(structure(recorded(dialect, body), dialect))]
    assert told == ["error.in-stream"]


@pytest.mark.parametrize("dialect", BUILT_IN)
@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
def test_every_reason_there_is_for_an_end(dialect: str, reason: str) -> None:
    body = clean_stream(dialect, {"text": "Once upon", "finish_reason": reason})
    message, _ = read_message(body, dialect)
    unknown = RAW.get(dialect, {}).get(reason, reason) not in facts_for(dialect).documented_finish
    assert message["finish_reason"] == ("stop" if unknown else reason)
    told = [finding.rule for finding in lint(structure(recorded(dialect, body), dialect))]
    assert told == (["responses.incomplete"] if dialect == "responses" and reason != "stop" else [])


@pytest.mark.parametrize("dialect", BUILT_IN)
def test_an_answer_that_says_nothing_is_given_a_word(dialect: str) -> None:
    message, _ = read_message(clean_stream(dialect, {}), dialect)
    assert (message["text"], message["finish_reason"]) == ("Hello.", "stop")
    assert (message["usage"] is None) is not facts_for(dialect).usage_always_due


@pytest.mark.parametrize(
    ("dialect", "expect", "why"),
    [
        ("smoke", {}, "smoke: no such dialect"),
        ("chat", {"text": 7}, "expect: "),
        ("chat", {"tool_calls": [{"name": ["f"]}]}, "expect: "),
        ("chat", {"text": "half \ud83d"}, r"'half \ud83d' holds half a character"),
        ("chat", {"tool_calls": [{"name": "f", "type": "custom"}]}, "no documented stream of custom calls"),
        ("gemini", {"refusal": "No."}, "dialect gemini has no place for refusal"),
        ("anthropic", {"other_choices": [{"choice": 1}]}, "dialect anthropic has no place for a second choice"),
        ("completions", {"tool_calls": [{"name": "f"}]}, "dialect completions has no place for tool calls"),
        ("ollama", {"tool_calls": [{"name": "f", "arguments": "[1]"}]}, 'arguments "[1]" are no JSON object'),
    ],
)
def test_what_a_dialect_cannot_say_is_refused(dialect: str, expect: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError) as refused:
        clean_stream(dialect, expect)
    assert why in str(refused.value)


def test_an_error_is_told_with_what_the_dialect_has_a_place_for() -> None:
    error = {"type": "server_error", "code": 500, "message": "broke"}
    kept_by = {"chat": error, "responses": error, "gemini": error, "anthropic": {**error, "code": None}}
    for dialect, kept in kept_by.items():
        message, _ = read_message(clean_stream(dialect, {"error": error}, well_ended=False), dialect)
        assert message["error"] == kept, dialect
    with pytest.raises(UsageError, match="no place for an error's type or code"):
        clean_stream("ollama", {"error": error}, well_ended=False)


def test_tests_find_it_in_testing() -> None:
    assert exported is clean_stream
