"""The survival matrix: which clients read which streams right. Client models and SDKs on quirks and fixtures.

Each cell is one case through one client, uncut and cut; the worst outcome counts. Failures are not made smaller here:
a cell's command line does that.
"""

from __future__ import annotations

import platform
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec

from harness import __version__
from harness.adapters import SDKS
from harness.adapters.served import SdkTarget, sdk_named, version_of
from harness.answers import FEATURES, CaseOutcome, Expected, judge
from harness.cases import Case, fixture_cases, quirk_cases
from harness.clients.table import CLIENTS
from harness.cuts import offsets
from harness.dialects import BUILT_IN
from harness.errors import UsageError
from harness.findings import Severity, worst
from harness.rules import lint
from harness.runs.check import skipped
from harness.runs.files import open_file
from harness.settings import suggestion
from harness.store import providers_of, shapes_of, takes
from harness.targets import CallableTarget, Target, Trial

MATRIX_FORMAT = "sse-harness-matrix/1"
QUIRK_CUTS = ("whole", "bytes")
FIXTURE_CUTS = ("whole", "recorded")  # byte by byte takes minutes over all fixtures, and quirks show what cuts do
SHOWN_DIFFERENCES = 3
DIALECTS = list(BUILT_IN)


class Column(msgspec.Struct, kw_only=True):
    """One client. `name` is what `check` takes (`sdk:openai-python`); `counts` has every outcome that occurred.

    `right` is false for a client model that reads wrongly on purpose, null for an SDK.
    """

    name: str
    kind: Literal["sdk", "client"]
    version: str
    about: str
    right: bool | None
    dialects: list[str]
    counts: dict[str, int] = {}


class Cell(msgspec.Struct, kw_only=True):
    """What one case came to for one client. `cut_only`: it comes out well uncut. `says` what differs, or why not."""

    outcome: CaseOutcome
    cut_only: bool = False
    says: list[str] = []
    repro: str = ""


class Row(msgspec.Struct, kw_only=True):
    """One case, and its cell for each client that reads the dialect. `severity`: how bad what the server does is."""

    case: str
    kind: Literal["quirk", "fixture"]
    dialect: str
    fault: str
    severity: Severity
    contested: bool = False
    cells: dict[str, Cell] = {}


class Matrix(msgspec.Struct, kw_only=True):
    """What `matrix` says. `date` is ISO (UTC); `cuts` are the families by kind of row."""

    format: str = MATRIX_FORMAT
    date: str
    version: str
    python: str
    cuts: dict[str, list[str]]
    columns: list[Column]
    rows: list[Row]
    not_covered: list[str]


class Subject(msgspec.Struct, kw_only=True):
    """A client that is ready to run. `cut`: where the bytes are cut may matter to it."""

    column: Column
    target: Target
    cut: bool = True


class Given(msgspec.Struct, kw_only=True):
    """A case and its row; `checkable`: `check` has this case too, so that a command line shows it again."""

    case: Case
    row: Row
    checkable: bool = True


def matrix(
    *,
    date: str,
    fixtures: Path | None = None,
    quirks: bool = True,
    clients: Sequence[str] = (),
    sdks: Sequence[str] = (),
    cases: Sequence[str] = (),
    cuts: Sequence[str] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> Matrix:
    """Run every client on every case. Without names: all client models, and the SDKs that are installed.

    `cases`: names or patterns. `cuts`: families for all rows, in place of QUIRK_CUTS and FIXTURE_CUTS. Raises
    UsageError: a client, case or family that does not exist, an SDK named that is not installed.
    """
    for family in cuts:
        offsets(b"", family)
    subjects, missing = _subjects(clients, sdks)
    given, untold = _given(fixtures, quirks, cases)
    families = {"quirk": list(cuts or QUIRK_CUTS), "fixture": list(cuts or FIXTURE_CUTS)}
    for number, subject in enumerate(subjects, 1):
        progress(f"{number}/{len(subjects)} {subject.column.name}")
        counts: Counter[str] = Counter()
        for one in given:
            if one.case.dialect in subject.column.dialects:
                cell = _cell(subject, one, families[one.row.kind])
                one.row.cells[subject.column.name] = cell
                counts[cell.outcome] += 1
        subject.column.counts = {str(outcome): counts[outcome] for outcome in CaseOutcome if counts[outcome]}
    rows = [one.row for one in given]
    return Matrix(
        date=date, version=__version__, python=platform.python_version(), cuts=families,
        columns=[subject.column for subject in subjects], rows=[row for row in rows if row.cells],
        not_covered=[*missing, *untold, *_unread(rows), *_cut_alike(subjects)],
    )  # fmt: skip


def _subjects(clients: Sequence[str], sdks: Sequence[str]) -> tuple[list[Subject], list[str]]:
    """The clients asked for, SDKs first, and what is missing of all there are if none is named."""
    every = not clients and not sdks
    found, missing = [], []
    for sdk in SDKS.values() if every else map(sdk_named, dict.fromkeys(sdks)):
        if every and version_of(sdk) is None:
            missing.append(f"sdk:{sdk.name}: {sdk.package} is not installed")
            continue
        target = SdkTarget(sdk)
        found.append(Subject(target=target, column=Column(
            name=f"sdk:{sdk.name}", kind="sdk", version=f"{sdk.package} {target.version}", about=sdk.drives, right=None,
            dialects=list(sdk.dialects),
        )))  # fmt: skip
    for name in CLIENTS if every else dict.fromkeys(clients):
        if name not in CLIENTS:
            near = suggestion(name, CLIENTS) or ";"
            raise UsageError(f"no client model {name!r}{near} `harness check --list` names them")
        model = CLIENTS[name]
        found.append(Subject(target=CallableTarget(model, f"client:{name}"), cut=model.bends_bytes, column=Column(
            name=f"client:{name}", kind="client", version=f"sse-harness {__version__}", about=model.about,
            right=model.right, dialects=list(model.dialects),
        )))  # fmt: skip
    return found, missing


def _given(fixtures: Path | None, quirks: bool, patterns: Sequence[str]) -> tuple[list[Given], list[str]]:
    """The cases asked for, and what is to be said about them."""
    found = [
        Given(case=case, row=Row(
            case=case.name, kind="quirk", dialect=case.dialect, fault=case.fault, severity=Severity(case.verdict),
            contested=case.contested, cells={},
        ))
        for case in (quirk_cases() if quirks else ())
    ]  # fmt: skip
    untold: list[str] = []
    if fixtures is not None:
        found += _fixtures(fixtures, untold)
    if patterns:
        for pattern in patterns:
            if not any(fnmatchcase(one.case.name, pattern) for one in found):
                near = suggestion(pattern, [one.case.name for one in found])
                raise UsageError(f"no case {pattern!r}{near or '; use a pattern such as 02*'}")
        found = [one for one in found if any(fnmatchcase(one.case.name, pattern) for pattern in patterns)]
    found.sort(key=lambda one: (one.row.kind != "quirk", DIALECTS.index(one.case.dialect)))
    own = sum(not one.checkable for one in found)
    if own:
        has = "fixture has" if own == 1 else "fixtures have"
        untold.append(f"{own} {has} no .expected.json: for them our own reading is taken to be right")
    return found, untold


def _fixtures(root: Path, untold: list[str]) -> list[Given]:
    expected = {case.name: case for case in fixture_cases(root)[0]}
    found = []
    shapes = [(provider, shape) for provider in providers_of(root) for shape in shapes_of(root, provider)]
    for path in (path for provider, shape in shapes for path in takes(root, provider, shape)):
        name = f"{path.parent.name}/{path.stem}"
        try:
            shown = open_file(path)
        except UsageError as exc:
            untold.append(f"{name}: {exc}")
            continue
        findings = lint(shown.reading.structure)
        row = Row(
            case=name, kind="fixture", dialect=shown.dialect, fault=", ".join(finding.rule for finding in findings),
            severity=worst(findings), cells={},
        )  # fmt: skip
        case = expected.get(name) or Case(
            name=name, recording=shown.loaded.recording, dialect=shown.dialect,
            expected=msgspec.convert(msgspec.to_builtins(shown.reading.message), Expected),
        )  # fmt: skip
        found.append(Given(case=case, row=row, checkable=name in expected))
    return found


def _cell(subject: Subject, one: Given, families: Iterable[str]) -> Cell:
    """The worst outcome over the families; those that cut alike run once."""
    case, target = one.case, subject.target
    if reason := skipped(case, target):
        return Cell(outcome=CaseOutcome.SKIPPED, says=[reason])
    features = FEATURES if target.claims.features is None else target.claims.features
    cell = Cell(outcome=CaseOutcome.RIGHT, says=[])
    seen: set[tuple[int, ...]] = set()
    for family in families:
        cuts = offsets(case.recording.body, family, [read.end for read in case.recording.reads])
        if tuple(cuts) in seen or (cuts and not subject.cut):
            continue
        seen.add(tuple(cuts))
        trial = Trial(case=case.name.replace("/", "-").replace(".", "-"), dialect=case.dialect,
                      recording=case.recording, cuts=cuts)  # fmt: skip
        verdict = judge(target.run(trial), case.expected, features)
        if verdict.outcome.rank > cell.outcome.rank:
            cell = Cell(
                outcome=verdict.outcome, cut_only=bool(cuts) and not verdict.outcome.good and cell.outcome.good,
                says=list(verdict.differences[:SHOWN_DIFFERENCES]), repro=_repro(target, one, family),
            )  # fmt: skip
        if verdict.outcome is CaseOutcome.HUNG:
            break  # each further run would cost the whole time limit
    return cell


def _repro(target: Target, one: Given, family: str) -> str:
    return shlex.join(target.command(["--case", one.case.name, "--cut", family])) if one.checkable else ""


def _unread(rows: Iterable[Row]) -> list[str]:
    unread = Counter(row.dialect for row in rows if not row.cells)
    return [
        f"{count} case{'s' if count > 1 else ''} of dialect {dialect}: no client here reads it"
        for dialect, count in unread.items()
    ]


def _cut_alike(subjects: Iterable[Subject]) -> list[str]:
    count = sum(not subject.cut for subject in subjects)
    return [f"cuts: {count} client models split bytes as the reference does, and are run uncut only"] if count else []
