"""What a plug-in says of a dialect that is not built in, and what it is made of: all that its author imports.

A distribution offers it under the entry-point group GROUP, by the dialect's name (docs/dialects.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.conventions import AUTHS, Convention
from harness.dialects.base import Dialect, as_string, integer
from harness.facts.base import Facts
from harness.jsontext import as_text
from harness.rule import C, F, N, Rule
from harness.shapes import ASKED_ROWS, AskedRow

__all__ = [
    "ASKED_ROWS", "GROUP", "AskedRow", "C", "Convention", "Dialect", "F", "Facts", "N", "Plugin", "Rule", "as_string",
    "as_text", "integer",
]  # fmt: skip

GROUP = "sse_harness.dialects"
NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A dialect. Only `dialect` must be given: with it alone, recorded streams can be shown, linted and compared.

    `facts` gathers what the dialect has to tell beside the common facts. `rules` are its own, `explains` says which
    rules another one explains ({cause: "effect effect"}; shell patterns). Their codes start with the dialect's name
    and a dot, as do the paths of facts that difference rules own. `convention`: how an endpoint is asked. `asked`:
    where a request says what it asks for; without it nothing is due. `requests`: a folder of request files, SHAPE.json.
    """

    dialect: type[Dialect]
    facts: type[Facts] = Facts
    rules: Sequence[Rule] = ()
    explains: Mapping[str, str] = field(default_factory=dict)
    convention: Convention | None = None
    asked: AskedRow | None = None
    requests: Path | None = None


def problem_of(name: str, plugin: object) -> str | None:
    """What is wrong with what a plug-in offers under the name: the first thing, or None."""
    if not isinstance(plugin, Plugin):
        return f"is no harness.plugin.Plugin, but {_kind(plugin)}"
    try:
        return next(_problems(name, plugin), None)
    except Exception as exc:  # a list where a mapping is due, and the like
        return f"holds what no Plugin may ({type(exc).__name__}: {exc})"


def _problems(name: str, plugin: Plugin) -> Iterator[str]:
    if not NAME.fullmatch(name):
        yield "is offered under a name that is not one: lower-case letters, digits and -, a letter first"
    classes: list[tuple[str, object, type]] = [("dialect", plugin.dialect, Dialect), ("facts", plugin.facts, Facts)]
    for what, value, base in classes:
        if not (isinstance(value, type) and issubclass(value, base)):
            yield f"has as `{what}` no subclass of harness.plugin.{base.__name__}, but {_kind(value)}"
            return
    if getattr(plugin.dialect, "name", None) != name:
        yield f"is offered as {name}, but its dialect's `name` is {getattr(plugin.dialect, 'name', None)!r}"
    if plugin.dialect.framing not in ("sse", "ndjson"):
        yield f"has a dialect whose `framing` is {plugin.dialect.framing!r}, neither sse nor ndjson"
    own = re.compile(re.escape(name) + r"(\.[a-z][a-z0-9-]*)+")
    for rule in plugin.rules:
        yield from _rule_problems(own, name, rule)
    for cause, effects in plugin.explains.items():
        if not cause.startswith(f"{name}.") and not all(effect.startswith(f"{name}.") for effect in effects.split()):
            yield f"says that {cause} explains {effects}; either side must be its own: {name}.*"
    yield from _asking_problems(plugin)


def _rule_problems(own: re.Pattern[str], name: str, rule: object) -> Iterator[str]:
    if not isinstance(rule, Rule):
        yield f"has among its `rules` {_kind(rule)}, which is no harness.plugin.Rule"
        return
    if not own.fullmatch(rule.code):
        yield f"has the rule {rule.code!r}; its rules are called {name}.something"
    if rule.side not in ("note", "diff", "both", "lint"):
        yield f"says that the rule {rule.code} is for {rule.side!r}; it is for note, diff, both or lint"
    if bool(rule.path) != (rule.side in ("diff", "both")):
        has = "a" if rule.path else "no"
        yield f"gives the rule {rule.code} {has} path; rules for diff and both have one, and no others"
    if rule.path and not own.fullmatch(rule.path):
        yield f"lets the rule {rule.code} own {rule.path}; its paths are called {name}.something"
    try:
        rule.says.format(detail="", baseline="", candidate="", lost="")
    except (KeyError, IndexError, ValueError) as exc:
        yield f"has a sentence in the rule {rule.code} that cannot be filled in ({type(exc).__name__}: {exc})"


def _asking_problems(plugin: Plugin) -> Iterator[str]:
    convention = plugin.convention
    if convention is not None:
        if not isinstance(convention, Convention):
            yield f"has as `convention` no harness.plugin.Convention, but {_kind(convention)}"
            return
        if not convention.path.startswith("/"):
            yield f"is asked at {convention.path!r}, which does not start with /"
        if convention.auth not in AUTHS and not convention.auth.startswith("header:"):
            yield f"has the auth {convention.auth!r}; there are {', '.join(AUTHS)}"
    if plugin.asked is not None and not isinstance(plugin.asked, AskedRow):
        yield f"has as `asked` no harness.plugin.AskedRow, but {_kind(plugin.asked)}"
    if plugin.requests is not None and not plugin.requests.is_dir():
        yield f"has its request files in {plugin.requests}, which is no folder"


def _kind(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
