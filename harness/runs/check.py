"""Check a target: every case through it, cut in every way it can see; a failure shrunk to the smallest cut."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec

from harness.answers import FEATURES, CaseOutcome, Verdict, judge, members
from harness.cases import QUIRKS, Case, NoCases, fixture_cases, quirk_cases, with_faults
from harness.claims import Claims, KnownFailure, claims_from_options, load_claims
from harness.commands import CommandTarget, Mode
from harness.cuts import FAMILIES, offsets, shrink, written
from harness.errors import UsageError
from harness.faults import parse_fault
from harness.findings import Outcome
from harness.runs.check_report import (
    HUNG_WHEN_CUT,
    CaseResult,
    CheckReport,
    Failed,
    KnownUse,
    Likely,
    not_observed,
    summary_of,
)
from harness.runs.named import named_target
from harness.settings import suggestion
from harness.targets import RUN_SECONDS, Target, Trial, load_callable

SHRINK_RUNS = 60  # runs spent on making one failure smaller
MOST_SHRUNK = 3  # failures of one case with one outcome that are told apart
AT_ONCE = 3  # streams on which a command breaks alike before it is taken to break on any
LONGEST_CUT = 200  # characters of a cut in a command line; a longer one is named by its family
DEFAULT_DIALECTS = ("chat",)


def target_of(
    place: str | None = None,
    command: Sequence[str] = (),
    *,
    mode: Mode = "stdin",
    payloads: bool = False,
    claims: Path | None = None,
    dialects: Sequence[str] = (),
    features: Sequence[str] = (),
    timeout: float = RUN_SECONDS,
) -> Target:
    """The target a command line names: `package.module:callable`, `sdk:NAME`, `client:NAME`, or a command.

    `claims` is a file of claims.
    Raises UsageError: both or none named, options that do not go together, a target that cannot be loaded.
    """
    if (place is None) == (not command):
        raise UsageError("name one target: package.module:callable, or a command after --")
    claimed = claims_from_options(dialects, features)
    if claims is not None:
        claimed = claimed.over(load_claims(claims))
    if place is None:
        if payloads:
            raise UsageError("--payloads is for a Python callable; a command is given bytes: leave it out")
        return CommandTarget(command, mode, claims=claimed, timeout=timeout)
    if mode != "stdin":
        raise UsageError(f"--{mode} is for a command after --; a Python callable is given the pieces: leave it out")
    named = named_target(place, claims=claimed, timeout=timeout)
    if named is None:
        return load_callable(place, payloads=payloads or None, claims=claimed, timeout=timeout)
    if payloads:
        raise UsageError(f"--payloads is for a Python callable; {place} is given the stream: leave it out")
    return named


def check(
    target: Target,
    *,
    fixtures: Path | None = None,
    dialects: Mapping[str, str] = MappingProxyType({}),
    quirks: bool = True,
    cases: Sequence[str] = (),
    cuts: Sequence[str] = FAMILIES,
    faults: Sequence[str] = (),
    jobs: int = 1,
    progress: Callable[[CaseResult], None] | None = None,
    folder: Path = QUIRKS,
    options: Sequence[str] = (),
) -> CheckReport:
    """Run the target on every quirk in `folder` and every fixture under `fixtures` whose message is expected.

    `dialects`: of providers by name, for fixtures without a sidecar.
    `cases`: names or patterns (`02*`, `openai/*`) of those to run, all if none. `cuts`: families, as in cuts.py.
    `faults` break every stream, and then our own reader says what it is to be read as. As many as `jobs` cases run at
    once if the target can. `progress` is told each result, in order. `options` are those of the command line that its
    reproductions need too. Raises UsageError: a case, family, fault or claim that does not exist, cuts that the target
    cannot see.
    """
    found, others = ([], NoCases()) if fixtures is None else fixture_cases(fixtures, dialects)
    found = [*(quirk_cases(folder) if quirks else ()), *found]
    for known in target.claims.known_failures:
        if (fixtures is not None) if "/" in known.case else quirks:
            _matching(found, known.case, "known_failures: ")
    if cases:
        wanted = {case.name for pattern in cases for case in _matching(found, pattern)}
        found = [case for case in found if case.name in wanted]
    if faults:
        parsed = [parse_fault(fault) for fault in faults]
        found = [with_faults(case, parsed) for case in found]
        options = [*options, *(part for fault in faults for part in ("--fault", fault))]
    for family in cuts:
        if not family.startswith("at:"):
            offsets(b"", family)  # says so now if there is no such family
    if not target.sees_cuts and list(cuts) not in (list(FAMILIES), ["whole"]):
        raise UsageError(f"{target.name} is given each stream in one piece: leave --cut out, or see docs/targets.md")
    families = list(cuts) if target.sees_cuts else ["whole"]
    _fails_at_once(target, found)
    checker = _Checker(target, families, options)
    if target.claims.features is None and (shown := shown_features(target, found)) is not None:
        target.claims = msgspec.structs.replace(target.claims, features=shown, inferred=True)
        checker = _Checker(target, families, options)
    results = []
    workers = jobs if target.parallel else 1
    with ThreadPoolExecutor(max_workers=max(workers, 1)) as pool:
        for result in pool.map(checker.check, found) if workers > 1 else map(checker.check, found):
            results.append(result)
            if progress is not None:
                progress(result)
    return CheckReport(
        target=target.name, outcome=_outcome(results),
        counts=dict(Counter(str(result.outcome) for result in sorted(results, key=lambda r: r.outcome.rank))),
        summary=summary_of(results, {case.name: case for case in found}),
        runs=sum(result.runs for result in results), cuts=families, cases=results,
        known_failures=[_use(known, results) for known in target.claims.known_failures],
        diagnosis=_diagnosis(checker) if quirks and not cases and not faults and folder == QUIRKS else [],
        not_observed=[
            *target.unseen, *_broken(faults), *not_observed(target.claims, results, checker.compared, others),
        ],
    )  # fmt: skip


def _fails_at_once(target: Target, cases: Iterable[Case]) -> None:
    """Raises UsageError if a command breaks on a few streams alike: then it would on all of them, many times each."""
    if not isinstance(target, CommandTarget):
        return
    reasons = set()
    few = [case for case in cases if not skipped(case, target)][:AT_ONCE]
    for case in few:
        answer = target.run(_trial(case, []))
        reasons.add(answer.reason)
        if answer.state != "broke" or len(reasons) > 1:
            return
    if len(few) == AT_ONCE:
        raise UsageError(f"{target.name}: the command fails at once: {reasons.pop()}; run it by hand on one stream")


def _broken(faults: Sequence[str]) -> list[str]:
    return [f"streams as they were: all were broken by {', then '.join(faults)}"] if faults else []


def skipped(case: Case, target: Target) -> str:
    """Why the case is not for this target, "" if it is: it needs what is not claimed, or what the target cannot see."""
    claimed = DEFAULT_DIALECTS if target.claims.dialects is None else target.claims.dialects
    if case.dialect not in claimed:
        return f"dialect {case.dialect} is not claimed"
    features = FEATURES if target.claims.features is None else target.claims.features
    needs = case.expected.needs() | ({"recovery"} if case.recovered else set())
    if missing := sorted(needs - set(features)):
        return f"needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not claimed"
    status = case.recording.status
    if status is not None and status >= 300 and not target.sees_status:
        return f"status {status} with a body that is no stream: the target sees bodies only"
    return ""


def shown_features(target: Target, cases: Iterable[Case]) -> tuple[str, ...] | None:
    """What the target's answers can be compared on, told by its answers to a few good streams: what it declares
    nothing about and never gives is not compared, and the report says so. None if it answers otherwise."""
    good = [case for case in cases if not case.expected.failed and not skipped(case, target)]
    probes = [next((case for case in good if wanted(case)), None) for wanted in (
        lambda case: not case.expected.tool_calls, lambda case: case.expected.tool_calls,
        lambda case: case.expected.usage,
    )]  # fmt: skip
    seen = [members(target.run(_trial(case, []))) for case in probes if case is not None]
    found = frozenset[str]().union(*(names for names in seen if names is not None))
    return tuple(name for name in FEATURES if name in found | {"tool_calls", "recovery"}) if found else None


def _trial(case: Case, cuts: Sequence[int]) -> Trial:
    name = case.name.replace("/", "-").replace(".", "-")
    return Trial(
        case=name, dialect=case.dialect, recording=case.recording, cuts=cuts, unbroken=case.unbroken,
        faults=case.faults,
    )  # fmt: skip


def _matching(cases: Iterable[Case], pattern: str, place: str = "") -> list[Case]:
    names = {case.name: case for case in cases}
    found = [case for name, case in names.items() if name == pattern or fnmatchcase(name, pattern)]
    if not found:
        near = suggestion(pattern, names) or "; name it like its file, without .sse, or use a pattern such as 02*"
        raise UsageError(f"{place}no case {pattern!r}{near}")
    return found


class _Checker:
    """Runs cases; `compared` gathers what their answers could be compared on.

    `first` has the first failing verdict on each, or a good one; `cut_only` the cases that are right where nothing is
    cut, and fail.
    """

    def __init__(self, target: Target, families: Sequence[str], options: Sequence[str] = ()) -> None:
        self.target, self.families, self.options = target, families, options
        self.claims: Claims = target.claims
        self.features = FEATURES if self.claims.features is None else self.claims.features
        self.compared: set[str] = set()
        self.first: dict[str, Verdict] = {}
        self.cut_only: set[str] = set()

    def check(self, case: Case) -> CaseResult:
        """One case under every family of cuts; cuts that make the same pieces run once."""
        result = CaseResult(
            case=case.name, dialect=case.dialect, outcome=CaseOutcome.RIGHT, contested=case.contested, failures=[],
            fault=case.fault,
        )  # fmt: skip
        if reason := skipped(case, self.target):
            result.outcome, result.reason = CaseOutcome.SKIPPED, reason
            return result
        seen: set[tuple[int, ...]] = set()
        for family in self.families:
            cuts = self._cuts(case, family)
            if tuple(cuts) in seen:
                continue
            seen.add(tuple(cuts))
            verdict = self._run(case, cuts)
            result.runs += 1
            if not verdict.outcome.good:
                result.runs += self._failed(case, family, cuts, verdict, result.failures)
            if verdict.outcome.rank > result.outcome.rank:
                result.outcome = verdict.outcome
            if case.name not in self.first or (self.first[case.name].outcome.good and not verdict.outcome.good):
                if cuts and case.name in self.first and not verdict.outcome.good:
                    self.cut_only.add(case.name)
                self.first[case.name] = verdict
            if verdict.outcome is CaseOutcome.HUNG:
                break  # each further run would cost the whole time limit
        known = next((known for known in self.claims.known_failures if _names(known, case.name)), None)
        if known is not None and known.covers(result.outcome):
            result.known = known.reason
        return result

    def _cuts(self, case: Case, family: str) -> list[int]:
        return offsets(case.recording.body, family, [read.end for read in case.recording.reads])

    def _run(self, case: Case, cuts: Sequence[int]) -> Verdict:
        verdict = judge(self.target.run(_trial(case, cuts)), case.expected, self.features)
        self.compared |= verdict.compared
        return verdict

    def _failed(
        self, case: Case, family: str, cuts: Sequence[int], verdict: Verdict, failures: list[Failed]
    ) -> int:  # fmt: skip
        """Add the failure, or the family to the one like it; returns how many runs it took to make it smaller."""
        differences = list(verdict.differences)
        alike = [failed for failed in failures if failed.outcome is verdict.outcome]
        for failed in alike:
            # What failed with fewer of these cuts fails with all of them.
            contained = set(self._cuts(case, failed.smallest)) <= set(cuts)
            if contained or failed.differences == differences or len(alike) == MOST_SHRUNK:
                failed.also.append(family)
                return 0
        runs = 0

        def fails(some: list[int]) -> bool:
            nonlocal runs, differences
            runs += 1
            smaller = self._run(case, some)
            if smaller.outcome is verdict.outcome:
                differences = list(smaller.differences)
                return True
            return False

        if verdict.outcome is CaseOutcome.HUNG and cuts and case.name in self.first:
            differences.append(HUNG_WHEN_CUT)  # it was done in time with fewer cuts
        smallest = written(cuts if verdict.outcome is CaseOutcome.HUNG else shrink(fails, cuts, SHRINK_RUNS))
        if len(smallest) > LONGEST_CUT:
            smallest = family
        repro = shlex.join(self.target.command([*self.options, "--case", case.name, "--cut", smallest]))
        failures.append(Failed(
            outcome=verdict.outcome, cuts=family, smallest=smallest, differences=differences, repro=repro, also=[],
        ))  # fmt: skip
        return runs


def _names(known: KnownFailure, case: str) -> bool:
    return known.case == case or fnmatchcase(case, known.case)


def _outcome(results: Iterable[CaseResult]) -> Outcome:
    """differs if a case fails that is not known to; not measured if none ran."""
    ran = [result for result in results if result.outcome is not CaseOutcome.SKIPPED]
    if not ran:
        return Outcome.NOT_MEASURED
    return Outcome.DIFFERS if any(not r.outcome.good and r.known is None for r in ran) else Outcome.CONFORMS


def _diagnosis(checker: _Checker) -> list[Likely]:
    """Which client models fail the quirks as this target does."""
    verdicts = {name: verdict for name, verdict in checker.first.items() if "/" not in name}
    if all(verdict.outcome.good for verdict in verdicts.values()):
        return []
    tells_cuts = checker.target.sees_cuts and {"whole", "bytes"} <= set(checker.families)
    from harness.clients.diagnosis import diagnose
    from harness.clients.table import CLIENTS

    return [
        Likely(client=likely.client, about=CLIENTS[likely.client].about, score=round(likely.score, 2))
        for likely in diagnose(verdicts, checker.compared or None, checker.cut_only if tells_cuts else None)
    ]


def _use(known: KnownFailure, results: Iterable[CaseResult]) -> KnownUse:
    outcomes = [
        result.outcome for result in results
        if _names(known, result.case) and result.outcome is not CaseOutcome.SKIPPED
    ]  # fmt: skip
    state: Literal["fails", "passes", "other-failure", "unmeasured"] = "unmeasured"
    if outcomes:
        worst = max(outcomes, key=lambda outcome: outcome.rank)
        state = "passes" if worst.good else "fails" if any(map(known.covers, outcomes)) else "other-failure"
    return KnownUse(case=known.case, reason=known.reason, state=state)
