"""The wire formats, by name. Modules are loaded when first asked for."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Protocol

from harness.dialects.base import Dialect
from harness.errors import UsageError

BUILT_IN = {
    "chat": "Chat",
    "responses": "Responses",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "ollama": "Ollama",
    "completions": "Completions",
    "cohere": "Cohere",
}
OTHERS: dict[str, type[Dialect]] = {}  # those of plug-ins, once they were asked for


class Finder(Protocol):
    """Finds dialects that are not built in. `harness.runs` brings one: this package knows of no installation."""

    def names(self) -> Collection[str]:
        """The names that are installed beside the built-in ones."""

    def find(self, name: str) -> type[Dialect] | None:
        """Make the dialect known, with all that comes with it. None if it is not installed. UsageError if broken."""


finder: Finder | None = None


def dialect_class(name: str) -> type[Dialect]:
    """The class that reads the dialect. Raises KeyError for a name that is neither built in nor installed."""
    if name in BUILT_IN:
        built_in: type[Dialect] = getattr(import_module(f"harness.dialects.{name}"), BUILT_IN[name])
        return built_in
    found = OTHERS.get(name)
    if found is None and finder is not None:
        found = finder.find(name)
    if found is None:
        raise KeyError(name)
    return found


def dialect_named(name: str) -> type[Dialect]:
    """The dialect's class, for a name a user gave. Raises UsageError, which lists what there is."""
    try:
        return dialect_class(name)
    except KeyError:
        raise UsageError(f"{name}: no such dialect; there are {', '.join(dialect_names())}") from None


def dialect_names() -> list[str]:
    """The built-in names, then those that are installed."""
    return [*BUILT_IN, *sorted(() if finder is None else {*finder.names()} - BUILT_IN.keys())]
