"""harness rules"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

import click

from harness.catalogue import CATALOGUE, EXPLAINS, Rule
from harness.catalogue_varies import VARIES
from harness.cli import names
from harness.cli.common import json_option, say, say_json, say_report
from harness.dialects import OTHERS
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
    """Explain the rules: all in a line each, those of an area or pattern, or CODE in full.

    docs/rules.md has them all on one page.

    \b
    harness rules
    harness rules usage
    harness rules 'tool.*'
    harness rules tool.index-reused
    """
    if code is None:
        _list(CATALOGUE.values(), as_json)
        return
    if not known_rule(code):  # which makes known those of a plug-in that is named
        pattern = code if any(sign in code for sign in "*?[") else f"{code.removesuffix('.')}.*"
        if found := [rule for rule in CATALOGUE.values() if fnmatchcase(rule.code, pattern)]:
            _list(found, as_json)
            return
        near = get_close_matches(code, CATALOGUE, n=3)
        raise UsageError(f"{code}: no such rule; near it: {', '.join(near) or 'none'}; `harness rules` lists them all")
    rule = CATALOGUE[code]
    if as_json:
        say_json(as_object(rule))
        return
    say_report(f"{rule.code}: {rule.severity}")
    if code in VARIES:
        say(f"  may be {varies(rule)}")
    say(f"  {_spoken(rule)}")
    say(f"  remedy: {rule.remedy}")
    say(f"  kind: {SIDES[rule.side]}")
    if rule.path:
        say(f"  reads: {rule.path if rule.path.startswith('behaviour') else 'wire.' + rule.path}")
    if code in EXPLAINS:
        say(f"  explains: {', '.join(EXPLAINS[code].split())}")
    if code.partition(".")[0] not in OTHERS:  # a plug-in's rules are on a page of its own, if at all
        say("  all rules: docs/rules.md")


def _list(rules: Iterable[Rule], as_json: bool) -> None:
    for rule in rules:
        if as_json:
            say_json(as_object(rule))
        else:
            say_report(f"{rule.severity:<10} {rule.code:<32} {_spoken(rule)}")


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


# What a finding fills in, in words that fit the sentences: what is in brackets goes, the second of two is another.
_WORDS = (
    (re.compile(r" \([^()]*\{detail\}[^()]*\)|(?<=\w)\{detail\}"), ""),
    (re.compile(r"(?:\ban? )?\{detail\}"), "..."),
    (re.compile(r"the \{baseline\} allowed"), "the limit allowed"),
    (re.compile(r"(?<=\{candidate\})(.*?)(?:\ban? )?\{baseline\}"), r"\1another"),
    (re.compile(r"(?:\ban? )?\{candidate\}"), "the candidate's value"),
    (re.compile(r"(?:\ban? )?\{baseline\}"), "the baseline's value"),
    (re.compile(r"its detail \{lost\}"), "details that the baseline has"),
    (re.compile(r"\{lost\}"), "what the baseline has"),
)


def _spoken(rule: Rule) -> str:
    """The sentence for people."""
    text = rule.says
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text.format()  # what is left of doubled braces


def _sentence(rule: Rule) -> str:
    """The sentence as JSON and docs/rules.md have it, with names for what a finding fills in."""
    filled = {name: f"<{name}>" for name in ("detail", "baseline", "candidate", "lost")}
    return rule.says.format(**filled)
