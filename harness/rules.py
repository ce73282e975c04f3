"""Rules at work: from a stream's notes to findings, one cause one finding. The catalogue is data (catalogue.py)."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from harness.catalogue import CATALOGUE, EXPLAINS, Rule
from harness.catalogue_dialects import COUNTERPART_DIALECTS
from harness.catalogue_responses import COUNTERPART_RESPONSES
from harness.findings import Evidence, Finding, Severity
from harness.structure import Structure

LONGEST = 500  # characters of a note's detail in a sentence: a server may send an index as long as it likes
# What lint measures a "both" rule against: the documented form, of a dialect's own before chat's.
DOCUMENTED = {
    "usage.position": "extra:empty",
    "reasoning.field": "reasoning_content",
    "responses usage.position": "terminal",
}
# Where the other side's bytes for a note are: the fact that shows how the baseline does it.
COUNTERPART = {
    "end": "end.marker", "finish": "finish.value", "tool": "tool.index", "usage": "usage.position",
    "text": "text.first", "role": "role.pattern", "chunk": "chunk.choices", "error": "error.delivery",
    "reasoning": "reasoning.field", "logprobs": "logprobs", **COUNTERPART_DIALECTS, **COUNTERPART_RESPONSES,
}  # fmt: skip


def rule_of(code: str) -> Rule:
    """The catalogue's row; a note no row knows (of a third party's dialect) is negotiable and says so."""
    found = CATALOGUE.get(code)
    if found is not None:
        return found
    return Rule(code, Severity.NEGOTIABLE, "note", "the dialect notes {detail}", "see the dialect's documentation")


def severity_of(structure: Structure, code: str) -> Severity:
    """How bad the note is on this stream."""
    return structure.grades.get(code) or rule_of(code).severity


def explained(codes: Iterable[str]) -> set[str]:
    """The codes among these that another one of them explains."""
    present = set(codes)
    out: set[str] = set()
    for cause in present & EXPLAINS.keys():
        patterns = EXPLAINS[cause].split()
        out |= {code for code in present - {cause} if any(fnmatchcase(code, pattern) for pattern in patterns)}
    return out


def message_of(rule: Rule, **values: Any) -> str:
    """The rule's sentence with its values filled in."""
    shown = {key: _shown(values.get(key, "")) for key in ("baseline", "candidate", "lost")}
    detail = str(values.get("detail") or "")  # a note's text, or a fact's value
    if len(detail) > LONGEST:
        detail = f"{detail[:LONGEST]}..."
    return " ".join(rule.says.format(detail=detail, **shown).split())


# Values of facts as words of a sentence.
WORDS = {
    "extra:empty": "an extra chunk without choices", "extra:choice": "an extra chunk with a choice",
    "extra:missing": "an extra chunk without the list of choices", "finish": "the finish chunk",
    "running": "chunks before the finish", "in-choice": "a choice", "vendor": "a vendor's own member",
    "empty": '""', "absent": "left out", "string": "text", "error-object": "an object under `error`",
    "error-string": "a string under `error`", "top-level": "members at top level", "text": "plain text",
    "none": "none", "status": "HTTP status", "data": "a data event", "event-name": "an `event: error`",
    "field": "an SSE field of its own", "bare": "a bare JSON line", "unterminated": "an unterminated last event",
    "whole": "one piece", "pieces": "pieces", "terminal": "the terminal event",
    "terminal-event": "the terminal event",
}  # fmt: skip


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(WORDS.get(str(key), str(key)) for key in value) or "nothing"
    if isinstance(value, bool):
        return "present" if value else "absent"
    return "nothing" if value is None else WORDS.get(str(value), str(value))


def note_finding(
    structure: Structure, code: str, baseline: Structure | None = None, take: int = 1
) -> Finding:  # fmt: skip
    """The finding that a note of the candidate makes; `baseline` gives the other side's bytes."""
    rule, note = rule_of(code), structure.notes[code]
    documented = DOCUMENTED.get(f"{structure.dialect} {code}") or DOCUMENTED.get(code, "none")
    evidence = [Evidence(side="candidate", take=take, at=note.at, length=note.length)]
    if baseline is not None:
        place = baseline.where.get(COUNTERPART.get(code) or COUNTERPART.get(code.partition(".")[0], ""))
        if place is not None:
            evidence.insert(0, Evidence(side="baseline", take=1, at=place[0], length=place[1]))
    return Finding(
        rule=code, severity=severity_of(structure, code), path=f"wire.notes.{code}",
        baseline=None if baseline is None else code in baseline.notes, candidate=True,
        message=message_of(rule, detail=note.detail, candidate=note.detail, baseline=documented),
        remedy=rule.remedy, evidence=evidence,
    )  # fmt: skip


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Worst first, then by place in the candidate's body, then by code."""
    return sorted(findings, key=lambda f: (-f.severity.rank, f.evidence[-1].at if f.evidence else 0, f.rule))


def lint(structure: Structure) -> list[Finding]:
    """One stream's notes through the rules: what an operator should know about it, worst first."""
    hidden = explained(structure.notes)
    return in_order(
        note_finding(structure, code)
        for code in structure.notes
        if code not in hidden and rule_of(code).side in ("note", "both", "lint")
    )
