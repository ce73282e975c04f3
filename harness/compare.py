"""Structure x structure -> findings, within a dialect and across two.

The only module that knows deepdiff, and only ever on structures.

Every changed path is owned by the most specific rule, which swallows its children: one cause, one finding (DESIGN).
Losing is worse than gaining; what both sides have is listed as shared. Source: RULES, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from deepdiff import DeepDiff
from deepdiff.helper import notpresent

from harness.catalogue import CATALOGUE, F, N
from harness.findings import Evidence, Finding, Severity
from harness.judges import JUDGES, Change
from harness.rule import Rule
from harness.rules import explained, in_order, lint, message_of, note_finding, rule_of, severity_of
from harness.shapes import UNMEASURED_STATUS
from harness.structure import Structure

_MISSING = object()
RELAY = "http.x-accel-buffering"


class Comparison(msgspec.Struct, kw_only=True):
    """What came of one shape. `not_measured` is a reason, "" if the comparison says something."""

    findings: list[Finding] = []
    shared: list[str] = []
    remarks: list[str] = []
    not_measured: str = ""


def compare(baseline: Sequence[Structure], candidate: Structure, *, shape: str = "", take: int = 1) -> Comparison:
    """Compare a candidate with the takes of a baseline, the first of which is the norm (DESIGN, "Envelope").

    `baseline` is a list, of one take at least: what varies among takes is no difference. `shape` "error" expects both
    to fail. `take` (1, 2, ...) numbers the candidate's recording in the evidence. Where the baseline is no answer to
    compare with, `not_measured` of the result says why; nothing is raised.
    """
    base = baseline[0]
    if base.dialect != candidate.dialect:
        return _across(base, candidate, shape, take)
    takes = [base, *(other for other in baseline[1:] if _joins(base, other))]
    ours, theirs = base.get("result"), candidate.get("result")
    if ours == "error":
        if theirs == "error" and shape in ("", "error"):
            return _errors(takes, candidate, take)
        if shape == "error":
            findings = [] if theirs == "nothing" else _notes(takes, candidate, take)
            # A stream that breaks off does not say that all is well: that it broke is the finding.
            if theirs != "cut" or not any(finding.severity is F for finding in findings):
                findings.append(_finding(_change("result", base, candidate), "error.swallowed", F, take))
            findings = _without_explained(findings, base, candidate)
            return Comparison(findings=in_order(findings), shared=_shared(takes, candidate, findings))
        return Comparison(not_measured="the baseline failed")
    if ours != "ok":
        return Comparison(not_measured=f"the baseline's stream is no answer ({ours})")
    if theirs == "error" and candidate.get("http.status", 200) >= 400:
        return _refused(base, candidate, take)
    findings = _notes(takes, candidate, take)
    if theirs == "ok":
        findings += _differences(takes, candidate, take)
    findings = _without_explained(findings, base, candidate)
    shared = _shared(takes, candidate, findings)
    return Comparison(findings=in_order(findings), shared=shared, remarks=_remarks(base, candidate))


def _shared(takes: Sequence[Structure], candidate: Structure, findings: list[Finding]) -> list[str]:
    """Codes that both sides have, but for what another of them explains, and for what is a finding all the same."""
    common = candidate.notes.keys() & {code for take in takes for code in take.notes}
    return sorted(common - explained(common) - {finding.rule for finding in findings})


def _refused(base: Structure, candidate: Structure, take: int) -> Comparison:
    """A status other than the baseline's 200: the candidate's answer to the request, or nothing measured (DESIGN)."""
    status = candidate.get("http.status")
    if status in UNMEASURED_STATUS or (status >= 500 and status != 501):
        return Comparison(not_measured=f"HTTP {status}")
    return Comparison(findings=[_finding(_change("http.status", base, candidate), "http.rejected", F, take)])


def _joins(first: Structure, other: Structure) -> bool:
    """A further take joins the envelope unless it has a fatal note that the first lacks, or failed."""
    if other.get("result") != first.get("result"):
        return False
    return not any(severity_of(other, code) is F for code in other.notes if code not in first.notes)


def _notes(takes: Sequence[Structure], candidate: Structure, take: int) -> list[Finding]:
    """Notes that no take of the baseline has, or has milder. A fatal one is excused by the first take only."""
    out = []
    for code in candidate.notes:
        if rule_of(code).side != "note":
            continue
        severity = severity_of(candidate, code)
        asked = takes[:1] if severity is F else takes
        known = [severity_of(other, code).rank for other in asked if code in other.notes]
        if not known or max(known) < severity.rank:
            out.append(note_finding(candidate, code, takes[0], take))
    return out


def _without_explained(findings: list[Finding], base: Structure, candidate: Structure) -> list[Finding]:
    """Drop what another finding, or a note of the candidate that both share, explains (RULES, section 4)."""
    codes = {finding.rule for finding in findings}
    hidden = explained(codes | set(candidate.notes)) | {
        twin for cause, twin in SAME_CAUSE if cause in codes | set(candidate.notes)
    }
    return [finding for finding in findings if finding.rule not in hidden]


# A note and a difference that read the same bytes: the first speaks for both.
SAME_CAUSE = [
    ("finish.stop-with-calls", "finish.differs"),
    ("finish.unknown-value", "finish.differs"),
    ("finish.repeated", "finish.differs"),
    ("error.finish-reason", "finish.differs"),
    ("finish.calls-without-call", "finish.differs"),
    ("finish.missing", "finish.length-hidden"),
    ("finish.unknown-value", "finish.length-hidden"),
    ("tool.whole-call", "tool.arguments-split"),
    ("usage.repeated", "usage.position"),
    ("usage.in-choice", "usage.position"),
    ("usage.missing", "usage.counters"),
    ("usage.missing", "usage.details"),
    ("chunk.delta-null", "chunk.first-content"),
    ("text.not-a-string", "chunk.first-content"),
    ("reasoning.in-text", "reasoning.field"),
]


def _differences(takes: Sequence[Structure], candidate: Structure, take: int) -> list[Finding]:
    """Difference rules over the facts that changed."""
    return [
        _finding(change, code, severity, take)
        for change, code, severity in _judged(takes, candidate)
        if not (code in candidate.notes and rule_of(code).side == "note")
    ]


def _judged(takes: Sequence[Structure], candidate: Structure) -> list[tuple[Change, str, Severity]]:
    """Changes that are findings. What is fatal against the first take stays one, whatever the others hold (DESIGN)."""
    out: dict[str, tuple[Change, str, Severity]] = {}
    for envelope in (takes, takes[:1]) if len(takes) > 1 else (takes,):
        for change, owner in _changes(envelope, candidate):
            judged = JUDGES[owner](change) if owner in JUDGES else (owner, CATALOGUE[owner].severity)
            if judged is not None and (judged[1] is F or envelope is takes):
                out[change.path] = (change, *judged)
    return list(out.values())


def _changes(takes: Sequence[Structure], candidate: Structure) -> list[tuple[Change, str]]:
    """Owned paths that changed against the first take, in no take's set of values, with the rule that owns them."""
    base = takes[0]
    owned: dict[str, tuple[str, list[str], list[str]]] = {}
    ours = {"wire": {k: v for k, v in base.wire.items() if k != "notes"}, "behaviour": base.behaviour}
    theirs = {"wire": {k: v for k, v in candidate.wire.items() if k != "notes"}, "behaviour": candidate.behaviour}
    # Threshold 0: dicts without a common key are still compared member by member.
    for levels in DeepDiff(ours, theirs, view="tree", threshold_to_diff_deeper=0).values():
        for level in levels:
            parts = [str(part) for part in level.path(output_format="list")]
            for path in _leaves(parts, level.t1) + _leaves(parts, level.t2):
                value = _at(theirs, path)
                if any(_same(value, _at({"wire": other.wire, "behaviour": other.behaviour}, path)) for other in takes):
                    continue
                owner = OWNERS.owner(path)
                if owner is None:
                    continue
                code, lost, gained = owned.setdefault(owner.path, (owner.code, [], []))
                members = gained if value is not _MISSING else lost
                if path[-1] not in members:
                    members.append(path[-1])
    changes = []
    for owned_path, (code, lost, gained) in owned.items():
        change = _change(owned_path, base, candidate)
        change.lost, change.gained = lost, gained
        changes.append((change, code))
    return changes


def _leaves(path: list[str], value: Any) -> list[list[str]]:
    """Paths of the plain values at or below the path; none where the side has nothing there."""
    if value is notpresent:
        return []
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in _leaves([*path, key], inner)]
    return [path]


def _at(tree: Any, path: Sequence[str]) -> Any:
    for part in path:
        if not isinstance(tree, dict) or part not in tree:
            return _MISSING
        tree = tree[part]
    return tree


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


class _Owners:
    """Which rule owns a path: the one with the longest path that it lies on or under."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, ...], Rule] = {}
        self._rules = 0

    @property
    def by_path(self) -> dict[tuple[str, ...], Rule]:
        """Rules by their path. Plug-ins bring more of them while we run."""
        if self._rules != len(CATALOGUE):
            self._rules = len(CATALOGUE)
            self._by_path = {
                tuple(f"wire.{rule.path}".split(".")) if not rule.path.startswith("behaviour")
                else tuple(rule.path.split(".")): rule
                for rule in CATALOGUE.values() if rule.path
            }  # fmt: skip
        return self._by_path

    def owner(self, path: Sequence[str]) -> Any:
        """The rule, or None where nobody judges the path (notes speak for it, or it is free to vary)."""
        by_path = self.by_path
        for end in range(len(path), 1, -1):
            rule = by_path.get(tuple(path[:end]))
            if rule is not None:
                return rule
        return None


OWNERS = _Owners()


def _change(path: str, base: Structure, cand: Structure) -> Change:
    if path.startswith("behaviour."):
        ours, theirs = (_at({"behaviour": side.behaviour}, path.split(".")) for side in (base, cand))
        ours, theirs = (None if value is _MISSING else value for value in (ours, theirs))
    else:
        ours, theirs = base.get(path), cand.get(path)
    return Change(path=path, baseline=ours, candidate=theirs, lost=[], gained=[], base=base, cand=cand)


def _value(value: Any) -> Any:
    """A set of facts as a JSON list; anything else as it is."""
    if isinstance(value, dict) and value and all(inner is True for inner in value.values()):
        return sorted(value)
    return value


def _finding(change: Change, code: str, severity: Severity, take: int) -> Finding:
    evidence = []
    rule = rule_of(code)
    for side, structure, number in (("baseline", change.base, 1), ("candidate", change.cand, take)):
        at, length = structure.where.get(change.path) or structure.where.get(rule.path) or (0, structure.size)
        evidence.append(Evidence(side=side, take=number, at=at, length=length))  # type: ignore[arg-type]
    prefix = "" if change.path.startswith("behaviour.") else "wire."
    message = message_of(
        rule, baseline=change.baseline, candidate=change.candidate, lost=", ".join(sorted(change.lost)),
        detail=change.candidate,
    )  # fmt: skip
    return Finding(
        rule=code, severity=severity, path=prefix + change.path, baseline=_value(change.baseline),
        candidate=_value(change.candidate), message=message, remedy=rule.remedy, evidence=evidence,
    )  # fmt: skip


def _errors(takes: Sequence[Structure], candidate: Structure, take: int) -> Comparison:
    """Failure x failure: the error facts alone."""
    findings = []
    for change, code, severity in _judged(takes, candidate):
        if not (change.path.startswith("error.") or change.path == "end.marker-after-error"):
            continue
        if change.baseline is None or change.candidate is None:
            continue  # unknown on one side
        findings.append(_finding(change, code, severity, take))
    codes = {finding.rule for finding in findings}
    if "error.envelope" in codes:  # another envelope has other fields: one cause
        findings = [finding for finding in findings if finding.rule not in ("error.fields", "error.code-type")]
    shared = sorted({"error.in-stream"} & candidate.notes.keys() & takes[0].notes.keys())
    return Comparison(findings=in_order(findings), shared=shared)


NOT_COMPARABLE = (
    "framing, event names, kind of end marker, raw finish reasons, place of usage, facts of chunks, items and blocks, "
    "role, first content, whole or split arguments, field of reasoning, error envelope"
)


def _across(base: Structure, candidate: Structure, shape: str, take: int) -> Comparison:
    """Two dialects: what an application sees is compared; the candidate's own findings count in full (RULES, 6)."""
    ours, theirs = base.get("result"), candidate.get("result")
    if ours != "ok" and not (shape == "error" and ours == "error"):
        return Comparison(not_measured=f"the baseline's stream is no answer ({ours})")
    if theirs == "error" and candidate.get("http.status", 200) >= 400 and ours != "error":
        return _refused(base, candidate, take)
    findings = [msgspec.structs.replace(finding, evidence=[
        msgspec.structs.replace(evidence, take=take) for evidence in finding.evidence
    ]) for finding in lint(candidate) if rule_of(finding.rule).side != "lint"]  # fmt: skip
    shared = []
    if ours == theirs == "error" and "error.in-stream" in base.notes:
        # Both told the failure inside the stream: how, each dialect says in its own way.
        findings = [finding for finding in findings if finding.rule != "error.in-stream"]
        shared = ["error.in-stream"]
    if ours == "error" and theirs != "error":
        findings.append(_finding(_change("result", base, candidate), "error.swallowed", F, take))
    elif ours == theirs == "ok":
        findings += _lost_across(base, candidate, take)
    found = {finding.rule: finding for finding in reversed(findings)}
    kept = _without_explained(list(found.values()), base, candidate)
    remarks = [*_remarks(base, candidate), f"not comparable between {base.dialect} and {candidate.dialect}: "
               f"{NOT_COMPARABLE}"]  # fmt: skip
    return Comparison(findings=in_order(kept), shared=shared, remarks=remarks)


def _lost_across(base: Structure, candidate: Structure, take: int) -> list[Finding]:
    """What an application reads and the candidate no longer gives, whatever the dialects call it."""
    out = []
    counted = _change("usage.base", base, candidate)
    if base.get("usage.base") and not candidate.get("usage.base"):
        out.append(_finding(counted, "usage.missing", N, take))
    elif lost := set(base.get("usage.base", {})) - set(candidate.get("usage.base", {})):
        counted.lost = [f"{name} tokens" for name in lost]
        out.append(_finding(counted, "usage.counters", N, take))
    if base.get("logprobs") and not candidate.get("logprobs"):
        out.append(_finding(_change("logprobs", base, candidate), "logprobs.missing", F, take))
    cut = "length" in base.get("finish.class", {}) and "length" not in candidate.get("finish.class", {})
    if cut and candidate.get("limit.reached") is True:
        out.append(_finding(_change("finish.class", base, candidate), "finish.length-hidden", F, take))
    if base.get("choice.count", 1) > candidate.get("choice.count", 1):
        change = _change("choice.count", base, candidate)
        out.append(_finding(change, "choice.missing", F, take))
    return out


def _remarks(base: Structure, candidate: Structure) -> list[str]:
    """What the model did differently: shown, never scored."""
    out = []
    ours, theirs = base.behaviour, candidate.behaviour
    if ours["calls"] != theirs["calls"]:
        out.append(f"the model made {theirs['calls']} calls; on the baseline {ours['calls']}")
    if theirs["prose-before-call"] and not ours["prose-before-call"]:
        out.append("the model wrote text before its call; on the baseline it did not")
    answered = candidate.get("http.status") is not None  # else its headers are not known
    if answered and base.get(RELAY) == "no" and candidate.get(RELAY) != "no":
        out.append(
            "X-Accel-Buffering: no comes from the baseline and not from the candidate: a reverse proxy on the way may "
            "hold its stream back (one that obeyed the header has removed it)"
        )
    return out
