"""What a client model is: a small accumulator that reads as a known kind of consumer does, right or wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

ALL = ("chat", "responses", "anthropic", "gemini", "ollama")
SSE = ("chat", "responses", "anthropic", "gemini")

Accumulator = Callable[[Iterable[bytes], str], dict[str, Any]]
"""From a body in pieces and a dialect to message JSON or an OpenAI assistant message. Raises where the client does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientModel:
    """A client model. It can be called like any target of `check`: with the pieces, and `dialect=`.

    `about` is one sentence: for a wrong one, what it does. `killed_by` is the clearest case in which a wrong one fails,
    "" for a right one. `features` are those claimed, all if None. `bends_bytes`: it splits or decodes the bytes in its
    own way, so that where they are cut may matter; the others share the right reader's way.
    """

    name: str
    about: str
    dialects: tuple[str, ...]
    right: bool
    function: Accumulator
    killed_by: str = ""
    features: tuple[str, ...] | None = None
    bends_bytes: bool = False

    def __call__(self, body: Iterable[bytes], dialect: str = "chat") -> dict[str, Any]:
        """What this client makes of the body."""
        return self.function(body, dialect)
