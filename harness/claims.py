"""What a target claims to read, and which failures of it are known.

A Python callable claims by attributes (`dialects`, `features`, `payloads`), any target by a file:

    dialects: [chat, anthropic]
    features: [tool_calls, refusal]
    known_failures:
      - case: 018-index-missing-parallel-calls
        reason: calls are keyed by index alone
      - case: 049-cut-between-events
        outcome: accepted-truncation
        reason: the caller counts the tokens

Without `dialects` only chat is asked; without `features` they are told by what the answers hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.answers import FEATURES, CaseOutcome
from harness.dialects import BUILT_IN
from harness.errors import UsageError
from harness.settings import Place, load_settings, suggestion

GRAVEST = (CaseOutcome.ACCEPTED_ERROR, CaseOutcome.ACCEPTED_TRUNCATION)


class KnownFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A case that is known to fail, and why. Without an outcome it covers all but the two gravest: those are named."""

    case: str
    reason: str
    outcome: CaseOutcome | None = None

    def covers(self, outcome: CaseOutcome) -> bool:
        """Whether this failure is the known one."""
        return not outcome.good and (outcome is self.outcome or (self.outcome is None and outcome not in GRAVEST))


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What is claimed; null where nothing is said. `options` are the command-line options that say the same.

    `inferred`: the features were told by the answers, not declared.
    """

    dialects: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    inferred: bool = False
    known_failures: tuple[KnownFailure, ...] = ()
    options: tuple[str, ...] = ()

    def over(self, other: Claims) -> Claims:
        """These claims, and the other's where these say nothing."""
        return Claims(
            dialects=other.dialects if self.dialects is None else self.dialects,
            features=other.features if self.features is None else self.features,
            known_failures=self.known_failures + other.known_failures,
            options=self.options + other.options,
        )


def claims_of(owner: str, dialects: Iterable[Any] | None = None, features: Iterable[Any] | None = None) -> Claims:
    """Claims given by a callable's attributes. Raises UsageError, naming the owner."""
    return Claims(
        dialects=None if dialects is None else _names(f"{owner}: dialects", dialects, BUILT_IN),
        features=None if features is None else _names(f"{owner}: features", features, FEATURES),
    )


def claims_from_options(dialects: Sequence[str] = (), features: Sequence[str] = ()) -> Claims:
    """Claims given as `--dialect NAME` and `--feature NAME`, each any number of times. Raises UsageError."""
    return Claims(
        dialects=_names("--dialect", dialects, BUILT_IN) or None,
        features=_names("--feature", features, FEATURES) or None,
        options=tuple(
            part for option, names in (("--dialect", dialects), ("--feature", features)) for name in names
            for part in (option, name)
        ),
    )  # fmt: skip


def _names(place: str, names: Iterable[Any], allowed: Iterable[str]) -> tuple[str, ...]:
    known = list(allowed)
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UsageError(f'{place}: must be a list of names, such as ("{known[0]}",)')
    found = tuple(names)
    for name in found:
        if name not in known:
            near = suggestion(str(name), known) or ";"
            raise UsageError(f"{place}: {name!r} is not known{near} allowed: {', '.join(known)}")
    return found


def load_claims(path: Path) -> Claims:
    """Read a file of claims, YAML or JSON. Raises ConfigError, naming the file and the key."""
    top = load_settings(path, str(path)).members(("dialects", "features", "known_failures"))

    def words(key: str, allowed: Iterable[str]) -> tuple[str, ...] | None:
        return tuple(entry.one_of(list(allowed)) for entry in top[key].entries()) if key in top else None

    known = [_known_failure(entry) for entry in (top["known_failures"].entries() if "known_failures" in top else [])]
    return Claims(
        dialects=words("dialects", BUILT_IN), features=words("features", FEATURES), known_failures=tuple(known),
        options=("--claims", str(path)),
    )  # fmt: skip


def _known_failure(place: Place) -> KnownFailure:
    members = place.members(("case", "reason", "outcome"))
    for key in ("case", "reason"):
        if key not in members:
            raise place.error(f"`{key}:` is missing; a known failure has a case and a reason")
    bad = [str(outcome) for outcome in CaseOutcome if not outcome.good]
    outcome = CaseOutcome(members["outcome"].one_of(bad)) if "outcome" in members else None
    return KnownFailure(case=members["case"].text(), reason=members["reason"].text(), outcome=outcome)
