"""A gate's report as one self-contained page (html.py): outcome first, then each shape with the bytes of both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from harness.cutover import Side, Sides
from harness.findings import ClientRun, Evidence, Finding, Outcome, Report, Severity, ShapeResult
from harness.jsontext import as_text
from harness.reports.html import Filter, Markup, Node, Option, badge, facts, filter_bar, page, prose, table, tag
from harness.reports.text import acceptance_remedy, client_text, dropped_text, quirks_failed, terms
from harness.reports.timeline import timeline
from harness.structure import signature

SAYS = {
    Outcome.CONFORMS: "conforms", Outcome.DIFFERS: "differs", Outcome.NOT_MEASURED: "not measured",
    Outcome.SKIPPED: "skipped",
}  # fmt: skip
MEANS = {
    Outcome.CONFORMS: "What was measured streams as the baseline does, or is accepted.",
    Outcome.DIFFERS: "Something differs that is not accepted: not safe to ship as it is.",
    Outcome.NOT_MEASURED: "Nothing differs, but not everything was measured: no verdict either way.",
}
SEVERITIES = (Severity.FATAL, Severity.NEGOTIABLE, Severity.COSMETIC)
AROUND = 160  # bytes shown before and after those of a finding
HEAD, TAIL = 900, 500  # of the finding's own, if they are more
LONGEST = 300  # characters shown of a value
NAMED = 8  # clients named before the rest is folded


def gate_html(report: Report, shapes: Mapping[str, Sides] | None = None) -> str:
    """The page. `shapes` holds the takes that evidence points into, by shape; without them there are no bytes."""
    title = f"{report.baseline} → {report.candidate}: {SAYS[report.outcome]}"
    failing = any(use.state != "used" for use in report.acceptances)  # then they come first
    everything = [finding for result in report.shapes for finding in result.findings]
    return page(
        title,
        [_accepted_fatal(result, finding) for result in report.shapes for finding in result.findings
         if finding.severity is Severity.FATAL and finding.accepted is not None],
        facts([("outcome", badge(SAYS[report.outcome], report.outcome)), *_counts(everything)]),
        _overview(report),
        _acceptances(report) if failing else None,
        _filters(report) if everything else None,
        [_shape(result, (shapes or {}).get(result.shape, {})) for result in report.shapes],
        _list("At the cutover", report.cutover),
        None if failing else _acceptances(report),
        _list("Not covered by this gate", report.not_covered),
        about=MEANS[report.outcome],
    )  # fmt: skip


def _accepted_fatal(result: ShapeResult, finding: Finding) -> Markup:
    assert finding.accepted is not None
    return tag(
        "p", tag("b", "Accepted although fatal"), f"{terms(finding.accepted)}: ", tag("code", finding.rule),
        f" in {result.shape}: {finding.accepted.reason}", class_="alarm",
    )  # fmt: skip


def _counts(findings: list[Finding]) -> Iterator[tuple[str, Node]]:
    for severity in SEVERITIES:
        count = sum(finding.severity is severity and finding.accepted is None for finding in findings)
        yield str(severity), badge(str(count), severity if count else "")
    yield "accepted", badge(str(sum(finding.accepted is not None for finding in findings)))


def _overview(report: Report) -> Markup:
    head = ["shape", "outcome", *(tag("th", str(name), scope="col", class_="number") for name in
                                  (*SEVERITIES, "accepted")), "why"]  # fmt: skip
    rows = []
    for result in report.shapes:
        open_ = Counter(finding.severity for finding in result.findings if finding.accepted is None)
        numbers = [*(open_[severity] for severity in SEVERITIES), len(result.findings) - open_.total()]
        rows.append(tag(
            "tr", tag("th", tag("a", result.shape, href=f"#shape-{result.shape}"), scope="row"),
            tag("td", badge(SAYS[result.outcome], result.outcome)),
            [tag("td", str(number) if number else "–", class_="number", data_label=label)
             for label, number in zip((*map(str, SEVERITIES), "accepted"), numbers, strict=True)],
            tag("td", result.reason or ", ".join(report.failing(result)), class_="why"),
        ))  # fmt: skip
    return table(head, rows, kind="shapes", caption="Shapes")


def _acceptances(report: Report) -> Node:
    if not report.acceptances:
        return None
    rows = [
        tag("tr", tag("td", tag("code", use.rule)), tag("td", use.shape or "all shapes"),
            tag("td", use.baseline or "all"), tag("td", use.owner or "–"),
            tag("td", badge(use.state, "" if use.state == "used" else "fatal")),
            tag("td", "" if use.state == "used" else acceptance_remedy(use)))
        for use in report.acceptances
    ]  # fmt: skip
    head = ["rule", "shape", "against", "owner", "state", "what to do"]
    return [tag("h2", "Acceptances"), table(head, rows, caption="Acceptances")]


def _list(title: str, sentences: list[str]) -> Node:
    """Sentences as a list, each with its topic set off if it begins with one."""
    if not sentences:
        return None
    items = []
    for sentence in sentences:
        topic, colon, rest = sentence.partition(": ")
        items.append(tag("li", tag("b", topic), colon, prose(rest)) if colon else tag("li", sentence))
    return [tag("h2", title), tag("ul", items)]


def _filters(report: Report) -> Markup:
    found = [(result, finding) for result in report.shapes for finding in result.findings]
    there = {finding.severity for _, finding in found}
    states = dict.fromkeys(_state(finding) for _, finding in found)
    shapes = dict.fromkeys(result.shape for result, _ in found)
    return filter_bar([
        Filter(name="severity", label="Severity", options=[
            Option(value=str(severity), label=str(severity), mark=severity[0].upper(), kind=str(severity))
            for severity in SEVERITIES if severity in there
        ]),
        Filter(name="state", label="State", options=[
            Option(value=state, label=state) for state in states if len(states) > 1
        ]),
        Filter(name="shape", label="Shape", options=[
            Option(value=shape, label=shape) for shape in shapes if len(shapes) > 1
        ]),
    ], search="Find", unit="findings")  # fmt: skip


def _state(finding: Finding) -> str:
    return "open" if finding.accepted is None else "accepted"


def _shape(result: ShapeResult, sides: Sides) -> Markup:
    """One shape. Hidden with its findings, if it has any."""
    reason = f" ({result.reason})" if result.reason else None
    shared: Node = None
    if result.shared:
        codes = [[", " if number else "", tag("code", code)] for number, code in enumerate(result.shared)]
        shared = tag("p", "Shared with the baseline, so not counted: ", codes, class_="muted")
    return tag(
        "section",
        tag("h2", result.shape, " ", badge(SAYS[result.outcome], result.outcome), tag("small", reason)),
        timeline(sides),
        [_finding(result, finding, sides) for finding in result.findings],
        tag("p", "No findings.", class_="muted") if result.takes and not result.findings else None,
        _clients(result.clients),
        shared, [tag("p", f"Remark: {remark}", class_="muted") for remark in result.remarks],
        _signatures(result, sides.get(("baseline", 1)), sides.get(("candidate", 1))),
        id=f"shape-{result.shape}", data_group=bool(result.findings),
    )  # fmt: skip


def _clients(runs: list[ClientRun]) -> Node:
    """What the declared clients made of the streams."""
    if not runs:
        return None
    items = []
    for run in runs:
        lines = [tag("li", line) for line in [*run.says, *quirks_failed(run)]]
        items.append(tag("li", client_text(run), tag("ul", lines) if lines else None))
    return [tag("h3", "Declared clients"), tag("ul", items)]


# -- one finding --------------------------------------------------------------------------------------------------


def _finding(result: ShapeResult, finding: Finding, sides: Sides) -> Markup:
    accepted: Node = None
    if finding.accepted is not None:
        accepted = tag("p", f"Accepted{terms(finding.accepted)}: {finding.accepted.reason}", class_="accepted")
    bytes_ = tag("div", [_side(side, finding, sides) for side in ("baseline", "candidate")], class_="sides")
    if finding.severity is Severity.COSMETIC:  # passes: the bytes are there for who asks
        bytes_ = tag("details", tag("summary", "Bytes"), bytes_)
    return tag(
        "article",
        tag("p", badge(finding.severity, finding.severity), tag("code", finding.rule),
            badge("accepted") if finding.accepted is not None else None, class_="head"),
        tag("h3", prose(finding.message)), tag("p", "→ ", prose(finding.remedy)),
        tag("p", f"{dropped_text(finding)}.") if finding.dropped_from is not None else None, accepted,
        tag("p", tag("code", finding.path), ": ", tag("code", _value(finding.baseline)), " → ",
            tag("code", _value(finding.candidate)), class_="muted"),
        bytes_, _breaks(finding.breaks),
        class_=f"finding {finding.severity}-edge", data_item=True, data_severity=finding.severity,
        data_state=_state(finding), data_shape=result.shape,
    )  # fmt: skip


def _value(value: object) -> str:
    text = as_text(value)
    return f"{text[:LONGEST]} …" if len(text) > LONGEST else text


def _breaks(names: list[str]) -> Node:
    if not names:
        return None
    chips = [tag("code", name) for name in names]
    more = tag("details", tag("summary", f"{len(chips) - NAMED} more"), chips[NAMED:]) if len(chips) > NAMED else None
    return tag("div", "Breaks ", chips[:NAMED], more, class_="breaks")


def _side(side: str, finding: Finding, sides: Sides) -> Markup:
    """The bytes of one side. A rule may see something on one side only."""
    places = [evidence for evidence in finding.evidence if evidence.side == side]
    shown: list[Node] = [_place(evidence, sides.get((side, evidence.take))) for evidence in places]
    if not shown:
        shown = [tag("p", "Nothing of it there.", class_="muted")]
    return tag("div", tag("h4", side), shown)


def _place(evidence: Evidence, side: Side | None) -> Node:
    at, length = evidence.at, evidence.length
    take = f"take {evidence.take}, " if evidence.take > 1 else ""
    label = tag("p", f"{take}byte {at}, {length} bytes", class_="muted")
    if side is None:
        return label
    body = side.recording.body
    end = at + length
    start, stop = _whole(body, max(0, at - AROUND)), _whole(body, end + AROUND)
    before, own, after = body[start:at], body[at:end], body[end:stop]
    marked: list[Node] = [tag("mark", _text(own) or "▸")]
    if len(own) > HEAD + TAIL:
        left = len(own) - HEAD - TAIL
        marked = [tag("mark", _text(own[:HEAD])), f" … {left} bytes … ", tag("mark", _text(own[-TAIL:]))]
    return [label, tag("pre", "… " if start else "", _text(before), marked, _text(after),
                       " …" if stop < len(body) else "")]  # fmt: skip


def _whole(body: bytes, at: int) -> int:
    """The offset, moved on to the next character's first byte."""
    while at < len(body) and 0x80 <= body[at] < 0xC0:
        at += 1
    return at


def _text(piece: bytes) -> str:
    """Bytes as text, line ends visible: a missing blank line shows. What is no UTF-8 is replaced."""
    return piece.decode("utf-8", "replace").replace("\n", "↵\n")


# -- signatures ---------------------------------------------------------------------------------------------------


def _signatures(result: ShapeResult, baseline: Side | None, candidate: Side | None) -> Node:
    """The facts that differ as a table, and those that do not behind it."""
    if baseline is None or candidate is None:
        return None
    ours, theirs = (_facts(side) for side in (baseline, candidate))
    paths = sorted(ours.keys() | theirs.keys())
    differ = [path for path in paths if ours.get(path) != theirs.get(path)]
    rows = [_fact(path, ours.get(path), theirs.get(path)) for path in differ]
    alike = [tag("li", tag("code", f"{path} = {ours[path]}")) for path in paths if path not in set(differ)]
    summary = f"Signature: {len(differ)} of {len(paths)} facts differ"
    shown = table(["fact", "baseline", "candidate"], rows, caption="Facts that differ", low=True) if rows else None
    rest = tag("details", tag("summary", f"{len(alike)} alike"), tag("ul", alike, class_="alike")) if alike else None
    return tag("details", tag("summary", summary), shown, rest, class_="signature",
               open=bool(rows) and result.outcome is Outcome.DIFFERS)  # fmt: skip


def _facts(side: Side) -> dict[str, str]:
    pairs = (line.partition(" = ") for line in signature(side.structure))
    return {path: value if len(value) <= LONGEST else f"{value[:LONGEST]} …" for path, _, value in pairs}


def _fact(path: str, baseline: str | None, candidate: str | None) -> Markup:
    free = path.startswith("behaviour.")  # the model's choice
    cells = [
        tag("td", tag("code", value) if value is not None else "–", class_=kind if value is not None else "muted")
        for value, kind in ((baseline, "lost"), (candidate, "gained"))
    ]
    name = [tag("code", path), " ", badge("the model's choice") if free else None]
    return tag("tr", tag("th", name, scope="row"), cells, class_="muted" if free else None)
