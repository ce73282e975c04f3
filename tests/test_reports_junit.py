"""The gate's report as JUnit XML: valid whatever a server wrote, and each shape in the state that tools show."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import xmlschema
from commandline import harness
from hypothesis import given
from hypothesis import strategies as st
from reading import FIXTURES

from harness.findings import AcceptanceUse, Accepted, Evidence, Finding, Outcome, Report, Severity, ShapeResult
from harness.reports.junit import gate_junit

BASELINES = ("vllm", "llamacpp")
CANDIDATES = ("vllm", "transformers", "litellm", "litellm-over-anthropic", "dynamo", "openai")


@cache
def schema() -> xmlschema.XMLSchema11:
    return xmlschema.XMLSchema11(str(Path(__file__).with_name("junit.xsd")))


def problems(text: str) -> list[str]:
    return [str(error.reason) for error in schema().iter_errors(text)]


def finding(text: str = "it hangs", **fields: Any) -> Finding:
    given_ = {"rule": text, "severity": Severity.FATAL, "path": text, "baseline": None, "candidate": text,
              "message": text, "remedy": text, "evidence": [Evidence(side="candidate", take=1, at=0, length=99)],
              "breaks": [text]}  # fmt: skip
    return Finding(**{**given_, **fields})


def report(*shapes: ShapeResult, uses: tuple[AcceptanceUse, ...] = (), name: str = "a") -> Report:
    return Report(baseline=name, candidate=name, outcome=Outcome.DIFFERS, shapes=list(shapes), acceptances=list(uses))


def children(text: str) -> dict[str, list[tuple[str, str | None]]]:
    """What each case says: element and message, by the case's name."""
    return {
        case.attrib["name"]: [(said.tag, said.get("message")) for said in case]
        for case in ET.fromstring(text).iter("testcase")
    }


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("candidate", CANDIDATES)
def test_reports_of_real_servers_are_valid(
    baseline: str, candidate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FIXTURES.parent)
    path = tmp_path / "report.xml"
    done = harness("gate", baseline, candidate, "--recorded", "--report", path)
    assert done.code in (0, 1, 3)
    assert problems(path.read_text("utf-8")) == []


def test_each_outcome_is_the_state_that_tools_know() -> None:
    shapes = [
        ShapeResult(shape="text", outcome=Outcome.CONFORMS, takes=1),
        ShapeResult(shape="stop", outcome=Outcome.CONFORMS, takes=1, findings=[
            finding(severity=Severity.COSMETIC, rule="sse.comments")]),
        ShapeResult(shape="tool-call", outcome=Outcome.DIFFERS, takes=1, findings=[
            finding(rule="end.marker-missing"), finding(rule="usage.position")]),
        ShapeResult(shape="error", outcome=Outcome.NOT_MEASURED, reason="HTTP 429"),
        ShapeResult(shape="logprobs", outcome=Outcome.SKIPPED, reason="not offered"),
    ]  # fmt: skip
    stale = AcceptanceUse(rule="usage.*", shape=None, state="stale")
    used = AcceptanceUse(rule="end.*", shape="text", state="used")
    text = gate_junit(report(*shapes, uses=(stale, used)))
    assert problems(text) == []
    assert children(text) == {
        "text": [], "stop": [("system-out", None)],
        "tool-call": [("failure", "end.marker-missing, usage.position")],
        "error": [("error", "not measured: HTTP 429")], "logprobs": [("skipped", "not offered")],
        "acceptances": [("failure", "stale usage.* (all shapes): it no longer occurs; delete it")],
    }  # fmt: skip
    suite = ET.fromstring(text).find("testsuite")
    assert suite is not None
    assert {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6", "failures": "2", "errors": "1", "skipped": "1",
    }  # fmt: skip
    assert children(gate_junit(report(uses=(used,)))) == {"acceptances": []}
    assert problems(gate_junit(report())) == [], "a gate without shapes"


@given(st.text(min_size=1), st.binary())
def test_whatever_was_written_the_xml_is_valid(text: str, body: bytes) -> None:
    shapes = [
        ShapeResult(shape=text, outcome=Outcome.DIFFERS, takes=1, findings=[finding(text)]),
        ShapeResult(shape=text, outcome=Outcome.NOT_MEASURED, reason=text),
        ShapeResult(shape=text, outcome=Outcome.SKIPPED, reason=text),
    ]
    use = AcceptanceUse(rule=text, shape=text, state="expired")
    made = gate_junit(report(*shapes, uses=(use,), name=text), {text: {("candidate", 1): body}})
    assert problems(made) == []
    assert len(children(made)) <= 2, "the shapes have one name here"


@pytest.mark.parametrize("hostile", ["]]><x/>", "\x00\x1b[31m", "\ud800", "\uffff", "<failure/>", "&#0; &amp; &lol;"])
def test_hostile_text_is_text(hostile: str) -> None:
    shape = ShapeResult(shape=hostile, outcome=Outcome.DIFFERS, takes=1, findings=[finding(hostile)])
    made = gate_junit(report(shape, name=hostile), {hostile: {("candidate", 1): hostile.encode("utf-8", "replace")}})
    assert problems(made) == []
    assert [case.tag for case in ET.fromstring(made).iter()] == ["testsuites", "testsuite", "testcase", "failure"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('tests="1"', 'tests="2"'), ('failures="1"', 'failures="0"'), (' name="text"', ""), ("<failure ", "<oops "),
        (' message="it hangs"', ""), ("<testsuites>", "<testsuites extra='1'>"), ('errors="0"', 'errors="none"'),
    ],
)  # fmt: skip
def test_the_schema_minds(old: str, new: str) -> None:
    shape = ShapeResult(shape="text", outcome=Outcome.DIFFERS, takes=1, findings=[finding()])
    made = gate_junit(report(shape))
    assert problems(made) == []
    assert old in made
    broken = made.replace(old, new).replace("</failure>", "</oops>" if "oops" in new else "</failure>")
    assert problems(broken) != []


def test_the_message_names_what_fails_alone_and_times_stand_where_they_are_known() -> None:
    shape = ShapeResult(shape="text", outcome=Outcome.DIFFERS, takes=1, findings=[
        finding(rule="end.marker-missing"), finding(rule="sse.comments", severity=Severity.COSMETIC),
        finding(rule="usage.position", accepted=Accepted(reason="counted locally")),
    ])  # fmt: skip
    other = ShapeResult(shape="stop", outcome=Outcome.CONFORMS, takes=1)
    made = gate_junit(report(shape, other), seconds={"text": 1.25})
    assert problems(made) == []
    assert children(made)["text"] == [("failure", "end.marker-missing")]
    times = {case.attrib["name"]: case.get("time") for case in ET.fromstring(made).iter("testcase")}
    assert times == {"text": "1.250", "stop": None}
    assert report(shape).failing(shape) == ["end.marker-missing"]
    assert Report(baseline="a", candidate="b", outcome=Outcome.DIFFERS, fail_on=Severity.COSMETIC).failing(shape) == [
        "end.marker-missing", "sse.comments",
    ]  # fmt: skip
