"""A row of the rule catalogue, and the severities by their initials: the words every part of it is written with."""

from __future__ import annotations

from typing import Literal, NamedTuple

from harness.findings import Severity

C, N, F = Severity.COSMETIC, Severity.NEGOTIABLE, Severity.FATAL
Side = Literal["note", "diff", "both", "lint", "run"]


class Rule(NamedTuple):
    """One row. `path` is the structure path a difference rule owns, children included ("" for notes)."""

    code: str
    severity: Severity
    side: Side
    says: str
    remedy: str
    path: str = ""
