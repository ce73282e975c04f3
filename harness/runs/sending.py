"""What a run may send to a provider: requests are counted, their cost is reckoned, caps stop it; and how it is stopped.

Tokens that nobody told are bounded by bytes: a token is a byte or more, in a request's body as in an answer's text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Lock
from typing import TypeVar

from harness.bodies import Prepared
from harness.config import Caps, Prices, Provider
from harness.errors import NotMeasured
from harness.message import Message
from harness.partial import KEPT
from harness.shapes import asked_of

T = TypeVar("T")


def token_ceilings(prepared: Prepared) -> tuple[int, int | None]:
    """The most tokens that one copy of the request has, and that its answer may have; null: the request sets no limit.

    Of several choices each may be as long.
    """
    asked = asked_of(prepared.endpoint.dialect or "chat", prepared.body)
    limit = asked.max_tokens * max(asked.n, 1) if asked is not None and asked.max_tokens else None
    return len(prepared.endpoint.body), limit


def cost_of(prices: Prices | None, input_tokens: int, output_tokens: int) -> float:
    """What so many tokens cost; 0 without prices."""
    return 0.0 if prices is None else (input_tokens * prices.input + output_tokens * prices.output) / 1e6


class Allowance:
    """What one run may still send to one provider, shared by the threads of that run.

    A request is counted before it goes out, at the most it may cost; once answered, at what the answer's usage says.
    Without a limit on tokens in the request, that most is not known: the run stops at the request after the one that
    went over the cap.
    """

    def __init__(self, provider: Provider | None = None) -> None:
        self.name = provider.name if provider is not None else ""
        self.caps = provider.caps if provider is not None else Caps()
        self.prices = provider.prices if provider is not None else None
        self.requests = 0
        self.cost = 0.0  # of what is answered
        self._reserved = 0.0  # for what is on its way, or never came to an answer
        self._stopped = False
        self._running: list[Callable[[], object]] = []  # what cancels a request on its way
        self._lock = Lock()

    def send(self, prepared: Prepared) -> float:
        """Count a request that is to go out; returns what is reserved for it. Raises NotMeasured at a cap."""
        copies = prepared.concurrent
        given, limit = token_ceilings(prepared)
        most = copies * cost_of(self.prices, given, limit or 0)
        with self._lock:
            self._count(copies)
            cap = self.caps.cost
            if cap is not None and self.cost + self._reserved + most > cap:
                self.requests -= copies
                spent, more = self.cost + self._reserved, f"the next request may cost {most:.6g}"
                raise self._reached("cost", f"{spent:.6g} of {cap:g} is spent and {more}")
            self._reserved += most
        return most

    def answered(self, prepared: Prepared, reserved: float, message: Message) -> None:
        """Reckon what an answered request cost, in place of what was reserved."""
        usage, given = message.usage, token_ceilings(prepared)[0]
        said = sum(
            len(text.encode("utf-8", "replace"))
            for choice in message.choices
            for text in (choice.text, choice.reasoning, *(call.arguments for call in choice.tool_calls))
        )
        counts = (usage.input_tokens, usage.output_tokens) if usage is not None else (None, None)
        tokens = [bound if count is None else count for count, bound in zip(counts, (given, said), strict=True)]
        with self._lock:
            self._reserved -= reserved
            self.cost += prepared.concurrent * cost_of(self.prices, *tokens)

    async def sleep(self, seconds: float) -> None:
        """The recorder's wait before it repeats a request. Raises NotMeasured if a cap is reached."""
        with self._lock:
            self._count(1)
        await asyncio.sleep(seconds)

    def started(self, cancel: Callable[[], object]) -> None:
        """A request is on its way; `cancel` ends it, from any thread."""
        with self._lock:
            self._running.append(cancel)
            stopped = self._stopped
        if stopped:
            cancel()

    def stop(self) -> None:
        """End every request on its way, and let none follow."""
        with self._lock:
            self._stopped, running = True, list(self._running)
        for cancel in running:
            with suppress(RuntimeError):  # it has ended by itself
                cancel()

    def _count(self, copies: int) -> None:
        if self._stopped:
            raise NotMeasured("stopped")
        cap = self.caps.requests
        if cap is not None and self.requests + copies > cap:
            raise self._reached("requests", f"{self.requests} of {cap} requests are sent")
        self.requests += copies

    def _reached(self, cap: str, why: str) -> NotMeasured:
        return NotMeasured(f"stopped by caps.{cap} of {self.name}: {why}; raise the cap, or ask for fewer shapes")


def in_order(
    jobs: Sequence[Callable[[], T]], parallel: int, allowance: Allowance, alone: Collection[int] = ()
) -> list[T]:  # fmt: skip
    """What the jobs return, in their order. `parallel` run at once, those numbered in `alone` one by one after them.

    The first failure, or Ctrl-C, ends all of them. What they had kept by then is a note of the Ctrl-C.
    """
    if parallel == 1:
        return [job() for job in jobs]
    results: dict[int, T] = {}
    with ThreadPoolExecutor(parallel, "harness-shape") as pool:
        running: dict[int, Future[T]] = {}
        try:
            for number, job in enumerate(jobs):
                if number not in alone:
                    running[number] = pool.submit(job)
            for number, future in running.items():
                results[number] = future.result()
        except BaseException as exc:
            for future in running.values():
                future.cancel()
            allowance.stop()
            if isinstance(exc, KeyboardInterrupt):
                _note_kept(exc, running.values())
            raise
    for number in alone:
        results[number] = jobs[number]()
    return [results[number] for number in range(len(jobs))]


def _note_kept(error: KeyboardInterrupt, running: Iterable[Future[T]]) -> None:
    """One note that names all that the other threads have kept, once they have ended."""
    started = [future for future in running if not future.cancelled()]
    wait(started)
    ended = [future.exception() for future in started]
    notes = [note for exc in ended for note in getattr(exc, "__notes__", ())]
    if notes:
        error.add_note(KEPT + ", ".join(note.removeprefix(KEPT) for note in notes))
