"""Targets that are known by a name: `sdk:openai-python`, a real SDK; `client:keys-by-id`, a client model."""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.machinery import PathFinder
from pathlib import Path

from harness.adapters import SDKS
from harness.claims import Claims
from harness.errors import UsageError
from harness.settings import suggestion
from harness.targets import RUN_SECONDS, CallableTarget, Target


def named_target(place: str, *, claims: Claims | None = None, timeout: float = RUN_SECONDS) -> Target | None:
    """The target of that name, None if the place is no such name.

    A module of the user's own may be called `sdk` or `client`: then what is not in our tables is looked up there.
    Raises UsageError: no such name, an SDK that is not installed, a dialect that it does not read.
    """
    kind, _, name = place.partition(":")
    if kind == "sdk":
        if name not in SDKS:
            return _elsewhere(place, SDKS)
        from harness.adapters.served import SdkTarget

        return SdkTarget(SDKS[name], claims=claims, timeout=timeout)
    if kind == "client":
        from harness.clients.table import CLIENTS

        if name not in CLIENTS:
            return _elsewhere(place, CLIENTS)
        return CallableTarget(CLIENTS[name], place, claims=claims, timeout=timeout)
    return None


def named_targets() -> list[tuple[str, str]]:
    """Every target that has a name, and what it is, in the order of their tables."""
    from harness.clients.table import CLIENTS

    sdks = [(f"sdk:{name}", sdk.drives) for name, sdk in SDKS.items()]
    return [*sdks, *((f"client:{name}", model.about) for name, model in CLIENTS.items())]


def _elsewhere(place: str, known: Collection[str]) -> Target | None:
    """None if there is a module in which the name may be; else UsageError."""
    kind, _, name = place.partition(":")
    if PathFinder.find_spec(kind, [str(Path.cwd()), *sys.path]) is not None:
        return None
    listed = f"there are {', '.join(known)}" if kind == "sdk" else "`harness check --list` names them"
    raise UsageError(f"target {place}: not known{suggestion(name, known) or ';'} {listed}")
