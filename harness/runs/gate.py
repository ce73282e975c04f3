"""`harness gate`: can the candidate take over from the baseline? One result a shape, one report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from harness.bodies import Prepared, request_file, request_for, shapes_offered
from harness.catalogue import CATALOGUE
from harness.catalogue_run import PARITY
from harness.config import Project, Provider, Resolved
from harness.cutover import Sides, cutover
from harness.detect import is_blank
from harness.errors import UsageError
from harness.findings import Finding, Outcome, Report, Severity, ShapeResult, outcome_of
from harness.policy import accept, against, judge, refused
from harness.runs.sampling import Asking, Bodies, Sampled, empty_baseline, result_of, sample_shape
from harness.runs.sending import Allowance, in_order
from harness.runs.taking import Say
from harness.settings import suggestion
from harness.shapes import CANONICAL, SHAPES
from harness.store import load, providers_of, shapes_of, takes
from harness.timing import Thresholds

if TYPE_CHECKING:
    from harness.runs.declared import Clients


class Gated(msgspec.Struct, kw_only=True):
    """A report, and the bytes behind it by shape."""

    report: Report
    bodies: dict[str, Bodies]


class Planned(msgspec.Struct, kw_only=True):
    """The shapes of a gate in their order, and the requests to send: none for a shape that is skipped or recorded.

    `skipped` says why, by shape. `clients` are those that the candidate's entry declares.
    """

    shapes: list[str]
    provider: Provider | None
    requests: dict[str, Prepared]
    skipped: dict[str, str]
    clients: Clients | None


def gate(
    project: Project, baseline: str, candidate: str, *, shapes: Sequence[str] = (), attempts: int = 1,
    recorded: bool = False, allow_stale: bool = False, fail_on: Severity = Severity.NEGOTIABLE,
    environ: Mapping[str, str], say: Say = lambda text: None, today: date | None = None,
    clients: Clients | None = None, samples: int = 1, parity: bool = False, allowance: Allowance | None = None,
) -> Gated:  # fmt: skip
    """Compare the candidate's streams with the baseline's fixtures, shape by shape.

    Each shape is asked `samples` times (1 or more), each of them up to `attempts` times until it is measured, as many
    shapes at once as the candidate's entry says; with `parity` once more without streaming. `recorded` reads the
    candidate from fixtures/ too: nothing is sent, and samples are its takes.

    `environ` holds the keys, as `os.environ` does; `say` is told how far it is. The report is `.report` of the result.
    `clients` are those of an earlier `plan`, which need not be started again; `allowance` is that of an earlier gate of
    this run. Raises UsageError and ConfigError before anything is sent: no fixtures, a changed request file, an unknown
    provider, an unset variable, a client that cannot run.
    """
    if recorded and parity:
        raise UsageError("--parity asks the candidate again, and --recorded sends nothing; leave one out")
    day = today or datetime.now(UTC).date()
    planned = plan(
        project, baseline, candidate, shapes=shapes, recorded=recorded, allow_stale=allow_stale, environ=environ,
        clients=clients,
    )  # fmt: skip
    provider = planned.provider
    asking = Asking(
        project=project, baseline=baseline, candidate=candidate, provider=provider, samples=samples, attempts=attempts,
        parity=parity, allowance=allowance or Allowance(provider),
    )  # fmt: skip

    def ask(shape: str) -> Sampled | None:
        if shape in planned.skipped:
            return None
        say(f"{candidate}/{shape} ...")
        return sample_shape(asking, shape, planned.requests.get(shape))

    entries = against(provider.accept if provider is not None else (), baseline)
    requests = [planned.requests.get(shape) for shape in planned.shapes]
    alone = [number for number, request in enumerate(requests) if request is not None and request.concurrent > 1]
    parallel = provider.parallel if provider is not None and not recorded else 1
    jobs = [partial(ask, shape) for shape in planned.shapes]
    results, bodies = [], {}
    for shape, sampled in zip(planned.shapes, in_order(jobs, parallel, asking.allowance, alone), strict=True):
        bodies[shape] = sampled.held if sampled is not None else Bodies()
        if sampled is None:
            results.append(ShapeResult(shape=shape, outcome=Outcome.SKIPPED, reason=planned.skipped[shape]))
            continue
        result = result_of(sampled, planned.clients)
        result.findings = accept(result.findings, shape, entries, day)
        result.remarks = [*result.remarks, *refused(result.findings, shape, entries, day)]
        judged = outcome_of(result.findings, fail_on)
        if result.outcome is Outcome.CONFORMS or judged is Outcome.DIFFERS:
            result.outcome = judged
        results.append(result)
    sides = {shape: held.sides for shape, held in bodies.items()}
    report = conclude(project, baseline, candidate, results, sides, today=day, parity=parity, fail_on=fail_on)
    return Gated(report=report, bodies=bodies)


def plan(
    project: Project, baseline: str, candidate: str, *, shapes: Sequence[str] = (), recorded: bool = False,
    allow_stale: bool = False, environ: Mapping[str, str], clients: Clients | None = None,
    resolve: Callable[[Provider], Resolved] | None = None,
) -> Planned:  # fmt: skip
    """What a gate is going to do; nothing is sent. `resolve` fills the environment in, if not `environ` alone does.

    Raises UsageError and ConfigError as `gate` says.
    """
    wanted = _wanted(project, baseline, shapes)
    provider = project.providers.get(candidate) if recorded else project.provider(candidate)
    skipped = {shape: why for shape in wanted if (why := _skipped(project, provider, shape)) is not None}
    asked = [shape for shape in wanted if shape not in skipped]
    requests = {}
    if not recorded and provider is not None:
        resolved = resolve(provider) if resolve is not None else provider.resolve(environ)
        requests = {shape: request_for(project, provider, resolved, shape) for shape in asked}
    if recorded:
        _check_recorded(project, baseline, candidate, wanted)
    for shape in asked:
        _check_baseline(project, baseline, shape, allow_stale=allow_stale)
    if provider is not None:
        _check_acceptances(provider)
    if clients is None and provider is not None and provider.clients:
        from harness.runs.declared import declared  # models and targets: for whoever declares clients

        clients = declared(provider)
    return Planned(shapes=wanted, provider=provider, requests=requests, skipped=skipped, clients=clients)


def conclude(
    project: Project, baseline: str, candidate: str, results: Sequence[ShapeResult], sides: Mapping[str, Sides], *,
    today: date | None = None, parity: bool = False, fail_on: Severity = Severity.NEGOTIABLE,
) -> Report:  # fmt: skip
    """The report that the shapes' results add up to. An acceptance about what was not looked at is not stale.

    `sides` are the takes by shape, from whose facts the cutover is told; `parity`: the shapes were asked for once more
    without streaming.
    """
    provider = project.providers.get(candidate)
    entries = against(provider.accept if provider is not None else (), baseline)
    run = {result.shape for result in results}
    unrun = [shape for shape in _wanted(project, baseline, ()) if shape not in run]
    unjudged = _unjudged(provider, sides, parity)
    outcome, uses = judge(results, entries, today or datetime.now(UTC).date(), unrun, unjudged)
    return Report(
        baseline=baseline, candidate=candidate, outcome=outcome, shapes=list(results), acceptances=uses,
        not_covered=[*_damaged(sides), *_not_covered(project, baseline, results)], cutover=cutover(results, sides),
        fail_on=fail_on,
    )  # fmt: skip


def _unjudged(provider: Provider | None, sides: Mapping[str, Sides], parity: bool) -> set[str]:
    """Rules that need more than a stream, and were not judged: a second answer, limits, the times of all that came."""
    out = set() if parity else {rule.code for rule in PARITY}
    limits = provider.thresholds if provider is not None else Thresholds()
    theirs = [side for taken in sides.values() for (of, _), side in taken.items() if of == "candidate"]
    timed = all(side.recording.reads for side in theirs)
    for name in Thresholds.__struct_fields__:
        if getattr(limits, name) is None or not timed:
            out.add(f"timing.{name.replace('_', '-')}")
    return out if timed else out | {"timing.one-burst"}


def _check_acceptances(provider: Provider) -> None:
    """Raise ConfigError if an acceptance names no rule there is: it would tolerate nothing, and never be noticed."""
    for number, entry in enumerate(provider.accept):
        if not any(fnmatchcase(code, entry.rule) for code in CATALOGUE):
            near = suggestion(entry.rule, CATALOGUE) or ";"
            raise provider.error(f"accept[{number}].rule", f"no rule {entry.rule!r}{near} `harness rules` lists them")


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
        if not there and project.config is None:
            remedy = "record it, or `harness init`"
        else:
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
        for path in takes(project.fixtures, candidate, shape):
            recording = load(path).recording
            if recording.status is None and is_blank(recording.body):  # with a status it is what was answered
                raise UsageError(f"{path}: is empty; record it again")


def _check_baseline(project: Project, baseline: str, shape: str, *, allow_stale: bool) -> None:
    """Raise UsageError if a take is empty, or the shape's request file changed since then. No hash, no check."""
    paths = takes(project.fixtures, baseline, shape)
    several = f" --takes {len(paths)}" if len(paths) > 1 else ""
    again = f"`harness record {baseline} --shape {shape}{several} --replace`"
    for path in paths:
        loaded = load(path)
        recording = loaded.recording
        if (problem := empty_baseline(loaded)) is not None:
            raise UsageError(f"{problem} with {again}")
        digest = recording.request.shape_sha256 if recording.request is not None else None
        if allow_stale or digest is None or recording.dialect is None:
            continue
        file = request_file(project, recording.dialect, shape)
        if file.sha256 != digest:
            raise UsageError(
                f"{file.path}: changed since {path} was recorded; re-record with {again}, or `--allow-stale`"
            )


def damages(sides: Mapping[str, Sides]) -> list[str]:
    """What is wrong with fixtures that were used all the same, each in a line that names the file; `sides` by shape."""
    return list(dict.fromkeys(text for _, text in _damages(sides)))


def _damages(sides: Mapping[str, Sides]) -> Iterator[tuple[str, str]]:
    for taken in sides.values():
        for (of, _), side in taken.items():
            if side.warning is not None:
                yield of, side.warning


def _damaged(sides: Mapping[str, Sides]) -> Iterator[str]:
    return (f"the {of} as it was recorded: {text}" for of, text in dict.fromkeys(_damages(sides)))


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
    once = sorted(result.shape for result in results if result.takes == 1)
    if once:
        out.append(f"how much the candidate varies: one sample only of {', '.join(once)}")
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


def _verb(what: str, shapes: Sequence[str]) -> str:
    return f"differs{what.removeprefix('differ')}" if len(shapes) == 1 and what.startswith("differ ") else what


def summary(gated: Gated, fail_on: Severity) -> str:
    """One line that says how the gate ended and where the bytes of the shapes that did not go well are."""
    report = gated.report
    ended: dict[str, list[str]] = {}  # shapes by what became of them: a server that is down is told of once
    for result in report.shapes:
        if result.outcome is Outcome.DIFFERS:
            codes = [finding.rule for shape, finding in failed_findings(gated, fail_on) if shape == result.shape]
            ended.setdefault(f"differ ({', '.join(codes)})", []).append(result.shape)
        elif result.outcome is Outcome.NOT_MEASURED:
            ended.setdefault(f"not measured ({result.reason})", []).append(result.shape)
    parts = [f"{', '.join(shapes)} {_verb(what, shapes)}" for what, shapes in ended.items()]
    for use in report.acceptances:
        if use.state != "used":
            owner = f" (owner {use.owner})" if use.owner else ""
            parts.append(f"acceptance of {use.rule} is {use.state}{owner}")
    parts = list(dict.fromkeys(parts))  # several entries of one rule are one thing to know
    wrong = [result.shape for result in report.shapes if result.outcome in (Outcome.DIFFERS, Outcome.NOT_MEASURED)]
    paths = [path for shape in wrong if shape in gated.bodies for path in gated.bodies[shape].paths]
    kept = f"; bytes in {', '.join(map(str, paths))}" if paths else ""
    return f"{report.baseline} -> {report.candidate}: {'; '.join(parts) or report.outcome}{kept}"
