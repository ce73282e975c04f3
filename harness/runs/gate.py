"""`harness gate`: can the candidate take over from the baseline? One result a shape, one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec

from harness.bodies import Prepared, request_file, request_for, shapes_offered
from harness.compare import compare
from harness.config import Project, Provider
from harness.errors import NotMeasured, UsageError
from harness.findings import Finding, Outcome, Report, Severity, ShapeResult, outcome_of
from harness.partial import FOLDER
from harness.policy import accept, judge
from harness.runs.taking import Say, Take, reading_of, take
from harness.shapes import CANONICAL, SHAPES, asked_of
from harness.store import load, shapes_of, takes
from harness.structure import Reading, read


class Bodies(msgspec.Struct, kw_only=True):
    """The bytes that a shape's evidence points into, by side and take, and where the candidate's were put."""

    by_side: dict[tuple[str, int], bytes] = {}
    paths: list[Path] = []


class Gated(msgspec.Struct, kw_only=True):
    """A report, and the bytes behind it by shape."""

    report: Report
    bodies: dict[str, Bodies]


class Planned(msgspec.Struct, kw_only=True):
    """The shapes of a gate in their order, and the requests to send: none for a shape that is skipped or recorded."""

    shapes: list[str]
    provider: Provider | None
    requests: dict[str, Prepared]


class Baseline(msgspec.Struct, kw_only=True):
    """The takes of one shape, read."""

    readings: list[Reading]
    bodies: list[bytes]
    dialect: str
    failed: bool


def gate(
    project: Project, baseline: str, candidate: str, *, shapes: Sequence[str] = (), attempts: int = 1,
    recorded: bool = False, allow_stale: bool = False, fail_on: Severity = Severity.NEGOTIABLE,
    environ: Mapping[str, str], say: Say = lambda text: None, today: date | None = None,
) -> Gated:  # fmt: skip
    """Compare the candidate's streams with the baseline's fixtures, shape by shape.

    `recorded` reads the candidate from fixtures/ too: nothing is sent. Raises UsageError and ConfigError before
    anything is sent: no fixtures, a changed request file, an unknown provider, an unset variable.
    """
    day = today or datetime.now(UTC).date()
    planned = plan(
        project, baseline, candidate, shapes=shapes, recorded=recorded, allow_stale=allow_stale, environ=environ
    )
    results, bodies = [], {}
    provider = planned.provider
    entries = provider.accept if provider is not None else ()
    for shape in planned.shapes:
        held = bodies[shape] = Bodies()
        skip = _skipped(project, provider, shape)
        if skip is not None:
            results.append(ShapeResult(shape=shape, outcome=Outcome.SKIPPED, reason=skip))
            continue
        say(f"{candidate}/{shape} ...")
        result = _shape(project, baseline, candidate, shape, planned.requests.get(shape), attempts, held)
        result.findings = accept(result.findings, shape, entries, day)
        if result.outcome is not Outcome.NOT_MEASURED:
            result.outcome = outcome_of(result.findings, fail_on)
        results.append(result)
    return Gated(report=conclude(project, baseline, candidate, results, today=day), bodies=bodies)


def plan(
    project: Project, baseline: str, candidate: str, *, shapes: Sequence[str] = (), recorded: bool = False,
    allow_stale: bool = False, environ: Mapping[str, str],
) -> Planned:  # fmt: skip
    """What a gate is going to do; nothing is sent. Raises UsageError and ConfigError as `gate` says."""
    wanted = _wanted(project, baseline, shapes)
    provider = project.providers.get(candidate) if recorded else project.provider(candidate)
    requests = {} if recorded or provider is None else _prepare(project, provider, wanted, environ)
    if not allow_stale:
        for shape in wanted:
            _check_fresh(project, baseline, shape)
    return Planned(shapes=wanted, provider=provider, requests=requests)


def conclude(
    project: Project, baseline: str, candidate: str, results: Sequence[ShapeResult], *, today: date | None = None
) -> Report:  # fmt: skip
    """The report that the shapes' results add up to. An acceptance about a shape that did not run is not stale."""
    provider = project.providers.get(candidate)
    entries = provider.accept if provider is not None else ()
    run = {result.shape for result in results}
    unrun = [shape for shape in _wanted(project, baseline, ()) if shape not in run]
    outcome, uses = judge(results, entries, today or datetime.now(UTC).date(), unrun)
    return Report(
        baseline=baseline, candidate=candidate, outcome=outcome, shapes=list(results), acceptances=uses,
        not_covered=_not_covered(project, baseline, results),
    )  # fmt: skip


def _wanted(project: Project, baseline: str, shapes: Sequence[str]) -> list[str]:
    """The canonical shapes and every other the baseline has, or those asked for. Raises UsageError if it has none."""
    there = shapes_of(project.fixtures, baseline)
    if not there:
        known = project.provider(baseline).name if baseline in project.providers else None
        remedy = f"record it with `harness record {baseline}`" if known else "check the name"
        raise UsageError(f"{project.fixtures / baseline}: no fixtures of the baseline {baseline!r}; {remedy}")
    if shapes:
        return list(dict.fromkeys(shapes))
    dialect = load(takes(project.fixtures, baseline, there[0])[0]).recording.dialect
    offered = shapes_offered(project, dialect) if dialect is not None else CANONICAL
    canonical = [shape for shape in CANONICAL if shape in there or shape in offered]
    return [*canonical, *(shape for shape in there if shape not in CANONICAL)]


def _prepare(
    project: Project, provider: Provider, shapes: Sequence[str], environ: Mapping[str, str]
) -> dict[str, Prepared]:  # fmt: skip
    resolved = provider.resolve(environ)
    return {
        shape: request_for(project, provider, resolved, shape)
        for shape in shapes
        if _skipped(project, provider, shape) is None
    }


def _skipped(project: Project, provider: Provider | None, shape: str) -> str | None:
    """Why the candidate is not asked for a shape: its entry says so, or its dialect has no such request."""
    if provider is None:
        return None
    skip = provider.shape(shape).skip
    if skip is None and shape in SHAPES and shape not in shapes_offered(project, provider.dialect):
        return f"dialect {provider.dialect} has no request of this shape"
    return skip


def _check_fresh(project: Project, baseline: str, shape: str) -> None:
    """Raise UsageError if the shape's request file changed since the baseline was recorded. No hash, no check."""
    for path in takes(project.fixtures, baseline, shape):
        recording = load(path).recording
        digest = recording.request.shape_sha256 if recording.request is not None else None
        if digest is None or recording.dialect is None:
            continue
        file = request_file(project, recording.dialect, shape)
        if file.sha256 != digest:
            raise UsageError(
                f"{file.path}: changed since {path} was recorded; re-record with "
                f"`harness record {baseline} --shape {shape} --replace`, or `--allow-stale`"
            )


def _baseline(project: Project, name: str, shape: str, dialect: str) -> Baseline | str:
    """The baseline's takes, or why they measure nothing."""
    paths = takes(project.fixtures, name, shape)
    if not paths:
        return f"the baseline has no fixture of it (`harness record {name} --shape {shape}`)"
    readings, bodies, found = [], [], dialect
    for path in paths:
        recording = load(path).recording
        found = recording.dialect or dialect
        request = recording.request.body if recording.request is not None else None
        readings.append(read(recording, found, asked_of(found, request)))
        bodies.append(recording.body)
    failed = readings[0].structure.get("result") == "error"
    return Baseline(readings=readings, bodies=bodies, dialect=found, failed=failed)


def _shape(
    project: Project, baseline: str, candidate: str, shape: str, prepared: Prepared | None, attempts: int, held: Bodies
) -> ShapeResult:  # fmt: skip
    result = ShapeResult(shape=shape, outcome=Outcome.NOT_MEASURED)
    dialect = (prepared.endpoint.dialect if prepared is not None else None) or "chat"
    base = _baseline(project, baseline, shape, dialect)
    if isinstance(base, str):
        result.reason = base
        return result
    held.by_side = {("baseline", number): body for number, body in enumerate(base.bodies, 1)}
    for _ in range(max(1, attempts)):
        result.findings, result.shared, result.remarks = [], [], []
        try:
            if prepared is not None:
                found = take(
                    project, prepared, shape, baseline_failed=base.failed,
                    decide=lambda it: keep_at(project, candidate, shape, it),
                )  # fmt: skip
            else:
                found = _recorded(project, candidate, shape, base)
        except NotMeasured as exc:
            result.reason = str(exc)
            continue
        if found.path is not None:
            held.paths.append(found.path)
        held.by_side["candidate", 1] = found.recording.body
        result.takes = 1
        compared = compare(
            [reading.structure for reading in base.readings], found.reading.structure, shape=shape, take=1
        )
        if found.unmeasured or compared.not_measured:
            result.reason = found.unmeasured or compared.not_measured
            continue
        result.findings, result.shared, result.remarks = compared.findings, compared.shared, compared.remarks
        result.reason, result.outcome = "", Outcome.CONFORMS
        break
    return result


def keep_at(project: Project, candidate: str, shape: str, found: Take) -> Path | None:
    """Whole answers under `.harness/takes/`, the last one of each shape; all others are set aside."""
    whole = found.recording.end == "eof" and found.result in ("ok", "error") and not found.unmeasured
    if not whole or (found.result == "error" and shape != "error"):
        return None
    return project.root / FOLDER / "takes" / candidate / f"{shape}.sse"


def _recorded(project: Project, candidate: str, shape: str, base: Baseline) -> Take:
    paths = takes(project.fixtures, candidate, shape)
    if not paths:
        raise NotMeasured(f"the candidate has no fixture of it (`harness record {candidate} --shape {shape}`)")
    recording = load(paths[0]).recording
    request = recording.request.body if recording.request is not None else None
    dialect = recording.dialect or base.dialect
    return reading_of(recording, dialect, shape, request, baseline_failed=base.failed)


def _not_covered(project: Project, baseline: str, results: Sequence[ShapeResult]) -> list[str]:
    """What this gate says nothing about."""
    out = []
    for result in results:
        if result.outcome is Outcome.SKIPPED:
            out.append(f"shape {result.shape}: skipped ({result.reason})")
        elif result.outcome is Outcome.NOT_MEASURED:
            out.append(f"shape {result.shape}: not measured ({result.reason})")
    run = {result.shape for result in results}
    missing = [shape for shape in SHAPES if shape not in run]
    if missing:
        out.append(f"shapes not run: {', '.join(missing)}")
    single = [shape for shape in sorted(run) if len(takes(project.fixtures, baseline, shape)) == 1]
    if single:
        out.append(f"how much the baseline varies: one take only of {', '.join(single)}")
    out.append("wording, quality and speed of the answers")
    return out


def failed_findings(gated: Gated, fail_on: Severity) -> list[tuple[str, Finding]]:
    """The findings that fail the gate, with their shapes."""
    return [
        (result.shape, finding)
        for result in gated.report.shapes
        for finding in result.findings
        if finding.accepted is None and finding.severity.rank >= fail_on.rank
    ]


def summary(gated: Gated, fail_on: Severity) -> str:
    """One line that says how the gate ended and where the bytes of what went wrong are."""
    report = gated.report
    parts = []
    for result in report.shapes:
        if result.outcome is Outcome.DIFFERS:
            codes = [finding.rule for shape, finding in failed_findings(gated, fail_on) if shape == result.shape]
            parts.append(f"{result.shape} differs ({', '.join(codes)})")
        elif result.outcome is Outcome.NOT_MEASURED:
            parts.append(f"{result.shape} not measured ({result.reason})")
    parts += [f"acceptance of {use.rule} is {use.state}" for use in report.acceptances if use.state != "used"]
    aside = [path for held in gated.bodies.values() for path in held.paths if f"{FOLDER}/failed" in path.as_posix()]
    kept = f"; bytes in {', '.join(map(str, aside))}" if aside else ""
    return f"{report.baseline} -> {report.candidate}: {'; '.join(parts) or report.outcome}{kept}"


