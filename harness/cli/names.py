"""The names that a shell is offered for an argument or option: for `shell_complete=`. Loaded with every verb, so light.

A completer that fails leaves garbage on the command line, so what cannot be read offers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from harness.config import Project

PROGRAMS = ("harness", "sse-harness")  # the command, under both its names
Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def variable_of(program: str) -> str:
    """The variable by which a shell asks the program what can stand next. Source: click, "Shell Completion"."""
    return f"_{program.upper().replace('-', '_')}_COMPLETE"


def _offering(names: Callable[[click.Context], Iterable[tuple[str, str]]]) -> Completer:
    """A completer from a function that lists names, each with what it is ("" for nothing to say)."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from harness.errors import HarnessError

        try:
            listed = [*names(ctx)]
        except (HarnessError, OSError):
            return []
        given = ctx.params.get(param.name or "") or ()
        taken = {given} if isinstance(given, str) else {str(one) for one in given}
        return [
            CompletionItem(name, help=about or None)
            for name, about in listed
            if name.startswith(incomplete) and name not in taken
        ]

    return complete


def _project(ctx: click.Context) -> Project:
    from harness.config import load_project

    config = ctx.params.get("config")
    return load_project(Path(config) if config is not None else None, Path.cwd())


def _providers(ctx: click.Context) -> Iterable[tuple[str, str]]:
    return ((name, f"{one.dialect}, {one.model or ''}".rstrip(", ")) for name, one in _project(ctx).providers.items())


def _recorded(ctx: click.Context) -> Iterable[tuple[str, str]]:
    from harness.store import providers_of

    return ((name, "has fixtures") for name in providers_of(_project(ctx).fixtures))


def _either(ctx: click.Context) -> Iterable[tuple[str, str]]:
    return {**dict(_recorded(ctx)), **dict(_providers(ctx))}.items()


def _shapes(ctx: click.Context) -> Iterable[tuple[str, str]]:
    from harness.shapes import SHAPES
    from harness.store import shapes_of

    baseline = ctx.params.get("baseline")
    own = shapes_of(_project(ctx).fixtures, baseline) if isinstance(baseline, str) else []
    return {**SHAPES, **{name: "" for name in own if name not in SHAPES}}.items()


def _rules(ctx: click.Context) -> Iterable[tuple[str, str]]:
    from harness.catalogue import CATALOGUE

    return ((rule.code, str(rule.severity)) for rule in CATALOGUE.values())


def _faults(ctx: click.Context) -> Iterable[tuple[str, str]]:
    from harness.faults import FAULTS

    return ((name, kind.about) for name, kind in FAULTS.items())


def _dialects(ctx: click.Context) -> Iterable[tuple[str, str]]:
    from harness.conventions import CONVENTIONS

    return ((name, known.path) for name, known in CONVENTIONS.items())


def _presets(ctx: click.Context) -> Iterable[tuple[str, str]]:
    from harness.presets import presets as table

    return ((name, one.title) for name, one in table().items())


def _targets(ctx: click.Context) -> Iterable[tuple[str, str]]:
    from harness.adapters import SDKS
    from harness.clients.table import CLIENTS

    return [*((f"sdk:{name}", "") for name in SDKS), *((f"client:{name}", "") for name in CLIENTS)]


providers = _offering(_providers)
recorded = _offering(_recorded)
either = _offering(_either)
shapes = _offering(_shapes)
rules = _offering(_rules)
faults = _offering(_faults)
dialects = _offering(_dialects)
presets = _offering(_presets)
targets = _offering(_targets)
