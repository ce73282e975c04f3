"""The report of `check` for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from harness.answers import CaseOutcome
from harness.reports.text import one_line
from harness.runs.check import CaseResult, CheckReport, KnownUse

SHOWN_DIFFERENCES = 4
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


def check_text(report: CheckReport) -> str:
    """Outcome and counts, failures (gravest first) with a command line that shows each, what was not observed."""
    counts = ", ".join(f"{count} {name}" for name, count in report.counts.items()) or "no case"
    lines = [f"{one_line(report.target)}: {report.outcome.upper()} ({counts}; {report.runs} runs)"]
    failing = [result for result in report.cases if result.failures and result.known is None]
    for result in sorted(failing, key=lambda result: (-result.outcome.rank, result.case)):
        lines += ["", *_failing(result)]
    if report.diagnosis:
        lines += ["", f"your accumulator behaves like: {', '.join(likely.client for likely in report.diagnosis)}"]
        lines += [f"  {likely.client}: {likely.about}" for likely in report.diagnosis]
    if report.known_failures:
        lines += ["", "known failures:", *map(_known, report.known_failures)]
    if report.not_observed:
        lines += ["", "not observed:", *(f"  {one_line(text)}" for text in report.not_observed)]
    return "\n".join(lines)


def _failing(result: CaseResult) -> Iterator[str]:
    contested = "; contested: readers differ with good reason" if result.contested else ""
    yield f"  {_SAYS.get(result.outcome, result.outcome.upper())}   {result.case} ({result.dialect}{contested})"
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


def _known(known: KnownUse) -> str:
    return f"  {one_line(known.case)}: {_STATE[known.state]} ({one_line(known.reason)})"
