"""harness rules"""

from __future__ import annotations

from difflib import get_close_matches

import click

from harness.catalogue import CATALOGUE, EXPLAINS, Rule
from harness.catalogue_varies import VARIES
from harness.cli import names
from harness.cli.common import json_option, say, say_json, say_report
from harness.errors import UsageError
from harness.runs.dialects import known_rule

SIDES = {
    "note": "an oddity of one stream; in a comparison it counts where the baseline lacks it",
    "diff": "a difference between two streams only",
    "both": "an oddity of one stream; in a comparison the baseline's own form is the norm",
    "lint": "an oddity of one stream; never a difference",
    "run": "judged by gate alone, from times or from a second answer",
}


@click.command()
@click.argument("code", required=False, shell_complete=names.rules)
@json_option
def rules(code: str | None, as_json: bool) -> None:
    """Explain the rules: all in a line each, or CODE in full.

    \b
    harness rules
    harness rules tool.index-reused
    """
    if code is None:
        for rule in CATALOGUE.values():
            if as_json:
                say_json(as_object(rule))
            else:
                say_report(f"{rule.severity:<10} {rule.code:<32} {_sentence(rule)}")
        return
    if not known_rule(code):
        near = get_close_matches(code, CATALOGUE, n=3)
        raise UsageError(f"{code}: no such rule; near it: {', '.join(near) or 'none'}; `harness rules` lists them all")
    rule = CATALOGUE[code]
    if as_json:
        say_json(as_object(rule))
        return
    say_report(f"{rule.code}: {rule.severity}")
    if code in VARIES:
        say(f"  may be {varies(rule)}")
    say(f"  {_sentence(rule)}")
    say(f"  remedy: {rule.remedy}")
    say(f"  kind: {SIDES[rule.side]}")
    if rule.path:
        say(f"  reads: {rule.path if rule.path.startswith('behaviour') else 'wire.' + rule.path}")
    if code in EXPLAINS:
        say(f"  explains: {', '.join(EXPLAINS[code].split())}")


def as_object(rule: Rule) -> dict[str, object]:
    """One rule as JSON."""
    return {
        "code": rule.code, "severity": rule.severity, "kind": rule.side, "says": _sentence(rule),
        "remedy": rule.remedy, "path": rule.path, "explains": EXPLAINS.get(rule.code, "").split(),
    }  # fmt: skip


def varies(rule: Rule) -> str:
    """When the severity is another: `worse: fatal where ...`; "" if it never is."""
    if rule.code not in VARIES:
        return ""
    severity, when = VARIES[rule.code]
    return f"{'worse' if severity.rank > rule.severity.rank else 'milder'}: {severity} where {when}"


def _sentence(rule: Rule) -> str:
    filled = {name: f"<{name}>" for name in ("detail", "baseline", "candidate", "lost")}
    return rule.says.format(**filled)
