"""What `check` says: its report, what the failures have in common, and what was not observed."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from harness.answers import FEATURES, CaseOutcome
from harness.cases import Case, NoCases
from harness.claims import Claims
from harness.cuts import offsets
from harness.findings import Outcome

CHECK_FORMAT = "sse-harness-check/1"
MOST_NAMED = 3  # fixtures that cannot be cases
MANY = 3  # failures that have something in common, from which on the summary says so
HUNG_WHEN_CUT = "your buffer is searched again for each piece; look for the line end in the new piece only"
_KEEP = "keep what follows the last line end, and put it before the next piece"
_LOST = {
    "line": f"an unfinished line is not kept between pieces: {_KEEP}",
    "character": "a character's bytes are not kept together: decode lines, not pieces, or use an incremental decoder",
    "crlf": "a CR and the LF in the next piece are taken for two line ends: they are one",
}


class Failed(msgspec.Struct, kw_only=True):
    """One way a case fails. `cuts` is the family it was first seen under, `also` those that fail alike.

    `smallest` is the smallest cut that fails, as `--cut` takes it; `repro` is the command line that shows it.
    """

    outcome: CaseOutcome
    cuts: str
    also: list[str] = []
    smallest: str
    differences: list[str]
    repro: str


class CaseResult(msgspec.Struct, kw_only=True):
    """One case: the worst outcome over all runs. `reason` says why it was skipped, `known` why its failure is known.

    `fault`: what is odd in a quirk's stream.
    """

    case: str
    dialect: str
    outcome: CaseOutcome
    reason: str = ""
    known: str | None = None
    fault: str = ""
    contested: bool = False
    runs: int = 0
    failures: list[Failed] = []


class KnownUse(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a known failure: still fails, passes now (take it out), fails otherwise, or did not run."""

    case: str
    reason: str
    state: Literal["fails", "passes", "other-failure", "unmeasured"]


class Likely(msgspec.Struct, frozen=True, kw_only=True):
    """A client model the target behaves like, what that does, and how well it fits what is left to explain: 0 to 1."""

    client: str
    about: str
    score: float


class CheckReport(msgspec.Struct, kw_only=True):
    """What `check` says. `counts` has every outcome that occurred; `not_observed` says what was not tested, and why.

    `summary`: what many of the failures have in common, in sentences with a remedy; empty if they have nothing.
    `diagnosis`: the likeliest first; empty if nothing fits, or if not all quirks were asked.
    """

    format: str = CHECK_FORMAT
    target: str
    outcome: Outcome
    summary: list[str] = []
    counts: dict[str, int]
    runs: int
    cuts: list[str]
    cases: list[CaseResult]
    known_failures: list[KnownUse]
    diagnosis: list[Likely]
    not_observed: list[str]


def summary_of(results: Sequence[CaseResult], cases: Mapping[str, Case]) -> list[str]:
    """What failures that are neither known nor contested have in common, what explains most first."""
    failing = [one for one in results if one.failures and one.known is None and not one.contested]
    cut = [one for one in failing if all(failed.smallest != "whole" for failed in one.failures)]
    found: list[tuple[int, str]] = []
    hung = [one for one in cut if one.outcome is CaseOutcome.HUNG]
    if hung:
        found.append((len(hung), f"{_counted(hung)}, not done in time when cut: {HUNG_WHEN_CUT}"))
    lost: dict[str, list[CaseResult]] = defaultdict(list)
    for one in cut:
        if one.outcome is not CaseOutcome.HUNG:
            lost[_lost(one, cases[one.case].recording.body)].append(one)
    for kind, ones in lost.items():
        if len(ones) >= MANY or kind != "line":
            found.append((len(ones), f"{_counted(ones)} only when cut: {_LOST[kind]}"))
    found += _accepted(failing)
    alike: dict[str, list[CaseResult]] = defaultdict(list)
    for one in failing:
        if one not in cut and (key := likeness(one)) not in ("", "text"):
            alike[key].append(one)
    for key, ones in alike.items():
        if len(ones) >= MANY:
            wrong = ones[0].outcome is CaseOutcome.WRONG
            what = f"in {key}" if wrong else ones[0].failures[0].differences[0]
            found.append((len(ones), f"{_counted(ones)} alike, such as {ones[0].case}: {what}"))
    return [text for _, text in sorted(found, key=lambda pair: -pair[0])]


def likeness(result: CaseResult) -> str:
    """By what a failure is like others; "" where nothing is told but that it was accepted.

    Exceptions are alike by type and place, differences by the fields that differ.
    """
    failed = result.failures[0]
    if failed.outcome in (CaseOutcome.ACCEPTED_ERROR, CaseOutcome.ACCEPTED_TRUNCATION) or not failed.differences:
        return ""
    if failed.outcome is CaseOutcome.WRONG:
        return ", ".join(dict.fromkeys(line.partition(":")[0] for line in failed.differences))
    kind, _, rest = failed.differences[0].partition(":")
    _, at, place = rest.rpartition(" at ")
    return f"{kind} at {place}" if at else failed.differences[0]


def _accepted(failing: Sequence[CaseResult]) -> Iterator[tuple[int, str]]:
    """The streams that fail or are cut, and were taken for answers."""
    for outcome, what, remedy in (
        (CaseOutcome.ACCEPTED_ERROR, "that end in an error", "raise where an error comes"),
        (CaseOutcome.ACCEPTED_TRUNCATION, "that were cut", "raise where the body ends and no end was read"),
    ):
        ones = [one for one in failing if one.outcome is outcome]
        if len(ones) > 1:
            yield len(ones), f"{len(ones)} streams {what} are returned as whole answers: {remedy}"


def _lost(result: CaseResult, body: bytes) -> str:
    """What is not kept between pieces where this case is cut."""
    kinds = {
        _between(body, cut)
        for failed in result.failures if failed.smallest.startswith("at:") for cut in offsets(body, failed.smallest)
    }  # fmt: skip
    return kinds.pop() if len(kinds) == 1 else "line"


def _between(body: bytes, cut: int) -> str:
    if body[cut - 1 : cut + 1] == b"\r\n":
        return "crlf"
    return "character" if 0x80 <= body[cut] < 0xC0 else "line"


def _counted(ones: Sequence[CaseResult]) -> str:
    return f"{len(ones)} cases fail" if len(ones) > 1 else f"{ones[0].case} fails"


def not_observed(
    claims: Claims, results: Sequence[CaseResult], compared: set[str], others: NoCases
) -> list[str]:  # fmt: skip
    """What this check says nothing about, in sentences."""
    out = []
    if claims.dialects is None:
        out.append("dialects: the target claims none, so it was asked chat only")
    if claims.features is not None and (missing := [name for name in FEATURES if name not in claims.features]):
        why = "not in the answers, so not compared" if claims.inferred else "features not claimed"
        out.append(f"{why}: {', '.join(missing)}")
    if compared:
        claimed = [name for name in claims.features or FEATURES if name != "recovery"]
        if hidden := [name for name in claimed if name not in compared]:
            out.append(f"not in any answer, so not compared: {', '.join(hidden)}")
        if "messages" not in compared:
            out.append("the next request's history: no answer had `messages`")
    skipped = Counter(result.reason for result in results if result.outcome is CaseOutcome.SKIPPED)
    out += [f"{count} case{'s' if count > 1 else ''} skipped: {reason}" for reason, count in skipped.items()]
    return [*out, *_no_cases(others)]


def _no_cases(others: NoCases) -> Iterator[str]:
    """The fixtures that were not asked, with what each lacks and how it comes by it."""
    if others.expectation:
        command = shlex.join(["harness", "expect", "--write", *map(str, _places(others.expectation))])
        yield f"fixtures without .expected.json: {_named(others.expectation)}; `{command}` writes it: read it over"
    if others.dialect:
        remedy = "name the dialect in providers.yaml, in an entry of the folder's name"
        yield f"fixtures that do not tell their dialect: {_named(others.dialect)}; {remedy}"


def _places(paths: Sequence[Path]) -> list[Path]:
    """What `expect --write` is given so that it writes for all of these and no other: folders where none has one."""
    folders = list(dict.fromkeys(path.parent for path in paths))
    roots = list(dict.fromkeys(folder.parent for folder in folders))
    if len(folders) > MOST_NAMED and not any(any(root.rglob("*.expected.json")) for root in roots):
        return roots
    out: list[Path] = []
    for folder in folders:
        of_it = [path for path in paths if path.parent == folder]
        out += of_it if len(of_it) == 1 or any(folder.glob("*.expected.json")) else [folder]
    return out


def _named(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return ", ".join(f"{path.parent.name}/{path.stem}" for path in paths[:MOST_NAMED]) + more
