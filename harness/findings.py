"""What the harness says: Severity, Outcome, Evidence, Finding, and the reports made of them.

These are the JSON contract of DESIGN ("CLI"): field names and order are what `--json` prints. The published schemas
are in docs/schema/; tests/test_schemas.py holds both together.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Literal

import msgspec

from harness.errors import Exit

REPORT_FORMAT = "sse-harness-report/1"


class Severity(StrEnum):
    """How bad a difference is. cosmetic passes; negotiable fails until accepted; fatal fails."""

    COSMETIC = "cosmetic"
    NEGOTIABLE = "negotiable"
    FATAL = "fatal"

    @property
    def rank(self) -> int:
        """0, 1, 2: the worse the higher."""
        return _RANK[self]


_RANK = {Severity.COSMETIC: 0, Severity.NEGOTIABLE: 1, Severity.FATAL: 2}


class Outcome(StrEnum):
    """What a comparison came to. `skipped` is for single shapes only."""

    CONFORMS = "conforms"
    DIFFERS = "differs"
    NOT_MEASURED = "not-measured"
    SKIPPED = "skipped"


EXIT = {Outcome.CONFORMS: Exit.CONFORMS, Outcome.DIFFERS: Exit.DIFFERS, Outcome.NOT_MEASURED: Exit.NOT_MEASURED}


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Where a finding can be seen: `length` bytes from byte `at` of the body of take `take` (1, 2, ...) on one side."""

    side: Literal["baseline", "candidate"]
    take: int
    at: int
    length: int


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """Why a finding is tolerated, until when (ISO date or null), and who answers for it (null: nobody is named)."""

    reason: str
    until: str | None = None
    owner: str | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One difference: what it is, how bad, what it does to a client, and what to do about it.

    `path` is the structure path the rule read ("wire.usage.position", or "wire.notes.CODE"); `baseline` and
    `candidate` are the JSON values there. `breaks` names the client models and SDKs proven to fail under the rule.
    `dropped_from` is what the severity was before the clients that the provider declares were found to read it right.
    """

    rule: str
    severity: Severity
    accepted: Accepted | None = None
    path: str
    baseline: Any
    candidate: Any
    message: str
    remedy: str
    evidence: list[Evidence]
    breaks: list[str] = []
    dropped_from: Severity | None = None


class ClientRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a client that the provider declares made of a shape's streams, and of quirks of the rules found there.

    Values are outcomes of a case: right, told, skipped, wrong, raised, ... (answers.py, CaseOutcome). `version` is null
    for a callable of the user's own. `says` is what differs on a stream, or why it was skipped, each `side: line`.
    """

    name: str
    version: str | None
    baseline: str
    candidate: str
    quirks: dict[str, str] = {}
    says: list[str] = []


class ShapeResult(msgspec.Struct, kw_only=True):
    """One shape of a gate: its outcome and why. `takes` counts the candidate's recordings that were judged.

    `shared` lists rule codes both sides have; `remarks` are unscored sentences (model behaviour); `clients` are runs of
    the clients that the provider declares.
    """

    shape: str
    outcome: Outcome
    reason: str = ""
    takes: int = 0
    findings: list[Finding] = []
    shared: list[str] = []
    remarks: list[str] = []
    clients: list[ClientRun] = []


class AcceptanceUse(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one `accept:` entry in this run. `shape` and `baseline` are null when it applies to all.

    An entry that is bound to another baseline is none of this run's. `until` is its last day (ISO date, null: none),
    `place` where it stands: the file and the key in it (null: not known).
    """

    rule: str
    shape: str | None
    state: Literal["used", "stale", "expired"]
    owner: str | None = None
    baseline: str | None = None
    until: str | None = None
    place: str | None = None


class Report(msgspec.Struct, kw_only=True):
    """What `gate` says (contract: DESIGN, "CLI"). `cutover` is advice, each `topic: sentence`.

    `fail_on` is the least severity that failed it.
    """

    format: str = REPORT_FORMAT
    baseline: str
    candidate: str
    outcome: Outcome
    shapes: list[ShapeResult] = []
    acceptances: list[AcceptanceUse] = []
    not_covered: list[str] = []
    cutover: list[str] = []
    fail_on: Severity = Severity.NEGOTIABLE

    def failing(self, result: ShapeResult) -> list[str]:
        """The rules that fail the shape: why it differs."""
        return [finding.rule for finding in result.findings if fails(finding, self.fail_on)]


def worst(findings: Iterable[Finding]) -> Severity:
    """The worst severity of the findings, cosmetic if there is none (RULES, section 2)."""
    return max((finding.severity for finding in findings), key=lambda s: s.rank, default=Severity.COSMETIC)


def fails(finding: Finding, fail_on: Severity = Severity.NEGOTIABLE) -> bool:
    """Whether the finding fails a run: as bad as `fail_on` or worse, and not accepted."""
    return finding.accepted is None and finding.severity.rank >= fail_on.rank


def outcome_of(findings: Iterable[Finding], fail_on: Severity = Severity.NEGOTIABLE) -> Outcome:
    """differs if any finding fails, else conforms."""
    return Outcome.DIFFERS if any(fails(finding, fail_on) for finding in findings) else Outcome.CONFORMS
