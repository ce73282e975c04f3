"""The wire formats, by name. Modules are loaded when first asked for."""

from __future__ import annotations

from importlib import import_module

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


def dialect_class(name: str) -> type[Dialect]:
    """The class that reads the dialect. Raises KeyError for a name that is not built in."""
    class_name = BUILT_IN[name]
    found: type[Dialect] = getattr(import_module(f"harness.dialects.{name}"), class_name)
    return found


def dialect_named(name: str) -> type[Dialect]:
    """The dialect's class, for a name a user gave. Raises UsageError, which lists what there is."""
    try:
        return dialect_class(name)
    except KeyError:
        raise UsageError(f"{name}: no such dialect; there are {', '.join(BUILT_IN)}") from None
