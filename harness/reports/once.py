"""Why shapes were not measured, said once per report: a server that is down is the same news for each of them."""

from __future__ import annotations

from harness.findings import Outcome, Report, ShapeResult


def unmeasured(report: Report) -> dict[str, list[str]]:
    """The shapes that were not measured, by the reason; those without one are left out."""
    found: dict[str, list[str]] = {}
    for result in report.shapes:
        if result.outcome is Outcome.NOT_MEASURED and result.reason:
            found.setdefault(result.reason, []).append(result.shape)
    return found


def says_only_why(result: ShapeResult) -> bool:
    """Whether there is nothing to tell of the shape but its outcome and the reason."""
    return not (result.findings or result.clients or result.shared or result.remarks)


def cutover_once(report: Report) -> list[str]:
    """`report.cutover` without the reasons that the shapes give already."""
    lines = report.cutover
    for reason in unmeasured(report):
        lines = [line.replace(f" ({reason})", "") if line.startswith("not exercised:") else line for line in lines]
    return lines


def not_covered_once(report: Report) -> list[str]:
    """`report.not_covered` with one line for the shapes that were not measured, which name their reasons already."""
    told = {f"shape {shape}: not measured ({reason})": shape
            for reason, shapes in unmeasured(report).items() for shape in shapes}  # fmt: skip
    shapes = [told[line] for line in report.not_covered if line in told]
    lines: list[str] = []
    for line in report.not_covered:
        if line not in told:
            lines.append(line)
        elif told[line] == shapes[0]:
            lines.append(f"shape{'' if len(shapes) == 1 else 's'} {', '.join(shapes)}: not measured")
    return lines
