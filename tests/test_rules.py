"""Rules: labels of the cases, one cause one finding, a catalogue without holes, and no fact nobody judges."""

from __future__ import annotations

import re
from collections import Counter
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from string import Formatter
from typing import Any

import pytest
from reading import QUIRKS, ROOT
from strategies import (
    ASKED,
    CALLED,
    COUNTED,
    ENDS,
    ERROR,
    HEADS,
    ROLE,
    SCRIPTS,
    STOP,
    TEXT,
    bent_once,
    call,
    calls,
    chunk,
    stream,
)
from test_structure import STREAMS, told

from harness.catalogue import CATALOGUE, EXPLAINS
from harness.compare import OWNERS
from harness.dialects import BUILT_IN
from harness.events import Note
from harness.findings import Finding, Severity, worst
from harness.recording import Recording
from harness.rules import explained, in_order, lint, message_of, note_finding, rule_of, severity_of
from harness.store import Loaded, load
from harness.structure import Structure, read, structure

# -- labels -------------------------------------------------------------------------------------------------------

# Case -> why the worst finding is not its label.
UNLABELLED = {
    "046-error-disguised-as-answer": "nothing on the wire marks it: only a comparison can show it",
}
# Case -> its two faults, each with a finding of its own.
TWO_FAULTS = {
    "056-growing-message-beside-delta": {"chunk.message", "end.marker-missing"},
}


def _cases() -> dict[str, Loaded]:
    found = {path.stem: load(path) for path in sorted(QUIRKS.glob("*.sse"))}
    return {name: loaded for name, loaded in found.items() if loaded.recording.dialect == "chat"}


CASES = _cases()


def judged(loaded: Loaded) -> list[Finding]:
    return lint(read(loaded.recording, "chat").structure)


def test_labels_of_the_cases() -> None:
    """The worst finding is the label in at least 95 % of the uncontested cases, and where not there is a reason."""
    wrong, counted = {}, 0
    for name, loaded in CASES.items():
        assert loaded.case is not None
        if loaded.case.get("contested") is not True:
            counted += 1
            found = worst(judged(loaded))
            if found != loaded.case["verdict"]:
                wrong[name] = f"{loaded.case['verdict']}, told {found}"
    assert wrong.keys() == UNLABELLED.keys(), wrong
    assert counted > 50
    assert len(wrong) / counted <= 0.05


@pytest.mark.parametrize("name", sorted(CASES))
def test_one_cause_one_finding(name: str) -> None:
    told = {finding.rule for finding in judged(CASES[name]) if finding.severity is not Severity.COSMETIC}
    if name in TWO_FAULTS:
        assert told == TWO_FAULTS[name]
    else:
        assert len(told) <= 1


def test_findings_of_a_contested_case_are_as_bad_as_its_label() -> None:
    contested = {name: loaded for name, loaded in CASES.items() if loaded.case and loaded.case.get("contested")}
    assert contested
    for name, loaded in contested.items():
        assert loaded.case is not None
        assert worst(judged(loaded)) == loaded.case["verdict"], name


# -- the catalogue ------------------------------------------------------------------------------------------------

# Codes of other dialects, which their own parts of the catalogue speak for.
OTHERS = tuple(f"{name}." for name in BUILT_IN if name != "chat")


def test_codes_are_well_formed_and_unique() -> None:
    assert all(re.fullmatch(r"[a-z]+(\.[a-z][a-z0-9-]*)+", code) for code in CATALOGUE)
    assert all(rule.code == code for code, rule in CATALOGUE.items())
    paths = Counter(rule.path for rule in CATALOGUE.values() if rule.path)
    assert [path for path, times in paths.items() if times > 1] == [], "two rules own one path"
    # A fact that both sides have is read by a difference; a note is not.
    assert all(bool(rule.path) == (rule.side in ("diff", "both")) for rule in CATALOGUE.values())


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_a_rule_says_what_happens_and_what_to_do(code: str) -> None:
    rule = CATALOGUE[code]
    assert rule.says.strip()
    assert rule.remedy.strip()
    fields = {name for _, name, _, _ in Formatter().parse(rule.says) if name is not None}
    assert fields <= {"detail", "baseline", "candidate", "lost"}
    if rule.side == "note":
        assert fields <= {"detail"}, "a note has no other side"
    for value in ("{x}", "{", "}}", "%s", "{0} \\ \n \x00", "", None, True, 7, {"a b": True}, {"{": True}, {}):
        for key in ("detail", "baseline", "candidate", "lost"):
            said = message_of(rule, **{key: str(value) if key == "detail" else value})
            assert said
            assert "\n" not in said, "a finding is one plain sentence"
            if isinstance(value, str) and value.strip() == value and " " not in value and key in fields:
                assert value in said
    assert "{{" not in message_of(rule)


def test_explanations_name_codes_that_exist() -> None:
    for cause, effects in EXPLAINS.items():
        if not cause.startswith(OTHERS):
            assert cause in CATALOGUE, cause
        for pattern in effects.split():
            if not pattern.startswith(OTHERS):
                assert any(fnmatchcase(code, pattern) for code in CATALOGUE), f"{cause}: {pattern}"


# (cause, worse effect) -> why the cause alone is enough.
MILDER_CAUSES = {
    ("end.marker-foreign", "sse.data-not-json"): "the marker is what is not JSON, and it comes at the end",
}


def test_a_cause_is_as_bad_as_what_it_hides() -> None:
    """What a note explains away must not be worse than the note, or a fault would be told too mild."""
    milder = [
        (cause, code)
        for cause, effects in EXPLAINS.items() if cause in CATALOGUE
        for code, rule in CATALOGUE.items()
        if code != cause and rule.side != "diff" and any(fnmatchcase(code, pattern) for pattern in effects.split())
        and rule.severity.rank > CATALOGUE[cause].severity.rank
    ]  # fmt: skip
    assert set(milder) == set(MILDER_CAUSES)


def _used_codes() -> dict[str, str]:
    """Every code that the sources note, with the module that does."""
    found = {}
    for path in sorted((ROOT / "harness").rglob("*.py")):
        text = path.read_text("utf-8")
        for code in re.findall(r'(?:\.|_)(?:note|add)\(\s*"([a-z]+\.[a-z.-]+)"', text):
            found[code] = str(path.relative_to(ROOT))
    return found


def test_every_code_that_is_noted_has_a_rule() -> None:
    used = _used_codes()
    assert len(used) > 50, "the search finds nothing"
    assert {code: where for code, where in used.items() if code not in CATALOGUE and not code.startswith(OTHERS)} == {}


def test_a_note_without_a_rule_is_told_all_the_same() -> None:
    """Third parties' dialects note what they like."""
    found = structure(Recording(body=stream(*TEXT)), "chat")
    found.notes["acme.glitch"] = Note("acme.glitch", 3, 5, "{odd}")
    finding = note_finding(found, "acme.glitch")
    assert (finding.rule, finding.severity) == ("acme.glitch", Severity.NEGOTIABLE)
    assert "{odd}" in finding.message
    assert rule_of("acme.glitch").remedy


# -- lint ---------------------------------------------------------------------------------------------------------


def of(*payloads: Any, done: bool = True, **more: Any) -> Structure:
    body = stream(*payloads, done=done)
    return structure(Recording(**{"body": body, "status": 200, "end": "eof", **more}), "chat")


def test_a_documented_stream_has_no_finding() -> None:
    assert lint(of(*TEXT, COUNTED)) == []
    assert lint(of(*SCRIPTS["calls"])) == []


def test_findings_come_worst_first_then_by_place() -> None:
    found = lint(of(chunk({"role": "assistant", "content": "a"}, id="x"), chunk({"role": None, "content": "b"}),
                    chunk({"content": "c"}, finish="odd"), done=False))  # fmt: skip
    assert [(finding.severity[0], finding.rule) for finding in found] == [
        ("f", "chunk.id-changes"), ("f", "end.marker-missing"), ("n", "finish.unknown-value"),
        ("n", "finish.with-content"), ("c", "role.null"),
    ]  # fmt: skip
    assert in_order(reversed(found)) == found


def test_a_finding_of_lint_points_at_the_candidate() -> None:
    body = stream(ROLE, chunk({"content": "a"}), STOP, chunk({"content": "late"}))
    (finding,) = lint(structure(Recording(body=body), "chat"))
    assert (finding.rule, finding.path) == ("finish.content-after", "wire.notes.finish.content-after")
    assert (finding.baseline, finding.candidate) == (None, True)
    (evidence,) = finding.evidence
    assert (evidence.side, evidence.take) == ("candidate", 1)
    assert b'"late"' in body[evidence.at : evidence.at + evidence.length]


def test_a_stream_may_grade_a_note_otherwise() -> None:
    """One call without an id is negotiable, several are fatal: their results cannot be told apart."""
    one = of(ROLE, calls(call(0, None, "f", "{}")), CALLED)
    two = of(ROLE, calls(call(0, None, "f", "{}"), call(1, None, "g", "{}")), CALLED)
    assert severity_of(one, "tool.id-missing") is Severity.NEGOTIABLE
    assert severity_of(two, "tool.id-missing") is Severity.FATAL


@pytest.mark.parametrize(
    ("created", "detail"),
    [
        (1700000000, None), (0, None), (-1, None), (10**11, None),
        (10**11 + 1, "more than seconds (100000000001)"), (1700000000123, "more than seconds (1700000000123)"),
        (10**4000, f"more than seconds (1{'0' * 39})"), (1700000000.25, "a fraction (1700000000.25)"),
        (1.7e9, "a fraction (1700000000.0)"), ("1700000000", 'text ("1700000000")'),
        ("2023-11-14T22:13:20Z", 'text ("2023-11-14T22:13:20Z")'), ("{x}" * 100, 'text ("{x}{x}'),
        (None, "is null where"), (True, "is true where"), ([1], "a list ([1])"), ({}, "an object ({})"),
    ],
)  # fmt: skip
def test_created_is_whole_seconds(created: Any, detail: str | None) -> None:
    found = lint(of(*({**payload, "created": created} for payload in TEXT)))
    assert [finding.rule for finding in found] == ([] if detail is None else ["chunk.created-form"])
    assert all(str(detail) in finding.message for finding in found)


def test_created_may_be_left_out_and_another_created_is_none_of_ours() -> None:
    bare = [{key: value for key, value in payload.items() if key != "created"} for payload in TEXT]
    assert lint(of(*bare)) == []
    assert lint(of(*({**payload, "time_info": {"created": 1700000000.25}} for payload in TEXT))) == []


def test_a_cause_explains_also_when_it_is_explained_itself() -> None:
    assert explained({"stream.cut", "finish.missing", "usage.position"}) == {"finish.missing", "usage.position"}
    assert explained({"stream.empty"}) == set(), "nothing explains itself"
    assert explained({"stream.empty", "http.media-type", "usage.zero"}) == {"http.media-type", "usage.zero"}


@pytest.mark.parametrize(
    ("payloads", "done", "want"),
    [
        ([*TEXT[:2], {"error": ERROR}], False, ["error.in-stream"]),
        ([*TEXT[:2]], False, ["stream.cut"]),
        ([], False, ["stream.empty"]),
        ([], True, ["stream.no-content"]),
        ([ROLE, STOP], True, ["stream.no-content"]),
        ([ROLE, chunk(finish="length")], True, []),
        ([*TEXT], False, ["end.marker-missing"]),
        ([*TEXT[:-1]], True, ["finish.missing"]),
        ([ROLE, CALLED], True, ["finish.calls-without-call"]),
        ([ROLE, calls(call(0, "call_a", "f", '{"a')), CALLED], True, ["tool.arguments-not-json"]),
        ([ROLE, chunk(finish="error")], True, ["error.finish-reason"]),
    ],
)
def test_one_finding_for_a_broken_stream(payloads: list[Any], done: bool, want: list[str]) -> None:
    assert [finding.rule for finding in lint(of(*payloads, done=done))] == want


# -- no fact that nobody judges -----------------------------------------------------------------------------------

# Facts that a note speaks for wherever they are seen: `path=value` (a member of a set: `path.member`) -> the notes, any
# of which does. A compare of the fact itself would tell the same cause twice.
SPOKEN_FOR = {
    "chunk.choices.missing": "chunk.choices-missing",
    "chunk.choices.null": "chunk.choices-null",
    "chunk.choices.other": "chunk.choices-wrong-type",
    "chunk.delta.list": "chunk.delta-wrong-type",
    "chunk.delta.missing": "chunk.delta-missing chunk.message",
    "chunk.delta.null": "chunk.delta-null",
    "chunk.delta.other": "chunk.delta-wrong-type",
    "chunk.delta.string": "chunk.delta-wrong-type",
    "chunk.id=changes": "chunk.id-changes",
    "chunk.id=missing": "chunk.id-missing",
    "chunk.id=partly-empty": "chunk.id-missing",
    "chunk.message": "chunk.message",
    "chunk.model=changes": "chunk.model-changes",
    "chunk.object=missing": "chunk.object",
    "chunk.object=other": "chunk.object",
    "chunk.object=partly": "chunk.object-partly",
    "end.marker=absent": "end.marker-missing stream.cut stream.stalled stream.empty stream.not-a-stream "
    "error.in-stream",
    "finish.class.error": "error.finish-reason",
    "http.content-encoding=gzip": "http.content-encoding",
    "http.media-type=application/json": "http.media-type",
    "finish.class.other": "finish.unknown-value",
    "finish.place.with-fragment": "finish.with-content",
    "finish.place.with-text": "finish.with-content",
    "finish.unfinished-form.absent": "finish.key-absent",
    "finish.unfinished-form.empty": "finish.empty-string",
    "role.pattern=never": "role.missing",
    "role.pattern=repeated": "role.repeated",
    "sse.comments=yes": "sse.comments",
    "sse.data-space=no": "sse.data-space",
    "sse.line-endings.cr": "sse.line-endings",
    "sse.line-endings.crlf": "sse.line-endings",
    "text.markup=yes": "tool.markup-in-text",
    "text.think=yes": "reasoning.in-text",
    "text.type.list": "text.not-a-string",
    "text.type.object": "text.not-a-string",
    "text.type.other": "text.not-a-string",
    "tool.arguments-form.not-json": "tool.arguments-not-json",
    "tool.arguments-type.array": "tool.arguments-object",
    "tool.arguments-type.boolean": "tool.arguments-object",
    "tool.arguments-type.null": "tool.arguments-null",
    "tool.arguments-type.number": "tool.arguments-object",
    "tool.arguments-type.object": "tool.arguments-object",
    "tool.id.later.empty": "tool.id-on-continuation",
    "tool.id.later.null": "tool.id-on-continuation",
    "tool.id.later.other": "tool.id-changes",
    "tool.id.later.same": "tool.id-on-continuation",
    "tool.index.absent": "tool.index-missing",
    "tool.index.null": "tool.index-missing",
    "tool.index.other-type": "tool.index-missing",
    "tool.name.later.empty": "tool.name-on-continuation",
    "tool.name.later.late": "tool.name-late",
    "tool.name.later.more": "tool.name-split",
    "tool.name.later.null": "tool.name-on-continuation",
    "tool.name.later.same": "tool.name-repeated",
    "tool.numbering=none": "tool.index-missing",
    "tool.numbering=offset": "tool.index-sparse",
    "tool.numbering=reused": "tool.index-reused",
    "tool.numbering=sparse": "tool.index-sparse",
    "tool.type-form.null": "tool.type-null",
    "tool.type.custom": "tool.custom-type",
    "tool.type.legacy": "tool.legacy-function-call",
    "usage.zero=yes": "usage.zero",
}
# Facts that are no difference by themselves, with the reason.
FREE = {
    "choice.count=*": "as many as were asked for: choice.missing says when fewer came; compared across dialects",
    "chunk.choices.list": "the documented form",
    "chunk.delta.object": "the documented form",
    "chunk.id=stable": "the documented form",
    "chunk.model=missing": "no reader is known that needs the model in a chunk",
    "chunk.model=stable": "the documented form",
    "chunk.object=documented": "the documented form",
    "end.marker=not-due": "the request was refused",
    "end.marker=present": "the documented form",
    "end.state=*": "the notes stream.cut and stream.stalled say when the connection did not end well",
    "error.beside-content=*": "the carrier is error.delivery; what stands beside it follows from what failed",
    "error.place=*": "first, in the middle or late: that follows from what failed",
    "finish.class.*": "finish.value owns the reasons, its judge reads the class",
    "finish.place.alone": "the documented form",
    "finish.place.with-call": "a call whole in the finish chunk: tool.whole-call and the call itself are told",
    "finish.unfinished-form.null": "the documented form",
    "http.media-type=text/event-stream": "the documented form",
    "role.pattern=first": "the documented form",
    "role.pattern=late": "a role after the first delta: every accumulator known takes it",
    "role.unset-form.*": "null and empty roles before the first say nothing; later ones are role.null",
    "sse.comments=no": "no comments is the plain form",
    "sse.data-space=yes": "the documented form",
    "sse.line-endings.lf": "the documented form",
    "text.markup=no": "as it should be",
    "text.think=no": "as it should be",
    "text.type.string": "the documented form",
    "tool.arguments-form.cut": "the limit or a filter cut them: the model's affair",
    "tool.arguments-form.empty": "tool.arguments-empty says so on an answer that is finished",
    "tool.arguments-form.free": "a custom call's text",
    "tool.arguments-form.json": "as it should be",
    "tool.arguments-type.string": "the documented form",
    "tool.id.first.*": "an id that never comes is tool.id-missing; one that comes late is joined by every reader known",
    "tool.id.later.absent": "the documented form",
    "tool.id.later.late": "a first id after the first fragment: see tool.id.first",
    "tool.index.present": "the documented form",
    "tool.name.first.*": "a name that never comes is tool.name-missing, a late one tool.name-late",
    "tool.name.later.absent": "the documented form",
    "tool.numbering=dense": "the documented form",
    "tool.type-form.missing": "a type that never comes is tool.type-missing, one that comes late is tool.type-repeated",
    "tool.type-form.present": "the documented form",
    "usage.base.*": "compared across dialects; within one the counters under their own names are",
    "usage.zero=no": "as it should be",
}


def _facts(tree: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str]]:
    """Every fact of the wire, notes aside: its path, and how the tables name it."""
    found = []
    for key, value in tree.items():
        path = (*above, key)
        if path == ("notes",):
            continue
        if isinstance(value, dict):
            found += _facts(value, path)
        elif value is True and len(path) > 2:  # a member of a set
            found.append((path, ".".join(path)))
        else:
            found.append((path, f"{'.'.join(path)}={told(value)}"))
    return found


CLEAN = stream(*TEXT, COUNTED)
FAILED = stream(*TEXT[:2], {"error": ERROR}, done=False)


@cache
def _structures() -> list[tuple[str, Structure]]:
    """Every chat stream there is, hand-written and bent ones among them."""
    bodies = [*STREAMS.items(), *bent_once(), *((name, stream(*payloads)) for name, payloads in SCRIPTS.items())]
    bodies.append(("CR", stream(*TEXT).replace(b"\n", b"\r")))
    plain = [
        (name, structure(Recording(body=body, status=200, end="eof"), "chat", ASKED[number % len(ASKED)]))
        for number, (name, body) in enumerate(bodies)
    ]
    heads = [
        (f"head {number}", structure(Recording(**{"body": body, "end": end, **head}), "chat"))
        for number, (head, end, body) in enumerate(product(HEADS, ENDS, (CLEAN, CLEAN[:-14], FAILED, b"")))
    ]
    return plain + heads


def test_every_fact_is_judged_or_free_for_a_reason() -> None:
    used: set[str] = set()
    for title, found in _structures():
        for path, name in _facts(found.wire):
            if OWNERS.owner(("wire", *path)) is not None:
                continue
            plain = next((key for key in (name, path_of(name)) if key in SPOKEN_FOR), None)
            if plain is not None:
                used.add(plain)
                notes = SPOKEN_FOR[plain].split()
                assert found.notes.keys() & notes, f"{title}: {name} without any of {notes}"
                continue
            free = [pattern for pattern in FREE if fnmatchcase(name, pattern)]
            assert free, f"{title}: nobody judges {name}: give it a rule, a note, or a reason to be free"
            used.update(free)
    assert used == {*SPOKEN_FOR, *FREE}, "entries that no stream needs"


def path_of(name: str) -> str:
    return name.partition("=")[0]


def test_owned_paths_are_facts_that_exist() -> None:
    """A rule that owns a path no stream has would never speak."""
    seen = {path for _, found in _structures() for path, _ in _facts(found.wire)}
    for rule in CATALOGUE.values():
        if rule.path and not rule.path.startswith(("behaviour.", *OTHERS)) and rule.code not in ELSEWHERE:
            own = tuple(rule.path.split("."))
            assert any(path[: len(own)] == own for path in seen), (
                f"{rule.code}: no chat stream has the fact {rule.path}; begin code and path with the dialect's name, "
                "or list the rule in ELSEWHERE of tests/test_rules.py, with the reason"
            )


# Difference rules that read facts no chat stream has.
ELSEWHERE = {
    "reasoning.signature-missing": "Anthropic signs its thinking",
    "usage.input-in-delta": "Anthropic's message_delta",
}


def test_each_note_speaks_for_itself_only_once() -> None:
    for _, found in _structures():
        rules = [finding.rule for finding in lint(found)]
        assert len(rules) == len(set(rules))
        assert set(rules) <= set(found.notes)
