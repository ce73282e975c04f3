"""Dialects of plug-ins: looked up among the entry points, and only when a name is asked for that is not built in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from harness import dialects, facts
from harness.catalogue import CATALOGUE, EXPLAINS
from harness.conventions import CONVENTIONS
from harness.data import REQUESTS
from harness.dialects.base import Dialect
from harness.errors import HarnessError, UsageError
from harness.facts.base import Facts
from harness.plugin import GROUP, Plugin, problem_of
from harness.shapes import ASKED_ROWS
from harness.sse import ServerSentEvent

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

# The methods through which a plug-in's code is called.
READING = ("read", "end", "finish", "after_error", "fail")
GATHERING = ("payload", "text", "after", "close")


def names() -> set[str]:
    """The names that are installed. Nothing of them is loaded."""
    return {entry.name for entry in _entries()}


def find(name: str) -> type[Dialect] | None:
    """Load the plug-in and make known all it says. None if there is none; UsageError, naming it, if it is broken."""
    entries = [entry for entry in _entries() if entry.name == name]
    if not entries:
        return None
    if len(entries) > 1:
        raise UsageError(f"dialect {name}: offered by {' and by '.join(sorted(map(_origin, entries)))}; uninstall one")
    (entry,) = entries
    try:
        plugin = entry.load()
    except Exception as exc:
        raise UsageError(_blame(entry, f"cannot be loaded ({type(exc).__name__}: {exc})")) from exc
    problem = problem_of(name, plugin)
    if problem is not None:
        raise UsageError(_blame(entry, problem))
    return _make_known(name, plugin, entry)


def know(wanted: Iterable[str | None]) -> None:
    """Make known those of these dialects that are installed; the others stay unknown."""
    for name in {name for name in wanted if name is not None}:
        with suppress(KeyError):
            dialects.dialect_class(name)


def known_rule(code: str) -> bool:
    """Whether there is a rule of that code, built in or of the plug-in whose dialect it names."""
    if code not in CATALOGUE and code.partition(".")[0] in names():
        dialects.dialect_named(code.partition(".")[0])
    return code in CATALOGUE


def _entries() -> Sequence[EntryPoint]:
    from importlib.metadata import entry_points  # late: reading what is installed takes as long as reading a stream

    return list(entry_points(group=GROUP))


def _origin(entry: EntryPoint) -> str:
    return f"{entry.value} ({entry.dist.name} {entry.dist.version})" if entry.dist is not None else entry.value


def _blame(entry: EntryPoint, problem: str) -> str:
    return f"dialect {entry.name}: the plug-in {_origin(entry)} {problem}; ask its author, or uninstall it"


def _make_known(name: str, plugin: Plugin, entry: EntryPoint) -> type[Dialect]:
    CATALOGUE.update({rule.code: rule for rule in plugin.rules})
    for cause, effects in plugin.explains.items():
        EXPLAINS[cause] = f"{EXPLAINS.get(cause, '')} {effects}".strip()
    if plugin.convention is not None:
        CONVENTIONS[name] = plugin.convention
    if plugin.asked is not None:
        ASKED_ROWS[name] = plugin.asked
    if plugin.requests is not None:
        REQUESTS[name] = plugin.requests
    facts.OTHERS[name] = plugin.facts if plugin.facts is Facts else _guarded(plugin.facts, GATHERING, entry)
    dialects.OTHERS[name] = found = _guarded(plugin.dialect, READING, entry)
    return found


def _guarded(cls: type[T], methods: Sequence[str], entry: EntryPoint) -> type[T]:
    """The class, with what its methods raise told as the plug-in's failure: nothing a server sends may crash us."""
    guarded: type[T] = type(cls.__name__, (cls,), {name: _guard(getattr(cls, name), entry) for name in methods})
    return guarded


def _guard(method: Callable[..., Any], entry: EntryPoint) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any) -> Any:
        try:
            return method(self, *args)
        except HarnessError:
            raise
        except Exception as exc:
            at = next((f" at byte {value.at}" for value in args if isinstance(value, ServerSentEvent)), "")
            problem = f"failed in `{method.__name__}`{at} ({type(exc).__name__}: {exc})"
            raise UsageError(_blame(entry, problem)) from exc

    return call
