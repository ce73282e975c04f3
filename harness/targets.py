"""Targets: accumulators under test, and how they are run. Contract: DESIGN, "Targets"; for users: docs/targets.md.

Here are Python callables; commands in any language are in commands.py. A run is one stream through the target, cut in
one way, with a time limit.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from sysconfig import get_paths
from traceback import walk_tb
from typing import Any, Protocol

import msgspec

from harness.answers import Answer
from harness.claims import Claims, claims_of
from harness.cuts import pieces
from harness.data import PACKAGE
from harness.dialects import BUILT_IN, dialect_class
from harness.errors import UsageError
from harness.faults import Fault
from harness.history import assistant_message, tool_message
from harness.jsontext import Undecodable, decode
from harness.message import Message
from harness.recording import Recording
from harness.reduce import Reducer
from harness.secrets import credentials, masked
from harness.settings import suggestion
from harness.sse import LineParser, ServerSentEvent, SSEParser

RUN_SECONDS = 10.0  # a run that takes longer hangs: the largest quirk byte by byte takes a slow reader about a second
REASON_LENGTH = 200  # characters of a reason that are kept


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run: a recording's body, cut at the offsets (ascending). `case` is its name.

    Where the recording is one that was broken, `unbroken` is what it was and `faults` say how: a server plays those, so
    that a target that asks a server meets them as they are on the wire.
    """

    case: str
    dialect: str
    recording: Recording
    cuts: Sequence[int] = ()
    unbroken: Recording | None = None
    faults: tuple[Fault, ...] = ()

    @property
    def pieces(self) -> list[bytes]:
        """The body as it is handed over."""
        return pieces(self.recording.body, self.cuts)


class Target(Protocol):
    """What `check` runs. `unseen` says in sentences what cannot be observed with this kind of target.

    `parallel`: several runs may go on at once.
    """

    name: str
    claims: Claims
    sees_cuts: bool
    sees_status: bool
    parallel: bool
    unseen: tuple[str, ...]

    def run(self, trial: Trial) -> Answer:
        """Feed one stream to the target. Never raises for what the target does."""

    def command(self, options: Sequence[str]) -> list[str]:
        """The command line that checks this target again, with the options given."""


class CallableTarget:
    """A function of the body's pieces (`Iterable[bytes]`) or, with `payloads`, of its decoded payloads.

    It is given `dialect=` if it takes a parameter of that name. Raising any Exception is rejecting the stream.
    """

    sees_status = False
    parallel = False  # one process has one stdout, and one interpreter

    def __init__(
        self,
        function: Callable[..., Any],
        name: str = "",
        *,
        payloads: bool | None = None,
        claims: Claims | None = None,
        timeout: float = RUN_SECONDS,
    ) -> None:
        self.function = function
        self.name = name or f"{function.__module__}:{getattr(function, '__qualname__', type(function).__name__)}"
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            raise UsageError(f"{self.name}: is a coroutine function; wrap it in one that calls asyncio.run")
        self.payloads = bool(getattr(function, "payloads", False)) if payloads is None else payloads
        own = claims_of(self.name, getattr(function, "dialects", None), getattr(function, "features", None))
        self.claims = (claims or Claims()).over(own)
        self.timeout = timeout
        self.sees_cuts = not self.payloads
        self.unseen: tuple[str, ...] = ()
        if self.payloads:
            self.unseen = ("cuts, framing and the end marker: the target is given decoded payloads",)
        self._options = ("--payloads",) if payloads else ()
        self._takes_dialect = _takes_dialect(function)

    def run(self, trial: Trial) -> Answer:
        """Call the function, within the time limit."""
        given: Iterator[Any] = iter(payloads_of(trial) if self.payloads else trial.pieces)
        settings = {"dialect": trial.dialect} if self._takes_dialect else {}
        return answered(lambda: self.function(given, **settings), self.timeout)

    def command(self, options: Sequence[str]) -> list[str]:
        """`harness check module:function ...`"""
        return ["harness", "check", self.name, *self._options, *self.claims.options, *options]


def answered(call: Callable[[], Any], seconds: float) -> Answer:
    """What the call comes to within so many seconds: what it returns is accepted, an Exception is a rejection.

    It runs in a thread; one that takes too long is stopped if it can be, and left behind if not. What it writes to
    stdout goes to stderr: stdout is for reports.
    """
    ended: list[Answer] = []
    thread = threading.Thread(target=_attempt, args=(call, ended), name="target", daemon=True)
    with redirect_stdout(sys.stderr):
        thread.start()
        thread.join(seconds)
    if ended:
        return ended[0]
    _interrupt(thread)
    return Answer(state="hung", reason=f"not done after {seconds:g} seconds")


class _Interrupt(BaseException):
    """Raised inside a target that takes too long. Not an Exception, so that none of its handlers takes it for one."""


def _attempt(call: Callable[[], Any], ended: list[Answer]) -> None:
    try:
        try:
            ended.append(Answer(state="accepted", value=call()))
        except (MemoryError, RecursionError) as exc:  # no verdict on the stream
            ended.append(Answer(state="broke", reason=_reason(exc)))
        except Exception as exc:
            ended.append(Answer(state="rejected", reason=_reason_and_place(exc)))
        except _Interrupt:
            raise
        except BaseException as exc:
            ended.append(Answer(state="broke", reason=_reason(exc)))
    except _Interrupt:
        pass


def _interrupt(thread: threading.Thread) -> None:
    """Raise _Interrupt in the thread: it ends a loop of Python code, but no call that waits outside of it."""
    if thread.ident is not None and thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Interrupt))
        thread.join(0.5)


def _reason(exc: BaseException) -> str:
    try:
        # Masked before it is cut: the target runs with our keys in its environment.
        text = " ".join(masked(str(exc), credentials(os.environ).values()).split())
    except Exception:  # an exception of the target's own, which cannot say what it is
        text = ""
    return f"{type(exc).__name__}: {text}"[:REASON_LENGTH] if text else type(exc).__name__


def _reason_and_place(exc: BaseException) -> str:
    reason, place = _reason(exc), _place(exc)
    # The type stands before the first colon, with a text or without.
    return f"{reason}{' ' if ':' in reason else ': '}at {place}" if place else reason


def _place(exc: BaseException) -> str:
    """`mine.py:10`: the last line of the user's own code that the exception came through; "" if there is none."""
    last = ""
    for frame, line in walk_tb(exc.__traceback__):
        path = Path(frame.f_code.co_filename)
        if _own(path):
            here = Path.cwd()
            last = f"{path.relative_to(here) if path.is_relative_to(here) else path.name}:{line}"
    return last


def _own(path: Path) -> bool:
    """Whether a file is the user's: not ours, not Python's, not an installed package's, and a file at all."""
    if not path.is_absolute() or {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(map(path.is_relative_to, (PACKAGE, *_PYTHONS)))


_PYTHONS = [Path(get_paths()[name]) for name in ("stdlib", "platstdlib")]


def _takes_dialect(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):  # a builtin without a signature
        return False
    return any(
        (one.name == "dialect" and one.kind is not one.POSITIONAL_ONLY) or one.kind is one.VAR_KEYWORD
        for one in parameters
    )


def payloads_of(trial: Trial) -> Iterator[Any]:
    """The JSON payloads up to the end marker, as a standard reader and a JSON decoder would hand them over."""
    dialect = dialect_class(trial.dialect)
    parser = SSEParser() if dialect.framing == "sse" else LineParser()
    for item in [*parser.feed(trial.recording.body), *parser.finish()]:
        if not isinstance(item, ServerSentEvent) or not item.terminated:
            continue
        if dialect.marker is not None and item.data.strip() == dialect.marker:
            return
        try:
            yield decode(item.data)
        except Undecodable:
            continue


def load_callable(
    place: str,
    *,
    root: Path | None = None,
    payloads: bool | None = None,
    claims: Claims | None = None,
    timeout: float = RUN_SECONDS,
) -> CallableTarget:
    """The target at `package.module:callable`, looked up in `root` (by default the current folder) first.

    Raises UsageError: not written like that, a module that cannot be imported, nothing callable of that name.
    """
    module_name, colon, path = place.partition(":")
    if module_name.endswith(".py"):
        module = ".".join(Path(module_name).with_suffix("").parts).lstrip("/.")
        problem = f"write the module as you would import it: {module}:{path or 'accumulate'}"
        raise UsageError(f"target {place!r}: {problem}")
    if not colon or not module_name or not path:
        raise UsageError(f"target {place!r}: write package.module:callable, or a command after --")
    folder = str((root or Path.cwd()).resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as exc:
        if exc.name and (module_name == exc.name or module_name.startswith(exc.name + ".")):
            problem = f"no module {exc.name!r} in {folder} or installed; write it as you would import it"
            raise UsageError(f"target {place}: {problem}") from exc
        raise UsageError(f"target {place}: importing {module_name} failed: {_reason(exc)}; install it") from exc
    except Exception as exc:
        raise UsageError(f"target {place}: importing {module_name} failed: {_reason(exc)}; correct it") from exc
    for name in path.split("."):
        if not hasattr(found, name):
            near = suggestion(name, dir(found)) or "; check the name after the colon"
            raise UsageError(f"target {place}: {module_name} has no {name!r}{near}")
        found = getattr(found, name)
    if not callable(found):
        kind = type(found).__name__
        raise UsageError(f"target {place}: {path} is of type {kind}; name something that can be called with the pieces")
    return CallableTarget(found, place, payloads=payloads, claims=claims, timeout=timeout)


class _Reference:
    """The reference target: our own Reducer, with the history its message makes."""

    dialects = tuple(BUILT_IN)

    def __call__(self, body: Iterable[bytes], dialect: str = "chat") -> tuple[Message, list[dict[str, Any]]]:
        """Message, and the next request's messages with a made-up result for each call."""
        reducer = Reducer(dialect)
        for piece in body:
            reducer.feed(piece)
        reducer.finish()
        message = reducer.message()
        results = [tool_message(call, "done") for call in message.tool_calls]
        return message, [{"role": "user", "content": "Go on."}, assistant_message(message, repair=True), *results]


reference = _Reference()
