"""Many things done by several processes; the results come in the order of the things, however many processes there are.

The processes are spawned, not forked: they share no lock, thread or socket with this one. Each has a pipe of its own
and ends when that closes, so none is left over however this process ends. Ctrl-C is for this process alone, which ends
the others.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from harness.errors import HarnessError, UsageError

T = TypeVar("T")
R = TypeVar("R")

PATIENCE = 0.5  # seconds of work in this process before others are started, which cost about that each
BATCH = 0.1  # seconds of work handed over at once, so that handing over costs next to nothing
MOST = 64  # things in a batch
AHEAD = 4  # batches a process may be ahead of the oldest one that is not done: what is kept is bounded


def processors() -> int:
    """How many processors this process may use."""
    with suppress(AttributeError):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    work: Callable[[T], R], items: Iterable[T], jobs: int | None = None, *, here: Callable[[T], bool] | None = None
) -> Generator[R, None, None]:  # fmt: skip
    """What `work` makes of each item, in their order; the items are taken as they are needed.

    Without `jobs` one process per processor is used, once this one has worked for PATIENCE seconds and there is more
    to do. `work` and the items are pickled; what `here` is true of is done in this process. What `work` raises is
    raised when its turn comes. Close the iterator (contextlib.closing) to end the processes at once.

    Raises UsageError when a process dies, e.g. killed for want of memory, or when none can be started.
    """
    rest = iter(items)
    count = processors() if jobs is None else jobs
    patience = PATIENCE if jobs is None else 0.0
    start = time.monotonic()
    while count == 1 or time.monotonic() - start < patience:
        for item in islice(rest, 1):
            yield work(item)
            break
        else:
            return
    first = list(islice(rest, 2))
    if len(first) == 2:
        yield from _Crew(work, count, here).results(chain(first, rest))
    else:
        yield from map(work, first)


class _Batch(Generic[T, R]):
    """Things handed over together: their results so far, and what one of them raised."""

    def __init__(self, items: list[T]) -> None:
        self.items = items
        self.results: list[R] = []
        self.failure: Exception | None = None
        self.done = False


class _Crew(Generic[T, R]):
    """Processes that do one kind of work."""

    def __init__(self, work: Callable[[T], R], count: int, here: Callable[[T], bool] | None) -> None:
        self.work, self.count, self.here = work, count, here
        self.size = 1  # things in the next batch: doubled while a batch takes less than BATCH
        self.processes: list[BaseProcess] = []
        self.idle: list[Connection] = []
        self.busy: dict[Connection, _Batch[T, R]] = {}
        self.owner: dict[Connection, BaseProcess] = {}

    def results(self, items: Iterator[T]) -> Iterator[R]:
        """All results, in order. Ends the processes however it ends itself."""
        rest, open_batches, more = items, deque[_Batch[T, R]](), True
        try:
            while True:
                while more and len(open_batches) < AHEAD * self.count and (self.idle or self._grow()):
                    batch, rest = self._next(rest)
                    if batch is None:
                        more = False
                        break
                    open_batches.append(batch)
                    if not batch.done:
                        self._hand_over(batch)
                while open_batches and open_batches[0].done:
                    batch = open_batches.popleft()
                    yield from batch.results
                    if batch.failure is not None:
                        raise batch.failure
                if not open_batches and not more:
                    return
                if self.busy and not (open_batches and open_batches[0].done):
                    for found in wait(list(self.busy)):
                        self._take(found)  # type: ignore[arg-type]
        finally:
            self._end()

    def _next(self, rest: Iterator[T]) -> tuple[_Batch[T, R] | None, Iterator[T]]:
        """The next batch, and what is left then; what must be done here is a batch of its own, done."""
        items: list[T] = []
        for item in rest:
            if self.here is not None and self.here(item):
                if items:
                    return _Batch(items), chain([item], rest)
                batch = _Batch[T, R]([item])
                try:
                    batch.results.append(self.work(item))
                except Exception as exc:  # raised when its turn comes
                    batch.failure = exc
                batch.done = True
                return batch, rest
            items.append(item)
            if len(items) >= self.size:
                break
        return (_Batch(items) if items else None), rest

    def _hand_over(self, batch: _Batch[T, R]) -> None:
        connection = self.idle.pop()
        self.busy[connection] = batch
        try:
            connection.send(batch.items)
        except OSError as exc:
            raise self._died(connection) from exc

    def _take(self, connection: Connection) -> None:
        try:
            results, failure, seconds = connection.recv()
        except (EOFError, OSError) as exc:
            raise self._died(connection) from exc
        batch = self.busy.pop(connection)
        batch.results, batch.failure, batch.done = results, failure, True
        self.idle.append(connection)
        if seconds < BATCH / 2 and len(batch.items) == self.size:
            self.size = min(MOST, 2 * self.size)
        elif seconds > 2 * BATCH:
            self.size = max(1, self.size // 2)

    def _died(self, connection: Connection) -> UsageError:
        process, batch = self.owner[connection], self.busy[connection]
        process.join(5)
        code = process.exitcode
        how = f"was killed (signal {-code})" if code is not None and code < 0 else f"ended with exit code {code}"
        first, last = batch.items[0], batch.items[-1]
        what = f"at {first}" if len(batch.items) == 1 else f"somewhere from {first} to {last}"
        return UsageError(f"a worker process {how} {what}; is memory short? --jobs 1 works in one process")

    def _grow(self) -> bool:
        """Start one more process, if there may be one. Where the system has room for no more, those there are do it."""
        if len(self.processes) >= self.count:
            return False
        try:
            self._start()
        except OSError as exc:
            if not self.processes:
                why = exc.strerror or exc
                raise UsageError(f"no process can be started: {why}; --jobs 1 works in this one alone") from exc
            self.count = len(self.processes)
            return False
        return True

    def _start(self) -> None:
        """One more process, which waits for work."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(self.work, theirs), daemon=True)
        # Ctrl-C reaches every process of a terminal. A new one inherits that it is blocked, so it cannot be hit before
        # it can ignore it; here it is only put off. The tracker that comes with the first process would undo that.
        if hasattr(signal, "pthread_sigmask"):
            resource_tracker.ensure_running()
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            try:
                process.start()
                self.processes.append(process)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        else:
            process.start()
            self.processes.append(process)
        theirs.close()  # else its end would not show
        self.owner[ours] = process
        self.idle.append(ours)

    def _end(self) -> None:
        for connection in self.owner:
            connection.close()
        for process in self.processes:
            if self.busy:  # left in the middle: nobody waits for the rest
                process.terminate()
        for process in self.processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()


def _serve(work: Callable[[Any], Any], connection: Connection) -> None:
    """What a process does: batches, until there are no more or nobody is left to tell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        while True:
            items = connection.recv()
            start, results, failure = time.monotonic(), list[Any](), None
            for item in items:
                try:
                    results.append(work(item))
                except Exception as exc:
                    failure = _sendable(exc)
                    break
            connection.send((results, failure, time.monotonic() - start))


def _sendable(exc: Exception) -> Exception:
    """The exception, or what says the same if it does not survive being sent."""
    try:
        return pickle.loads(pickle.dumps(exc))  # type: ignore[no-any-return]
    except Exception:
        return HarnessError(f"bug: {type(exc).__name__}: {exc}")
