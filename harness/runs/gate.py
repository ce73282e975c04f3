"""`harness gate`: can the candidate take over from the baseline? One result a shape, one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.bodies import Prepared, request_file, request_for, shapes_offered
from harness.compare import compare
from harness.config import Project, Provider
from harness.cutover import Side, Sides, cutover
from harness.detect import detect
from harness.dialects import dialect_named
from harness.errors import NotMeasured, UsageError
from harness.findings import Finding, Outcome, Report, Severity, ShapeResult, outcome_of
from harness.partial import FOLDER
from harness.policy import accept, judge
from harness.recording import Recording
from harness.runs.evidence import with_breaks
from harness.runs.taking import Say, Take, reading_of, take
from harness.settings import suggestion
from harness.shapes import CANONICAL, SHAPES, asked_of
from harness.store import load, providers_of, shapes_of, takes
from harness.structure import Reading, read

if TYPE_CHECKING:
    from harness.runs.declared import Clients


class Bodies(msgspec.Struct, kw_only=True):
    """The takes of a shape that evidence points into, by side and take, and where the candidate's were put."""

    sides: dict[tuple[str, int], Side] = {}
    paths: list[Path] = []

    @property
    def by_side(self) -> dict[tuple[str, int], bytes]:
        """The bytes alone."""
        return {key: side.recording.body for key, side in self.sides.items()}


class Gated(msgspec.Struct, kw_only=True):
    """A report, and the bytes behind it by shape."""

    report: Report
    bodies: dict[str, Bodies]


class Planned(msgspec.Struct, kw_only=True):
    """The shapes of a gate in their order, and the requests to send: none for a shape that is skipped or recorded.

    `clients` are those that the candidate's entry declares.
    """

    shapes: list[str]
    provider: Provider | None
    requests: dict[str, Prepared]
    clients: Clients | None


class Baseline(msgspec.Struct, kw_only=True):
    """The takes of one shape, read."""

    readings: list[Reading]
    recordings: list[Recording]
    dialect: str
    failed: bool


def gate(
    project: Project, baseline: str, candidate: str, *, shapes: Sequence[str] = (), attempts: int = 1,
    recorded: bool = False, allow_stale: bool = False, fail_on: Severity = Severity.NEGOTIABLE,
    environ: Mapping[str, str], say: Say = lambda text: None, today: date | None = None,
    clients: Clients | None = None,
) -> Gated:  # fmt: skip
    """Compare the candidate's streams with the baseline's fixtures, shape by shape.

    `recorded` reads the candidate from fixtures/ too: nothing is sent. `clients` are those of an earlier `plan`, which
    need not be started again. Raises UsageError and ConfigError before anything is sent: no fixtures, a changed request
    file, an unknown provider, an unset variable, a client that cannot run.
    """
    day = today or datetime.now(UTC).date()
    planned = plan(
        project, baseline, candidate, shapes=shapes, recorded=recorded, allow_stale=allow_stale, environ=environ,
        clients=clients,
    )  # fmt: skip
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
        if planned.clients is not None and result.outcome is not Outcome.NOT_MEASURED:
            _ask(planned.clients, result, held)
        result.findings = accept(result.findings, shape, entries, day)
        if result.outcome is not Outcome.NOT_MEASURED:
            result.outcome = outcome_of(result.findings, fail_on)
        results.append(result)
    sides = {shape: held.sides for shape, held in bodies.items()}
    return Gated(report=conclude(project, baseline, candidate, results, sides, today=day), bodies=bodies)


def plan(
    project: Project, baseline: str, candidate: str, *, shapes: Sequence[str] = (), recorded: bool = False,
    allow_stale: bool = False, environ: Mapping[str, str], clients: Clients | None = None,
) -> Planned:  # fmt: skip
    """What a gate is going to do; nothing is sent. Raises UsageError and ConfigError as `gate` says."""
    wanted = _wanted(project, baseline, shapes)
    provider = project.providers.get(candidate) if recorded else project.provider(candidate)
    requests = {} if recorded or provider is None else _prepare(project, provider, wanted, environ)
    if recorded:
        _check_recorded(project, baseline, candidate, wanted)
    if not allow_stale:
        for shape in wanted:
            if _skipped(project, provider, shape) is None:
                _check_fresh(project, baseline, shape)
    if clients is None and provider is not None and provider.clients:
        from harness.runs.declared import declared  # models and targets: for whoever declares clients

        clients = declared(provider)
    return Planned(shapes=wanted, provider=provider, requests=requests, clients=clients)


def conclude(
    project: Project, baseline: str, candidate: str, results: Sequence[ShapeResult], sides: Mapping[str, Sides], *,
    today: date | None = None,
) -> Report:  # fmt: skip
    """The report that the shapes' results add up to. An acceptance about a shape that did not run is not stale.

    `sides` are the takes by shape, from whose facts the cutover is told.
    """
    provider = project.providers.get(candidate)
    entries = provider.accept if provider is not None else ()
    run = {result.shape for result in results}
    unrun = [shape for shape in _wanted(project, baseline, ()) if shape not in run]
    outcome, uses = judge(results, entries, today or datetime.now(UTC).date(), unrun)
    return Report(
        baseline=baseline, candidate=candidate, outcome=outcome, shapes=list(results), acceptances=uses,
        not_covered=_not_covered(project, baseline, results), cutover=cutover(results, sides),
    )  # fmt: skip


def _wanted(project: Project, baseline: str, shapes: Sequence[str]) -> list[str]:
    """The canonical shapes and every other the baseline has, or those asked for. Raises UsageError if it has none."""
    there = shapes_of(project.fixtures, baseline)
    if not there:
        raise _no_fixtures(project, "baseline", baseline)
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


def _no_fixtures(project: Project, side: str, name: str) -> UsageError:
    if name in project.providers:
        remedy = f"record it with `harness record {name}`"
    else:
        there = providers_of(project.fixtures)
        remedy = f"check the name{suggestion(name, there)} (there are: {', '.join(there) or 'none'})"
    return UsageError(f"{project.fixtures / name}: no fixtures of the {side} {name!r}; {remedy}")


def _check_recorded(project: Project, baseline: str, candidate: str, shapes: Sequence[str]) -> None:
    """Raise UsageError if the candidate has no fixture at all, or a shape is known to nobody: a slip of the pen."""
    theirs = shapes_of(project.fixtures, candidate)
    if not theirs:
        raise _no_fixtures(project, "candidate", candidate)
    known = {*SHAPES, *theirs, *shapes_of(project.fixtures, baseline)}
    for shape in shapes:
        if shape not in known:
            near = suggestion(shape, known) or ";"
            raise UsageError(f"--shape {shape}: no such shape{near} there are: {', '.join(sorted(known))}")


def _check_fresh(project: Project, baseline: str, shape: str) -> None:
    """Raise UsageError if the shape's request file changed since the baseline was recorded. No hash, no check."""
    paths = takes(project.fixtures, baseline, shape)
    for path in paths:
        recording = load(path).recording
        digest = recording.request.shape_sha256 if recording.request is not None else None
        if digest is None or recording.dialect is None:
            continue
        file = request_file(project, recording.dialect, shape)
        if file.sha256 != digest:
            several = f" --takes {len(paths)}" if len(paths) > 1 else ""
            raise UsageError(
                f"{file.path}: changed since {path} was recorded; re-record with "
                f"`harness record {baseline} --shape {shape}{several} --replace`, or `--allow-stale`"
            )


def _baseline(project: Project, name: str, shape: str, prepared: Prepared | None) -> Baseline | str:
    """The baseline's takes, or why they measure nothing."""
    dialect = (prepared.endpoint.dialect if prepared is not None else None) or "chat"
    paths = takes(project.fixtures, name, shape)
    if not paths:
        return f"the baseline has no fixture of it (`harness record {name} --shape {shape}`)"
    readings, recordings, found = [], [], dialect
    for path in paths:
        recording = load(path).recording
        found = _dialect_of(path, recording, dialect)
        request = _request_of(project, recording, found, shape, prepared)
        readings.append(read(recording, found, asked_of(found, request)))
        recordings.append(recording)
    failed = readings[0].structure.get("result") == "error"
    return Baseline(readings=readings, recordings=recordings, dialect=found, failed=failed)


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


def _shape(
    project: Project, baseline: str, candidate: str, shape: str, prepared: Prepared | None, attempts: int, held: Bodies
) -> ShapeResult:  # fmt: skip
    result = ShapeResult(shape=shape, outcome=Outcome.NOT_MEASURED)
    base = _baseline(project, baseline, shape, prepared)
    if isinstance(base, str):
        result.reason = base
        return result
    for number, (recording, reading) in enumerate(zip(base.recordings, base.readings, strict=True), 1):
        held.sides["baseline", number] = Side(recording=recording, structure=reading.structure)
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
        held.sides["candidate", 1] = Side(recording=found.recording, structure=found.reading.structure)
        result.takes = 1
        compared = compare(
            [reading.structure for reading in base.readings], found.reading.structure, shape=shape, take=1
        )
        if found.unmeasured or compared.not_measured:
            result.reason = found.unmeasured or compared.not_measured
            continue
        result.findings = with_breaks(compared.findings)
        result.shared, result.remarks = compared.shared, compared.remarks
        result.reason, result.outcome = "", Outcome.CONFORMS
        break
    return result


def _ask(clients: Clients, result: ShapeResult, held: Bodies) -> None:
    """What the declared clients make of the shape's streams, and of its findings."""
    result.findings, result.clients = clients.weigh(
        result.findings, held.sides["baseline", 1], held.sides["candidate", 1]
    )


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
    dialect = _dialect_of(paths[0], recording, base.dialect)
    request = _request_of(project, recording, dialect, shape)
    return reading_of(recording, dialect, shape, request, baseline_failed=base.failed)


def read_again(project: Project, baseline: str, shape: str, candidate: Sequence[Path]) -> dict[tuple[str, int], Side]:
    """The takes of a shape from disk: the baseline's fixtures, and the candidate's bodies. Raises UsageError."""
    found: dict[tuple[str, int], Side] = {}
    dialect = "chat"
    for side, paths in (("baseline", takes(project.fixtures, baseline, shape)), ("candidate", candidate)):
        for number, path in enumerate(paths, 1):
            recording = load(path).recording
            dialect = _dialect_of(path, recording, dialect)
            request = _request_of(project, recording, dialect, shape)
            reading = read(recording, dialect, asked_of(dialect, request))
            found[side, number] = Side(recording=recording, structure=reading.structure)
    return found


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
    """One line that says how the gate ended and where the bytes of the shapes that did not go well are."""
    report = gated.report
    ended: dict[str, list[str]] = {}  # shapes by what became of them: a server that is down is told of once
    for result in report.shapes:
        if result.outcome is Outcome.DIFFERS:
            codes = [finding.rule for shape, finding in failed_findings(gated, fail_on) if shape == result.shape]
            ended.setdefault(f"differs ({', '.join(codes)})", []).append(result.shape)
        elif result.outcome is Outcome.NOT_MEASURED:
            ended.setdefault(f"not measured ({result.reason})", []).append(result.shape)
    parts = [f"{', '.join(shapes)} {what}" for what, shapes in ended.items()]
    parts += [f"acceptance of {use.rule} is {use.state}" for use in report.acceptances if use.state != "used"]
    wrong = [result.shape for result in report.shapes if result.outcome in (Outcome.DIFFERS, Outcome.NOT_MEASURED)]
    paths = [path for shape in wrong if shape in gated.bodies for path in gated.bodies[shape].paths]
    kept = f"; bytes in {', '.join(map(str, paths))}" if paths else ""
    return f"{report.baseline} -> {report.candidate}: {'; '.join(parts) or report.outcome}{kept}"
