"""The plugin's pytest fixtures: what it loads once a test asks for one."""

from __future__ import annotations

import os
import pickle
import time
import warnings
from pathlib import Path
from typing import Any, NoReturn

import pytest

from harness.bodies import request_for
from harness.config import Project, is_loopback, load_project
from harness.errors import ConfigError, NotMeasured, UsageError
from harness.faults import apply, parse_fault
from harness.replay import Replay
from harness.reports.text import clean, one_line
from harness.runs.files import Shown, open_file
from harness.runs.sampling import keep_at
from harness.runs.sending import Allowance
from harness.runs.taking import take
from harness.settings import suggestion
from harness.steps import heard, plan
from harness.store import folder_of, providers_of, takes
from harness.structure import read
from harness.testing import Quirk, Stream, quirk

PROJECT = pytest.StashKey[Project]()
ALLOWANCES = pytest.StashKey[dict[str, Allowance]]()  # by provider: caps hold for the whole run
MARKER = ("provider", "shape", "dialect", "fault")


def project_of(config: pytest.Config) -> Project:
    """The project of --harness-config, of the folder pytest was started in, or of its rootdir. Raises UsageError."""
    if PROJECT not in config.stash:
        given, here = config.option.harness_config, config.invocation_params.dir
        project = load_project(Path(given) if given else None, here)
        if project.config is None:
            project = load_project(None, config.rootpath)
        config.stash[PROJECT] = project
    return config.stash[PROJECT]


def failed(text: str) -> NoReturn:
    """Fail the test with the text alone: no traceback, and nothing that a terminal would obey."""
    raise pytest.fail.Exception(clean(text), pytrace=False) from None


def not_measured(reason: str, *, skip: bool) -> NoReturn:
    """Fail the test as not measured, or skip it."""
    text = one_line(f"not measured: {reason}")
    if skip:
        pytest.skip(text)
    failed(text)


def recorded_stream(request: pytest.FixtureRequest) -> Stream:
    """The fixture that the marker names. Fails, in one line, if there is none."""
    config = request.config
    name, shape = _marked(request, config.option.harness_baseline)
    try:
        project = project_of(config)
        faults = [parse_fault(fault) for fault in _faults(request)]
        provider = project.providers.get(name)
        dialect = provider.dialect if provider is not None else None
        known = config.stash.setdefault(RECORDED, Known())
        first, *others = [known.opened(path, dialect) for path in _takes(project, name, shape, known)]
    except UsageError as exc:
        failed(str(exc))
    recording, reading = first.loaded.recording, first.reading
    if faults:
        recording, others = heard(apply(faults, plan(recording)), recording), []
        reading = read(recording, first.dialect, reading.structure.asked)
    return Stream(
        name=f"{name}/{shape}", recording=recording, dialect=first.dialect, reading=reading,
        more=tuple(other.reading.structure for other in others),
    )  # fmt: skip


class Known:
    """Fixtures that were read in this run. Each is made anew for whoever asks, so that no test sees what another did.

    What is known of a file or folder counts as long as its size and times are the same, and only if it was not written
    to just before: then a second change need not show in them.
    """

    def __init__(self) -> None:
        self.files: dict[tuple[Path, str | None], tuple[Stamp, bytes]] = {}
        self.folders: dict[tuple[Path, str], tuple[Stamp, list[Path]]] = {}

    def opened(self, path: Path, dialect: str | None) -> Shown:
        """The file, read in its own dialect, else in the one given, else in the one it tells. Raises UsageError."""
        beside = str(path.with_suffix(".json"))
        stamp = _stamp(str(path), beside, beside + ".next")
        known = self.files.get((path, dialect))
        if known is not None and known[0] == stamp:
            shown: Shown = pickle.loads(known[1])
        else:
            shown = open_file(path, otherwise=dialect)
            if _settled(stamp) and len(shown.loaded.recording.body) <= LARGEST and len(self.files) < MOST:
                self.files[path, dialect] = stamp, pickle.dumps(shown, pickle.HIGHEST_PROTOCOL)
        if shown.loaded.warning:
            warnings.warn(pytest.PytestWarning(one_line(shown.loaded.warning)), stacklevel=2)
        return shown

    def takes(self, root: Path, name: str, shape: str) -> list[Path]:
        """Where the takes of a shape lie. Raises UsageError."""
        folder = folder_of(root, name)
        stamp = _stamp(str(folder))
        known = self.folders.get((folder, shape))
        if known is not None and known[0] == stamp:
            return known[1]
        paths = takes(root, name, shape)
        if _settled(stamp):
            self.folders[folder, shape] = stamp, paths
        return paths


RECORDED = pytest.StashKey[Known]()
LARGEST = 1024**2  # bytes of a body that is kept
MOST = 256  # files that are kept
Stamp = tuple[tuple[int, ...] | None, ...]  # of each path: where it lies, its size and times; None if there is none


def _stamp(*paths: str) -> Stamp:
    found: list[tuple[int, ...] | None] = []
    for path in paths:
        try:
            stat = os.stat(path)
        except (OSError, ValueError):
            found.append(None)
        else:
            found.append((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
    return tuple(found)


def _settled(stamp: Stamp) -> bool:
    """Whether nothing was written in the last second: times of files are coarse."""
    latest = max((one[-1] for one in stamp if one is not None), default=0)
    return time.time_ns() - latest > 1_000_000_000


def _takes(project: Project, name: str, shape: str, known: Known) -> list[Path]:
    """Where the takes lie: one at least, or the test fails. Raises UsageError."""
    paths = known.takes(project.fixtures, name, shape)
    if not paths:
        remedy = f"`harness record {name} --shape {shape}` makes it"
        names = {*project.providers, *providers_of(project.fixtures)}
        if name not in names and (near := suggestion(name, names)):
            failed(f"{project.fixtures / name}: no fixtures of {name}{near}")
        failed(f"{project.fixtures / name}: no fixture of {shape}; {remedy}")
    return paths


def replay_server(request: pytest.FixtureRequest) -> Replay:
    """A server of the fixture that the marker names; of all the provider's if it names no shape."""
    name, shape = _marked(request, request.config.option.harness_baseline, all_shapes=True)
    try:
        project = project_of(request.config)
        source = _takes(project, name, shape, Known())[0] if shape else folder_of(project.fixtures, name)
        return Replay(source, faults=_faults(request))
    except UsageError as exc:
        failed(str(exc))


def broken_quirk(request: pytest.FixtureRequest) -> Quirk:
    """The quirk of this run, with the marker's faults."""
    found, faults = quirk(request.param), _faults(request)
    try:
        return found.with_faults(*faults) if faults else found
    except UsageError as exc:
        failed(f"{request.node.nodeid}: {exc}")


def _faults(request: pytest.FixtureRequest) -> list[str]:
    """The faults of the nearest marker that has any."""
    given = next((m.kwargs["fault"] for m in request.node.iter_markers("sse") if "fault" in m.kwargs), ())
    return [given] if isinstance(given, str) else list(given)


def live_stream(request: pytest.FixtureRequest) -> Stream:
    """One request to the provider that the marker names. Not measured without its key, or if nothing usable comes."""
    option = request.config.option
    name, shape = _marked(request, option.harness_candidate)
    try:
        project = project_of(request.config)
        return _record(
            project, name, shape, option.harness_attempts, option.harness_live,
            request.config.stash.setdefault(ALLOWANCES, {}),
        )  # fmt: skip
    except NotMeasured as exc:
        not_measured(f"{name}/{shape}: {exc}", skip=option.harness_unmeasured == "skip")
    except UsageError as exc:
        failed(str(exc))


def _record(
    project: Project, name: str, shape: str, attempts: int, anywhere: bool, allowances: dict[str, Allowance]
) -> Stream:  # fmt: skip
    provider = project.provider(name)
    if (reason := provider.shape(shape).skip) is not None:
        pytest.skip(one_line(f"{name}/{shape}: {reason}"))
    try:
        resolved = provider.resolve(os.environ)
    except ConfigError as exc:  # what the environment lacks is no fault of the test
        raise NotMeasured(str(exc)) from exc
    if not anywhere and not is_loopback(resolved.base_url):
        raise NotMeasured("the endpoint is not on this machine; --harness-live lets tests call it")
    prepared = request_for(project, provider, resolved, shape)
    problem = NotMeasured("")
    for _ in range(attempts):
        try:
            # In the shape `error` an answer is what the comparison must see: it is a finding, if the fixture failed.
            found = take(
                project, prepared, shape, baseline_failed=shape == "error",
                decide=lambda it: keep_at(project, name, shape, it),
                allowance=allowances.setdefault(name, Allowance(provider)),
            )  # fmt: skip
        except NotMeasured as exc:
            problem = exc
            continue
        if not found.unmeasured:
            return Stream(name=f"{name}/{shape}", recording=found.recording, dialect=provider.dialect,
                          reading=found.reading, live=True)  # fmt: skip
        problem = NotMeasured(found.unmeasured)
    raise problem


def _marked(
    request: pytest.FixtureRequest, provider: str | None, *, all_shapes: bool = False
) -> tuple[str, str]:  # fmt: skip
    """Provider and shape of the marker, the nearest first; `provider` stands in where none is named.

    With `all_shapes` the shape may be missing, and is "" then.
    """
    found: dict[str, Any] = {}
    where = request.node.nodeid
    for marker in request.node.iter_markers("sse"):
        for key in marker.kwargs:
            if key not in MARKER:
                near = suggestion(key, MARKER) or ";"
                failed(f"{where}: marker sse: unknown {key!r}{near} allowed: {', '.join(MARKER)}")
        if marker.args:
            failed(f"{where}: marker sse: name its values: sse(provider=..., shape=...)")
        found = {**marker.kwargs, **found}
    found.setdefault("provider", provider)
    if all_shapes:
        found.setdefault("shape", "")
    for key in ("provider", "shape"):
        if not isinstance(found.get(key), str):
            instead = " (or run with --harness-baseline and --harness-candidate)" if key == "provider" else ""
            failed(f"{where}: {request.fixturename} needs @pytest.mark.sse(provider=..., shape=...): "
                   f"{key} is missing{instead}")  # fmt: skip
    return found["provider"], found["shape"]
