"""The wire formats, by name. Modules are loaded when first asked for."""

from __future__ import annotations

from importlib import import_module

from harness.dialects.base import Dialect

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
    found: type[Dialect] = getattr(import_module(f"harness.dialects.{name}"), BUILT_IN[name])
    return found
