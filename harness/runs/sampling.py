"""One shape of a gate: the baseline's takes, the candidate's samples, each compared, and the one result they make."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.bodies import Prepared, request_file, shapes_offered
from harness.compare import compare
from harness.config import Project, Provider
from harness.cutover import Side
from harness.detect import detect, is_blank
from harness.dialects import dialect_named
from harness.errors import NotMeasured, UsageError
from harness.findings import ClientRun, Finding, Outcome, ShapeResult
from harness.partial import FOLDER
from harness.recording import Recording
from harness.rules import in_order
from harness.runs.evidence import with_breaks
from harness.runs.parity import parity
from harness.runs.sending import Allowance
from harness.runs.taking import Take, reading_of, take
from harness.shapes import asked_of
from harness.store import Loaded, load, take_path, takes
from harness.structure import Reading, read
from harness.thresholds import slow

if TYPE_CHECKING:
    from harness.runs.declared import Clients


LOG = logging.getLogger(__name__)


class Bodies(msgspec.Struct, kw_only=True):
    """The takes of a shape that evidence points into, by side and take, and where the candidate's were put."""

    sides: dict[tuple[str, int], Side] = {}
    paths: list[Path] = []

    @property
    def by_side(self) -> dict[tuple[str, int], bytes]:
        """The bytes alone."""
        return {key: side.recording.body for key, side in self.sides.items()}


class Baseline(msgspec.Struct, kw_only=True):
    """The takes of one shape, read."""

    readings: list[Reading]
    loaded: list[Loaded]
    dialect: str
    failed: bool


class Asking(msgspec.Struct, kw_only=True):
    """How a candidate is asked: samples of each shape, attempts at each sample, and once more without streaming.

    `provider` is null where fixtures alone are compared and the candidate has no entry.
    """

    project: Project
    baseline: str
    candidate: str
    provider: Provider | None
    samples: int = 1
    attempts: int = 1
    parity: bool = False
    allowance: Allowance


class Sample(msgspec.Struct, kw_only=True):
    """One sample, compared. `reason` is why it measured nothing, "" if it did; `answered`: there was a response."""

    number: int
    answered: bool = False
    findings: list[Finding] = []
    shared: list[str] = []
    remarks: list[str] = []
    reason: str = ""


class Sampled(msgspec.Struct, kw_only=True):
    """All samples of a shape. `reason` is why none was taken; `parity` is what asking without streaming found."""

    shape: str
    held: Bodies
    samples: list[Sample] = []
    wanted: int = 1
    reason: str = ""
    parity: list[Finding] = []
    unparalleled: str = ""  # why there was no second answer to compare with


def sample_shape(asking: Asking, shape: str, prepared: Prepared | None) -> Sampled:
    """Ask for a shape, or read it from fixtures where there is no request. Raises UsageError (broken files, full disk).

    Once a sample gets no response at all, none is tried after it.
    """
    out = Sampled(shape=shape, held=Bodies(), wanted=asking.samples)
    base = _baseline(asking.project, asking.baseline, shape, prepared)
    if isinstance(base, str):
        out.reason = base
        return out
    for number, (loaded, reading) in enumerate(zip(base.loaded, base.readings, strict=True), 1):
        out.held.sides["baseline", number] = _side(asking.project, loaded, loaded.recording, reading)
    first: Take | None = None
    for number in range(1, asking.samples + 1):
        sample, found = _sample(asking, shape, prepared, base, number, out.held)
        out.samples.append(sample)
        if not sample.answered:
            break
        first = first or found
    if asking.parity and prepared is not None and shape != "error" and first is not None and first.result == "ok":
        try:
            out.parity = parity(asking.project, prepared, first, asking.allowance)
        except NotMeasured as exc:
            out.unparalleled = str(exc)
    return out


def _sample(
    asking: Asking, shape: str, prepared: Prepared | None, base: Baseline, number: int, held: Bodies
) -> tuple[Sample, Take | None]:  # fmt: skip
    """One sample, tried until it is measured or the attempts are used up; and its take, if it is measured."""
    sample = Sample(number=number)
    for attempt in range(1, max(1, asking.attempts) + 1):
        if sample.reason:
            what = f"{asking.candidate}/{shape}: attempt {attempt} of {asking.attempts}"
            LOG.info("%s, as the one before measured nothing: %s", what, sample.reason)
        try:
            found, fixture = _taken(asking, shape, prepared, base, number)
        except NotMeasured as exc:
            sample.reason = str(exc)
            continue
        sample.answered = True
        if found.path is not None:
            held.paths.append(found.path)
        held.sides["candidate", number] = _side(asking.project, fixture, found.recording, found.reading)
        takes_ = [reading.structure for reading in base.readings]
        compared = compare(takes_, found.reading.structure, shape=shape, take=number)
        sample.reason = found.unmeasured or compared.not_measured
        if sample.reason:
            continue
        late: list[Finding] = []
        if asking.provider is not None:
            late = slow(found.recording, found.reading.structure.dialect, asking.provider.thresholds, number)
        sample.findings = in_order([*with_breaks(compared.findings, found.reading.structure.dialect), *late])
        sample.shared, sample.remarks = compared.shared, compared.remarks
        return sample, found
    return sample, None


def _taken(
    asking: Asking, shape: str, prepared: Prepared | None, base: Baseline, number: int
) -> tuple[Take, Loaded | None]:  # fmt: skip
    """The candidate's take, and the fixture it was read from."""
    project, candidate = asking.project, asking.candidate
    if prepared is None:
        return _recorded(project, candidate, shape, base, number)
    asked = take(
        project, prepared, shape, baseline_failed=base.failed, allowance=asking.allowance,
        decide=lambda found: keep_at(project, candidate, shape, found, number),
    )  # fmt: skip
    return asked, None


def keep_at(project: Project, candidate: str, shape: str, found: Take, number: int = 1) -> Path | None:
    """Whole answers under `.harness/takes/`, the last one of each shape and number; all others are set aside."""
    whole = found.recording.end == "eof" and found.result in ("ok", "error") and not found.unmeasured
    if not whole or (found.result == "error" and shape != "error"):
        return None
    return take_path(project.root / FOLDER / "takes", candidate, shape, number)


# -- the result ---------------------------------------------------------------------------------------------------


def result_of(sampled: Sampled, clients: Clients | None = None) -> ShapeResult:
    """What the samples of a shape come to, before acceptances.

    A finding of several samples is told once, at its worst, with the number of samples that have it. The outcome is
    conforms if all was measured that was asked for, else not measured; findings may be there all the same.
    """
    result = ShapeResult(shape=sampled.shape, outcome=Outcome.NOT_MEASURED, reason=sampled.reason)
    if sampled.reason:
        return result
    measured = [sample for sample in sampled.samples if not sample.reason]
    result.takes = sum(sample.answered for sample in sampled.samples)
    runs: list[list[ClientRun]] = []
    if clients is not None:
        for sample in measured:
            sides = sampled.held.sides
            sample.findings, told = clients.weigh(
                sample.findings, sides["baseline", 1], sides["candidate", sample.number]
            )
            runs.append(told)
    result.clients = next((told for told in runs if any(run.candidate not in _GOOD for run in told)), _first(runs))
    result.findings = in_order([*_merged(measured), *sampled.parity])
    rules = {finding.rule for finding in result.findings}
    result.shared = sorted({code for sample in measured for code in sample.shared} - rules)
    result.remarks = list(dict.fromkeys(remark for sample in measured for remark in sample.remarks))
    result.reason = "; ".join([*_reasons(sampled), *filter(None, [sampled.unparalleled])])
    if not result.reason:
        result.outcome = Outcome.CONFORMS
    return result


_GOOD = ("right", "told")


def _first(runs: Sequence[list[ClientRun]]) -> list[ClientRun]:
    return runs[0] if runs else []


def _merged(samples: Sequence[Sample]) -> Iterator[Finding]:
    """One finding a rule: the worst, of the earliest sample, and in how many of several samples it was seen."""
    by_rule: dict[str, list[Finding]] = {}
    for sample in samples:
        for finding in sample.findings:
            by_rule.setdefault(finding.rule, []).append(finding)
    for findings in by_rule.values():
        worst = max(findings, key=lambda finding: finding.severity.rank)
        if len(samples) > 1:
            seen = f" (in {len(findings)} of {len(samples)} samples)"
            worst = msgspec.structs.replace(worst, message=worst.message + seen)
        yield worst


def _reasons(sampled: Sampled) -> Iterator[str]:
    """Why samples measured nothing: of several samples, how many for each reason, those never tried for the last."""
    counts: dict[str, int] = {}
    for sample in sampled.samples:
        if sample.reason:
            counts[sample.reason] = counts.get(sample.reason, 0) + 1
    if counts:
        counts[sampled.samples[-1].reason or next(iter(counts))] += sampled.wanted - len(sampled.samples)
    for reason, count in counts.items():
        yield f"{count} of {sampled.wanted} samples: {reason}" if sampled.wanted > 1 else reason


# -- recordings at rest -------------------------------------------------------------------------------------------


def _baseline(project: Project, name: str, shape: str, prepared: Prepared | None) -> Baseline | str:
    """The baseline's takes, or why they measure nothing."""
    dialect = (prepared.endpoint.dialect if prepared is not None else None) or "chat"
    paths = takes(project.fixtures, name, shape)
    if not paths:
        return f"the baseline has no fixture of it (`harness record {name} --shape {shape}`)"
    readings, fixtures, found = [], [load(path) for path in paths], dialect
    for loaded in fixtures:
        found = _dialect_of(loaded.path, loaded.recording, dialect)
        request = _request_of(project, loaded.recording, found, shape, prepared)
        readings.append(read(loaded.recording, found, asked_of(found, request)))
    failed = readings[0].structure.get("result") == "error"
    return Baseline(readings=readings, loaded=fixtures, dialect=found, failed=failed)


def empty_baseline(loaded: Loaded) -> str | None:
    """What is wrong with a take of a baseline that is empty, naming it; null if it is not.

    An empty answer is no norm, whatever its sidecar says of it, unless that is how a request was refused.
    """
    if is_blank(loaded.recording.body) and (loaded.recording.status or 200) < 400:
        return f"{loaded.path}: is empty; record it again"
    return None


def _dialect_of(path: Path, recording: Recording, default: str) -> str:
    """The dialect to read a fixture in: the sidecar's, else told by the content, else `default`.

    Raises UsageError for one nobody knows.
    """
    if recording.dialect is None:
        try:
            return detect(recording.body)
        except UsageError:  # an error body, say, that any dialect might have sent
            return default
    dialect = recording.dialect
    try:
        dialect_named(dialect)
    except UsageError as exc:
        raise UsageError(f"{path.with_suffix('.json')}: dialect {exc}") from None
    return dialect


def _request_of(
    project: Project, recording: Recording, dialect: str, shape: str, prepared: Prepared | None = None
) -> Any:  # fmt: skip
    """The request a fixture answers. For a bare one stands what the candidate is asked, else the shape's file."""
    if recording.request is not None:
        return recording.request.body
    if prepared is not None and prepared.endpoint.dialect == dialect:
        return prepared.body
    return request_file(project, dialect, shape).body if shape in shapes_offered(project, dialect) else None


def _recorded(project: Project, candidate: str, shape: str, base: Baseline, number: int) -> tuple[Take, Loaded]:
    paths = takes(project.fixtures, candidate, shape)
    if not paths:
        raise NotMeasured(f"the candidate has no fixture of it (`harness record {candidate} --shape {shape}`)")
    if number > len(paths):
        more = f"`harness record {candidate} --shape {shape} --takes {number}`"
        raise NotMeasured(f"the candidate has no take {number} of it ({more})")
    loaded = load(paths[number - 1])
    recording = loaded.recording
    dialect = _dialect_of(loaded.path, recording, base.dialect)
    request = _request_of(project, recording, dialect, shape)
    return reading_of(recording, dialect, shape, request, baseline_failed=base.failed), loaded


def read_again(project: Project, baseline: str, shape: str, candidate: Sequence[Path]) -> dict[tuple[str, int], Side]:
    """The takes of a shape from disk: the baseline's fixtures, and the candidate's bodies. Raises UsageError."""
    found: dict[tuple[str, int], Side] = {}
    dialect = "chat"
    for side, paths in (("baseline", takes(project.fixtures, baseline, shape)), ("candidate", candidate)):
        for number, path in enumerate(paths, 1):
            loaded = load(path)
            dialect = _dialect_of(path, loaded.recording, dialect)
            request = _request_of(project, loaded.recording, dialect, shape)
            reading = read(loaded.recording, dialect, asked_of(dialect, request))
            found[side, number] = _side(project, loaded, loaded.recording, reading)
    return found


def _side(project: Project, fixture: Loaded | None, recording: Recording, reading: Reading) -> Side:
    """A take with the path of its fixture: from the folder of `.git` on, without one from the project's."""
    if fixture is None or not fixture.path.is_relative_to(project.fixtures):
        return Side(recording=recording, structure=reading.structure)
    path = fixture.path
    root = project.root.resolve()
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    where = (root / path.relative_to(project.root)).relative_to(top)
    return Side(
        recording=recording, structure=reading.structure, path=where.as_posix(), warning=fixture.warning
    )  # fmt: skip
