"""The report of `check` for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.answers import CaseOutcome
from harness.reports.text import counted, one_line
from harness.runs.check_report import CaseResult, CheckReport, KnownUse, likeness

SHOWN_DIFFERENCES = 4
SHOWN_CASES = 10  # failing cases that are printed where not all are asked for
IN_PART = 0.5  # a likeness below this leaves most of the failures to other faults
_SAYS = {
    CaseOutcome.ACCEPTED_ERROR: "ACCEPTED AN ERROR",
    CaseOutcome.ACCEPTED_TRUNCATION: "ACCEPTED A TRUNCATION",
    CaseOutcome.RAISED: "RAISED ON A GOOD STREAM",
}
_STATE = {
    "fails": "still fails",
    "passes": "passes now: take it out of known_failures",
    "other-failure": "fails in another way than the known one",
    "unmeasured": "did not run",
}


def check_text(report: CheckReport, *, every: bool = False) -> str:
    """Outcome and counts, what failures have in common, failures with a command line each, what was not observed.

    The gravest failures come first, contested ones last. Of many, the clearest are shown unless `every` one is to be.
    """
    counts = f"{_counts(report.cases)}; {counted(report.runs, 'run')}"
    lines = [f"{one_line(report.target)}: {report.outcome.upper()} ({counts})"]
    if report.summary:
        lines += ["", "in short:", *(f"  {one_line(text)}" for text in report.summary)]
    if report.diagnosis:
        part = "in part " if report.diagnosis[0].score < IN_PART else ""
        named = ", ".join(likely.client for likely in report.diagnosis)
        lines += ["", f"your accumulator behaves {part}like: {named}"]
        lines += [f"  {likely.client}: {likely.about}" for likely in report.diagnosis]
    failing = [result for result in report.cases if result.failures and result.known is None]
    failing.sort(key=lambda result: (result.contested, -result.outcome.rank, result.case))
    shown = failing if every else _clearest(failing)
    for result in shown:
        lines += ["", *_failing(result)]
    if len(shown) < len(failing):
        lines += ["", f"  and {len(failing) - len(shown)} more: --all"]
    if report.known_failures:
        lines += ["", "known failures:", *map(_known, report.known_failures)]
    if report.not_observed:
        lines += ["", "not observed:", *(f"  {one_line(text)}" for text in report.not_observed)]
    return "\n".join(lines)


def _counts(cases: Sequence[CaseResult]) -> str:
    """How many came to what; a known failure counts as known."""
    ranked = sorted(cases, key=lambda result: (result.known is not None, result.outcome.rank))
    counts = Counter("known" if result.known is not None else str(result.outcome) for result in ranked)
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "no case"


def _clearest(failing: Sequence[CaseResult]) -> list[CaseResult]:
    """A few, in their order: first one of each kind, those that fail uncut before those that do not."""
    if len(failing) <= SHOWN_CASES:
        return list(failing)
    seen: Counter[object] = Counter()
    ranks: dict[str, tuple[bool, int, bool]] = {}
    for result in failing:
        cut = all(failed.smallest != "whole" for failed in result.failures)
        kind = (result.outcome, cut, None if cut else likeness(result))
        ranks[result.case] = (result.contested, seen[kind], cut)
        seen[kind] += 1
    chosen = {result.case for result in sorted(failing, key=lambda result: ranks[result.case])[:SHOWN_CASES]}
    return [result for result in failing if result.case in chosen]


def _failing(result: CaseResult) -> Iterator[str]:
    contested = "; contested: readers differ with good reason" if result.contested else ""
    yield f"  {_SAYS.get(result.outcome, result.outcome.upper())}   {result.case} ({result.dialect}{contested})"
    if result.fault:
        yield f"    what is odd in it: {one_line(result.fault)}"
    for failed in result.failures:
        kind = "" if failed.outcome is result.outcome else f"{failed.outcome}, "
        also = f" ({', '.join(failed.also)} alike)" if failed.also else ""
        if failed.smallest == "whole":
            yield f"    {kind}fails without any cut{also}"
        else:
            yield f"    {kind}cut {failed.cuts}{also}; smallest cut: {failed.smallest}"
        for text in failed.differences[:SHOWN_DIFFERENCES]:
            yield f"      {one_line(text)}"
        if len(failed.differences) > SHOWN_DIFFERENCES:
            yield f"      and {len(failed.differences) - SHOWN_DIFFERENCES} more differences"
        yield f"      $ {one_line(failed.repro)}"
    if result.contested:
        entry = f"{{case: {one_line(result.case)}, outcome: {result.outcome}, reason: ...}}"
        yield f"    meant so? put it under known_failures in a claims file (docs/targets.md): - {entry}"


def _known(known: KnownUse) -> str:
    return f"  {one_line(known.case)}: {_STATE[known.state]} ({one_line(known.reason)})"
