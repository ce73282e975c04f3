"""Judges: whether a change of a fact is a finding, under which rule, and how bad (RULES, section 2).

Losing is worse than gaining; what the model chose is no finding. A rule without a judge finds every change of its path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from harness.catalogue import CATALOGUE, F, N
from harness.findings import Severity
from harness.structure import Structure

Judged = tuple[str, Severity] | None  # code and severity; None if the change is no finding


class Change(msgspec.Struct, kw_only=True):
    """All that changed below one owned path: values there on both sides, members lost and gained."""

    path: str
    baseline: Any
    candidate: Any
    lost: list[str]
    gained: list[str]
    base: Structure
    cand: Structure


def _finish(change: Change) -> Judged:
    ours, theirs = change.base.get("finish.class", {}), change.cand.get("finish.class", {})
    if "length" in ours and "length" not in theirs and change.cand.get("limit.reached") is True:
        return ("finish.length-hidden", F)
    if ours == theirs or not ours or not theirs or not {*ours, *theirs} <= {"stop", "tool_calls"}:
        return None  # the same meaning; none (finish.missing); or stop by length or filter: the model's affair
    called = bool(change.base.behaviour["calls"]), bool(change.cand.behaviour["calls"])
    return ("finish.differs", N) if called[0] == called[1] else None


def _reasoning(change: Change) -> Judged:
    return ("reasoning.field", N) if change.baseline and change.candidate and change.lost else None


def _signature(change: Change) -> Judged:
    return ("reasoning.signature-missing", F) if change.baseline is True and change.candidate is False else None


def _one_sided(code: str) -> Callable[[Change], Judged]:
    """A finding if both sides tell and only one of them has it."""
    known = (True, False)
    return lambda change: (
        (code, CATALOGUE[code].severity) if change.baseline in known and change.candidate in known else None
    )  # fmt: skip


def _gained(code: str) -> Callable[[Change], Judged]:
    """A finding only if the candidate has what the baseline is known not to have."""
    return lambda change: (
        (code, CATALOGUE[code].severity) if change.baseline is False and change.candidate is True else None
    )  # fmt: skip


def _usage_position(change: Change) -> Judged:
    # Its place is measured from the finish reason.
    known = change.base.get("finish.value") and change.cand.get("finish.value")
    return ("usage.position", N) if known and change.baseline and change.candidate and change.gained else None


def _usage_repeated(change: Change) -> Judged:
    return ("usage.repeated", N) if change.baseline is False and change.candidate is True else None


def _usage_present(change: Change) -> Judged:
    if change.candidate is True:
        return ("usage.added", CATALOGUE["usage.added"].severity)
    return ("usage.missing", CATALOGUE["usage.missing"].severity)


def _logprobs(change: Change) -> Judged:
    return ("logprobs.missing", F) if change.baseline and not change.candidate else None


def _usage_members(code: str) -> Callable[[Change], Judged]:
    def judge(change: Change) -> Judged:
        kept = change.cand.get("usage.present") and change.base.get("usage.present")
        return (code, CATALOGUE[code].severity) if kept and change.lost else None

    return judge


def _first_content(change: Change) -> Judged:
    return ("chunk.first-content", CATALOGUE["chunk.first-content"].severity) if change.candidate else None


def _split(change: Change) -> Judged:
    both = change.baseline and change.candidate and change.gained
    return ("tool.arguments-split", CATALOGUE["tool.arguments-split"].severity) if both else None


def _argument_types(change: Change) -> Judged:
    for tool, keys in (change.baseline or {}).items():
        for key, types in keys.items():
            theirs = (change.candidate or {}).get(tool, {}).get(key)
            if theirs is not None and not set(theirs) <= set(types):
                return ("tool.argument-types", CATALOGUE["tool.argument-types"].severity)
    return None


def _forced(change: Change) -> Judged:
    asked = change.cand.asked
    demanded = asked is not None and asked.tool_choice in ("required", "named")
    return ("tool.forced-call-missing", F) if demanded and not change.candidate else None


def _after_error(change: Change) -> Judged:
    if not isinstance(change.baseline, bool) or not isinstance(change.candidate, bool):
        return None  # one of them failed by status: nothing is due
    return ("end.marker-after-error", F if change.baseline else N)


def _error_lost(change: Change) -> Judged:
    return ("error.fields", N) if change.lost else None


def _never(change: Change) -> Judged:
    return None  # judged before facts are compared one by one, or with the finish


JUDGES: dict[str, Callable[[Change], Judged]] = {
    "finish.differs": _finish,
    "finish.length-hidden": _never,
    "reasoning.field": _reasoning,
    "reasoning.signature-missing": _signature,
    "anthropic.ping": _gained("anthropic.ping"),
    "usage.input-in-delta": _one_sided("usage.input-in-delta"),
    "usage.position": _usage_position,
    "usage.repeated": _usage_repeated,
    "usage.added": _usage_present,
    "logprobs.missing": _logprobs,
    "usage.counters": _usage_members("usage.counters"),
    "usage.details": _usage_members("usage.details"),
    "chunk.first-content": _first_content,
    "tool.arguments-split": _split,
    "tool.argument-types": _argument_types,
    "tool.forced-call-missing": _forced,
    "end.marker-after-error": _after_error,
    "error.fields": _error_lost,
    "error.swallowed": _never,
    "http.rejected": _never,
}
