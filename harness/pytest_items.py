"""A gate as test items: what the pytest plugin loads once both its ends are given.

Under xdist every worker collects the same items and runs some of them; a result travels with its test report, and
acceptances and the gate's report are the controller's, which sees them all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.config import Project
from harness.cutover import Sides
from harness.errors import HarnessError, UsageError
from harness.findings import Outcome, Report, Severity, ShapeResult, fails
from harness.jsontext import to_json
from harness.pytest_streams import failed, not_measured, project_of
from harness.reports import check_suffix, write_report
from harness.reports.text import acceptance_line, closing_lines, one_line, opening_lines, shape_lines, terms
from harness.runs.gate import Gated, Planned, conclude, gate, plan
from harness.runs.sampling import read_again
from harness.runs.sending import Allowance
from harness.store import takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The gate's options."""

    baseline: str
    candidate: str
    shapes: Sequence[str]
    attempts: int
    recorded: bool
    allow_stale: bool
    fail_on: Severity
    skip_unmeasured: bool
    reports: Sequence[Path]


class Carried(msgspec.Struct, kw_only=True):
    """What an item's test report carries: the shape's result, and where the candidate's bytes lie."""

    result: ShapeResult
    paths: list[str]


def start_gate(config: pytest.Config) -> None:
    """Make the gate of the options part of this run. Raises pytest.UsageError for all that `harness gate` refuses."""
    option = config.option
    settings = Settings(
        baseline=option.harness_baseline, candidate=option.harness_candidate, shapes=option.harness_shape or (),
        attempts=option.harness_attempts, recorded=option.harness_recorded, allow_stale=option.harness_allow_stale,
        fail_on=Severity(option.harness_fail_on or Severity.NEGOTIABLE),
        skip_unmeasured=option.harness_unmeasured == "skip",
        reports=[config.invocation_params.dir / path for path in option.harness_report or ()],
    )  # fmt: skip
    try:
        for path in settings.reports:
            check_suffix(path)
        project = project_of(config)
        planned = plan(
            project, settings.baseline, settings.candidate, shapes=settings.shapes, recorded=settings.recorded,
            allow_stale=settings.allow_stale, environ=os.environ,
        )  # fmt: skip
    except UsageError as exc:
        raise pytest.UsageError(one_line(str(exc))) from exc
    config.pluginmanager.register(GateRun(config, project, settings, planned), "sse_harness_gate")


class GateRun:
    """One gate as part of a pytest run: its items, and on the controller its results and its report."""

    def __init__(self, config: pytest.Config, project: Project, settings: Settings, planned: Planned) -> None:
        self.project, self.settings, self.shapes = project, settings, planned.shapes
        self._clients = planned.clients  # started once, not anew for each item
        self._allowance = Allowance(planned.provider)  # of this process: under xdist each worker has its own
        self.name = f"{settings.baseline}->{settings.candidate}"
        self._config = config
        self._is_worker = hasattr(config, "workerinput")
        self._carried: dict[str, Carried] = {}
        self._report: Report | None = None
        self._problems: list[str] = []  # why there is no report, or why it was not written
        self._telling: pytest.TestReport | None = None  # the one that is being counted

    def gate(self, shape: str) -> Gated:
        """Run one shape."""
        settings = self.settings
        return gate(
            self.project, settings.baseline, settings.candidate, shapes=[shape], attempts=settings.attempts,
            recorded=settings.recorded, allow_stale=settings.allow_stale, fail_on=settings.fail_on, environ=os.environ,
            clients=self._clients, allowance=self._allowance,
        )  # fmt: skip

    def pytest_report_header(self) -> str:
        """What is gated."""
        return f"harness: {self.settings.baseline} -> {self.settings.candidate}: {', '.join(self.shapes)}"

    @pytest.hookimpl(tryfirst=True)  # before -k and -m select
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add an item for each shape, whatever else was collected."""
        top = _Folder.from_parent(session, name="harness", nodeid="harness", inner=self.name, run=self)
        items.extend(session.genitems(top))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the result travel with the test report: as an attribute, which JUnit files do not show."""
        report = yield
        if isinstance(item, ShapeItem) and item.carried is not None and report.when == "call":
            report.sse_harness = [item.name, to_json(item.carried)]  # type: ignore[attr-defined]  # reports carry more
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a result; of several runs of a shape, the last."""
        shape, text = getattr(report, "sse_harness", (None, ""))
        if shape is not None:
            self._carried[shape] = msgspec.convert(json.loads(text), Carried)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """After the last item (also with -x), make the report and judge the acceptances, as a test like any other."""
        try:
            return (yield)
        finally:
            if self._carried and not self._is_worker:
                self._conclude()

    def _conclude(self) -> None:
        try:
            self._make_report()
        except HarnessError as exc:
            self._problems.append(one_line(str(exc)))
        self._tell_acceptances()

    def _make_report(self) -> None:
        settings = self.settings
        results = [self._carried[shape].result for shape in self.shapes if shape in self._carried]
        sides: dict[str, Sides] = {}
        try:
            sides = {result.shape: self._sides(result.shape) for result in results}
        except UsageError as exc:  # the verdict stands without them
            self._problems.append(one_line(str(exc)))
        report = self._report = conclude(
            self.project, settings.baseline, settings.candidate, results, sides, fail_on=settings.fail_on
        )  # fmt: skip
        if all(result.outcome is Outcome.SKIPPED for result in results) and not settings.skip_unmeasured:
            self._problems.append("not measured: every shape is skipped, so nothing says that the candidate conforms")
        for path in settings.reports:
            write_report(path, report, sides)

    def _sides(self, shape: str) -> Sides:
        """The takes of both sides, read again: the item that had them may have run in another process."""
        settings = self.settings
        theirs = [Path(path) for path in self._carried[shape].paths[-1:]]
        if settings.recorded:
            theirs = takes(self.project.fixtures, settings.candidate, shape)[:1]
        return read_again(self.project, settings.baseline, shape, theirs)

    def _tell_acceptances(self) -> None:
        uses = self._report.acceptances if self._report is not None else []
        problems = [acceptance_line(use) for use in uses if use.state != "used"] + [*self._problems]
        if not (uses or problems):
            return
        call = pytest.CallInfo.from_call(lambda: failed("\n".join(problems)) if problems else None, "call")
        report = pytest.TestReport(
            nodeid=f"harness::{self.name}::acceptances", location=("harness", None, f"{self.name}::acceptances"),
            keywords={"acceptances": 1}, outcome="failed" if problems else "passed", when="call",
            longrepr=call.excinfo.getrepr(style="value") if call.excinfo is not None else None,
            duration=call.duration, start=call.start, stop=call.stop,
        )  # fmt: skip
        self._telling = report
        self._config.hook.pytest_runtest_logreport(report=report)
        self._telling = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Count the acceptances, but put no letter behind a line of progress that has ended."""
        return (report.outcome, "", "") if report is self._telling else None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The gate's report: outcome, what was accepted (fatal first), acceptances that fail, what was not covered."""
        if self._report is None:
            return
        terminalreporter.section(f"harness gate: {self.settings.baseline} -> {self.settings.candidate}")
        lines = [*opening_lines(self._report)]
        for result in self._report.shapes:
            lines += [
                f"  accepted {finding.severity} {finding.rule} in {result.shape}{one_line(terms(finding.accepted))}: "
                f"{one_line(finding.accepted.reason)}"
                for finding in result.findings
                if finding.accepted is not None and finding.severity is not Severity.FATAL
            ]
        for line in [*lines, *closing_lines(self._report)]:
            terminalreporter.line(line)


class _Folder(pytest.Collector):
    """`harness`, and under it the pair: nodes that only give items their ids."""

    def __init__(self, *, inner: str, run: GateRun, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._inner, self._run = inner, run

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """The pair, or the pair's shapes in the gate's order."""
        if self._inner:
            return [_Folder.from_parent(self, name=self._inner, inner="", run=self._run)]
        return [ShapeItem.from_parent(self, name=shape, run=self._run) for shape in self._run.shapes]


class ShapeItem(pytest.Item):
    """One shape of a gate."""

    def __init__(self, *, run: GateRun, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._run = run
        self.carried: Carried | None = None
        self.add_marker(pytest.mark.sse(provider=run.settings.candidate, shape=self.name))

    def runtest(self) -> None:
        """Gate the shape. Fails with its findings; a skipped shape is a skip, one not measured fails or skips."""
        settings = self._run.settings
        try:
            gated = self._run.gate(self.name)
        except UsageError as exc:  # a file changed since the run began
            failed(str(exc))
        result, held = gated.report.shapes[0], gated.bodies[self.name]
        self.carried = Carried(result=result, paths=[str(path) for path in held.paths])
        if result.outcome is Outcome.SKIPPED:
            pytest.skip(one_line(f"{self.name}: {result.reason}"))
        if result.outcome is Outcome.NOT_MEASURED:
            not_measured(f"{self.name}: {result.reason}", skip=settings.skip_unmeasured)
        findings = [*islice(shape_lines(result, held.by_side), 1, None)]
        if result.outcome is Outcome.DIFFERS:
            rules = ", ".join(finding.rule for finding in result.findings if fails(finding, settings.fail_on))
            places = [f"  the candidate's bytes are in {one_line(str(path))}" for path in held.paths[-1:]]
            failed("\n".join([f"{self.name} differs: {rules}", *findings, *places]))
        if findings:
            self.add_report_section("call", "findings", "\n".join(findings))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Not of any file: `harness` as in the node id."""
        return self.config.rootpath / "harness", None, f"{self._run.name}::{self.name}"
