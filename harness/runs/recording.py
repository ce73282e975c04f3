"""`harness record`: an endpoint's shapes as fixtures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as replaced
from functools import partial
from pathlib import Path

import msgspec

from harness.bodies import Prepared, request_for, shapes_offered
from harness.config import Project, Provider
from harness.errors import NotMeasured, UsageError
from harness.runs.sending import Allowance, in_order
from harness.runs.taking import Say, Take, take
from harness.shapes import CANONICAL
from harness.store import load, take_path
from harness.structure import read, signature


class Recorded(msgspec.Struct, kw_only=True):
    """What became of one take: good, or why not; and where its bytes lie (null if there are none)."""

    provider: str
    shape: str
    take: int
    good: bool
    reason: str = ""
    path: str | None = None


def record_provider(
    project: Project, name: str, *, shapes: Sequence[str] = (), takes: int = 1, replace: bool = False,
    environ: Mapping[str, str], say: Say, read_rate: int | None = None,
) -> list[Recorded]:  # fmt: skip
    """Record the shapes (the canonical four by default) of a provider, as many at a time as its entry says.

    With a `read_rate`, bytes a second, the answers are read slowly. A bad take never replaces a fixture, nor does one
    whose structure differs, unless `replace` says so. Raises UsageError and ConfigError before anything is sent.
    """
    provider = project.provider(name)
    wanted = list(shapes) or canonical(project, provider)
    resolved = provider.resolve(environ)
    prepared = {
        shape: _slowed(request_for(project, provider, resolved, shape), read_rate) for shape in wanted
    }  # fmt: skip
    allowance = Allowance(provider)

    def record_shape(shape: str) -> list[Recorded]:
        return [
            _record(project, prepared[shape], allowance, number, replace=replace, say=say, of=takes)
            for number in range(1, takes + 1)
        ]

    alone = [number for number, request in enumerate(prepared.values()) if request.concurrent > 1]
    jobs = [partial(record_shape, shape) for shape in prepared]
    return [result for results in in_order(jobs, provider.parallel, allowance, alone) for result in results]


def _slowed(prepared: Prepared, rate: int | None) -> Prepared:
    return replaced(prepared, endpoint=msgspec.structs.replace(prepared.endpoint, read_rate=rate))


def _record(
    project: Project, request: Prepared, allowance: Allowance, number: int, *, replace: bool, say: Say, of: int
) -> Recorded:  # fmt: skip
    """One take of a shape."""
    name, shape = request.endpoint.provider, request.endpoint.shape or ""
    say(f"{name}/{shape}: take {number} of {of} ...")
    target = take_path(project.fixtures, name, shape, number)
    result = Recorded(provider=name, shape=shape, take=number, good=False)

    def decide(found: Take) -> Path | None:
        result.reason = _not_good(found) or ("" if replace else _differs(found, target))
        return None if result.reason else target

    try:
        found = take(project, request, shape, decide=decide, allowance=allowance)
    except NotMeasured as exc:
        result.reason = str(exc)
    else:
        result.path, result.good = str(found.path), not result.reason
    return result


def canonical(project: Project, provider: Provider) -> list[str]:
    """The canonical shapes that the dialect has a request of and the provider does not skip. Raises UsageError."""
    offered = shapes_offered(project, provider.dialect)
    wanted = [shape for shape in CANONICAL if shape in offered and provider.shape(shape).skip is None]
    if not wanted:
        raise UsageError(f"{provider.name}: no canonical shape to record: all are skipped, or none has a request file")
    return wanted


def _slowly(found: Take) -> str:
    """That it was read slowly, if it was: then that may be why it ended."""
    origin = found.recording.provenance.origin if found.recording.provenance is not None else None
    return f" ({origin})" if origin else ""


def _not_good(found: Take) -> str:
    """Why a take cannot be a fixture, "" if it can: not ended by itself, or its shape was not exercised."""
    if found.recording.end != "eof":
        return f"the stream ended as {found.recording.end}{_slowly(found)}"
    if found.unmeasured:
        return found.unmeasured
    failed = found.result == "error"
    if found.reading.structure.get("end.state") == "eof" and failed:
        if found.recording.shape == "error":
            return ""
        message = found.reading.message.error
        detail = f": {message.message}" if message is not None else ""
        return f"the endpoint answered with an error (HTTP {found.recording.status}){detail}"
    return "" if found.result == "ok" else f"the stream is no answer ({found.result})"


def _differs(found: Take, target: Path) -> str:
    """Why the take may not replace the fixture that is there, "" if it may."""
    if not target.exists():
        return ""
    old = load(target).recording
    dialect = found.reading.structure.dialect
    if old.dialect not in (None, dialect):
        return f"its dialect differs from the fixture ({old.dialect}, now {dialect}); --replace takes it"
    before = signature(read(old, dialect, found.reading.structure.asked).structure)
    after = signature(found.reading.structure)
    changed = [line for line in after if line.startswith("wire.") and line not in before]
    lost = [line for line in before if line.startswith("wire.") and line not in after]
    if not changed and not lost:
        return ""
    shown = "; ".join([*(f"-{line}" for line in lost), *(f"+{line}" for line in changed)][:3])
    return f"its structure differs from the fixture ({shown}); --replace takes it"
