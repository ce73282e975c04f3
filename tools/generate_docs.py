"""Writes docs/rules.md: every rule of the catalogue, as `harness rules CODE` explains it.

    python tools/generate_docs.py            writes the page
    python tools/generate_docs.py --check    says whether it would change; exit 1 if it would
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from harness.catalogue import CATALOGUE, EXPLAINS
from harness.cli.rules import SIDES, as_object
from harness.rule import Rule

PAGE = Path(__file__).resolve().parent.parent / "docs" / "rules.md"

HEAD = """\
# Rules

<!-- Written by tools/generate_docs.py: do not edit. -->

What `harness lint`, `diff` and `gate` can say about a stream. `harness rules CODE` explains one rule. Codes are stable:
they stand in acceptances (`harness accept`).

**Severity.** *cosmetic* passes. *negotiable* fails a gate until it is accepted with a reason. *fatal* fails, and can be
accepted up to a day only. A stream can make a rule milder or worse than it stands here (two calls without an id are
worse than one); the finding says so. `<detail>` and the like are filled in from the bytes.

**Kind.**
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield HEAD.rstrip("\n")
    for side, meaning in SIDES.items():
        yield f"- *{side}*: {meaning}."
    rules = sorted(CATALOGUE.values(), key=_order)
    for area, members in groupby(rules, key=_area):
        yield f"\n## {area}\n\n| code | severity | says | remedy | kind |\n|---|---|---|---|---|"
        for rule in members:
            found = as_object(rule)
            cells = [f"`{rule.code}`", str(rule.severity), str(found["says"]), rule.remedy, rule.side]
            yield f"| {' | '.join(map(_cell, cells))} |"
    yield "\n## One cause, one finding\n\nA rule on the left explains those on the right: only the first is told.\n"
    yield "| rule | explains |\n|---|---|"
    for cause in sorted(EXPLAINS):
        yield f"| `{cause}` | {', '.join(f'`{pattern}`' for pattern in EXPLAINS[cause].split())} |"


def _area(rule: Rule) -> str:
    return rule.code.partition(".")[0]


def _order(rule: Rule) -> int:
    """Areas in the order of the catalogue; within one, the catalogue's order stays."""
    areas = list(dict.fromkeys(map(_area, CATALOGUE.values())))
    return areas.index(_area(rule))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<")


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the page is stale")
    arguments = parser.parse_args()
    text = page()
    if arguments.check:
        if not PAGE.is_file() or PAGE.read_text("utf-8") != text:
            sys.exit(f"{PAGE}: stale; write it anew with: python tools/generate_docs.py")
    else:
        PAGE.write_text(text, "utf-8", newline="\n")


if __name__ == "__main__":
    main()
