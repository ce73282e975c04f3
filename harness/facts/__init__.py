"""Facts of a stream, one file for each dialect."""

from __future__ import annotations

from importlib import import_module

from harness.dialects import dialect_named
from harness.facts.base import Facts

BUILT_IN = {
    "anthropic": "AnthropicFacts", "chat": "ChatFacts", "cohere": "CohereFacts", "gemini": "GeminiFacts",
    "completions": "CompletionsFacts", "ollama": "OllamaFacts", "responses": "ResponsesFacts",
}  # fmt: skip
OTHERS: dict[str, type[Facts]] = {}  # those of plug-ins, once their dialect was asked for


def facts_for(dialect: str) -> Facts:
    """A new Facts object for the dialect; the common facts alone where there is no class of its own.

    Raises UsageError: no such dialect.
    """
    name = BUILT_IN.get(dialect)
    if name is None:
        dialect_named(dialect)
        return OTHERS.get(dialect, Facts)()
    found: type[Facts] = getattr(import_module(f"harness.facts.{dialect}"), name)
    return found()
