"""`harness accept`: from a report's findings to the acceptances that would tolerate them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import yaml

from harness.errors import UsageError
from harness.findings import REPORT_FORMAT, Outcome, Report, Severity
from harness.jsontext import as_text
from harness.store import valid_name

_NAME = re.compile(r"[a-z][a-z0-9._-]*")
# What JSON lets stand in a string as it is, and YAML refuses or takes for a line end. Source: YAML 1.1, 5.1, 5.4.
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def load_report(path: Path) -> Report:
    """Read a report that `harness gate --report` wrote. Raises UsageError, naming the file."""
    try:
        # Not msgspec's decoder: a finding may hold numbers beyond 64 bits, or half a character, as a stream had it.
        report = msgspec.convert(json.loads(path.read_bytes()), Report)
    except OSError as exc:
        raise UsageError(f"{path}: cannot be read ({exc.strerror}); give a report of `harness gate --report`") from exc
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        if path.suffix in (".html", ".md", ".xml", ".sarif"):  # the other forms of it
            right = f"`harness gate --report {path.with_suffix('.json')}`"
            raise UsageError(f"{path}: a report to look at; give the .json one, of {right}") from exc
        raise UsageError(f"{path}: not a report of `harness gate --report` ({exc})") from exc
    if report.format != REPORT_FORMAT:
        raise UsageError(f"{path}: format {report.format!r} is not {REPORT_FORMAT!r}; gate again with this version")
    # In an acceptance both may be patterns: what a report names must not tolerate more than it found.
    for result in report.shapes:
        odd = [finding.rule for finding in result.findings if any(sign in finding.rule for sign in "*?[")]
        odd += [] if valid_name(result.shape) else [result.shape]
        if odd:
            raise UsageError(f"{path}: {odd[0]!r} names no rule or shape; was the report edited? gate again")
    return report


def acceptances(
    report: Report, *, rules: Sequence[str] = (), reason: str, until: date | None = None, owner: str | None = None,
    bound: bool = False,
) -> list[dict[str, Any]]:  # fmt: skip
    """One entry a rule and shape for the findings that fail the report, those of `rules` only if given.

    A rule may be a pattern, such as `usage.*`, but a fatal finding must be named in full.

    An entry for a rule that fails in every measured shape names no shape. `bound`: it counts against the report's
    baseline only; else against any, as it is the candidate's deviation that is tolerated. Raises UsageError: nothing to
    accept, an unknown rule, a fatal finding without `until`, a reason or owner that is empty or no text.
    """
    if until is not None and until < datetime.now(UTC).date():
        raise UsageError(f"--until {until}: that day has passed; name one to come")
    if not reason.strip():
        raise UsageError("--reason: must say why the findings are tolerated")
    if owner is not None and not owner.strip():
        raise UsageError("--owner: must name a person or team; leave it out if there is none")
    for option, text in (("--reason", reason), ("--owner", owner or "")):
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UsageError(f"{option}: holds bytes that are no UTF-8; write it in UTF-8")
    failing = [
        (result.shape, finding)
        for result in report.shapes
        for finding in result.findings
        if finding.accepted is None and finding.severity is not Severity.COSMETIC
    ]
    known = dict.fromkeys(finding.rule for _, finding in failing)
    for rule in rules:
        if not any(fnmatchcase(code, rule) for code in known):
            raise UsageError(f"--rule {rule}: not among the failing findings; there are {', '.join(known) or 'none'}")
    chosen = [code for code in known if not rules or any(fnmatchcase(code, rule) for rule in rules)]
    worst = {finding.rule for _, finding in failing if finding.severity is Severity.FATAL}
    swept = [code for code in chosen if code in worst and code not in rules]
    if swept:
        each = " ".join(f"--rule {code}" for code in swept)
        raise UsageError(f"{', '.join(swept)}: fatal, so accepted by name only; give {each}, with a reason of its own")
    if not chosen:
        raise UsageError("the report has no finding that needs an acceptance")
    measured = {result.shape for result in report.shapes if result.outcome in (Outcome.CONFORMS, Outcome.DIFFERS)}
    entries: list[dict[str, Any]] = []
    for rule in chosen:
        found = {shape: finding.severity for shape, finding in failing if finding.rule == rule}
        fatal = Severity.FATAL in found.values()
        if fatal and until is None:
            raise UsageError(f"{rule}: a fatal finding is accepted for a time only; say until when with --until")
        for shape in [None] if set(found) == measured and len(measured) > 1 else list(found):
            entry: dict[str, Any] = {"rule": rule}
            if shape is not None:
                entry["shape"] = shape
            if fatal:
                entry["severity"] = str(Severity.FATAL)
            entry["reason"] = reason
            if until is not None:
                entry["until"] = until.isoformat()
            if owner is not None:
                entry["owner"] = owner
            if bound:
                entry["baseline"] = report.baseline
            entries.append(entry)
    return entries


def as_yaml(provider: str, entries: Sequence[dict[str, Any]]) -> str:
    """The entries as they stand in providers.yaml, under the candidate."""
    rows = ["providers:", f"  {provider}:", "    accept:"]
    return "\n".join([*rows, *(f"      - {row(entry)}" for entry in entries)])


def row(entry: dict[str, Any]) -> str:
    """One entry on one line, in YAML's flow style."""
    return "{" + ", ".join(f"{key}: {_scalar(key, value)}" for key, value in entry.items()) + "}"


def _scalar(key: str, value: str) -> str:
    # A JSON string is a YAML string in double quotes; a name needs none, unless YAML reads it as something else (`no`).
    named = key in ("rule", "shape", "severity", "baseline") and _NAME.fullmatch(value) is not None
    if key == "until" or (named and yaml.safe_load(value) == value):
        return value
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", as_text(value))
