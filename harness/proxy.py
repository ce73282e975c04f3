"""A loopback proxy in front of a provider: an application points its base URL at it, and its streams are kept.

What passes is not changed and not held back, in either direction: each piece is handed on as it was read, and who
leaves, or breaks, leaves or breaks for the other side too. Three things are ours: the credentials (the provider's key
takes the place of the application's), `accept-encoding: identity`, and the connection, which serves one request.

Which streams are kept, and where, a `Keeper` says (runs/capturing.py); their bytes go to disk as the recorder's do.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec

from harness.capture import Capture
from harness.config import Provider, Resolved
from harness.conventions import auth_header
from harness.endpoint import Endpoint
from harness.errors import HarnessError
from harness.http1 import Gone, Refused, Request, body_pieces, read_head, response_head
from harness.loopback import HOST, LoopbackServer, abort, at_once, closed, until_left
from harness.secrets import forms_of, masked
from harness.steps import RESET_SECONDS
from harness.transport import body_end, client_for, is_loopback, no_response

if TYPE_CHECKING:
    import httpx

# Of one connection only (RFC 9110, section 7.6.1), or made anew for the next.
_HOP = frozenset((
    "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "alt-svc",
))  # fmt: skip
_CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
_OURS = ("host", "accept-encoding", "expect", *_CREDENTIALS)
_KEY_IN_QUERY = ("key", "api_key", "api-key")


class Forwarded(msgspec.Struct, kw_only=True):
    """One exchange. No header values, no query, no body: keys may stand there.

    `sent` counts bytes of the body handed to the client. `outcome`: completed, client-left, upstream-broke,
    unreachable, refused (by the proxy), stopped. `fixture` is where a stream was kept, `shape` as what; `reason` says
    why it was not, "" if it was or is no stream.
    """

    method: str = ""
    path: str = ""
    status: int = 0
    sent: int = 0
    outcome: Literal[
        "running", "completed", "client-left", "upstream-broke", "unreachable", "refused", "stopped"
    ] = "running"  # fmt: skip
    shape: str = ""
    fixture: str | None = None
    reason: str = ""


class Keeper(Protocol):
    """Decides which streams are kept."""

    def open(self, request: Request, body: bytes, status: int, headers: Mapping[str, str], secrets: tuple[str, ...]
             ) -> Capture | str:  # fmt: skip
        """A capture for the response that begins, or why there is none ("" for what is no stream)."""

    def close(self, capture: Capture, forwarded: Forwarded) -> None:
        """The stream has ended: keep it or set it aside, and say so in `forwarded`. Called outside the loop."""


class Proxy(LoopbackServer):
    """The server. `with Proxy(provider, resolved, keeper) as proxy:`; the application's base URL is `proxy.base_url`.

    `watch` is called with each exchange when it ends, in the server's thread. Raises UsageError: a port in use, a CA
    file or proxy variables that cannot be used.
    """

    name = "proxy"

    def __init__(
        self, provider: Provider, resolved: Resolved, keeper: Keeper, *, port: int = 0,
        watch: Callable[[Forwarded], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(port)
        self.provider, self.resolved = provider, resolved
        self._keeper, self._watch = keeper, watch
        parts = urlsplit(resolved.base_url)
        self._origin, self._prefix = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
        self._auth = auth_header(provider.auth)
        self._endpoint = Endpoint(
            url=resolved.base_url, provider=provider.name, secrets=tuple(resolved.secrets), timeouts=provider.timeouts,
            verify=str(resolved.verify) if resolved.verify else True,
        )  # fmt: skip
        self._client: httpx.AsyncClient | None = None
        self._closing = asyncio.Lock()

    @property
    def base_url(self) -> str:
        """What the application is given: the provider's base_url with this server in place of its host."""
        return f"http://{HOST}:{self.port}{self._prefix}"

    async def _begin(self) -> None:
        import httpx

        # No connection is used twice: a reused one can die after an error, which the application would not have seen.
        self._client = client_for(self._endpoint, httpx.Limits(max_keepalive_connections=0))

    async def _end(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at_once(writer)
        forwarded, exchange = Forwarded(), None
        try:
            try:
                request = await read_head(reader)
                forwarded.method = request.method
                forwarded.path = _one_line(masked(request.path, self.secrets_of(request)))  # first, or half a key stays
                if foreign := _foreign(request):
                    raise Refused(403, foreign, request)
                exchange = _Exchange(self, request, reader, writer, forwarded)
                await exchange.run()
                await closed(writer, exchange.left)
            except Refused as exc:
                forwarded.method, forwarded.outcome = forwarded.method or "?", "refused"
                await _answer(writer, forwarded, exc.status, exc.message)
                rest = asyncio.create_task(until_left(reader))
                await closed(writer, rest)
                rest.cancel()
        except (Gone, ConnectionError):
            forwarded.outcome = "client-left"
        except asyncio.CancelledError:
            if forwarded.outcome == "running":
                forwarded.outcome = "stopped"
            raise
        finally:
            writer.close()
            try:
                if exchange is not None:
                    await _whole(exchange.end())
            finally:
                if self._watch is not None and forwarded.method:
                    self._watch(forwarded)

    def url_of(self, request: Request) -> str:
        """Where the request goes: the provider's base_url stands for the path that `base_url` here has."""
        target = request.target
        if not target.startswith("/"):  # the absolute form, as proxies are asked: its host is not ours to follow
            parts = urlsplit(target)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        path, _, query = target.partition("?")
        if self._prefix and (path == self._prefix or path.startswith(self._prefix + "/")):
            path = path[len(self._prefix) :]
        own_path, own_query = self.resolved.path, ""
        if own_path is not None and path == self.provider.convention.path.partition("?")[0]:
            path, _, own_query = own_path.replace("{model}", quote(self.resolved.model, safe="")).partition("?")
        members = parse_qsl(query, keep_blank_values=True)
        ours = {**dict(parse_qsl(own_query, keep_blank_values=True)), **self.resolved.query}
        kept = [(name, value) for name, value in members if name not in ours and not self._is_key(name)]
        if ours or len(kept) < len(members):
            query = urlencode([*kept, *ours.items()], quote_via=quote)
        return f"{self._origin}{self._prefix}{path}{'?' if query else ''}{query}"

    def headers_of(self, request: Request) -> list[tuple[bytes, bytes]]:
        """The headers that go on: the application's end-to-end ones, then what is ours and the provider's own."""
        resolved = self.resolved
        own = {name.lower(): value for name, value in resolved.headers.items()}
        named = {name.strip().lower() for name in request.headers.get("connection", "").split(",")}
        dropped = {*_HOP, *_OURS, *own, *named, self._auth}
        fields = [(name, value) for name, value in request.fields if name.lower() not in dropped]
        fields.append(("accept-encoding", "identity"))
        if self._auth is not None and self._auth not in own:
            key = request.headers.get(self._auth)
            if resolved.api_key is not None:
                key = f"Bearer {resolved.api_key}" if self.provider.auth == "bearer" else resolved.api_key
            if key is not None:
                fields.append((self._auth, key))
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in [*fields, *own.items()]]

    def secrets_of(self, request: Request) -> tuple[str, ...]:
        """The values of this exchange that may reach no file: the provider's, and the application's credentials."""
        given = [request.headers.get(name, "") for name in (*_CREDENTIALS, self._auth or "")]
        given += [pair.partition("=")[2] for pair in request.headers.get("cookie", "").split(";")]
        query = urlsplit(request.target).query
        given += [value for name, value in parse_qsl(query) if name.lower() in _KEY_IN_QUERY]
        return (*self.resolved.secrets, *(value for value in given if forms_of([value])))

    def _is_key(self, name: str) -> bool:
        """Whether a member of the query is a key of the application's that does not go on."""
        replaced = self.resolved.api_key is not None or self._auth is None
        return replaced and name.lower() in _KEY_IN_QUERY


class _Exchange:
    """One request and its response, on both connections."""

    def __init__(
        self, proxy: Proxy, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
        forwarded: Forwarded,
    ) -> None:  # fmt: skip
        self.proxy, self.request, self.reader, self.writer = proxy, request, reader, writer
        self.forwarded = forwarded
        self.capture: Capture | None = None
        self.body = bytearray()  # of the request
        self.sent_at = 0.0  # monotonic seconds
        self._body_read = asyncio.Event()
        if not request.has_body:
            self._body_read.set()
        self.left = asyncio.create_task(self._until_left())
        self._work: asyncio.Task[None] | None = None

    async def _until_left(self) -> None:
        await self._body_read.wait()
        await until_left(self.reader)

    async def run(self) -> None:
        """Until the response has ended, or the client has left."""
        work = self._work = asyncio.create_task(self._forward())
        await asyncio.wait({work, self.left}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()  # which closes the connection to the provider
            await asyncio.wait({work})
            raise Gone
        self._body_read.set()  # what is left of it, after an early answer, is read and dropped
        await work

    async def end(self) -> None:
        """Whatever happened: give everything back, and keep what is to be kept."""
        for task in (self.left, self._work):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})
        if self.capture is not None:
            async with self.proxy._closing:  # one after the other: takes are numbered
                await asyncio.to_thread(self.proxy._keeper.close, self.capture, self.forwarded)

    async def _forward(self) -> None:
        import httpx

        client = self.proxy._client
        assert client is not None
        timeout = httpx.Timeout(None, connect=self.proxy.provider.timeouts.connect).as_dict()
        try:
            upstream = httpx.Request(
                self.request.method, self.proxy.url_of(self.request), headers=self.proxy.headers_of(self.request),
                content=self._pieces() if self.request.has_body else None,
                extensions={"timeout": timeout, "trace": self._trace},
            )  # fmt: skip
        except httpx.InvalidURL:
            raise Refused(400, "the path of the request cannot be sent on", self.request) from None
        try:
            response = await client.send(upstream, stream=True)
        except httpx.TransportError as exc:
            await self._no_response(no_response(self.proxy._endpoint, exc))
            return
        try:
            await self._respond(response)
        except httpx.TransportError as exc:
            await self._break(body_end(exc))
        finally:
            await response.aclose()

    async def _pieces(self) -> AsyncIterator[bytes]:
        """The request's body, handed on as it comes."""
        try:
            async for piece in body_pieces(self.reader, self.writer, self.request):
                self.body += piece
                yield piece
        except asyncio.IncompleteReadError as exc:
            raise Gone from exc
        self._body_read.set()

    async def _trace(self, name: str, _info: object) -> None:
        """httpcore's account: the request counts as sent when its last byte has left."""
        if name.endswith(("send_request_headers.started", "send_request_body.complete")):
            self.sent_at = time.monotonic()

    async def _respond(self, response: httpx.Response) -> None:
        """Hand the response on, piece by piece."""
        request, writer, forwarded = self.request, self.writer, self.forwarded
        forwarded.status = response.status_code
        named = {name.strip().lower() for name in response.headers.get("connection", "").split(",")}
        fields = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw
            if name.decode("latin-1").lower() not in {*_HOP, *named}
        ]  # fmt: skip
        bodiless = request.method == "HEAD" or response.status_code in (204, 304)
        chunked = "transfer-encoding" in response.headers and request.chunked_reply and not bodiless
        phrase = response.extensions.get("reason_phrase", b"").decode("latin-1")
        writer.write(response_head(response.status_code, fields, chunked=chunked, phrase=phrase))
        await writer.drain()
        self._open_capture(response)
        async for piece in response.aiter_raw():
            now = time.monotonic()
            if not piece:
                continue
            # Written first, so that nothing is held back; kept before anything can come in between.
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            forwarded.sent += len(piece)
            if self.capture is not None:
                self.capture.feed(piece, now - self.sent_at)
            await writer.drain()
        if self.capture is not None:
            self.capture.ended("eof")
        forwarded.outcome = "completed"  # before the client can know it
        if chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    def _open_capture(self, response: httpx.Response) -> None:
        opened: Capture | str
        try:
            opened = self.proxy._keeper.open(
                self.request, bytes(self.body), response.status_code, response.headers,
                self.proxy.secrets_of(self.request),
            )  # fmt: skip
        except HarnessError as exc:  # the disk, say: what passes must pass all the same
            opened = str(exc)
        if isinstance(opened, str):
            self.forwarded.reason = opened
        else:
            self.capture = opened

    async def _no_response(self, problem: HarnessError) -> None:
        """The provider gave none. A broken connection breaks the client's too; where there was none, we say why."""
        self.forwarded.reason = str(problem)
        reason = getattr(problem, "reason", "")
        if reason in ("reset", "cut", "protocol-error"):
            await self._break(reason)
            return
        self.forwarded.outcome = "unreachable"
        await _answer(self.writer, self.forwarded, 502, str(problem))

    async def _break(self, end: str) -> None:
        """The provider's connection broke: so does the client's, in the same way."""
        self.forwarded.outcome = "upstream-broke"
        if self.capture is not None:
            self.capture.ended(end)
        if end == "reset":
            await asyncio.sleep(RESET_SECONDS)  # what was sent may arrive before it
            abort(self.writer)
        else:
            self.writer.close()  # without the end of the body


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Await it to its end, even if this task is cancelled meanwhile: a stream that has ended is kept all the same."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def _answer(writer: asyncio.StreamWriter, forwarded: Forwarded, status: int, message: str) -> None:
    """An answer of the proxy's own."""
    error = {"message": message, "type": "proxy_error", "param": None, "code": None}
    body = json.dumps({"error": error}).encode()
    forwarded.status = status
    fields = [("content-type", "application/json"), ("content-length", str(len(body)))]
    with suppress(ConnectionError):
        writer.write(response_head(status, fields, chunked=False) + body)
        await writer.drain()
        if not writer.is_closing():
            writer.write_eof()


def _foreign(request: Request) -> str:
    """Why the request is not from this machine's own programs, "" if it is: web pages can reach a loopback port."""
    host = request.headers.get("host", HOST)
    if not is_loopback(urlsplit(f"//{host}").hostname or ""):
        return "the Host header names another machine; use the base URL that the proxy printed"
    origin = request.headers.get("origin")
    if origin is not None and not is_loopback(urlsplit(origin).hostname or ""):
        return "web pages may not use this proxy: it sends your key along"
    return ""


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:500])

