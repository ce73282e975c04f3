"""A loopback server that plays recordings again: the bytes, reads, pace and end that a client saw.

One task per connection on one event loop, no thread and no per-byte work, so that a thousand streams run at once. It
binds 127.0.0.1 only and opens no connection itself.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.data import shipped_requests
from harness.detect import is_blank
from harness.errors import UsageError
from harness.faults import Fault, apply, parse_fault
from harness.http1 import Gone, Refused, Request, read_request, response_head
from harness.loopback import HOST, LoopbackServer, abort, at_once, closed, until_left
from harness.matching import Missing, asks_whole, choose, dialect_of, endings, is_whole, model_of
from harness.recording import Recording
from harness.steps import Close, Head, Raw, Reset, Send, Step, Wait, plan
from harness.store import load, providers_of, shapes_of, takes

JOURNAL = 10_000  # exchanges kept
LATE = 0.02  # seconds of delay that the next wait makes up for, so that timers being late does not add up
TURN = 16  # steps after which other streams get their turn

Source = Path | str | Mapping[str, Mapping[str, Recording]]


class Exchange(msgspec.Struct, kw_only=True):
    """A line of the journal. No header values, no query and no body: keys may stand there.

    `model` is what was asked for. `sent` counts bytes of the body. `outcome`: completed (all steps were carried out, a
    planned cut among them), or why not: client-left, stopped (the server was), refused (no request that can be read, or
    no fixture for it).
    """

    method: str = ""
    path: str = ""
    model: str = ""
    provider: str = ""
    shape: str = ""
    faults: list[str] = []
    status: int = 0
    sent: int = 0
    outcome: Literal["running", "completed", "client-left", "stopped", "refused"] = "running"


class Replay(LoopbackServer):
    """The server. `with Replay("fixtures/vllm") as server:` runs it in a thread; point a client at `server.base_url`.

    `sources`: a folder of providers, of one provider's fixtures, a single `.sse`, or {provider: {shape: Recording}}.
    Fixtures are read once, here. Which of them answers a request is told from its path, model and what it asks for
    (matching.py); `strict` leaves nothing to guessing. `port`, `pace`, `speed`, `pieces` (bytes) and `faults` are as
    for `replay`. Each exchange, when it ends, is told to `watch`, in the server's thread, and added to the file
    `journal_at`, a JSON object a line.

    Raises UsageError: no fixtures, a fault that does not exist, a port in use, a journal that cannot be written.
    """

    name = "replay"

    def __init__(
        self,
        *sources: Source,
        port: int = 0,
        pace: Literal["fast", "recorded"] = "fast",
        speed: float = 1.0,
        pieces: int | Literal["events"] | None = None,
        faults: Sequence[Fault | str] = (),
        strict: bool = False,
        watch: Callable[[Exchange], None] | None = None,
        journal_at: Path | None = None,
    ) -> None:
        self.warnings: list[str] = []
        self.offered: dict[str, dict[str, Recording]] = {}
        for source in sources:
            self._offer(source)
        self._faults = [parse_fault(fault) if isinstance(fault, str) else fault for fault in faults]
        self._pace, self._speed, self._pieces = pace, speed, pieces
        self._whole(Recording(body=b""))  # settings that cannot be are told here, not at the first request
        self._plans: dict[tuple[str, str, tuple[bool, ...]], list[Step]] = {}
        self._requests: Counter[tuple[str, str]] = Counter()
        self._strict = strict
        self.journal: deque[Exchange] = deque(maxlen=JOURNAL)
        self._watch = watch
        self._journal_at = journal_at
        if journal_at is not None:
            _write(journal_at, b"")
        super().__init__(port)

    def _offer(self, source: Source) -> None:
        if isinstance(source, Mapping):
            found = {provider: dict(shapes) for provider, shapes in source.items()}
        else:
            found, warnings = read_fixtures(Path(source))
            self.warnings += warnings
        for provider, shapes in found.items():
            self.offered.setdefault(provider, {}).update(shapes)

    def _plan(self, provider: str, shape: str, exchange: Exchange) -> list[Step]:
        """The fixture's plan for its next request: with the faults that this one meets. Plans are made once."""
        self._requests[provider, shape] += 1
        number = self._requests[provider, shape]
        met = tuple(fault.meets(number) for fault in self._faults)
        exchange.faults = [str(fault) for fault, meets in zip(self._faults, met, strict=True) if meets]
        steps = self._plans.get((provider, shape, met))
        if steps is None:
            steps = apply(self._faults, self._whole(self.offered[provider][shape]), number)
            self._plans[provider, shape, met] = steps
        return steps

    def _whole(self, recording: Recording) -> list[Step]:
        return plan(recording, pace=self._pace, speed=self._speed, pieces=self._pieces)

    @property
    def base_url(self) -> str:
        """What a client is given: `http://127.0.0.1:PORT/v1`."""
        return self.url()

    def url(self, provider: str = "", shape: str = "") -> str:
        """The base_url that names a provider, or a provider and a shape, so that nothing is left to the matching."""
        return "/".join([f"http://{HOST}:{self.port}", *filter(None, (provider, shape)), "v1"])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one request, one response."""
        at_once(writer)
        exchange = Exchange()
        left: asyncio.Task[None] | None = None
        try:
            request, steps = await self._request(reader, writer, exchange)
            self.journal.append(exchange)
            left = asyncio.create_task(until_left(reader))
            await _carry_out(steps, request, writer, left, exchange)
        except (Gone, ConnectionError):
            exchange.outcome = "client-left"
        except asyncio.CancelledError:
            exchange.outcome = "stopped"
            raise
        else:
            await closed(writer, left)
        finally:
            if left is not None:
                left.cancel()
            writer.close()
            if exchange.method:
                self._told(exchange)

    def _told(self, exchange: Exchange) -> None:
        if self._watch is not None:
            self._watch(exchange)
        if self._journal_at is not None:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            _write(self._journal_at, msgspec.json.encode({"time": now, **msgspec.structs.asdict(exchange)}) + b"\n")

    async def _request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, exchange: Exchange
    ) -> tuple[Request, list[Step]]:
        try:
            request = await read_request(reader, writer)
        except Refused as exc:
            request, steps = exc.request or Request("", "", {}), _refusal(exc.status, exc.message)
            exchange.outcome = "refused"
        else:
            steps = self._answer(request, exchange)
        exchange.method = request.method or "?"
        exchange.path = _one_line(request.path)
        return request, steps

    def _answer(self, request: Request, exchange: Exchange) -> list[Step]:
        """The steps that answer the request; the journal is told which fixture they are."""
        if dialect_of(request.path) is None or request.method != "POST":
            return self._other(request, exchange)
        shape = request.headers.get("x-harness-shape", "")
        exchange.model = _one_line(model_of(request.path, request.body))
        found = choose(self.offered, request.path, request.body, shape, shipped_requests(), strict=self._strict)
        exchange.provider, exchange.shape = found.provider, found.shape
        if isinstance(found, Missing):
            return self._missing(404, found.message, exchange)
        whole = f"{found.shape}-whole"
        if asks_whole(request.body) and not is_whole(self.offered[found.provider][found.shape].body):
            if whole not in self.offered[found.provider]:
                problem = f"only streams are recorded of {found.provider}/{found.shape}: ask with stream: true"
                return self._missing(406, problem, exchange)
            exchange.shape = whole
        return self._plan(exchange.provider, exchange.shape, exchange)

    def _other(self, request: Request, exchange: Exchange) -> list[Step]:
        """What clients ask for besides: the list of models, and whether the server is there."""
        last = request.path.rstrip("/").rpartition("/")[2]
        known = last in ("", "health", "models")
        if request.method in ("GET", "HEAD") and known:
            if last != "models":
                return _json(200, {"status": "ok", "available": self._available()})
            models = [{"id": name, "object": "model", "created": 0, "owned_by": "replay"} for name in self.offered]
            return _json(200, {"object": "list", "data": models})
        if known or dialect_of(request.path) is not None:
            allowed = "GET, HEAD" if known else "POST"
            return self._missing(405, f"{request.path} takes {allowed}, not {request.method}", exchange, allowed)
        problem = f"nothing is at {request.path}: request paths end with one of {', '.join(endings())}"
        return self._missing(404, problem, exchange)

    def _missing(self, status: int, message: str, exchange: Exchange, allowed: str = "") -> list[Step]:
        exchange.outcome = "refused"
        return _refusal(status, message, {"allow": allowed} if allowed else {}, available=self._available())

    def _available(self) -> dict[str, dict[str, str]]:
        """The base_url of every fixture, by provider and shape."""
        return {name: {shape: self.url(name, shape) for shape in shapes} for name, shapes in self.offered.items()}


def replay(
    *sources: Source,
    port: int = 0,
    pace: Literal["fast", "recorded"] = "fast",
    speed: float = 1.0,
    pieces: int | Literal["events"] | None = None,
    faults: Sequence[Fault | str] = (),
    strict: bool = False,
    watch: Callable[[Exchange], None] | None = None,
    journal_at: Path | None = None,
) -> Replay:
    """Play recordings again on this machine: `with replay("fixtures/openai") as server:` serves to the block's end.

    Point a client at `server.base_url`; `server.journal` says what was asked. It runs in a thread of its own, so async
    code uses the same `with`. `sources`: a folder of providers, of one provider's fixtures, a single `.sse`, or
    {provider: {shape: Recording}}. `port`: 0 takes any that is free. `pace`: "recorded" waits as the recording did,
    `speed` times as fast. `pieces`: bytes a piece, or "events", to cut the bodies anew. `faults` break the streams
    (docs/faults.md). `strict` answers only what was recorded. `watch` is told each exchange when it ends, in the
    server's thread; `journal_at` names a file that gets a JSON object a line for it.

    Raises UsageError: no fixtures, a fault that does not exist, a port in use, a journal that cannot be written.
    """
    return Replay(
        *sources, port=port, pace=pace, speed=speed, pieces=pieces, faults=faults, strict=strict, watch=watch,
        journal_at=journal_at,
    )  # fmt: skip


def read_fixtures(path: Path) -> tuple[dict[str, dict[str, Recording]], list[str]]:
    """The recordings at `path` by provider and shape (further takes as `text.2`), and warnings.

    `path` is a folder of providers, a provider's folder, or a `.sse` file. Raises UsageError: nothing there, or broken.
    """
    if path.is_file():
        files = {_name(path.parent): [path]}
    elif any(path.glob("*.sse")):
        folder = path.resolve()  # "." has no name
        files = {folder.name: _files(folder.parent, folder.name)}
    else:
        files = {provider: _files(path, provider) for provider in providers_of(path)}
    loaded = {provider: {file.stem: load(file) for file in listed} for provider, listed in files.items() if listed}
    if not any(loaded.values()):
        raise UsageError(f"{path}: no fixtures here (<provider>/<shape>.sse): record some first")
    for one in (one for shapes in loaded.values() for one in shapes.values()):
        if one.recording.status is None and is_blank(one.recording.body):  # with a status it is what was answered
            raise UsageError(f"{one.path}: is empty; record it again, or delete it")
    recordings = {
        provider: {shape: one.recording for shape, one in shapes.items()} for provider, shapes in loaded.items()
    }
    return recordings, [one.warning for shapes in loaded.values() for one in shapes.values() if one.warning]


def _files(root: Path, provider: str) -> list[Path]:
    return [path for shape in shapes_of(root, provider) for path in takes(root, provider, shape)]


def _name(folder: Path) -> str:
    return folder.resolve().name or "recording"


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:500])


def _write(path: Path, line: bytes) -> None:
    """Add to the file. Raises UsageError."""
    try:
        with path.open("ab") as file:
            file.write(line)
    except OSError as exc:
        raise UsageError(f"{path}: the journal cannot be written: {exc.strerror or exc}; name another file") from exc


async def _carry_out(
    steps: list[Step], request: Request, writer: asyncio.StreamWriter, left: asyncio.Task[None], exchange: Exchange
) -> None:
    """Do what the plan says. Raises ConnectionError or Gone when the client leaves before the last step."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    chunked = bodiless = False
    for number, step in enumerate(steps):
        if isinstance(step, Send):
            if bodiless:
                continue
            data = step.data
            writer.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
            await writer.drain()
            exchange.sent += len(data)
            if number % TURN == 0:
                await asyncio.sleep(0)
        elif isinstance(step, Raw):
            writer.write(step.data)
            await writer.drain()
        elif isinstance(step, Wait):
            due = max(due, loop.time() - LATE) + step.seconds
            # A client that closed its sending side only may still read, but it cannot be told from one that is gone.
            if (await asyncio.wait({left}, timeout=max(0.0, due - loop.time())))[0]:
                raise Gone
        elif isinstance(step, Head):
            exchange.status = step.status
            bodiless = request.method == "HEAD" or step.status in (204, 304)
            chunked = request.chunked_reply and not bodiless
            writer.write(response_head(step.status, step.headers.items(), chunked=chunked))
            await writer.drain()
        else:
            if exchange.outcome == "running":
                exchange.outcome = "completed"  # before the client can know it
            if isinstance(step, Reset):
                abort(writer)
            elif step.clean and chunked:
                writer.write(b"0\r\n\r\n")
                await writer.drain()


def _json(status: int, value: Any, headers: dict[str, str] | None = None) -> list[Step]:
    body = json.dumps(value).encode()
    return [Head(status, {"content-type": "application/json", **(headers or {})}), Send(body), Close()]


def _refusal(status: int, message: str, headers: dict[str, str] | None = None, **beside: Any) -> list[Step]:
    error = {"message": message, "type": "replay_error", "param": None, "code": "no_fixture" if status == 404 else None}
    return _json(status, {"error": error, **beside}, headers)
