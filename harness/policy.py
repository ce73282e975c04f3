"""What a team tolerates: acceptances applied to findings (DESIGN, "Policy").

cosmetic passes; negotiable fails until accepted with a reason; fatal fails and can be accepted only by an entry that
says `severity: fatal` and `until`. An acceptance that has expired, or that is stale (every shape it applies to was
measured in this run and it did not occur), fails by itself. What could not be seen did not "not occur": a stream that
was cut, a rule that another finding explains, an answer that was not asked for a second time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from harness.catalogue import CATALOGUE, EXPLAINS
from harness.config import Acceptance
from harness.findings import AcceptanceUse, Accepted, Finding, Outcome, Severity, ShapeResult

_MEASURED = (Outcome.CONFORMS, Outcome.DIFFERS)
# Where one of these is found, the answer was not seen whole: what else there would have been to find is not known.
_NOT_WHOLE = frozenset({
    "http.rejected", "stream.empty", "stream.not-a-stream", "stream.no-content", "stream.stalled", "stream.cut",
    "error.in-stream", "error.finish-reason", "error.swallowed",
})  # fmt: skip
_FAILED_AS_ASKED = ("error.in-stream", "error.finish-reason")  # in shape `error`: how it fails is what is looked at


def against(entries: Iterable[Acceptance], baseline: str) -> list[Acceptance]:
    """The entries that count in a gate against this baseline. The others are neither used, stale nor expired there."""
    return [entry for entry in entries if entry.baseline in (None, baseline)]


def matches(acceptance: Acceptance, finding: Finding, shape: str) -> bool:
    """Whether the entry is about this finding: rule, shape and path may be shell patterns."""
    return (
        fnmatchcase(finding.rule, acceptance.rule)
        and (acceptance.shape is None or fnmatchcase(shape, acceptance.shape))
        and (acceptance.path is None or fnmatchcase(finding.path, acceptance.path))
    )


def applies(acceptance: Acceptance, finding: Finding, shape: str, today: date) -> bool:
    """Whether the entry tolerates this finding today (the day of `until` included, UTC)."""
    if not matches(acceptance, finding, shape) or expired(acceptance, today):
        return False
    return finding.severity is not Severity.FATAL or (acceptance.severity is Severity.FATAL and bool(acceptance.until))


def expired(acceptance: Acceptance, today: date) -> bool:
    """Whether the entry's last day has passed."""
    return acceptance.until is not None and today > acceptance.until


def accept(findings: Iterable[Finding], shape: str, entries: Sequence[Acceptance], today: date) -> list[Finding]:
    """The findings, each with the first entry that tolerates it; cosmetic ones too, which may fail by `--fail-on`.

    One that an entry tolerated until it expired says so.
    """
    out = []
    for finding in findings:
        entry = next((entry for entry in entries if applies(entry, finding, shape, today)), None)
        if entry is not None:
            until = entry.until.isoformat() if entry.until else None
            accepted = Accepted(reason=entry.reason, until=until, owner=entry.owner)
            finding = msgspec.structs.replace(finding, accepted=accepted)
        elif (gone := next((e for e in entries if matches(e, finding, shape) and expired(e, today)), None)) is not None:
            said = f"{finding.message} (acceptance expired, its last day was {gone.until})"
            finding = msgspec.structs.replace(finding, message=said)
        out.append(finding)
    return out


def refused(findings: Iterable[Finding], shape: str, entries: Sequence[Acceptance], today: date) -> list[str]:
    """What an operator should know of entries that name a fatal finding and do not tolerate it, in sentences."""
    out = []
    for finding in findings:
        if finding.accepted is not None or finding.severity is not Severity.FATAL:
            continue
        entry = next((e for e in entries if matches(e, finding, shape) and not expired(e, today)), None)
        if entry is not None:
            owner = f" (owner {entry.owner})" if entry.owner else ""
            out.append(f"an acceptance{owner} names {finding.rule}, but a fatal finding is tolerated only by one that "
                       "says severity: fatal and until")  # fmt: skip
    return out


def judge(
    shapes: Sequence[ShapeResult], entries: Sequence[Acceptance], today: date, unrun: Sequence[str] = (),
    unjudged: Collection[str] = (),
) -> tuple[Outcome, list[AcceptanceUse]]:  # fmt: skip
    """The outcome of a gate, and what became of each entry that can be decided in this run.

    An entry is stale only if every shape it applies to was measured. `unrun` names those of a whole gate that this run
    left out, so that a run of one shape does not call an entry stale that is about others; `unjudged` the rules that
    it did not judge.
    """
    uses = []
    for entry in entries:
        about = [
            result for result in shapes
            if result.outcome is not Outcome.SKIPPED
            and (entry.shape is None or fnmatchcase(result.shape, entry.shape))
        ]  # fmt: skip
        occurred = any(matches(entry, finding, result.shape) for result in about for finding in result.findings)
        state: Literal["used", "stale", "expired"]
        if expired(entry, today):
            state = "expired"
        elif occurred:
            state = "used"
        elif any(entry.shape is None or fnmatchcase(shape, entry.shape) for shape in unrun):
            continue
        elif about and all(result.outcome in _MEASURED for result in about) and _seen(entry, about, unjudged):
            state = "stale"
        else:
            continue
        uses.append(AcceptanceUse(
            rule=entry.rule, shape=entry.shape, state=state, owner=entry.owner, baseline=entry.baseline,
            until=entry.until.isoformat() if entry.until else None, place=entry.place,
        ))  # fmt: skip
    outcomes = [result.outcome for result in shapes]
    if Outcome.DIFFERS in outcomes or any(use.state != "used" for use in uses):
        return Outcome.DIFFERS, uses
    if Outcome.NOT_MEASURED in outcomes or Outcome.CONFORMS not in outcomes:
        return Outcome.NOT_MEASURED, uses
    return Outcome.CONFORMS, uses


def _seen(entry: Acceptance, about: Iterable[ShapeResult], unjudged: Collection[str]) -> bool:
    """Whether all that the entry is about would have been found in these shapes, had it occurred."""
    codes = [code for code in CATALOGUE if fnmatchcase(code, entry.rule)]
    if any(code in unjudged for code in codes):
        return False
    # A shape that differs may have a reason, too: not all of its samples were measured.
    return not any(
        result.reason or any(_hides(finding.rule, result.shape, codes) for finding in result.findings)
        for result in about
    )


def _hides(found: str, shape: str, codes: Iterable[str]) -> bool:
    """Whether what was found keeps one of the codes from being told."""
    if found in _NOT_WHOLE and not (shape == "error" and found in _FAILED_AS_ASKED):
        return True
    patterns = EXPLAINS.get(found, "").split()
    return any(fnmatchcase(code, pattern) for code in codes for pattern in patterns)
