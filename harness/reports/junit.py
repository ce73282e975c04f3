"""A gate's report as JUnit XML: a test case a shape, and one for the acceptances."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree as ET

from harness.findings import Outcome, Report, ShapeResult
from harness.reports.text import acceptance_line, clean, findings_text

# What XML 1.0 cannot hold even as a reference.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def gate_junit(
    report: Report, bodies: Mapping[str, Mapping[tuple[str, int], bytes]] | None = None,
    seconds: Mapping[str, float] | None = None,
) -> str:  # fmt: skip
    """The XML text. differs is a failure, not measured an error, skipped is skipped.

    `seconds` are how long the candidate's streams took, by shape, as far as known.
    """
    name = f"harness gate {report.baseline} {report.candidate}"
    took = seconds or {}
    suite = ET.Element("testsuite", {"name": _text(name)})
    for result in report.shapes:
        case = ET.SubElement(suite, "testcase", {"classname": _text(name), "name": _text(result.shape)})
        if result.shape in took:
            case.set("time", f"{took[result.shape]:.3f}")
        _result(case, result, report.failing(result), dict((bodies or {}).get(result.shape, {})))
    wrong = [use for use in report.acceptances if use.state != "used"]
    if report.acceptances:
        case = ET.SubElement(suite, "testcase", {"classname": _text(name), "name": "acceptances"})
        if wrong:
            lines = [acceptance_line(use) for use in wrong]
            failure = ET.SubElement(case, "failure", {"message": _text("; ".join(lines))})
            failure.text = _text("\n".join(lines))
    counts = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    for attribute, tag in counts.items():
        suite.set(attribute, str(len(suite.findall(f".//{tag}"))))
    if took:
        suite.set("time", f"{sum(took.values()):.3f}")
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _result(
    case: ET.Element, result: ShapeResult, failing: list[str], bodies: dict[tuple[str, int], bytes]
) -> None:  # fmt: skip
    text = findings_text(result.findings, bodies, "") if result.findings else ""
    if result.outcome is Outcome.DIFFERS:
        ET.SubElement(case, "failure", {"message": _text(", ".join(failing))}).text = _text(text)
    elif result.outcome is Outcome.NOT_MEASURED:
        ET.SubElement(case, "error", {"message": _text(f"not measured: {result.reason}")})
    elif result.outcome is Outcome.SKIPPED:
        ET.SubElement(case, "skipped", {"message": _text(result.reason)})
    elif text:
        ET.SubElement(case, "system-out").text = _text(text)


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", clean(text))
