"""One request, recorded: the bytes of the answer, when they came, and how it ended.

A fresh connection for each attempt, no redirects, no reuse: what is seen is one answer to one request. A break ends
the recording and is its `end` state; everything read before it is kept. Only what gives no response at all raises.
Source: DESIGN, "Recorder"; the end states are those of harness.recording.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import msgspec

from harness import __version__
from harness.codings import Decoder, decoder_for
from harness.endpoint import Endpoint, Timeouts
from harness.errors import SecretFound, UsageError
from harness.recording import Provenance, Read, Recording, Sent
from harness.secrets import masked, refuse_secrets
from harness.transport import body_end, client_for, named, no_response, request_for, retry_after, too_late

if TYPE_CHECKING:
    import httpx

LOG = logging.getLogger(__name__)  # at INFO a line for each request and answer: neither query, headers nor body

Clock = Callable[[], float]  # monotonic seconds
Sink = Callable[[bytes], object]
OnEnd = Callable[[Recording], object]
Sleep = Callable[[float], Awaitable[object]]
Started = Callable[[Callable[[], object]], object]

# What says something about the stream. Request ids, organisations, cookies and dates are left out on purpose.
KEPT_HEADERS = (
    "content-type", "content-encoding", "transfer-encoding", "cache-control", "x-accel-buffering", "retry-after",
    "server",
)  # fmt: skip
RETRY_STATUS = (429, 503)
SLOW_BUFFER = 4096  # bytes that the kernel takes in for a slow reader, at least; it rounds up as it likes
_GRACE = 0.1  # seconds: a look at the clock that is later than this was late for reasons of our own

# A line that makes an event: `data` with a value, or a JSON object (NDJSON). A missing blank line after it is a fault
# the reader recovers from (cases/README, rule 1), no reason to call the stream silent.
_EVENT_LINE = re.compile(rb'(?:\xef\xbb\xbf)?(?:data:\s*[^\s]|\{")')


def record(
    endpoint: Endpoint, *, concurrent: int = 1, sink: Sink | None = None, on_end: OnEnd | None = None,
    clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep, started: Started | None = None,
) -> Recording:  # fmt: skip
    """`arecord` for callers that are not async. Inside a running loop it takes a thread of its own.

    `concurrent` copies of the request (1 or more) are sent at once, and the first is recorded. Raises as `arecord`
    does: RecordingError (no response; its `reason` says why), SecretFound (the answer holds a key), UsageError (the
    request cannot be sent), and whatever the sink raises.

    `started` is given what ends the request as Ctrl-C does, and may be called from any thread: Ctrl-C itself reaches
    the main thread only. It raises RuntimeError once the request has ended.
    """
    results: list[Recording] = []

    async def main() -> None:
        if started is not None:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            started(lambda: loop.call_soon_threadsafe(task.cancel))
        one = await arecord_concurrent(endpoint, concurrent, sink=sink, on_end=on_end, clock=clock, sleep=sleep)
        # Not returned: asyncio.run makes the repr of its task, result included, when it restores the Ctrl-C handler.
        results.append(one)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(main())
    else:
        _run_in_thread(main)
    return results[0]


def _run_in_thread(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it in a loop of a thread's own and wait. Ctrl-C, which only the main thread hears, is passed on."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(main())

    # Not Thread.join: interrupted once, it takes the thread for ended the next time (CPython 3.11).
    ended = threading.Event()

    def work() -> None:
        with suppress(BaseException), asyncio.Runner(loop_factory=lambda: loop):
            loop.run_until_complete(task)  # the task keeps what it raised
        ended.set()

    threading.Thread(target=work, name="harness-record").start()
    try:
        ended.wait()
    except KeyboardInterrupt:
        with suppress(RuntimeError):  # it has just ended by itself
            loop.call_soon_threadsafe(task.cancel)
        ended.wait()
        raise
    task.result()


async def arecord_concurrent(
    endpoint: Endpoint, copies: int, *, sink: Sink | None = None, on_end: OnEnd | None = None,
    clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep,
) -> Recording:  # fmt: skip
    """Send the request `copies` times (1 or more) at once and record the first.

    The others are load: read until the first has ended, then closed. How they fare is not looked at. Raises as
    arecord does.
    """
    load = msgspec.structs.replace(endpoint, retries=0)
    others = [asyncio.create_task(arecord(load)) for _ in range(copies - 1)]
    try:
        return await arecord(endpoint, sink=sink, on_end=on_end, clock=clock, sleep=sleep)
    finally:
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def arecord(
    endpoint: Endpoint, *, sink: Sink | None = None, on_end: OnEnd | None = None, clock: Clock = time.monotonic,
    sleep: Sleep = asyncio.sleep,
) -> Recording:  # fmt: skip
    """Send the request and read the answer to its end, whatever its status.

    `sink` gets each piece of the body as it comes. `on_end` gets the recording once it has ended; also, as
    "client-closed", when the task is cancelled or Ctrl-C pressed, which raise all the same. After 429 and 503 the
    request is sent again, `endpoint.retries` times at most; the last answer counts.

    Raises RecordingError (no response; its `reason` says why), SecretFound (the answer holds a key), UsageError (the
    request cannot be sent), and whatever the sink raises.
    """
    for number in range(max(endpoint.retries, 0) + 1):
        attempt = _Attempt(endpoint, sink, clock)
        LOG.info("%srequest %d of %d at most: %s", _stream(endpoint), number + 1, endpoint.retries + 1, _sent(endpoint))
        try:
            # 1 s, 2 s, 4 s ... unless the server says; the last attempt's answer counts, whatever it is.
            wait = await attempt.run(retry_in=2.0 ** min(number, 5) if number < endpoint.retries else None)
        except (asyncio.CancelledError, KeyboardInterrupt):
            attempt.end = "client-closed"
            if on_end is not None and attempt.status is not None:
                with suppress(SecretFound):  # then there is nothing to keep
                    on_end(attempt.recording())
            raise
        if wait is None:
            break
        LOG.info("%sbusy: the request is sent again after %.1f s", _stream(endpoint), wait)
        await sleep(wait)
    recording = attempt.recording()
    LOG.info("%s%s", _stream(endpoint), _told(recording))
    if on_end is not None:
        on_end(recording)
    return recording


def _stream(endpoint: Endpoint) -> str:
    """`provider/shape: `, as far as they are known."""
    return "/".join(filter(None, (endpoint.provider, endpoint.shape))) + ": " if endpoint.provider else ""


def _sent(endpoint: Endpoint) -> str:
    """What is sent where: without the query, which may hold credentials."""
    where = endpoint.where
    path = masked(urlsplit(endpoint.url).path, endpoint.secrets) if where != "?" else ""  # an address that is none
    return f"{endpoint.method} {where}{path}, {len(endpoint.body)} bytes"


def _told(recording: Recording) -> str:
    """What came, and when, in a line."""
    reads = recording.reads
    first, last = (f"{read.microseconds / 1e6:.3f} s" for read in (reads[0], reads[-1])) if reads else ("-", "-")
    size, counted = len(recording.body), f"{len(reads)} read{'' if len(reads) == 1 else 's'}"
    return f"HTTP {recording.status}, {size} bytes in {counted}, first {first}, last {last}, end {recording.end}"


class _Attempt:
    """One request on one connection, and what came of it."""

    def __init__(self, endpoint: Endpoint, sink: Sink | None, clock: Clock) -> None:
        self.endpoint, self.sink, self.clock = endpoint, sink, clock
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.decoder: Decoder | None = None
        self.end = "incomplete"
        self._body: list[bytes] = []
        self._reads: list[Read] = []
        self._date = datetime.now(UTC)
        self._watch = _Watch(endpoint.timeouts, clock)

    async def run(self, *, retry_in: float | None) -> float | None:
        """Returns None once there is an answer that counts; else the seconds to wait before the next attempt.

        That is `retry_in` if the server does not say; None if there is to be no further attempt.
        """
        import httpx

        endpoint, watch = self.endpoint, self._watch
        try:
            async with client_for(endpoint) as client:
                request = request_for(endpoint, client, self._trace)
                async with asyncio.timeout(None) as watch.scope:
                    watch.start()
                    response = await client.send(request, stream=True)
                    try:
                        kept = ((name, response.headers.get(name)) for name in KEPT_HEADERS)
                        self.headers = {name: value for name, value in kept if value is not None}
                        if retry_in is not None and response.status_code in RETRY_STATUS:
                            said = retry_after(self.headers.get("retry-after"))
                            return retry_in if said is None else said
                        self.status = response.status_code
                        await self._read(response)
                    finally:
                        await response.aclose()
        except TimeoutError:
            self.end = watch.end
            if self.status is None:
                raise too_late(endpoint, watch.end) from None
        except httpx.TransportError as exc:
            if self.status is None:
                raise no_response(endpoint, exc) from exc
            self.end = body_end(exc)
        except httpx.InvalidURL as exc:
            raise UsageError(f"{named(endpoint)}the address cannot be used ({exc}); check base_url") from None
        finally:
            watch.stop()
        return None

    async def _trace(self, name: str, info: Any) -> None:
        rate = self.endpoint.read_rate
        if rate is not None and name.endswith("connect_tcp.complete"):
            # What the kernel takes in for us the server has got rid of: no more than we read in a second.
            size = min(max(rate, SLOW_BUFFER), 16 * SLOW_BUFFER)
            info["return_value"].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        await self._watch.trace(name, info)

    async def _read(self, response: httpx.Response) -> None:
        """Read the body to its end. This is where the time goes, so little is done per piece."""
        clock, sink, watch, limit, sent = self.clock, self.sink, self._watch, self.endpoint.max_body, self._watch.sent
        add_piece, add_read, completes_event = self._body.append, self._reads.append, _Lines().completes_event
        decoder = self.decoder = decoder_for(self.headers.get("content-encoding"))
        size = coded = 0
        rate, began = self.endpoint.read_rate, clock()
        async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as pieces:
            async for piece in pieces:
                now = clock()
                stop = ""
                if decoder is not None:
                    coded += len(piece)
                    piece = decoder.feed(piece, limit - size)
                    stop = "protocol-error" if decoder.broken else "too-large" if coded > limit else ""
                    if not piece and not stop:
                        continue
                if len(piece) > limit - size:
                    stop, piece = "too-large", piece[: limit - size]
                size += len(piece)
                add_piece(piece)
                add_read(Read(size, int((now - sent) * 1e6)))
                if sink is not None:
                    sink(piece)
                if stop:
                    self.end = stop
                    return
                if completes_event(piece):
                    watch.event(now)
                if rate is not None:
                    await watch.wait(began + size / rate - clock())
        self.end = "eof" if decoder is None or decoder.whole else "cut"

    def recording(self) -> Recording:
        """What there is. Raises SecretFound if it holds one of the endpoint's secrets."""
        endpoint = self.endpoint
        body = b"".join(self._body)
        try:
            for data in (body, *(value.encode() for value in self.headers.values())):
                refuse_secrets(data, endpoint.secrets)
        except SecretFound as exc:
            raise SecretFound(f"{named(endpoint)}{exc}") from None
        sent_body = masked(endpoint.body.decode("utf-8", "replace"), endpoint.secrets)
        try:
            sent: Any = msgspec.json.decode(sent_body)
        except (msgspec.DecodeError, ValueError, RecursionError):
            sent = sent_body
        # Without the query, which may hold credentials.
        path = masked(urlsplit(endpoint.url).path, endpoint.secrets)
        return Recording(
            body=body, reads=self._reads, status=self.status, headers=self.headers, end=self.end,
            decoded_from=self.decoder.coding if self.decoder is not None else None,
            dialect=endpoint.dialect, shape=endpoint.shape,
            request=Sent(method=endpoint.method, path=path, body=sent, shape_sha256=endpoint.shape_sha256),
            provenance=Provenance(
                kind="recorded", date=self._date.strftime("%Y-%m-%dT%H:%M:%SZ"), tool=f"sse-harness {__version__}",
                server=self.headers.get("server"),
                origin=f"read at {endpoint.read_rate} bytes a second" if endpoint.read_rate is not None else None,
            ),
        )  # fmt: skip


class _Lines:
    """Says of each piece whether a line that makes an event ends in it. Comments and empty data make none."""

    def __init__(self) -> None:
        self._head = b""  # start of the unfinished line: enough of it to see what it is

    def completes_event(self, piece: bytes) -> bool:
        if not self._head and piece[-1:] == b"\n" and piece.startswith((b"data: {", b'{"')):
            return True
        lines = (self._head + piece).replace(b"\r", b"\n").split(b"\n")
        self._head = lines.pop()[:16]
        return any(map(_EVENT_LINE.match, lines))


class _Watch:
    """Looks at the clock when the next timeout could be due, not at each event, and ends the attempt by `scope`."""

    def __init__(self, timeouts: Timeouts, clock: Clock) -> None:
        self.scope: asyncio.Timeout | None = None
        self.end = ""
        self.sent = 0.0
        self._timeouts, self._clock = timeouts, clock
        self._started = clock()
        self._sent = False
        self._last_event: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._planned = 0.0
        self._waiting = False  # on purpose: only the total counts
        self._waited = 0.0

    async def trace(self, name: str, _info: object) -> None:
        """httpcore's account of the connection: the request counts as sent when its last byte has left."""
        if name.endswith(("send_request_headers.started", "send_request_body.complete")):
            self.sent, self._sent = self._clock(), True
            self.start()

    def event(self, now: float) -> None:
        """An event came at that time."""
        first, self._last_event = self._last_event is None, now
        if first:
            self.start()  # the idle timeout may be due before the one that was planned

    async def wait(self, seconds: float) -> None:
        """Wait on purpose. No silence of the server's, so what is due to it moves; the total does not."""
        if seconds <= 0:
            return
        start, self._waiting = self._clock(), True  # the next look, which is planned, sees that more is due later
        await asyncio.sleep(seconds)
        waited, self._waiting = self._clock() - start, False
        self._waited += waited
        if self._last_event is not None:
            self._last_event += waited

    def start(self) -> None:
        """Plan the next look. Never at once: what has come since, while the sink took its time, is read first."""
        self._plan(max(self._next()[1] - self._clock(), _GRACE))

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _next(self) -> tuple[str, float]:
        """The timeout that is due next, and when."""
        total = ("timeout:total", self._started + self._timeouts.total)
        if self._waiting:
            return total
        if self._last_event is not None:
            return min(total, ("timeout:idle", self._last_event + self._timeouts.idle), key=_second)
        if self._sent:
            due = self.sent + self._waited + self._timeouts.first_event
            return min(total, ("timeout:first-event", due), key=_second)
        return total

    def _plan(self, seconds: float) -> None:
        self.stop()
        self._planned = self._clock() + seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """End the attempt if a timeout is due, else look again when the next one is."""
        now, (end, due) = self._clock(), self._next()
        if due > now:
            self._plan(due - now)
        elif now - self._planned > _GRACE:
            self._plan(_GRACE)  # this process was held up, not the server
        elif self.scope is not None:
            self.end = end
            self.scope.reschedule(asyncio.get_running_loop().time())


def _second(pair: tuple[str, float]) -> float:
    return pair[1]
