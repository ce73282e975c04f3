"""Is there an endpoint, and does it answer? Host, connection and certificate cost nothing; an answer costs tokens."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import msgspec

from harness.bodies import Prepared
from harness.config import Provider, Resolved, is_loopback
from harness.conventions import auth_header
from harness.detect import detect
from harness.endpoint import Endpoint
from harness.errors import HarnessError, RecordingError, UsageError
from harness.recorder import record
from harness.recording import Recording
from harness.runs.diagnosis import Check
from harness.runs.sending import Allowance
from harness.runs.taking import Take, reading_of
from harness.transport import client_for

SHOWN = 160  # characters of what a server says
_VERSION = re.compile(r"/v\d+[a-z0-9]*(/|$)")
_NO_SUCH_MODEL = re.compile(
    r"(?i)\b(model|deployment)s?\b.*(not (found|exist|supported|available)|does ?n[o']t exist|unknown|invalid|no such)"
    r"|(no such|unknown|invalid|unsupported|not a valid|unable to find( the)?|not found:?( the)?) model|model_not_found"
)
_MODEL = re.compile(r"(?i)\b(model|deployment)s?\b")
_KEY = re.compile(r"(?i)\bapi[ _-]?key\b|\bunauthori[sz]ed\b|\bauthentication\b")
_STREAM = re.compile(r"(?i)\bstream(ing)?\b")
Reach = tuple[Provider, Resolved]


def proxy_of(url: str) -> str | None:
    """The variable through whose proxy the URL is asked, null if it is asked directly. Loopback always is."""
    parts = urlsplit(url)
    proxies = getproxies_environment()
    if is_loopback(url) or not parts.hostname or not proxies:
        return None
    if proxy_bypass(parts.hostname):
        return None
    scheme = next((scheme for scheme in (parts.scheme, "all") if scheme in proxies), None)
    if scheme is None:
        return None
    return next((name for name in os.environ if name.lower() == f"{scheme}_proxy"), None)


def reach(endpoints: Sequence[Reach]) -> list[list[Check]]:
    """The checks `host` and `connect` of each endpoint, all at once, none for longer than its `timeouts.connect`."""

    async def all_at_once() -> list[list[Check]]:
        return await asyncio.gather(*(_reach(provider, resolved) for provider, resolved in endpoints))

    return asyncio.run(all_at_once())


async def _reach(provider: Provider, resolved: Resolved) -> list[Check]:
    parts = urlsplit(resolved.base_url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if (variable := proxy_of(resolved.base_url)) is not None:
        says = f"{host} is asked through the proxy of {variable}, which looks it up"
        return [Check(provider=provider.name, check="host", state="skipped", says=says)]
    seconds = provider.timeouts.connect
    try:
        found = await asyncio.wait_for(
            asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM), seconds
        )
    except (OSError, UnicodeError, TimeoutError) as exc:
        why = f"not within {seconds:g} s" if isinstance(exc, TimeoutError) else getattr(exc, "strerror", "") or str(exc)
        return [Check(provider=provider.name, check="host", state="failed", says=f"{host} cannot be found: {why}",
                      remedy="check base_url and the network; behind a proxy, set HTTPS_PROXY")]  # fmt: skip
    addresses = {str(row[4][0]) for row in found}
    more = f" and {len(addresses) - 1} more" if len(addresses) > 1 else ""
    says = host if host in addresses else f"{host} is {min(addresses)}{more}"
    looked_up = Check(provider=provider.name, check="host", state="ok", says=says)
    return [looked_up, await _connect(provider, resolved, host, port)]


async def _connect(provider: Provider, resolved: Resolved, host: str, port: int) -> Check:
    where, seconds = f"{host}:{port}", provider.timeouts.connect
    check = Check(provider=provider.name, check="connect", state="failed", says="")
    try:
        context = _trusted(resolved) if resolved.base_url.startswith("https:") else None
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port, ssl=context), seconds)
    except ssl.SSLError as exc:
        why = getattr(exc, "verify_message", "") or exc.reason or str(exc)
        check.says = f"no TLS with {where}: {why}"
        check.remedy = "http or https in base_url? A CA of your own: name its file with `verify:`"
    except (OSError, TimeoutError) as exc:
        timeout = isinstance(exc, TimeoutError) and exc.errno is None
        why = f"not within {seconds:g} s" if timeout else os.strerror(exc.errno) if exc.errno else str(exc)
        check.says = f"cannot connect to {where}: {why}"
        check.remedy = "start the server, or check host and port of base_url" if is_loopback(resolved.base_url) else (
            "check base_url, the network and its firewall; behind a proxy, set HTTPS_PROXY"
        )  # fmt: skip
    else:
        version = writer.get_extra_info("ssl_object")
        check.state = "ok"
        check.says = f"{where}, {version.version() if version is not None else 'without TLS'}"
        writer.transport.abort()  # nothing was said, so there is nothing to take leave of
    return check


def _trusted(resolved: Resolved) -> ssl.SSLContext:
    """The certificates that a request would trust."""
    if resolved.verify is not None:
        return ssl.create_default_context(cafile=str(resolved.verify))
    import httpx

    return httpx.create_ssl_context()


def usable(endpoint: Endpoint) -> str | None:
    """Why no client can be made for it, as with a proxy variable that is no URL; null if one can."""
    try:
        client_for(endpoint)
    except UsageError as exc:
        return str(exc)
    return None


def answer(provider: Provider, prepared: Prepared) -> Check:
    """Send one request and say what came. Nothing of it is kept."""
    check = Check(provider=provider.name, check="answer", state="failed", says="")
    endpoint = msgspec.structs.replace(prepared.endpoint, retries=0)
    try:
        Allowance(provider).send(prepared)
        recording = record(endpoint)
    except RecordingError as exc:
        text = str(exc).removeprefix(f"{provider.name}: ")
        check.says, _, check.remedy = text.partition(": ") if exc.reason != "secret" else (text, "", "")
        return check
    except HarnessError as exc:
        check.says = str(exc).removeprefix(f"{provider.name}: ")
        return check
    check.state, check.says, check.remedy = verdict(provider, prepared, recording)
    return check


def verdict(provider: Provider, prepared: Prepared, recording: Recording) -> tuple[Any, str, str]:
    """State, what is said and the remedy, for the answer to one request."""
    status = recording.status or 0
    if 200 <= status < 300:
        return _streamed(provider, prepared, recording)
    said = _said(recording.body)
    says = f"HTTP {status}" + (f": {said}" if said else "")
    return "failed", says, _remedy(provider, prepared, recording, said)


def _streamed(provider: Provider, prepared: Prepared, recording: Recording) -> tuple[Any, str, str]:
    body, media = recording.body, recording.headers.get("content-type", "")
    if not body.strip():
        return "failed", "HTTP 200, and nothing in it", "look at the server's log; is a proxy in between?"
    if "html" in media or body.lstrip()[:1] == b"<":
        return "failed", "HTTP 200 with a web page", f"base_url names no API; {_path_hint(prepared)}"
    whole = _object(body)
    if whole is not None and prepared.endpoint.headers.get("accept") != "application/x-ndjson":
        if "error" in whole:
            said = _said(body)
            return "failed", f"HTTP 200 with an error in it: {said}", _by_message(provider, said) or "ask the vendor"
        return ("failed", "one JSON body where a stream was asked for",
                "the server or something in between ignores `stream`; take another model or path")  # fmt: skip
    dialect = _dialect(body)
    if dialect not in (None, provider.dialect):
        return ("failed", f"the stream is written in the dialect {dialect}, not {provider.dialect}",
                f"write `dialect: {dialect}`, or ask under another path")  # fmt: skip
    found: Take = reading_of(recording, provider.dialect, prepared.endpoint.shape or "text", prepared.body)
    if found.result != "ok":
        error = found.reading.message.error
        told = f": {_short(error.message or error.type or '')}" if error is not None else f" ({recording.end})"
        return ("failed", f"the stream ended with {found.result}{told}",
                _by_message(provider, told) or "try again; `harness record` keeps what comes")  # fmt: skip
    first = f", the first byte after {recording.reads[0].microseconds / 1e6:.2f} s" if recording.reads else ""
    return "ok", f"a stream of {len(body)} bytes{first}", ""


def _remedy(provider: Provider, prepared: Prepared, recording: Recording, said: str) -> str:
    status = recording.status or 0
    key = provider.api_key_env
    by_message = _by_message(provider, said)
    if status == 401 or (status == 403 and key is None):
        return _no_key(provider)
    if status == 403:
        return by_message or f"the key in {key} may not use this model or region; ask who owns the account"
    if status == 402:
        return "the account has no credit left"
    if status in (404, 405):
        return _no_model(provider) if _MODEL.search(said) else _path_hint(prepared)
    if status == 429:
        wait = recording.headers.get("retry-after")
        wait = f" {_short(wait)} s" if wait else ""
        return f"a rate limit or quota: wait{wait}, or raise it with the vendor"
    if 300 <= status < 400:
        return "redirects are not followed, as they would take the key along: write where it leads into base_url"
    if status in (500, 502, 503, 504, 529):
        return "the server is in trouble; try again later"
    if by_message:
        return by_message
    if _KEY.search(said):  # some vendors answer 400 to a wrong key
        return _no_key(provider)
    if _STREAM.search(said):
        return "streaming is refused for this model or account; take another model"
    return "the request is rejected: `request:` of the provider changes it (null removes a member), or edit its file"


def _no_key(provider: Provider) -> str:
    key = provider.api_key_env
    if key is None or auth_header(provider.auth) is None:
        return "the endpoint wants a key: name its variable with `api_key_env:`"
    return f"the key in {key} is not accepted: is it this vendor's, valid, and sent as `auth: {provider.auth}`?"


def _no_model(provider: Provider) -> str:
    return f"there is no model {provider.model!r} here, or not for this key: set `model:`"


def _by_message(provider: Provider, said: str) -> str:
    return _no_model(provider) if _NO_SUCH_MODEL.search(said) else ""


def _path_hint(prepared: Prepared) -> str:
    path = urlsplit(prepared.endpoint.url).path
    if not _VERSION.search(path):
        return f"nothing answers at {path}: is `/v1` missing at the end of base_url?"
    if re.search(r"/v1/v1/", path):
        return f"nothing answers at {path}: `/v1` stands twice; take one from base_url"
    return f"nothing answers at {path}: check base_url, or name the path with `path:`"


def _dialect(body: bytes) -> str | None:
    try:
        return detect(body)
    except UsageError:
        return None


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _said(body: bytes) -> str:
    """The message of an error body, in a line; the body itself if it is no JSON of a known form."""
    value = _object(body[: 1 << 20])
    if value is None:
        return "" if body.lstrip()[:1] == b"<" else _short(body[:1000].decode("utf-8", "replace"))
    return _short(next(_messages(value), "") or json.dumps(value)[:1000])


def _messages(value: dict[str, Any]) -> Iterator[str]:
    for key in ("error", "message", "detail", "error_description"):
        found = value.get(key)
        if isinstance(found, str):
            yield found
        elif isinstance(found, dict):
            yield from _messages(found)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]} ..."
