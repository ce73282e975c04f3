"""A gate's report as SARIF 2.1.0, for code-scanning views: one run, the rules that spoke, a result a finding.

A result lies in a fixture, the candidate's where it was read from fixtures, else the baseline's: the bytes as
`byteOffset` and `byteLength`, and as the lines that viewers ask for. What is in no file stands at the start
of the baseline's fixture. Braces stand in messages as they were written, not doubled: they are placeholders only beside
`arguments`, which are never written, and the views that show a text as it is would show every brace twice.
Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", sections 3.11 (messages), 3.13 to
3.30; GitHub, "SARIF support for code scanning".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from harness import __version__
from harness.cutover import Side, Sides
from harness.findings import EXIT, Evidence, Finding, Outcome, Report, Severity, ShapeResult
from harness.reports.text import acceptance_line, clean, dropped_text
from harness.rules import message_of, rule_of

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {Severity.FATAL: "error", Severity.NEGOTIABLE: "warning", Severity.COSMETIC: "note"}
BLANKS = {name: f"<{name}>" for name in ("detail", "baseline", "candidate", "lost")}


def gate_sarif(report: Report, shapes: Mapping[str, Sides] | None = None) -> str:
    """The JSON text. `shapes` holds the takes of both sides; their paths are the places of the results."""
    codes = sorted({finding.rule for result in report.shapes for finding in result.findings})
    run = {
        "tool": {"driver": {"name": "sse-harness", "semanticVersion": __version__, "rules": [*map(_rule, codes)]}},
        "automationDetails": {"id": f"sse-harness/{quote(_plain(report.baseline))}/{quote(_plain(report.candidate))}/"},
        "invocations": [_invocation(report)],
        "results": [
            _result(report, result, finding, codes.index(finding.rule), (shapes or {}).get(result.shape, {}))
            for result in report.shapes for finding in result.findings
        ],
        "newlineSequences": ["\n"],
        "columnKind": "unicodeCodePoints",
    }  # fmt: skip
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(code: str) -> dict[str, Any]:
    rule = rule_of(code)
    says = message_of(rule, **BLANKS)
    return {
        "id": _plain(code),
        "shortDescription": {"text": _message(says)},
        "fullDescription": {"text": _message(f"{says} -> {rule.remedy}")},
        "help": {"text": _message(rule.remedy)},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }


def _result(report: Report, result: ShapeResult, finding: Finding, index: int, sides: Sides) -> dict[str, Any]:
    dropped = f" ({dropped_text(finding)})" if finding.dropped_from is not None else ""
    told = f"{result.shape}: {finding.message}{dropped} -> {finding.remedy}"
    places = [*_places(finding, sides)]
    key = "\0".join((report.baseline, report.candidate, result.shape, finding.rule, finding.path))
    found: dict[str, Any] = {
        "ruleId": _plain(finding.rule), "ruleIndex": index, "kind": "fail", "level": LEVELS[finding.severity],
        "message": {"text": _message(told)}, "locations": places[:1],
    }  # fmt: skip
    if places[1:]:
        found["relatedLocations"] = places[1:]
    accepted = finding.accepted
    found["suppressions"] = [] if accepted is None else [
        {"kind": "external", "status": "accepted", "justification": _plain(accepted.reason),
         "properties": {"until": accepted.until, "owner": accepted.owner and _plain(accepted.owner)}}
    ]  # fmt: skip
    found["partialFingerprints"] = {"sseHarnessFinding/v1": sha256(key.encode("utf-8", "replace")).hexdigest()}
    breaks = [*map(_plain, finding.breaks)]
    found["properties"] = {"shape": _plain(result.shape), "severity": finding.severity, "breaks": breaks}
    return found


def _places(finding: Finding, sides: Sides) -> Iterator[dict[str, Any]]:
    """The candidate's bytes first; where no byte of the finding is in a file, the start of the baseline's fixture."""
    shown = sorted(finding.evidence, key=lambda evidence: evidence.side != "candidate")
    found = [(evidence, side) for evidence in shown if (side := sides.get((evidence.side, evidence.take))) is not None]
    filed = [(evidence, side) for evidence, side in found if side.path is not None]
    for evidence, side in filed:
        yield {"physicalLocation": {**_artifact(side), "region": _region(evidence, side.recording.body)}}
    first = sides.get(("baseline", 1))
    if not filed and first is not None and first.path is not None:
        start = Evidence(side="baseline", take=1, at=0, length=0)
        yield {"physicalLocation": {**_artifact(first), "region": _region(start, first.recording.body)}}


def _artifact(side: Side) -> dict[str, Any]:
    return {"artifactLocation": {"uri": quote(_plain(side.path or "")), "uriBaseId": "%SRCROOT%"}}


def _region(evidence: Evidence, body: bytes) -> dict[str, Any]:
    (line, column), (last, end) = _point(body, evidence.at), _point(body, evidence.at + evidence.length)
    return {
        "startLine": line, "startColumn": column, "endLine": last, "endColumn": end,
        "byteOffset": evidence.at, "byteLength": evidence.length,
    }  # fmt: skip


def _point(body: bytes, at: int) -> tuple[int, int]:
    """Line and column of a byte, from 1 on; bytes that are no UTF-8 count as the characters they are shown as."""
    begin = body.rfind(b"\n", 0, at) + 1
    return body.count(b"\n", 0, at) + 1, len(body[begin:at].decode("utf-8", "replace")) + 1


def _invocation(report: Report) -> dict[str, Any]:
    """Shapes without a verdict, and acceptances that fail the gate, as what the tool has to tell of itself."""
    about = {Outcome.NOT_MEASURED: ("warning", "not measured"), Outcome.SKIPPED: ("note", "skipped")}
    measured = [
        _notice(about[result.outcome][0], f"{result.shape} {about[result.outcome][1]}: {result.reason}")
        for result in report.shapes if result.outcome in about
    ]  # fmt: skip
    wrong = [_notice("error", acceptance_line(use)) for use in report.acceptances if use.state != "used"]
    return {
        "executionSuccessful": report.outcome is not Outcome.NOT_MEASURED, "exitCode": int(EXIT[report.outcome]),
        "toolExecutionNotifications": measured, "toolConfigurationNotifications": wrong,
    }  # fmt: skip


def _notice(level: str, text: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": _message(text)}}


def _plain(text: str) -> str:
    return clean(text)


def _message(text: str) -> str:
    """Text of a message, in which `[...](...)` is no link."""
    return clean(text).replace("](", "\\](")
