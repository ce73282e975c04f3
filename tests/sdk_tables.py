"""Computes which rules real SDKs are proven to fail under, in the same way as for client models (client_tables.py).

`python tests/sdk_tables.py` writes harness/clients/sdk_breaks.json and the tables of docs/matrix.md. It needs every
SDK: the extra `sdk`, and `npm ci` in tools/node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from client_tables import as_json, breaks
from controls import Make, control
from reading import ROOT

from harness.adapters import SDKS
from harness.adapters.served import SdkTarget
from harness.answers import Expected, Verdict, judge
from harness.cases import Case, quirk_cases
from harness.clients.evidence import FOLDER
from harness.cuts import offsets
from harness.recording import Recording
from harness.reports.matrix import matrix_markdown
from harness.runs.check import skipped
from harness.runs.matrix import Matrix, matrix
from harness.targets import Trial

HELD = FOLDER / "sdk_breaks.json"
PAGE = ROOT / "docs" / "matrix.md"
TABLES = "## What they survive\n"  # all of the page after this line is generated
CUTS = ("whole", "bytes")


def named(target: SdkTarget) -> str:
    """The SDK as `breaks` names it: what it does is true of one version."""
    return f"{target.sdk.name} {target.version}"


def verdicts(target: SdkTarget, dialect: str, recording: Recording, expected: Expected) -> Iterator[Verdict]:
    """What the SDK makes of a stream, whole and byte by byte."""
    for family in CUTS:
        trial = Trial(case="quirk", dialect=dialect, recording=recording, cuts=offsets(recording.body, family))
        yield judge(target.run(trial), expected, target.sdk.features)


def fails(target: SdkTarget, case: Case) -> bool:
    """Whether the SDK fails a case, cut or uncut."""
    return any(not one.outcome.good for one in verdicts(target, case.dialect, case.recording, case.expected))


def right_on_controls(target: SdkTarget, case: Case, rule: str) -> bool:
    """Whether the SDK reads documented streams of the case's make, cut in the same ways."""
    usage = case.expected.usage is not None or rule == "usage.missing"
    crlf = b"\r\n" in case.recording.body and rule != "sse.line-endings"
    for whole in (False,) if rule == "tool.whole-call" else (False, True):
        make = Make(case.expected, case.dialect, usage=usage, whole=whole)
        recording = Recording(body=control(make, crlf), end="eof")
        if any(not one.outcome.good for one in verdicts(target, case.dialect, recording, make.expected())):
            return False
    return True


def sdk_breaks(target: SdkTarget, cases: Iterable[Case]) -> list[str]:
    """The rules that the SDK is proven to fail under on these cases, sorted."""
    read = [case for case in cases if not skipped(case, target)]
    signature = {"fails": {case.name: True for case in read if fails(target, case)}}
    found = breaks({named(target): signature}, read, lambda name, case, rule: right_on_controls(target, case, rule))
    return sorted(found)


def held() -> dict[str, list[str]]:
    """The rules by SDK, as the file has them."""
    found: dict[str, list[str]] = {}
    for rule, names in json.loads(HELD.read_bytes()).items():
        for name in names:
            found.setdefault(name, []).append(rule)
    return found


def sdk_breaks_json(found: Mapping[str, Iterable[str]]) -> str:
    """harness/clients/sdk_breaks.json, from the rules by SDK."""
    by_rule: dict[str, Any] = {}
    for name, rules in found.items():
        for rule in rules:
            by_rule.setdefault(rule, []).append(name)
    return as_json(dict(sorted(by_rule.items()))) + "\n"


def page(written: str, found: Matrix) -> str:
    """docs/matrix.md with the tables of what was found, a report on quirks alone, in place of those it has."""
    about, heading, _ = written.partition(TABLES)
    assert heading, f"docs/matrix.md has no line {TABLES!r}"
    report = matrix_markdown(found).partition("\n## Letters\n")[0]
    clients = report.index("| client |")
    tables = re.sub("^## ", "### ", report[clients:], flags=re.MULTILINE)
    said = f"sse-harness {found.version}, Python {found.python}, {found.date}"
    return f"{about}{heading}\n{said}. Quirks, uncut and byte by byte. Blank is right.\n\n{tables}"


def main() -> None:
    """Write both."""
    found = matrix(date=datetime.now(UTC).date().isoformat(), sdks=list(SDKS))
    PAGE.write_text(page(PAGE.read_text("utf-8"), found), encoding="utf-8")
    cases = list(quirk_cases())
    targets = [SdkTarget(sdk) for sdk in SDKS.values()]
    HELD.write_text(sdk_breaks_json({named(target): sdk_breaks(target, cases) for target in targets}), encoding="utf-8")


if __name__ == "__main__":
    main()
