"""What to re-point at a cutover: leftovers of a migration that no finding is about, read from the facts of both sides.

Source: SEEDS C, "Leftovers of a migration" and "When not to migrate". A finding says what breaks a reader of streams;
this says where else an application leans on the old endpoint. Advice, never scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil

import msgspec

from harness.conventions import CONVENTIONS, auth_header
from harness.findings import Outcome, ShapeResult
from harness.recording import Recording
from harness.rules import WORDS
from harness.shapes import SHAPES
from harness.structure import Structure
from harness.thresholds import timing_of

MARGIN, LEAST_SECONDS = 3, 5  # a suggested timeout is so many times the slowest seen, and no less than that
# Shapes that ask for what an endpoint may not have at all, and what that is.
FEATURES = {
    "logprobs": "log probabilities", "structured": "structured output", "parallel-tools": "parallel tool calls",
    "reasoning": "reasoning", "multi-turn": "results of tools in the history",
}  # fmt: skip
LACKING = {
    "http.rejected": "the request is rejected", "logprobs.missing": "none come",
    "structured.not-json": "the answer is no JSON",
}  # fmt: skip


class Side(msgspec.Struct, kw_only=True):
    """One take of a shape, read. `path` is its fixture's as the repository has it; null if it is no fixture.

    `warning` is what is wrong with a fixture that was used all the same, in a line that names it.
    """

    recording: Recording
    structure: Structure
    path: str | None = None
    warning: str | None = None


Sides = Mapping[tuple[str, int], Side]
"""The takes of one shape, by side (baseline, candidate) and number."""


def cutover(results: Sequence[ShapeResult], sides: Mapping[str, Sides]) -> list[str]:
    """What to look at before the cutover, each `topic: sentence`; empty if there is nothing. `sides` by shape."""
    pairs = {
        shape: (taken["baseline", 1], taken["candidate", 1])
        for shape, taken in sides.items()
        if ("baseline", 1) in taken and ("candidate", 1) in taken
    }
    measured = {result.shape for result in results if result.outcome in (Outcome.CONFORMS, Outcome.DIFFERS)}
    judged = {shape: pair for shape, pair in pairs.items() if shape in measured}
    return [
        *_client(judged.values()),
        *_errors(judged.get("error")),
        *_parallel(judged),
        *_usage(judged.values()),
        *_timeouts(judged),
        *_features(results, judged),
        *_not_exercised(results),
    ]


Pair = tuple[Side, Side]


def _client(pairs: Iterable[Pair]) -> Iterator[str]:
    for old, new in pairs:
        was, now = old.structure.dialect, new.structure.dialect
        if was != now:
            convention = CONVENTIONS.get(now)
            where = f": requests go to {convention.path}, the key is in {_key(convention.auth)}" if convention else ""
            yield f"client: it speaks {was}, the candidate speaks {now}{where}"
            return


def _key(auth: str) -> str:
    header = auth_header(auth)
    return f"the header {header}" if header else "no header"


# -- errors -------------------------------------------------------------------------------------------------------


def _errors(pair: Pair | None) -> Iterator[str]:
    if pair is None or pair[0].structure.get("result") != "error":
        return
    was, now = (_failure(side.structure) for side in pair)
    if was != now:
        yield f"retry wrapper: a failure is {now}; it was {was}. What retries, or tells users, must match the new form"


def _failure(structure: Structure) -> str:
    """How a failure arrives, in words."""
    if structure.get("result") != "error":
        return "told in no way at all"
    delivery, status = structure.get("error.delivery"), structure.get("http.status")
    carrier = f"HTTP {status}" if delivery == "status" else f"{WORDS.get(delivery, delivery)} after HTTP 200"
    envelope = structure.get("error.envelope")
    kinds = {"code": structure.get("error.code-type")}
    names = sorted(structure.get("error.fields", {}))
    fields = [f"{name} ({kinds[name]})" if kinds.get(name) else name for name in names]
    return f"{carrier}, {WORDS.get(envelope, envelope)}{' with ' + ', '.join(fields) if fields else ''}"


# -- calls and usage ----------------------------------------------------------------------------------------------


def _parallel(judged: Mapping[str, Pair]) -> Iterator[str]:
    most = [max((pair[side].structure.behaviour["calls"] for pair in judged.values()), default=0) for side in (0, 1)]
    if most[1] < 2:
        return
    shape = next(shape for shape, pair in judged.items() if pair[1].structure.behaviour["calls"] == most[1])
    before = "the baseline never made more than one" if most[0] < 2 else f"so does the baseline ({most[0]})"
    yield (
        f"parallel calls: the candidate makes {most[1]} calls in one answer ({shape}), {before}. What assumes one call "
        "in flight must run and answer all of them"
    )


def _usage(pairs: Iterable[Pair]) -> Iterator[str]:
    answered = [pair for pair in pairs if all(side.structure.get("result") == "ok" for side in pair)]
    was, now = (_members(answered, side, "usage.position") for side in (0, 1))
    if was and not now:
        yield "usage: the candidate sends none. Dashboards and budgets read zero unless tokens are counted locally"
    if not now or any(old.structure.dialect != new.structure.dialect for old, new in answered):
        return  # another dialect has places and names of its own
    places = [", ".join(WORDS.get(place, place) for place in found) or "nothing" for found in (was, now)]
    if set(now) - set(was):
        yield f"usage: it stands on {places[1]}; it stood on {places[0]}. Read it wherever it stands"
    counters = [
        [name for path in ("usage.counters", "usage.details") for name in _members(answered, side, path)]
        for side in (0, 1)
    ]
    lost = [name for name in counters[0] if name not in counters[1]]
    if lost:
        gone = f"{', '.join(lost)} {'is' if len(lost) == 1 else 'are'} gone"
        yield f"usage: {gone}. What charts or bills by that reads nothing"


def _members(pairs: Iterable[Pair], side: int, path: str) -> list[str]:
    """Members of a set of facts, over all shapes."""
    return list(dict.fromkeys(name for pair in pairs for name in pair[side].structure.get(path, {})))


# -- time ---------------------------------------------------------------------------------------------------------


def _timeouts(judged: Mapping[str, Pair]) -> Iterator[str]:
    known = [{shape: waits for shape, pair in judged.items() if (waits := _waits(pair[side]))} for side in (0, 1)]
    if not known[1]:
        return
    slowest = max(known[1], key=lambda shape: known[1][shape][0])
    first, silence = known[1][slowest][0], max(silence for _, silence in known[1].values())
    before = "that of the baseline is not known"
    if known[0]:
        before = f"{_seconds(max(first for first, _ in known[0].values()))} on the baseline"
    where = f" ({slowest})" if first >= 0.1 else ""
    streams = f"the first stream of {len(known[1])} shape{'s' if len(known[1]) > 1 else ''}"
    yield (
        f"timeouts: the first event took {_seconds(first)} at most{where}, {before}; the longest silence was "
        f"{_seconds(silence)}. Seen in {streams}, so first_event {_suggested(first)} s and idle "
        f"{_suggested(silence)} s or more"
    )


def _waits(side: Side) -> tuple[float, float] | None:
    """Seconds until the first event, and the longest between two; None if no times are known, or no event came."""
    timing = timing_of(side.recording, side.structure.dialect)
    if timing is None or timing.first_event is None:
        return None
    gap = timing.longest_gap
    return timing.first_event.microseconds / 1e6, gap.microseconds / 1e6 if gap is not None else 0.0


def _seconds(value: float) -> str:
    """In tenths: what is less varies from run to run, and means nothing to a timeout."""
    return f"{value:.1f} s" if value >= 0.1 else "less than 0.1 s"


def _suggested(value: float) -> int:
    return max(LEAST_SECONDS, ceil(MARGIN * value))


# -- what is not there --------------------------------------------------------------------------------------------


def _features(results: Iterable[ShapeResult], judged: Mapping[str, Pair]) -> Iterator[str]:
    lacking: dict[str, str] = {}
    for result in results:
        why = next((LACKING[finding.rule] for finding in result.findings if finding.rule in LACKING), "")
        if result.outcome is Outcome.SKIPPED:
            why = f"skipped: {result.reason}"
        if result.shape in FEATURES and why:
            lacking[FEATURES[result.shape]] = why
    for shape, (old, new) in judged.items():
        if old.structure.get("logprobs") and new.structure.get("result") == "ok" and not new.structure.get("logprobs"):
            lacking.setdefault(FEATURES["logprobs"], f"none come in shape {shape}")
    if lacking:
        named = ", ".join(f"{feature} ({why})" for feature, why in lacking.items())
        yield f"features: the baseline has what the candidate lacks: {named}. Nothing in between can make that up"


def _not_exercised(results: Sequence[ShapeResult]) -> Iterator[str]:
    run = {result.shape for result in results}
    named = [f"{result.shape} ({result.reason})" for result in results if result.outcome is Outcome.NOT_MEASURED]
    named += [shape for shape in SHAPES if shape not in run]
    if named:
        yield f"not exercised: {', '.join(named)}. Keep a way back for what depends on them"
