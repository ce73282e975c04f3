"""How a wrong client is declared: by a decorator, beside the one thing that is wrong in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from harness.clients.model import ClientModel

WRONG: dict[str, ClientModel] = {}
"""The wrong client models that have been imported, by name."""

NO_RECOVERY = ("tool_calls", "reasoning", "refusal", "choices", "finish_reason", "terminal", "usage", "error")


class _Runs(Protocol):
    @classmethod
    def run(cls, body: Iterable[bytes], dialect: str) -> dict[str, Any]: ...


_Class = TypeVar("_Class", bound=type[_Runs])


def wrong(
    name: str,
    killed_by: str,
    dialects: tuple[str, ...] = ("chat",),
    *,
    about: str,
    features: tuple[str, ...] | None = None,
    bends_bytes: bool = False,
) -> Callable[[_Class], _Class]:
    """Declare a wrong client model: its name, the clearest case it fails, what it does in one sentence."""

    def declare(cls: _Class) -> _Class:
        WRONG[name] = ClientModel(
            name=name, about=about, dialects=dialects, right=False, function=cls.run, killed_by=killed_by,
            features=features, bends_bytes=bends_bytes,
        )  # fmt: skip
        return cls

    return declare
