"""The gate's report as SARIF: valid whatever a server wrote, and each outcome where viewers look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commandline import harness
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from reading import FIXTURES

from harness.cutover import Side
from harness.findings import AcceptanceUse, Accepted, Evidence, Finding, Outcome, Report, Severity, ShapeResult
from harness.recording import Recording
from harness.reports.sarif import gate_sarif
from harness.structure import structure

BASELINES = ("vllm", "llamacpp")
CANDIDATES = ("vllm", "transformers", "litellm", "litellm-over-anthropic", "dynamo", "openai")
BODY = 'data: {"choices":[{"index":0,"delta":{"content":"né"}}]}\n\ndata: {"x":1}\n\ndata: [DONE]\n\n'.encode()
AT = BODY.index(b'data: {"x"')  # the third line


def exactly(**members: Any) -> dict[str, Any]:
    """An object that must have these members and no other; a name with `_` at its end may be missing."""
    return {
        "type": "object", "additionalProperties": False,
        "required": [name for name in members if not name.endswith("_")],
        "properties": {name.rstrip("_"): schema for name, schema in members.items()},
    }  # fmt: skip


# What we write of the standard, member for member (SARIF 2.1.0, sections 3.13 to 3.58); the whole schema has far more.
STRING, WHOLE = {"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0}
LINE = {"type": "integer", "minimum": 1}
LEVEL = {"enum": ["error", "warning", "note"]}
MESSAGE = exactly(text=STRING)
REGION = exactly(
    startLine=LINE, startColumn=LINE, endLine=LINE, endColumn=LINE, byteOffset=WHOLE, byteLength=WHOLE
)  # fmt: skip
ARTIFACT = exactly(uri={"type": "string", "pattern": r"^(gates/web/)?fixtures/[A-Za-z0-9._~%/-]+$"}, uriBaseId=STRING)
PLACES = {"type": "array", "items": exactly(physicalLocation=exactly(artifactLocation=ARTIFACT, region=REGION))}
NOTICES = {"type": "array", "items": exactly(level=LEVEL, message=MESSAGE)}
SUPPRESSION = exactly(
    kind={"const": "external"}, status={"const": "accepted"}, justification={"type": "string"},
    properties=exactly(until={"type": ["string", "null"]}, owner={"type": ["string", "null"]}),
)  # fmt: skip
RULE = exactly(
    id=STRING, shortDescription=MESSAGE, fullDescription=MESSAGE, help=MESSAGE,
    defaultConfiguration=exactly(level=LEVEL),
)  # fmt: skip
RESULT = exactly(
    ruleId=STRING, ruleIndex=WHOLE, kind={"const": "fail"}, level=LEVEL, message=MESSAGE,
    locations={**PLACES, "maxItems": 1}, relatedLocations_={**PLACES, "minItems": 1},
    suppressions={"type": "array", "items": SUPPRESSION},
    partialFingerprints={"type": "object", "additionalProperties": STRING}, properties={"type": "object"},
)  # fmt: skip
RUN = exactly(
    tool=exactly(driver=exactly(
        name=STRING, semanticVersion=STRING, rules={"type": "array", "items": RULE, "uniqueItems": True})),
    automationDetails=exactly(id=STRING),
    invocations={"type": "array", "minItems": 1, "maxItems": 1, "items": exactly(
        executionSuccessful={"type": "boolean"}, exitCode={"type": "integer"}, toolExecutionNotifications=NOTICES,
        toolConfigurationNotifications=NOTICES)},
    results={"type": "array", "items": RESULT},
    newlineSequences={"const": ["\n"]}, columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
)  # fmt: skip
LOG = exactly(**{"$schema": STRING}, version={"const": "2.1.0"}, runs={"type": "array", "minItems": 1, "items": RUN})


def loaded(text: str) -> dict[str, Any]:
    """The one run of the log, which must be as the standard has it, and consistent in itself."""
    log = json.loads(text.encode("utf-8"))
    assert [error.message for error in Draft202012Validator(LOG).iter_errors(log)] == []
    run: dict[str, Any] = log["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    assert {result["ruleId"] for result in run["results"]} == {*rules}, "the rules that spoke, and no others"
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    prints = [result["partialFingerprints"]["sseHarnessFinding/v1"] for result in run["results"]]
    assert all(len(one) == 64 for one in prints)
    return run


def finding(text: str = "it hangs", **fields: Any) -> Finding:
    given_ = {"rule": text, "severity": Severity.FATAL, "path": text, "baseline": None, "candidate": text,
              "message": text, "remedy": text, "evidence": [Evidence(side="candidate", take=1, at=0, length=9)],
              "breaks": [text]}  # fmt: skip
    return Finding(**{**given_, **fields})


def report(*shapes: ShapeResult, uses: tuple[AcceptanceUse, ...] = (), name: str = "a", **more: Any) -> Report:
    given_ = {"baseline": name, "candidate": name, "outcome": Outcome.DIFFERS, **more}
    return Report(**given_, shapes=list(shapes), acceptances=list(uses))


def differs(*findings: Finding, shape: str = "text") -> ShapeResult:
    return ShapeResult(shape=shape, outcome=Outcome.DIFFERS, takes=1, findings=list(findings))


def side(path: str | None, body: bytes = BODY) -> Side:
    recording = Recording(body=body)
    return Side(recording=recording, structure=structure(recording, "chat"), path=path)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("candidate", CANDIDATES)
def test_reports_of_real_servers_point_into_their_fixtures(
    baseline: str, candidate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FIXTURES.parent)
    paths = [tmp_path / "report.sarif", tmp_path / "report.json"]
    done = harness("gate", baseline, candidate, "--recorded", *(word for path in paths for word in ("--report", path)))
    assert done.code in (0, 1, 3)
    run, known = loaded(paths[0].read_text("utf-8")), json.loads(paths[1].read_bytes())
    findings = [one for shape in known["shapes"] for one in shape["findings"]]
    assert [result["ruleId"] for result in run["results"]] == [one["rule"] for one in findings]
    levels = {"fatal": "error", "negotiable": "warning", "cosmetic": "note"}
    assert [result["level"] for result in run["results"]] == [levels[one["severity"]] for one in findings]
    assert run["invocations"][0]["exitCode"] == done.code
    for result, one in zip(run["results"], findings, strict=True):
        places = [place["physicalLocation"] for place in [*result["locations"], *result.get("relatedLocations", [])]]
        assert len(result["locations"]) == 1, "a viewer of code shows nothing that is nowhere"
        assert len(places) == max(1, len(one["evidence"]))
        for place in places:
            body = (FIXTURES.parent / place["artifactLocation"]["uri"]).read_bytes()
            region = place["region"]
            assert region["byteOffset"] + region["byteLength"] <= len(body)
            lines = body.split(b"\n")
            start = sum(len(line) + 1 for line in lines[: region["startLine"] - 1])
            before = lines[region["startLine"] - 1].decode("utf-8", "replace")[: region["startColumn"] - 1]
            assert start + len(before.encode()) == region["byteOffset"]


def test_each_outcome_is_where_viewers_look() -> None:
    taken = {("baseline", 1): side("fixtures/a/text.sse"), ("candidate", 1): side(None)}
    sees = [Evidence(side="baseline", take=1, at=AT, length=13), Evidence(side="candidate", take=1, at=0, length=9)]
    accepted = Accepted(reason="counted locally", until="2027-06-30", owner="web team")
    run = loaded(gate_sarif(report(
        ShapeResult(shape="stop", outcome=Outcome.CONFORMS, takes=1),
        differs(
            finding("end.marker-missing", evidence=sees),
            finding("usage.position", severity=Severity.NEGOTIABLE, accepted=accepted),
            finding("sse.comments", severity=Severity.COSMETIC, dropped_from=Severity.NEGOTIABLE),
        ),
        ShapeResult(shape="error", outcome=Outcome.NOT_MEASURED, reason="HTTP 429"),
        ShapeResult(shape="logprobs", outcome=Outcome.SKIPPED, reason="not offered"),
        uses=(AcceptanceUse(rule="usage.*", shape=None, state="used"),
              AcceptanceUse(rule="end.*", shape="text", state="stale")),
    ), {"text": taken}))  # fmt: skip
    first, second, third = run["results"]
    assert (first["level"], first["suppressions"]) == ("error", [])
    assert first["locations"] == [{"physicalLocation": {
        "artifactLocation": {"uri": "fixtures/a/text.sse", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 3, "startColumn": 1, "endLine": 3, "endColumn": 14, "byteOffset": AT, "byteLength": 13},
    }}], "the candidate was called, and is in no file"  # fmt: skip
    assert "relatedLocations" not in first
    assert second["level"] == "warning"
    assert second["suppressions"] == [{"kind": "external", "status": "accepted", "justification": "counted locally",
                                       "properties": {"until": "2027-06-30", "owner": "web team"}}]  # fmt: skip
    assert (third["level"], third["suppressions"]) == ("note", [])
    assert "negotiable" in third["message"]["text"]
    nothing = {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1, "byteOffset": 0, "byteLength": 0}
    whole = {"artifactLocation": {"uri": "fixtures/a/text.sse", "uriBaseId": "%SRCROOT%"}, "region": nothing}
    assert second["locations"] == third["locations"] == [{"physicalLocation": whole}]
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (True, 1)
    assert [(one["level"], one["message"]["text"]) for one in invocation["toolExecutionNotifications"]] == [
        ("warning", "error not measured: HTTP 429"), ("note", "logprobs skipped: not offered"),
    ]  # fmt: skip
    (stale,) = invocation["toolConfigurationNotifications"]
    assert stale["level"] == "error"
    assert "end.*" in stale["message"]["text"]


def test_what_was_not_measured_is_no_success() -> None:
    (invocation,) = loaded(gate_sarif(report(outcome=Outcome.NOT_MEASURED)))["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 3)


def test_a_fingerprint_is_of_the_finding_and_of_nothing_that_changes() -> None:
    def prints(*findings: Finding, **more: Any) -> list[str]:
        run = loaded(gate_sarif(report(differs(*findings, **more))))
        return [result["partialFingerprints"]["sseHarnessFinding/v1"] for result in run["results"]]

    moved = finding("a", message="3 of 5 samples", evidence=[], severity=Severity.COSMETIC)
    assert prints(finding("a")) == prints(moved)
    assert len({*prints(finding("a"), finding("b")), *prints(finding("a"), shape="stop")}) == 3


def test_candidates_from_fixtures_come_first() -> None:
    taken = {("baseline", 1): side("fixtures/a/text.sse"), ("candidate", 1): side("fixtures/b c/té.sse")}
    sees = [Evidence(side="baseline", take=1, at=0, length=9), Evidence(side="candidate", take=1, at=60, length=0)]
    (result,) = loaded(gate_sarif(report(differs(finding(evidence=sees))), {"text": taken}))["results"]
    at = [place["physicalLocation"]["artifactLocation"]["uri"] for place in result["locations"]]
    assert at == ["fixtures/b%20c/t%C3%A9.sse"]
    assert len(result["relatedLocations"]) == 1
    assert result["locations"][0]["physicalLocation"]["region"]["byteLength"] == 0


def test_braces_and_brackets_are_text() -> None:
    (result,) = loaded(gate_sarif(report(differs(finding("r", message="called with {} and [x](1), {0}", remedy="-")))))[
        "results"
    ]
    assert result["message"]["text"] == "text: called with {} and [x\\](1), {0} -> -"


@given(st.text(min_size=1), st.binary(), st.integers(0, 200), st.integers(0, 200))
def test_whatever_was_written_the_log_is_valid(text: str, body: bytes, at: int, length: int) -> None:
    sees = [Evidence(side="candidate", take=1, at=at, length=length)]
    shapes = [
        differs(finding(text, evidence=sees, accepted=Accepted(reason=text, owner=text)), shape=text),
        ShapeResult(shape=text, outcome=Outcome.NOT_MEASURED, reason=text),
        ShapeResult(shape=text, outcome=Outcome.SKIPPED, reason=text),
    ]
    use = AcceptanceUse(rule=text, shape=text, state="expired")
    taken = {("candidate", 1): side("fixtures/a/text.sse", body)}
    loaded(gate_sarif(report(*shapes, uses=(use,), name=text), {text: taken}))


@pytest.mark.parametrize(("repository", "project", "uri"), [
    (".", ".", "fixtures/b/text.sse"), (".", "gates/web", "gates/web/fixtures/b/text.sse"),
    (None, "gates/web", "fixtures/b/text.sse"),
])  # fmt: skip
def test_paths_are_those_of_the_repository(
    repository: str | None, project: str, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if repository is not None:
        (tmp_path / repository / ".git").mkdir()
    folder = tmp_path / project
    for name, body in (("a", BODY), ("b", BODY[: BODY.index(b"data: [DONE]")])):
        (folder / "fixtures" / name).mkdir(parents=True)
        (folder / "fixtures" / name / "text.sse").write_bytes(body)
    (folder / "providers.yaml").write_text("providers: {}\n", "utf-8")
    monkeypatch.chdir(folder)
    assert harness("gate", "a", "b", "--recorded", "--shape", "text", "--report", "gate.sarif").code == 1
    run = loaded((folder / "gate.sarif").read_text("utf-8"))
    (result,) = run["results"]
    assert [place["physicalLocation"]["artifactLocation"]["uri"] for place in result["locations"]] == [uri]


@pytest.mark.parametrize("hostile", ["\x00\x1b[31m", "\ud800", "\uffff", "</script>", '"}]}', "%SRCROOT%/../../etc"])
def test_hostile_text_is_text(hostile: str) -> None:
    made = gate_sarif(report(differs(finding(hostile)), name=hostile))
    (result,) = loaded(made)["results"]
    assert not [letter for letter in made if ord(letter) < 32 and letter != "\n"]
    assert result["locations"] == []
