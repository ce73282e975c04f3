"""What `harness doctor` says: checks, each with a state and a remedy, and the exit code they come to."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.errors import Exit

FORMAT = "sse-harness-doctor/1"
State = Literal["ok", "missing", "failed", "skipped"]
BAD = ("missing", "failed")
ENDPOINT = ("host", "connect", "answer")
"""Checks of something that is not in the user's hands alone: what they find is not measured, no wrong set-up."""


class Check(msgspec.Struct, kw_only=True):
    """One line. `provider` is "" for what all share; `remedy` is "" where nothing is to be done."""

    provider: str = ""
    check: str
    state: State
    says: str
    remedy: str = ""


class Diagnosis(msgspec.Struct, kw_only=True):
    """All checks, those of the project first. `live`: a request was sent to each endpoint."""

    format: str = FORMAT
    live: bool
    checks: list[Check]

    @property
    def exit_code(self) -> Exit:
        """Conforms: nothing is to be done. Usage: the set-up is wrong. Not measured: only endpoints do not answer."""
        bad = [check for check in self.checks if check.state in BAD]
        if not bad:
            return Exit.CONFORMS
        return Exit.NOT_MEASURED if all(check.check in ENDPOINT for check in bad) else Exit.USAGE
