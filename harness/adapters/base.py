"""What adapters of real SDKs have in common: what an SDK is to us, what it is asked, and how its words become ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

MODEL = "replayed"
PROMPT = "Say hello."
KEY = "none"  # the server asks for none, and a key from the environment would have no business there

Read = Callable[[str, str], Any]
"""(base URL, dialect) -> message JSON. An exception is the SDK's rejection; an Answer says how else it ended."""


class Sdk(msgspec.Struct, frozen=True, kw_only=True):
    """A published SDK. `package` is its name in its registry; `module`, in this folder, drives it.

    `drives` says in words which of its interfaces reads the stream. `features` are those its answers can show.
    """

    name: str
    package: str
    language: str
    module: str
    dialects: tuple[str, ...]
    features: tuple[str, ...]
    drives: str


def asked() -> list[dict[str, str]]:
    """The conversation that is sent: the answer is the trial's, whatever is asked."""
    return [{"role": "user", "content": PROMPT}]


def normal(raw: Any, table: Mapping[str, str]) -> str | None:
    """A finish reason as sent in its normal form; null and empty are none (cases/README, "finish_reason")."""
    return (table.get(raw, "other") if isinstance(raw, str) else "other") if raw else None


def usage(given: Any, names: Sequence[str]) -> dict[str, Any] | None:
    """Counters from an SDK's usage object; `names` are its attributes for input and output tokens."""
    if given is None:
        return None
    counts = [getattr(given, name, None) for name in names]
    return {"input_tokens": counts[0], "output_tokens": counts[1]}


def numbered(calls: Sequence[tuple[Any, Any, Any]]) -> list[dict[str, Any]]:
    """Calls (id, name, arguments) as message JSON has them, in the SDK's order. Values stay as the SDK gives them."""
    return [
        {"index": index, "id": call_id, "name": name, "arguments": arguments}
        for index, (call_id, name, arguments) in enumerate(calls)
    ]


def joined(parts: Sequence[Any]) -> Any:
    """The texts joined; the parts themselves if one is no text, so that the difference shows it."""
    parts = [part for part in parts if part is not None]
    return "".join(parts) if all(isinstance(part, str) for part in parts) else list(parts)
