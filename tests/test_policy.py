"""Acceptances: what they cover, when they are used, stale or expired, and what a gate comes to."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from harness.findings import AcceptanceUse, Accepted, Finding, Outcome, Severity, ShapeResult, outcome_of
from harness.policy import accept, against, applies, expired, judge, matches, refused
from harness.providers import Acceptance

TODAY = date(2027, 6, 30)
TOMORROW, YESTERDAY = TODAY + timedelta(days=1), TODAY - timedelta(days=1)
C, N, F = Severity.COSMETIC, Severity.NEGOTIABLE, Severity.FATAL
OK, DIFFERS, UNMEASURED, SKIPPED = Outcome.CONFORMS, Outcome.DIFFERS, Outcome.NOT_MEASURED, Outcome.SKIPPED


def finding(rule: str = "usage.position", severity: Severity = N, path: str = "wire.usage.position") -> Finding:
    return Finding(
        rule=rule, severity=severity, path=path, baseline=None, candidate=True, message="m", remedy="r", evidence=[]
    )


def entry(rule: str = "usage.position", **fields: Any) -> Acceptance:
    return Acceptance(rule=rule, **{"reason": "counted locally", **fields})


def shape(name: str = "text", outcome: Outcome = OK, *findings: Finding) -> ShapeResult:
    return ShapeResult(shape=name, outcome=outcome, findings=list(findings))


@pytest.mark.parametrize(
    ("acceptance", "yes"),
    [
        (entry(), True),
        (entry("usage.*"), True),
        (entry("*"), True),
        (entry("usage"), False),
        (entry("USAGE.POSITION"), False),
        (entry(shape="text"), True),
        (entry(shape="te*"), True),
        (entry(shape="stop"), False),
        (entry(path="wire.usage.position"), True),
        (entry(path="wire.usage.*"), True),
        (entry(path="wire.finish"), False),
        (entry(shape="text", path="wire.finish"), False),
    ],
)
def test_an_entry_is_about_a_rule_a_shape_and_a_path(acceptance: Acceptance, yes: bool) -> None:
    assert matches(acceptance, finding(), "text") is yes
    assert applies(acceptance, finding(), "text", TODAY) is yes


@pytest.mark.parametrize(("until", "over"), [(None, False), (TOMORROW, False), (TODAY, False), (YESTERDAY, True)])
def test_the_last_day_is_included(until: date | None, over: bool) -> None:
    assert expired(entry(until=until), TODAY) is over
    assert applies(entry(until=until), finding(), "text", TODAY) is not over


@pytest.mark.parametrize(
    ("severity", "until", "covers"),
    [
        (None, None, (True, True, False)),
        (None, TODAY, (True, True, False)),
        (N, TODAY, (True, True, False)),
        (F, None, (True, True, False)),
        (F, TODAY, (True, True, True)),
        (F, YESTERDAY, (False, False, False)),
    ],
)
def test_what_is_fatal_needs_severity_and_a_last_day(
    severity: Severity | None, until: date | None, covers: tuple[bool, bool, bool]
) -> None:
    acceptance = entry(severity=severity, until=until)
    assert tuple(applies(acceptance, finding(severity=s), "text", TODAY) for s in (C, N, F)) == covers


def test_findings_carry_the_reason_of_the_first_entry_that_covers_them() -> None:
    entries = [entry("other"), entry(until=YESTERDAY), entry(until=TODAY), entry(reason="too late")]
    found = accept([finding(), finding("finish.missing", F), finding("usage.details", C)], "text", entries, TODAY)
    assert [one.accepted for one in found] == [Accepted(reason="counted locally", until="2027-06-30"), None, None]
    assert [one.rule for one in found] == ["usage.position", "finish.missing", "usage.details"]
    assert outcome_of(found) is DIFFERS
    assert outcome_of(found[:1]) is OK
    assert accept([finding()], "text", [], TODAY) == [finding()]


def test_the_owner_goes_with_what_is_told_of_an_entry() -> None:
    owned = entry(owner="web team", shape="text")
    (found,) = accept([finding()], "text", [owned], TODAY)
    assert found.accepted == Accepted(reason="counted locally", owner="web team")
    assert judge([shape()], [owned], TODAY)[1] == [
        AcceptanceUse(rule="usage.position", shape="text", state="stale", owner="web team")
    ]
    fatal = finding(severity=F)
    (told,) = refused([fatal], "text", [owned], TODAY)
    assert told.startswith("an acceptance (owner web team) names usage.position,")


def test_an_entry_that_is_bound_counts_against_its_baseline_only() -> None:
    free, bound = entry(), entry(baseline="old", until=YESTERDAY)
    assert against([free, bound], "old") == [free, bound]
    assert against([free, bound], "other") == [free]
    assert judge([shape()], against([bound], "old"), TODAY)[1] == [
        AcceptanceUse(rule="usage.position", shape=None, state="expired", baseline="old", until=str(YESTERDAY))
    ]


def test_what_is_cosmetic_can_be_accepted_for_those_whom_it_fails() -> None:
    (found,) = accept([finding(severity=C)], "text", [entry()], TODAY)
    assert found.accepted == Accepted(reason="counted locally")
    assert outcome_of([found], C) is OK
    assert outcome_of([finding(severity=C)], C) is DIFFERS


def states(shapes: list[ShapeResult], *entries: Acceptance, unrun: tuple[str, ...] = ()) -> list[str]:
    return [use.state for use in judge(shapes, entries, TODAY, unrun)[1]]


def test_an_entry_is_used_where_its_finding_occurred() -> None:
    shapes = [shape("text", OK, finding()), shape("stop")]
    outcome, uses = judge(shapes, [entry(), entry(shape="text")], TODAY)
    assert outcome is OK
    assert uses == [
        AcceptanceUse(rule="usage.position", shape=None, state="used"),
        AcceptanceUse(rule="usage.position", shape="text", state="used"),
    ]
    # It does occur, although the entry does not cover it: not stale, and the finding fails by itself.
    assert states([shape("text", DIFFERS, finding(severity=F))], entry()) == ["used"]


def test_an_expired_entry_fails_whether_or_not_it_occurs() -> None:
    for shapes in ([shape("text", OK, finding())], [shape("text")], [shape("text", UNMEASURED)]):
        outcome, uses = judge(shapes, [entry(until=YESTERDAY)], TODAY)
        assert ([use.state for use in uses], outcome) == (["expired"], DIFFERS)


def test_an_entry_is_stale_once_every_shape_it_is_about_was_measured() -> None:
    every = [shape("text"), shape("stop"), shape("error", DIFFERS, finding("error.fields"))]
    assert states(every, entry()) == ["stale"]
    assert states(every, entry(shape="stop")) == ["stale"]
    assert states(every, entry(shape="s*")) == ["stale"]
    assert judge([shape("text")], [entry()], TODAY)[0] is DIFFERS
    # Not so where something it is about was not measured, or did not run.
    assert states([shape("text"), shape("stop", UNMEASURED)], entry()) == []
    assert states([shape("text"), shape("stop", UNMEASURED)], entry(shape="text")) == ["stale"]
    assert states([shape("text")], entry(), unrun=("stop",)) == []
    assert states([shape("text")], entry(shape="s*"), unrun=("stop",)) == []
    assert states([shape("text")], entry(shape="text"), unrun=("stop",)) == ["stale"]
    # A shape that is never asked for keeps no entry alive, and is no ground to call one stale.
    assert states([shape("text"), shape("error", SKIPPED)], entry()) == ["stale"]
    assert states([shape("text"), shape("error", SKIPPED)], entry(shape="error")) == []
    assert judge([shape("text"), shape("error", SKIPPED)], [entry(shape="error")], TODAY)[0] is OK


@pytest.mark.parametrize("rule", [
    "http.rejected", "stream.empty", "stream.not-a-stream", "stream.no-content", "stream.stalled", "stream.cut",
    "error.in-stream", "error.finish-reason",
])  # fmt: skip
def test_what_was_not_seen_whole_makes_nothing_stale(rule: str) -> None:
    """It may be there still: a candidate that refuses the request shows no usage at all, in whatever place."""
    shapes = [shape("text"), shape("stop", DIFFERS, finding(rule, F))]
    assert states(shapes, entry()) == []
    assert states(shapes, entry(shape="stop")) == []
    assert states(shapes, entry(shape="text")) == ["stale"]
    assert states(shapes, entry(rule)) == ["used"]


def test_a_failure_is_what_shape_error_asks_for() -> None:
    failed = shape("error", DIFFERS, finding("error.in-stream", F))
    assert states([failed], entry("error.code-type")) == ["stale"]
    assert states([failed], entry("end.marker-missing")) == [], "one that the error explains"
    assert states([shape("error", DIFFERS, finding("error.swallowed", F))], entry("error.code-type")) == []


def test_what_another_finding_explains_is_not_stale() -> None:
    shapes = [shape("text", DIFFERS, finding("finish.missing", F))]
    assert states(shapes, entry("usage.position")) == []
    assert states(shapes, entry("usage.*")) == []
    assert states(shapes, entry("usage.zero")) == ["stale"]


def test_what_was_measured_in_part_or_not_judged_is_not_stale() -> None:
    found = [finding("role.null")]
    part = ShapeResult(shape="text", outcome=DIFFERS, reason="1 of 3 samples: HTTP 503", findings=found)
    assert states([part], entry()) == []
    parity = entry("parity.usage")
    assert [use.state for use in judge([shape()], [parity], TODAY, (), {"parity.usage"})[1]] == []
    assert [use.state for use in judge([shape()], [parity], TODAY)[1]] == ["stale"]
    assert [use.state for use in judge([shape()], [entry("parity.*")], TODAY, (), {"parity.usage"})[1]] == []


@pytest.mark.parametrize(
    ("outcomes", "comes_to"),
    [
        ([OK], OK),
        ([OK, SKIPPED], OK),
        ([OK, DIFFERS], DIFFERS),
        ([UNMEASURED, DIFFERS], DIFFERS),
        ([OK, UNMEASURED], UNMEASURED),
        ([SKIPPED, UNMEASURED], UNMEASURED),
        ([SKIPPED, SKIPPED], UNMEASURED),
        ([], UNMEASURED),
    ],
)
def test_a_gate_comes_to_the_worst_of_its_shapes(outcomes: list[Outcome], comes_to: Outcome) -> None:
    shapes = [shape(f"s{number}", outcome) for number, outcome in enumerate(outcomes)]
    assert judge(shapes, [], TODAY) == (comes_to, [])


def test_an_entry_that_cannot_tolerate_a_fatal_finding_is_told() -> None:
    found = finding("end.marker-missing", F)
    bare = entry("end.*")
    (told,) = refused(accept([found], "text", [bare], TODAY), "text", [bare], TODAY)
    assert told.startswith("an acceptance names end.marker-missing, but a fatal finding is tolerated only by one that")
    whole = entry("end.*", severity=F, until=TOMORROW)
    assert refused(accept([found], "text", [whole], TODAY), "text", [whole], TODAY) == []
    assert refused([found], "text", [entry("tool.*")], TODAY) == []
