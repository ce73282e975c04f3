"""The survival matrix for a terminal, as Markdown, HTML and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from harness.answers import CaseOutcome
from harness.errors import UsageError
from harness.findings import Severity
from harness.jsontext import to_json
from harness.reports.html import (
    Filter,
    Markup,
    Node,
    Option,
    badge,
    bar,
    facts,
    filter_bar,
    legend,
    note_button,
    page,
    prose,
    table,
    tag,
)
from harness.reports.text import one_line
from harness.runs.matrix import Cell, Column, Matrix, Row

MARKS = {
    CaseOutcome.RIGHT: ".", CaseOutcome.TOLD: ":", CaseOutcome.SKIPPED: "-", CaseOutcome.WRONG: "W",
    CaseOutcome.RAISED: "R", CaseOutcome.BROKE: "B", CaseOutcome.HUNG: "H", CaseOutcome.ACCEPTED_TRUNCATION: "T",
    CaseOutcome.ACCEPTED_ERROR: "E",
}  # fmt: skip
SAYS = {
    CaseOutcome.RIGHT: "the message is the expected one",
    CaseOutcome.TOLD: "the stream fails or is cut, and the application is told",
    CaseOutcome.SKIPPED: "it needs what the client does not have",
    CaseOutcome.WRONG: "the message differs, and nobody is told",
    CaseOutcome.RAISED: "raises on a good stream",
    CaseOutcome.BROKE: "neither an answer nor a rejection",
    CaseOutcome.HUNG: "takes longer than the time limit",
    CaseOutcome.ACCEPTED_TRUNCATION: "a cut answer is returned as if it were whole",
    CaseOutcome.ACCEPTED_ERROR: "returns normally from a stream that failed",
}
CUT_ONLY = "a small letter: only when the bytes are cut"
FORMS = (".md", ".html", ".json")
MOST_COLUMNS = 24  # in text and Markdown; of more, the client models that fail are listed instead
MOST_NAMES = 8

_SPECIAL = re.compile(r"([\\|<>\[\]*_`&])")

Group = tuple[str, str, list[Row], list[Column]]
"""Dialect, kind of row, its rows, and the clients that read the dialect."""


def mark_of(cell: Cell) -> str:
    """The letter of a cell: small if it fails only when the bytes are cut."""
    mark = MARKS[cell.outcome]
    return mark.lower() if cell.cut_only else mark


def check_form(path: Path) -> None:
    """Raise UsageError unless the matrix can be written in the form the suffix asks for."""
    if path.suffix not in FORMS:
        raise UsageError(f"{path}: no matrix has this suffix; use {', '.join(FORMS)}")


def write_matrix(path: Path, matrix: Matrix) -> None:
    """Write it in the form that the suffix asks for. Raises UsageError if the file cannot be written."""
    check_form(path)
    if path.suffix == ".json":
        written = to_json(matrix, indent=2) + "\n"
    else:
        written = (matrix_html if path.suffix == ".html" else matrix_markdown)(matrix)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written, "utf-8")
    except OSError as exc:
        raise UsageError(f"{path}: the matrix cannot be written ({exc.strerror}); check the folder") from exc


def _groups(matrix: Matrix) -> Iterator[Group]:
    """Rows in their order, by dialect and kind."""
    for (kind, dialect), rows in groupby(matrix.rows, key=lambda row: (row.kind, row.dialect)):
        yield dialect, kind, list(rows), [column for column in matrix.columns if dialect in column.dialects]


def _split(columns: Sequence[Column]) -> tuple[list[Column], list[Column]]:
    """The clients that get a column each, and the client models that are only counted: none, unless they are many."""
    if len(columns) <= MOST_COLUMNS:
        return list(columns), []
    return [c for c in columns if c.kind == "sdk"], [c for c in columns if c.kind == "client"]


def _counted(row: Row, columns: Sequence[Column], most: int = MOST_NAMES) -> str:
    """How many of the clients that ran fail, and which."""
    ran = [column for column in columns if row.cells[column.name].outcome is not CaseOutcome.SKIPPED]
    failing = [column for column in ran if not row.cells[column.name].outcome.good]
    names = [f"{_short(column)} {mark_of(row.cells[column.name])}" for column in failing[:most]]
    more = [f"{len(failing) - most} more"] if len(failing) > most else []
    return f"{len(failing)} of {len(ran)}" + (f": {', '.join([*names, *more])}" if names else "")


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _good(column: Column) -> tuple[int, int]:
    """Cases that came out well, and cases that ran."""
    ran = sum(count for outcome, count in column.counts.items() if outcome != CaseOutcome.SKIPPED)
    return sum(column.counts.get(outcome, 0) for outcome in (CaseOutcome.RIGHT, CaseOutcome.TOLD)), ran


def _failing(column: Column) -> str:
    bad = [(CaseOutcome(name), count) for name, count in column.counts.items() if not CaseOutcome(name).good]
    return ", ".join(f"{count} {outcome}" for outcome, count in bad)


def _said(matrix: Matrix) -> str:
    return f"sse-harness {matrix.version}, Python {matrix.python}, {matrix.date}"


def matrix_text(matrix: Matrix) -> str:
    """For a terminal: the clients with their counts, then a letter for each case and client."""
    lines = [f"survival matrix, {_said(matrix)}", ""]
    width = max((len(column.name) for column in matrix.columns), default=0)
    versions = max((len(column.version) for column in matrix.columns), default=0)
    for number, column in enumerate(matrix.columns, 1):
        good, ran = _good(column)
        counts = f"{good:>4} of {ran:<4} {_failing(column)}"
        lines.append(f"{number:>3} {column.name:<{width}}  {one_line(column.version):<{versions}} {counts}".rstrip())
    numbers = {column.name: number for number, column in enumerate(matrix.columns, 1)}
    for dialect, kind, rows, columns in _groups(matrix):
        shown, counted = _split(columns)
        wide = max(len(one_line(row.case)) for row in rows)
        more = "  client models that fail" if counted else ""
        lines += ["", f"{dialect}, {_plural(len(rows), kind)}"]
        heads = "".join(f"{numbers[column.name]:>4}" for column in shown)
        lines += [f"{'':<{wide}}  {heads}{'':<12}{more}".rstrip()]
        for row in rows:
            cells = "".join(f"{mark_of(row.cells[column.name]):>4}" for column in shown)
            severity = f"{row.severity}{'*' if row.contested else ''}"
            more = f"  {_counted(row, counted, 2)}" if counted else ""
            lines.append(f"{one_line(row.case):<{wide}}  {cells}  {severity:<10}{more}".rstrip())
    marks = [f"{MARKS[outcome]} {outcome}" for outcome in CaseOutcome]
    lines += ["", ", ".join(marks), f"{CUT_ONLY}; *: contested, readers differ with good reason"]
    if matrix.not_covered:
        lines += ["", "not covered:", *(f"  {one_line(text)}" for text in matrix.not_covered)]
    return "\n".join(lines)


def matrix_markdown(matrix: Matrix) -> str:
    """As Markdown: a table of the clients, and one for each dialect and kind of case."""
    lines = [
        "# Survival matrix", "", f"Which clients read which streams right. {_said(matrix)}.", "",
        "| client | version | what it is | comes out well | fails |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for column in matrix.columns:
        good, ran = _good(column)
        lines.append(_row([
            f"`{column.name}`", _text(column.version), _prose(column.about), f"{good} of {ran}", _failing(column),
        ]))
    for dialect, kind, rows, columns in _groups(matrix):
        shown, counted = _split(columns)
        head = ["case", "severity", *map(_short, shown), *(["client models that fail"] if counted else [])]
        lines += ["", f"## {dialect}: {_plural(len(rows), kind)}", "", _row(head)]
        lines.append("|---|---|" + ":-:|" * len(shown) + ("---|" if counted else ""))
        for row in rows:
            marks = [mark_of(row.cells[column.name]) for column in shown]
            lines.append(_row([
                _text(row.case), f"{row.severity}{', contested' if row.contested else ''}",
                *("" if mark == "." else mark for mark in marks), *([_counted(row, counted)] if counted else []),
            ]))  # fmt: skip
    lines += ["", "## Letters", "", "| | outcome | |", "|:-:|---|---|"]
    for outcome in CaseOutcome:
        lines.append(_row(["" if outcome is CaseOutcome.RIGHT else MARKS[outcome], outcome, SAYS[outcome]]))
    lines += ["", f"{CUT_ONLY[0].upper()}{CUT_ONLY[1:]}. Cuts: {_cuts(matrix)}."]
    if matrix.not_covered:
        lines += ["", "## Not covered", "", *(f"- {_text(text)}" for text in matrix.not_covered)]
    return "\n".join(lines) + "\n"


def _cuts(matrix: Matrix) -> str:
    return "; ".join(f"{kind}s {', '.join(families)}" for kind, families in matrix.cuts.items())


def _short(column: Column) -> str:
    return column.name.partition(":")[2]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """Text that stays in its cell, and is no markup. Names keep their hyphens, so that the source can be read too."""
    return _SPECIAL.sub(r"\\\1", one_line(text))


def _prose(text: str) -> str:
    """A sentence of ours with its `code`; a | would end the cell even there."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _text(text)
    return "".join(f"`{one_line(part).replace('|', chr(92) + '|')}`" if number % 2 else _text(part)
                   for number, part in enumerate(parts))  # fmt: skip


def _options(matrix: Matrix) -> list[Option]:
    met = {CaseOutcome(name) for column in matrix.columns for name in column.counts}
    return [
        Option(value=str(outcome), label=str(outcome), mark=MARKS[outcome], kind=str(outcome), about=SAYS[outcome])
        for outcome in CaseOutcome if outcome in met
    ]  # fmt: skip


def _who(column: Column) -> str:
    return "sdk" if column.kind == "sdk" else "right" if column.right else "wrong"


WHO = {"sdk": "SDKs", "right": "right client models", "wrong": "wrong client models"}


def matrix_html(matrix: Matrix) -> str:
    """As one self-contained page: filters by outcome, severity, kind and client, and a note behind each failure."""
    outcomes = _options(matrix)
    severities = [severity for severity in reversed(Severity) if any(row.severity is severity for row in matrix.rows)]
    kinds = [kind for kind in ("quirk", "fixture") if any(row.kind == kind for row in matrix.rows)]
    filters = [
        Filter(name="outcome", label="Outcome", options=[
            option for option in outcomes if not CaseOutcome(option.value).good
        ]),
        Filter(name="severity", label="Severity", options=[
            Option(value=str(severity), label=str(severity), mark=severity[0].upper(), kind=str(severity))
            for severity in severities
        ]),
        Filter(name="kind", label="Streams", options=[Option(value=kind, label=f"{kind}s") for kind in kinds]),
        Filter(name="who", label="Clients", hides=True, options=[
            Option(value=who, label=label) for who, label in WHO.items() if who in map(_who, matrix.columns)
        ]),
        Filter(name="client", label="One by one", hides=True, folded=True, options=[
            Option(value=column.name, label=column.name, about=column.about) for column in matrix.columns
        ]),
    ]  # fmt: skip
    counted = [(str(outcome), CaseOutcome(outcome)) for outcome in CaseOutcome if outcome is not CaseOutcome.SKIPPED]
    head = ["client", "version", "what it is", tag("th", "comes out well", scope="col", class_="number"), "fails"]
    clients = table(head, [_client(column, counted) for column in matrix.columns], caption="Clients", low=True)
    missing: Node = None
    if matrix.not_covered:
        missing = [tag("h2", "Not covered"), tag("ul", [tag("li", text) for text in matrix.not_covered])]
    return page(
        "Survival matrix",
        facts([
            ("date", matrix.date), ("sse-harness", matrix.version), ("Python", matrix.python),
            ("clients", len(matrix.columns)), ("streams", len(matrix.rows)), ("cuts", _cuts(matrix)),
        ]),
        tag("h2", "Clients"), clients,
        filter_bar(filters, search="Find", unit="streams"),
        [_section(group) for group in _groups(matrix)],
        tag("h2", "Letters"), legend(outcomes),
        tag("p", f"{CUT_ONLY[0].upper()}{CUT_ONLY[1:]}. Contested: readers differ with good reason."), missing,
        about="Which clients read which streams right: each letter is one stream, read by one client.",
    )  # fmt: skip


def _client(column: Column, counted: Sequence[tuple[str, CaseOutcome]]) -> Markup:
    good, ran = _good(column)
    shares = bar([(name, column.counts.get(outcome, 0)) for name, outcome in counted], f"{good} of {ran}")
    return tag(
        "tr", tag("th", column.name, scope="row", class_="name"), tag("td", column.version, class_="muted name"),
        tag("td", prose(column.about)), tag("td", f"{good} of {ran}", shares, class_="number"),
        tag("td", _failing(column)), data_item=True, data_aside=True, data_client=column.name, data_who=_who(column),
    )  # fmt: skip


def _section(group: Group) -> Markup:
    dialect, kind, rows, columns = group
    heads = [
        tag("th", tag("span", _short(column)), scope="col", class_="up", data_client=column.name,
            data_who=_who(column), title=f"{column.name} ({column.version})")
        for column in columns
    ]  # fmt: skip
    grid = table(["stream", "severity", *heads], [_stream(row, columns) for row in rows], kind="grid",
                 caption=f"{dialect}, {kind}s")  # fmt: skip
    title = tag("h2", dialect, tag("small", _plural(len(rows), kind)))
    return tag("section", title, grid, data_group=True)


def _stream(row: Row, columns: Sequence[Column]) -> Markup:
    contested = [" ", badge("contested")] if row.contested else None
    return tag(
        "tr", tag("th", tag("span", row.case, class_="name"), contested, tag("small", row.fault), scope="row"),
        tag("td", badge(row.severity, row.severity)),
        [_mark(row, column, row.cells[column.name]) for column in columns],
        data_item=True, data_severity=row.severity, data_kind=row.kind,
    )  # fmt: skip


def _mark(row: Row, column: Column, cell: Cell) -> Markup:
    mark, outcome = mark_of(cell), str(cell.outcome)
    if cell.outcome.good:
        return tag("td", mark, class_=None if cell.outcome is CaseOutcome.RIGHT else outcome,
                   title="; ".join(cell.says) or None)  # fmt: skip
    when = "\nonly when the bytes are cut" if cell.cut_only else ""
    repro = f"\n\n$ {cell.repro}" if cell.repro else ""
    note = f"{outcome}: {SAYS[cell.outcome]}{when}\n\n" + "\n".join(cell.says) + repro
    button = note_button(mark, title=f"{row.case} · {column.name} ({column.version})", note=note,
                         class_=f"mark {outcome}{' cut' if cell.cut_only else ''}")  # fmt: skip
    return tag("td", button, data_outcome=outcome)
