"""Diagnosis: which wrong client model an accumulator behaves like, by the quirks it fails and how it fails them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from harness.answers import CaseOutcome, Verdict
from harness.clients.evidence import Signature, Symptom, case_dialects, signatures, symptom

FITS = 0.6  # of what a model does wrong the target must do this share, and its score be half of one ...
EXACT = 0.95  # ... or this share: then the target has other faults besides
EXPLAINS = 0.5  # of what the target does wrong the models named must explain this share; else only those named that
# it matches exactly, and none if it fails more than this share of all cases even uncut: anything can match by chance


class Likeness(NamedTuple):
    """A client model and how well it fits: 1.0 if it fails the cases that are left to explain, no other, and so."""

    client: str
    score: float


def diagnose(
    results: Mapping[str, Verdict], shows: Collection[str] | None = None, cut_only: Collection[str] | None = None
) -> list[Likeness]:  # fmt: skip
    """The wrong client models that the target behaves like, the one that explains most first; none if nothing fits.

    `results`: what each quirk came to; others count for nothing. `shows`: what the target's answers could be compared
    on (features, and "messages"), all if None. `cut_only`: the quirks that fail only if the body is cut, None if that
    is not known. Several models are named where each explains failures that those before it leave open; of equals, the
    one that does less wrong. A target with many faults of its own is in part like those whose every failure
    it has.
    """
    dialects = case_dialects()
    ran = {case: dialects[case] for case, verdict in results.items()
           if case in dialects and verdict.outcome is not CaseOutcome.SKIPPED}  # fmt: skip
    failing = {
        case: symptom(verdict.outcome, verdict.differences, None if cut_only is None else case in cut_only)
        for case, verdict in results.items() if case in ran and not verdict.outcome.good
    }  # fmt: skip
    likely = {}
    for name, signature in signatures().items():
        model = _Model(signature, ran, failing, shows)
        if model.fits >= FITS:
            likely[name] = model
    exact = {name for name, model in likely.items() if model.fits >= EXACT}
    named: list[Likeness] = []
    explained: dict[str, float] = {}
    read: set[str] = set()  # dialects of the models named
    while likely and len(explained) < len(failing):
        ranks = {name: (*model.score(explained), -model.size) for name, model in likely.items()}
        best = max(likely, key=ranks.__getitem__)
        model, score = likely.pop(best), ranks[best][0]
        if score >= 0.5 or (score > 0 and best in exact):
            named.append(Likeness(best, score))
            explained |= {case: max(share, explained.get(case, 0)) for case, share in model.alike.items()}
            read.update(model.dialects)
    due = [case for case in failing if ran[case] in read]
    if sum(explained.values()) >= EXPLAINS * len(due):
        return named
    uncut = [case for case, seen in failing.items() if not seen.cut_only]
    return [one for one in named if one.client in exact] if len(uncut) <= EXPLAINS * len(ran) else []


class _Model:
    """A client model beside the target: the cases it fails among those that ran, and how alike the target fails them.

    `ran` has the dialect of each case. `open` are the target's failures in the dialects that the model reads.
    """

    def __init__(
        self,
        signature: Signature,
        ran: Mapping[str, str],
        failing: Mapping[str, Symptom],
        shows: Collection[str] | None,
    ) -> None:
        self.dialects, self.size = signature.dialects, len(signature.fails)
        self.cases = {case: seen for case in ran if (seen := _seen(signature.fails.get(case), shows))}
        self.open = {case for case in failing if ran[case] in self.dialects}
        self.alike = {case: _alike(failing[case], self.cases[case]) for case in self.open & self.cases.keys()}
        self.fits = sum(self.alike.values()) / len(self.cases) if self.cases else 0.0

    def score(self, explained: Collection[str]) -> tuple[float, float]:
        """Of the failures not explained yet, the target's and the model's: the share in common, and how many."""
        rest = (self.open | self.cases.keys()) - set(explained)
        common = sum(self.alike.get(case, 0.0) for case in rest)
        return common / (len(rest) or 1), common


def _alike(ours: Symptom, theirs: Symptom) -> float:
    """How alike two failures of one case are, 0 to 1: the outcome, the fields that differ, the differences as such."""
    if ours.outcome is not theirs.outcome or ours.cut_only is (not theirs.cut_only):
        return 0.2
    if ours.cut_only is None and theirs.cut_only:  # it may be broken uncut: only the very same answer tells
        return 1.0 if ours.marks == theirs.marks else 0.2
    if ours.outcome is CaseOutcome.WRONG:
        fields = [{mark.rpartition(" ")[0] for mark in one.marks} for one in (ours, theirs)]
        return 0.4 + 0.3 * _share(*fields) + 0.3 * _share(ours.marks, theirs.marks)
    # Another language has other exceptions.
    return 1.0 if ours.marks == theirs.marks else 0.7


def _share(ours: Collection[str], theirs: Collection[str]) -> float:
    """What two sets have in common, as a share of all they have."""
    both = {*ours, *theirs}
    return len({*ours} & {*theirs}) / len(both) if both else 1.0


def _seen(theirs: Symptom | None, shows: Collection[str] | None) -> Symptom | None:
    """The part of a model's failure that can be seen in answers which show these features; None if there is none."""
    if theirs is None or shows is None or theirs.outcome is not CaseOutcome.WRONG:
        return theirs
    marks = frozenset(mark for mark in theirs.marks if _feature_of(mark) in {"text", *shows})
    return theirs._replace(marks=marks) if marks else None


def _feature_of(mark: str) -> str:
    """The feature, as a target claims it, that a mark's field belongs to."""
    field = mark.rpartition(" ")[0]
    if "choice" in field:
        return "choices"
    if field.startswith("messages["):
        return "messages"
    if field.startswith(("tool_calls", "arguments of call", "index of call")):
        return "tool_calls"
    return "finish_reason" if field == "finish_raw" else field
