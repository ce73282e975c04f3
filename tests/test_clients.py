"""Client models: three right ones read every quirk however it is cut, every wrong one is killed and named.

What is known of them (signatures, breaks, docs/clients.md) is computed anew and compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import client_tables as tables
import msgspec
import pytest
from controls import Make, control
from reading import FIXTURES
from strategies import SCRIPTS, stream

from harness.answers import CaseOutcome, Expected, Verdict
from harness.cases import Case, quirk_cases
from harness.clients.diagnosis import diagnose
from harness.clients.evidence import FOLDER, breaks_of, signatures
from harness.clients.machine import Machine
from harness.clients.model import ALL, ClientModel
from harness.clients.table import CLIENTS, RIGHT
from harness.clients.wrong_bytes import Splitlines
from harness.clients.wrong_calls import KeysById, OverwritesWithEmpty
from harness.clients.wrong_content import RefusalLost
from harness.clients.wrong_ends import IgnoresErrors
from harness.cuts import FAMILIES, offsets, pieces
from harness.jsontext import to_json
from harness.reduce import Reducer
from harness.rules import lint
from harness.runs.check import check
from harness.structure import structure
from harness.targets import CallableTarget

NAMES = list(tables.WRONG)
REGENERATE = "run python tests/client_tables.py"

# What these streams say stands nowhere in cases/README: bare strings among parts, several names for thinking in one
# stream, a single call instead of a list, vendors' forms of an error, and usage after an error.
BEYOND_THE_RULES = {
    "parts", "reasoning-names", "calls-no-list", "error-string", "error-detail", "error-vendor", "error-in-choice",
    "message-alone",
}  # fmt: skip


@cache
def cases() -> dict[str, Case]:
    return {case.name: case for case in quirk_cases()}


def of(model: ClientModel) -> list[Case]:
    return [case for case in cases().values() if case.dialect in model.dialects]


# -- right ones


@pytest.mark.parametrize("name", RIGHT)
def test_right_models_read_every_quirk_under_every_cut(name: str) -> None:
    report = check(CallableTarget(CLIENTS[name], name), cuts=FAMILIES)
    assert [case.case for case in report.cases if case.failures] == []
    assert report.counts.keys() == {"right", "told"}
    assert len(report.cases) == len(cases())


@pytest.mark.parametrize("script", sorted(SCRIPTS.keys() - BEYOND_THE_RULES))
def test_right_models_agree_with_the_reducer(script: str) -> None:
    """On streams that are no quirks: three readers and ours, written without each other."""
    _agree(stream(*SCRIPTS[script]))


def _agree(body: bytes) -> None:
    reducer = Reducer("chat")
    reducer.feed(body)
    reducer.finish()
    message = json.loads(to_json(reducer.message()))
    expected = msgspec.convert({key: value for key, value in message.items() if key != "notes"}, Expected)
    for name, model in RIGHT.items():
        for family in ("whole", "seeded:1"):
            verdict = tables.run(model, "chat", pieces(body, offsets(body, family)), expected)
            assert (name, family, verdict.differences) == (name, family, ())


@pytest.mark.parametrize("change", [
    lambda body: body.replace(b"\n", b"\r"), lambda body: body.replace(b"\n\n", b"\n"), lambda body: body.rstrip(),
    lambda body: body.replace(b"data: [DONE]", b'{"error": {"message": "bare", "type": "t"}}'),
], ids=["bare CR", "no blank lines", "no last line end", "bare error"])  # fmt: skip
def test_right_models_read_what_no_quirk_has(change: Callable[[bytes], bytes]) -> None:
    """Line ends and recoveries that the rules name (cases/README, 1)."""
    for body in (stream(*SCRIPTS["calls"]), stream(*SCRIPTS["text"])):
        _agree(change(body))


@pytest.mark.parametrize("dialect", ALL)
def test_controls_are_documented_streams(dialect: str) -> None:
    """Right models read them, and lint has nothing to say that a client could notice."""
    from harness.recording import Recording

    for case in cases().values():
        for usage, whole in ((True, False), (False, True)) if case.dialect == dialect else ():
            make = Make(case.expected, dialect, usage=usage, whole=whole)
            body = control(make)
            for model in RIGHT.values():
                assert tables.run(model, dialect, [body], make.expected()).differences == ()
            if dialect == "chat":
                recording = Recording(body=body, reads=[], end="eof")
                found = {finding.rule for finding in lint(structure(recording, dialect))}
                assert found <= {"tool.whole-call", "reasoning.field-extension"}


# -- wrong ones


@pytest.mark.parametrize("name", NAMES)
def test_wrong_model_is_killed_by_the_case_that_is_named(name: str) -> None:
    model = CLIENTS[name]
    cuts = FAMILIES if model.bends_bytes else ("whole",)
    report = check(CallableTarget(model, name), cases=[model.killed_by], cuts=cuts)
    assert [case.outcome.good for case in report.cases] == [False]


@pytest.mark.parametrize("name", [name for name in NAMES if not CLIENTS[name].bends_bytes])
def test_wrong_model_fails_alike_under_a_cut(name: str) -> None:
    """Where a model does not bend the bytes, the cut never shows: in whatever it gets wrong either."""
    model = CLIENTS[name]
    case = cases()[model.killed_by]
    body = case.recording.body
    found = {
        tables.run(model, case.dialect, pieces(body, offsets(body, family)), case.expected)
        for family in ("whole", "bytes", "seeded:1")
    }
    assert len(found) == 1


def test_the_mistakes_of_the_sources_are_all_there() -> None:
    wanted = """
        replaces-ids invents-ids keys-by-id skips-null-content no-repair results-first mixes-namespaces
        overwrites-with-empty guide-lists guide-lists-unguarded guide-strings guide-strings-unguarded
        old-event-names piece-elsewhere parses-early ignores-item-id ignores-failed ignores-completed
        one-call-only waits-for-done stops-at-finish choices-0-unseen splitlines decodes-each-read concatenates-ids
        concatenates-names last-chunk-usage event-name-decides strict-enums comment-raises waits-for-finish
        ignores-errors arguments-of-one-fragment
    """
    assert set(wanted.split()) <= set(NAMES)


def test_each_quirk_kills_a_model() -> None:
    """But for two whose fault is not in the bytes a client is handed: arrival, and a coding that is undone before."""
    ordinary = {name for name, signature in signatures().items() if len(signature.fails) <= 20}
    killing = {case for name in ordinary for case in signatures()[name].fails}
    assert {name[:3] for name in cases().keys() - killing} == {"064", "065"}


def test_names_and_sentences() -> None:
    for name, model in CLIENTS.items():
        assert model.name == name
        assert model.about.endswith(".")
        assert set(model.dialects) <= set(ALL)
        assert bool(model.killed_by) is not model.right


# -- what is known of them


@cache
def computed(name: str) -> Any:
    return tables.signature(CLIENTS[name], of(CLIENTS[name]))


@pytest.mark.parametrize("name", NAMES)
def test_signature_is_up_to_date(name: str) -> None:
    held = json.loads((FOLDER / "signatures.json").read_bytes())["models"]
    assert held.get(name) == computed(name), REGENERATE


def test_files_are_up_to_date() -> None:
    found = {name: computed(name) for name in NAMES}
    assert (FOLDER / "signatures.json").read_text("utf-8") == tables.signatures_json(found, cases()), REGENERATE
    assert (FOLDER / "breaks.json").read_text("utf-8") == tables.breaks_json(found, cases()), REGENERATE
    assert tables.DOCS.read_text("utf-8") == tables.page(cases()), REGENERATE


def test_breaks_name_what_the_rule_does() -> None:
    assert "overwrites-with-empty" in breaks_of("tool.id-on-continuation")
    assert "keys-by-index-alone" in breaks_of("tool.index-reused")
    assert "waits-for-done" in breaks_of("end.marker-missing")
    assert "comment-raises" in breaks_of("sse.comments")
    assert "missing-usage-is-zero" in breaks_of("usage.missing")
    assert breaks_of("no.such-rule") == []
    # It is wrong on any call in fragments, so that an empty id proves nothing.
    assert "keys-by-id" not in breaks_of("tool.id-on-continuation")
    assert not [name for names in json.loads((FOLDER / "breaks.json").read_bytes()).values() for name in names
                if CLIENTS[name].right]  # fmt: skip


def test_evidence_loads_no_model() -> None:
    """Rules ask for it with every finding."""
    code = (
        "import sys; from harness.clients.evidence import breaks_of; breaks_of('sse.bom');"
        "sys.exit('harness.clients.table' in sys.modules or 'harness.clients.machine' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- diagnosis


def answers(function: Callable[[Iterable[bytes], str], Any], dialects: Iterable[str] = ALL) -> dict[str, Verdict]:
    """What a reader comes to on each quirk, uncut."""
    model = ClientModel(name="it", about=".", dialects=tuple(dialects), right=True, function=function)
    return {case.name: tables.verdicts(model, case)[0] for case in of(model)}


@pytest.mark.parametrize("name", CLIENTS)
def test_diagnosis_names_each_model(name: str) -> None:
    model = CLIENTS[name]
    found: dict[str, Verdict] = {}
    cut_only: set[str] = set()
    for case in of(model):
        verdicts = tables.verdicts(model, case)
        failed = tables.failure(model, case)
        if verdicts:
            found[case.name] = failed[0] if failed else verdicts[0]
        if failed and failed[1]:
            cut_only.add(case.name)
    for known in (None, cut_only):
        expected = [] if model.right else [name]
        assert [likely.client for likely in diagnose(found, cut_only=known)] == expected
    assert [likely.score for likely in diagnose(found)] == ([] if model.right else [1.0])


def mixed(*classes: type[Machine]) -> Callable[[Iterable[bytes], str], Any]:
    return type("Mixed", classes, {}).run  # type: ignore[attr-defined, no-any-return]


def test_diagnosis_names_several_mistakes() -> None:
    found = diagnose(answers(mixed(KeysById, Splitlines), ["chat"]))
    assert [likely.client for likely in found] == ["keys-by-id", "splitlines"]
    found = diagnose(answers(mixed(OverwritesWithEmpty, IgnoresErrors, RefusalLost), ["chat", "responses"]))
    assert {likely.client for likely in found} == {"overwrites-with-empty", "ignores-errors", "refusal-lost"}


def test_diagnosis_sees_through_another_form() -> None:
    """An assistant message hides most of what is compared: what cannot be seen does not count against a model."""

    def assistant(body: Iterable[bytes], dialect: str) -> Any:
        machine = KeysById(dialect)
        for piece in body:
            machine.feed(piece)
        machine.finish()
        message = machine.answer()
        told = {"finish_reason": message["finish_reason"], "terminal": message["terminal"], "error": message["error"]}
        return {**machine.assistant(message), **told, "reasoning_content": message["reasoning"]}

    shows = {"tool_calls", "refusal"}
    found = diagnose(answers(assistant, ["chat"]), shows)
    assert found[0].client == "keys-by-id"


def test_diagnosis_of_many_faults_of_its_own_names_in_part_what_it_matches_exactly() -> None:
    """Most failures are no model's, and must not hide the one that is."""

    def own(body: Iterable[bytes], dialect: str) -> Any:
        message = CLIENTS["eof-is-whole"](body, dialect)
        if message["finish_reason"] == "tool_calls":
            raise LookupError("of its own")
        return message

    found = diagnose(answers(own, ["chat"]))
    assert [likely.client for likely in found] == ["eof-is-whole"]
    assert found[0].score < 0.5


def test_diagnosis_of_one_dialect_prefers_the_specific_model() -> None:
    found = diagnose(answers(CLIENTS["items-done-is-end"], ["responses"]))
    assert [likely.client for likely in found] == ["items-done-is-end"]


def _nothing(body: Iterable[bytes], dialect: str) -> dict[str, Any]:
    return {"text": "", "tool_calls": [], "terminal": "done"}


def _raises(body: Iterable[bytes], dialect: str) -> dict[str, Any]:
    raise ValueError("no")


def _upper(body: Iterable[bytes], dialect: str) -> dict[str, Any]:
    message = Machine.run(body, dialect)
    return {**message, "text": message["text"].upper()}


@pytest.mark.parametrize("function", [_nothing, _raises, _upper])
def test_diagnosis_says_nothing_where_nothing_fits(function: Callable[[Iterable[bytes], str], Any]) -> None:
    assert diagnose(answers(function)) == []


def test_diagnosis_of_nothing() -> None:
    assert diagnose({}) == []
    assert diagnose({"a-provider/text": Verdict(outcome=CaseOutcome.WRONG, differences=("text: 1 is not 2",))}) == []


def test_check_says_what_the_accumulator_behaves_like() -> None:
    report = check(CallableTarget(CLIENTS["keys-by-id"], "mine:accumulate"), cuts=["whole"])
    assert [likely.client for likely in report.diagnosis] == ["keys-by-id"]


# -- hostile bytes


def _hostile() -> Iterator[bytes]:
    yield b"data: " + b"[" * 100_000 + b"\n\n"
    yield b'data: {"choices": {"index": 0}, "error": [], "usage": 3, "type": 7, "candidates": "x", "message": []}\n\n'
    yield b'data: [1, 2]\n\ndata: "text"\n\ndata: null\n\n: \n\nevent\n\n{"error": {"error": 1}}\n'
    yield b"\xff\xfe\x00\r\r\n\n\r"


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("dialect", ALL)
def test_right_models_take_anything(name: str, dialect: str) -> None:
    for body in _hostile():
        assert CLIENTS[name]([body], dialect)["terminal"] in ("done", "finish", "error", "truncated")


@pytest.mark.parametrize("name", RIGHT)
def test_right_models_are_right_on_the_fixtures_too(name: str) -> None:
    report = check(CallableTarget(CLIENTS[name]), fixtures=FIXTURES, quirks=False, cuts=["whole", "bytes"])
    wrong = [(case.case, case.failures) for case in report.cases if not case.outcome.good]
    assert wrong == []
    assert sum(case.outcome is CaseOutcome.RIGHT for case in report.cases) > 50
