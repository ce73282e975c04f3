"""A gate's report as Markdown, for a step summary or a pull request. Everything from outside is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.findings import Finding, Outcome, Report, Severity, ShapeResult
from harness.reports.once import cutover_once, not_covered_once, unmeasured
from harness.reports.text import (
    acceptance_remedy,
    accepted_text,
    client_text,
    dropped_text,
    one_line,
    quirks_failed,
    scope,
    snippet,
    terms,
)

Bodies = Mapping[tuple[str, int], bytes]

_SPECIAL = re.compile(
    r"[\\`*\[\]#|<>~&@$]"  # emphasis, code, links, references, tables, tags, entities, mentions, formulas
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # emphasis; not within a word
    r"|:(?=//|[A-Za-z0-9_+-]+:)|(?<=www)\."  # links without brackets, and emoji
    r"|^[-+=]",  # a list, or the line under a heading
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"^(\d{1,9})([.)])")
_SIGN = {Outcome.CONFORMS: "✅ conforms", Outcome.DIFFERS: "❌ differs", Outcome.NOT_MEASURED: "⚠️ not measured",
         Outcome.SKIPPED: "⏭️ skipped"}  # fmt: skip


def escape(text: str) -> str:
    """Text on one line without any meaning to Markdown or HTML."""
    return _NUMBERED.sub(r"\1\\\2", _SPECIAL.sub(r"\\\g<0>", one_line(text).strip()))


def code(text: str) -> str:
    """Text as a code span, whatever it holds: the fence is longer than any run of backticks in it.

    One blank on either side is no part of a span; they are needed only where backticks or blanks stand there.
    """
    shown = one_line(text)
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    pad = " " if shown[:1] in ("", "`", " ") or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def gate_markdown(report: Report, bodies: Mapping[str, Bodies] | None = None) -> str:
    """The report: outcome first, accepted fatal findings next, a table of shapes, then the findings."""
    lines = [f"# {_SIGN[report.outcome]}: {escape(report.baseline)} → {escape(report.candidate)}", ""]
    accepted = [(result, finding) for result in report.shapes for finding in result.findings
                if finding.severity is Severity.FATAL and finding.accepted is not None]  # fmt: skip
    for result, finding in accepted:
        assert finding.accepted is not None
        lines += [f"> **Accepted although fatal** {escape(terms(finding.accepted))}: {code(finding.rule)} in "
                  f"{escape(result.shape)}: {escape(finding.accepted.reason)}", ""]  # fmt: skip
    lines += ["| shape | outcome | fatal | negotiable | cosmetic | accepted |", "|---|---|---|---|---|---|"]
    alike = {reason: shapes for reason, shapes in unmeasured(report).items() if len(shapes) > 1}
    lines += [_row(result, told=result.reason not in alike) for result in report.shapes]
    for reason, shapes in alike.items():
        lines += ["", f"Not measured: {escape(', '.join(shapes))}: {escape(reason)}"]
    for result in report.shapes:
        if result.findings or result.remarks or result.shared or result.clients:
            lines += ["", f"## {escape(result.shape)}", "", *_shape(result, (bodies or {}).get(result.shape))]
    wrong = [use for use in report.acceptances if use.state != "used"]
    if wrong:
        lines += ["", "## Acceptances that fail this gate", ""]
        lines += [f"- {use.state}: {code(use.rule)} ({escape(scope(use))}): {escape(acceptance_remedy(use))}"
                  for use in wrong]  # fmt: skip
    if report.cutover:
        lines += ["", "## At the cutover", "", *(f"- {_topic(text)}" for text in cutover_once(report))]
    if report.not_covered:
        lines += ["", "## Not covered by this gate", "", *(f"- {escape(text)}" for text in not_covered_once(report))]
    return "\n".join(lines) + "\n"


def _topic(text: str) -> str:
    topic, colon, sentence = text.partition(": ")
    return f"**{escape(topic)}**: {escape(sentence)}" if colon else escape(text)


def _row(result: ShapeResult, *, told: bool) -> str:
    """The shape's row; with the reason of its outcome, if that is `told` here."""
    open_ = [finding for finding in result.findings if finding.accepted is None]
    counts = [str(sum(finding.severity is severity for finding in open_)) for severity in
              (Severity.FATAL, Severity.NEGOTIABLE, Severity.COSMETIC)]  # fmt: skip
    reason = f" ({escape(result.reason)})" if result.reason and told else ""
    accepted = str(len(result.findings) - len(open_))
    return f"| {escape(result.shape)} | {_SIGN[result.outcome]}{reason} | " + " | ".join([*counts, accepted]) + " |"


def _shape(result: ShapeResult, bodies: Bodies | None) -> Iterator[str]:
    for finding in result.findings:
        yield from _finding(finding, bodies or {})
    for run in result.clients:
        yield f"- client {escape(client_text(run))}"
        yield from (f"  - {escape(line)}" for line in [*run.says, *quirks_failed(run)])
    if result.shared:
        yield ""
        yield f"Shared with the baseline, so not counted: {', '.join(map(code, result.shared))}"
    for remark in result.remarks:
        yield ""
        yield f"Remark: {escape(remark)}"


def _finding(finding: Finding, bodies: Bodies) -> Iterator[str]:
    accepted = f" ({escape(dropped_text(finding))})" if finding.dropped_from is not None else ""
    if finding.accepted is not None:
        accepted += f" ({escape(accepted_text(finding.accepted))})"
    yield f"- **{finding.severity}** {code(finding.rule)}{accepted}: {escape(finding.message)}  "
    yield f"  → {escape(finding.remedy)}"
    if finding.severity is not Severity.COSMETIC:
        for evidence in finding.evidence:
            body = bodies.get((evidence.side, evidence.take))
            shown = code(snippet(body, evidence.at, evidence.length)) if body is not None else ""
            yield f"  - {evidence.side}, byte {evidence.at}: {shown}"
    if finding.breaks:
        yield f"  - breaks: {', '.join(map(code, finding.breaks))}"
