"""The httpx client of one attempt, and what its failures mean. httpx is imported when first needed.

Tables by class name, so that httpx stays unloaded; a subclass counts as its nearest base. tests/test_recorder.py holds
that no class of httpx is missing.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from harness import __version__
from harness.endpoint import Endpoint
from harness.errors import HarnessError, RecordingError, UsageError
from harness.secrets import masked

if TYPE_CHECKING:
    import httpx

RETRY_CAP = 60.0  # seconds: the longest wait a server is granted before the next attempt

# End states when the body breaks. No read timeout is given to httpx: one that it reports is the kernel's, which has
# given the connection up.
BODY_ENDS = {
    "TransportError": "protocol-error", "TimeoutException": "reset", "ConnectTimeout": "reset", "ReadTimeout": "reset",
    "WriteTimeout": "reset", "PoolTimeout": "reset", "NetworkError": "reset", "ConnectError": "reset",
    "ReadError": "reset", "WriteError": "reset", "CloseError": "reset", "ProtocolError": "protocol-error",
    "LocalProtocolError": "protocol-error", "RemoteProtocolError": "protocol-error", "ProxyError": "protocol-error",
    "UnsupportedProtocol": "protocol-error",
}  # fmt: skip
# Reasons of a RecordingError when there was no response; "usage" becomes a UsageError.
NO_RESPONSE = {
    "TransportError": "protocol-error", "TimeoutException": "connect", "ConnectTimeout": "connect",
    "ReadTimeout": "reset", "WriteTimeout": "reset", "PoolTimeout": "connect", "NetworkError": "reset",
    "ConnectError": "connect", "ReadError": "reset", "WriteError": "reset", "CloseError": "reset",
    "ProtocolError": "protocol-error", "LocalProtocolError": "usage", "RemoteProtocolError": "protocol-error",
    "ProxyError": "proxy", "UnsupportedProtocol": "usage",
}  # fmt: skip
# What h11 and httpcore say when the connection ends before the body, or before any response, is whole.
_CUT = "peer closed connection without sending complete message body"
_NOTHING = "Server disconnected without sending a response"

_SAYS = {
    "connect": "cannot connect to {where} ({why}): is the server running? check base_url",
    "dns": "cannot find the host of {where} ({why}): check base_url and the network",
    "tls": "no TLS with {where} ({why}): check base_url (http or https?), or name the CA's file with `verify`",
    "proxy": "the proxy on the way to {where} refused ({why}): check HTTP_PROXY, HTTPS_PROXY, NO_PROXY",
    "reset": "{where} broke the connection before any response ({why}): look at the server's log",
    "cut": "{where} closed the connection without a response: look at the server's log",
    "protocol-error": "{where} does not answer in HTTP/1.1 ({why}): check base_url",
    "timeout:first-event": "no response from {where} within {seconds} s: is it busy? raise timeouts.first_event",
    "timeout:total": "no response from {where} within {seconds} s in all: raise timeouts.total",
    "usage": "the request cannot be sent ({why}): check base_url and the headers",
}


def client_for(endpoint: Endpoint, limits: httpx.Limits | None = None) -> httpx.AsyncClient:
    """A client for one attempt. Raises UsageError: the address, the CA file or the proxy variables cannot be used."""
    import httpx

    if endpoint.where == "?":  # httpx takes a port that no socket takes
        raise UsageError(f"{named(endpoint)}the address has no usable host and port; check base_url")
    try:
        loopback = is_loopback(httpx.URL(endpoint.url).host)
    except (UnicodeError, httpx.InvalidURL) as exc:  # UnicodeError: an xn-- label that stands for no name
        raise UsageError(f"{named(endpoint)}the host of the address is no domain name; check base_url") from exc
    verify: bool | ssl.SSLContext
    if isinstance(endpoint.verify, str):
        try:
            verify = ssl.create_default_context(cafile=endpoint.verify)
        except OSError as exc:  # ssl.SSLError is one
            why = exc.strerror or exc
            raise UsageError(f"{named(endpoint)}verify: {endpoint.verify}: not a usable CA file ({why})") from exc
    elif loopback and endpoint.url.startswith("http:"):
        verify = False  # nothing to verify, and loading the CA certificates takes longer than a short recording
    else:
        verify = endpoint.verify
    try:
        return httpx.AsyncClient(
            verify=verify,
            trust_env=not loopback,
            follow_redirects=False,
            limits=limits or httpx.Limits(),
            # Time is kept by the recorder: per event, which httpx does not know.
            timeout=httpx.Timeout(None, connect=endpoint.timeouts.connect),
        )
    except (ValueError, ImportError, httpx.InvalidURL) as exc:
        why = _one_line(exc, endpoint)
        raise UsageError(f"the proxy variables of the environment cannot be used: {why}") from exc


def request_for(
    endpoint: Endpoint, client: httpx.AsyncClient, trace: Callable[[str, Any], Awaitable[None]]
) -> httpx.Request:
    """The request as it is sent; what `endpoint.headers` says comes before the defaults here. Raises UsageError."""
    import httpx

    headers = httpx.Headers(
        {
            "accept": "*/*",
            "accept-encoding": "identity",
            "user-agent": f"sse-harness/{__version__}",
            "content-type": "application/json",
        }
    )
    try:
        headers.update(endpoint.headers)
    except UnicodeEncodeError:
        # Without the value, and without the cause, which holds it.
        problem = "a header has a value that is not ASCII: check the variables it is made of"
        raise UsageError(f"{named(endpoint)}{problem}") from None
    return client.build_request(
        endpoint.method, endpoint.url, content=endpoint.body, headers=headers, extensions={"trace": trace}
    )


def body_end(error: httpx.TransportError) -> str:
    """The end state of a recording whose body broke with this error."""
    return "cut" if str(error).startswith(_CUT) else _of_class(error, BODY_ENDS)


def no_response(endpoint: Endpoint, error: httpx.TransportError) -> HarnessError:
    """What to raise when this error came instead of a response."""
    name, reason, causes = type(error).__name__, _of_class(error, NO_RESPONSE), list(_causes(error))
    why = next(filter(None, map(_system_says, causes)), None) or _one_line(error, endpoint)
    refused = next((exc for exc in causes if isinstance(exc, ssl.SSLError)), None)
    if str(error).startswith(_NOTHING):
        reason = "cut"
    elif reason == "connect" and name == "ConnectTimeout":
        why = f"not within {endpoint.timeouts.connect:g} s"
    elif reason == "connect" and refused is not None:
        reason, why = "tls", str(getattr(refused, "verify_message", "") or refused.reason or why)
    elif reason == "connect" and any(isinstance(exc, socket.gaierror) for exc in causes):
        reason = "dns"
    elif reason == "usage":
        # Not in h11's words: it quotes the header it refuses, credentials and all.
        why = "it must start with http:// or https://" if name == "UnsupportedProtocol" else "characters HTTP forbids"
    text = named(endpoint) + _SAYS[reason].format(where=endpoint.where, why=masked(why, endpoint.secrets))
    return UsageError(text) if reason == "usage" else RecordingError(text, reason=reason)


def too_late(endpoint: Endpoint, end: str) -> RecordingError:
    """What to raise when a timeout passed before any response."""
    seconds = endpoint.timeouts.total if end == "timeout:total" else endpoint.timeouts.first_event
    text = named(endpoint) + _SAYS[end].format(where=endpoint.where, seconds=f"{seconds:g}")
    return RecordingError(text, reason=end)


def named(endpoint: Endpoint) -> str:
    """`provider: `, the start of a message, if the endpoint has a name."""
    return f"{endpoint.provider}: " if endpoint.provider else ""


def retry_after(value: str | None) -> float | None:
    """Seconds a `retry-after` header asks for (number or HTTP date), RETRY_CAP at most; None if it does not say."""
    text = (value or "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        return min(float(text), RETRY_CAP)
    try:
        date = parsedate_to_datetime(text)
        left = (date if date.tzinfo else date.replace(tzinfo=UTC)) - datetime.now(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(left.total_seconds(), 0.0), RETRY_CAP)


def is_loopback(host: str) -> bool:
    """Whether the host is this machine, by its name or number alone."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def _of_class(error: Exception, table: Mapping[str, str]) -> str:
    return next(table[cls.__name__] for cls in type(error).__mro__ if cls.__name__ in table)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it, outermost first. Of several connection attempts, the first."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.exceptions[0] if isinstance(seen, BaseExceptionGroup) else seen.__cause__ or seen.__context__


def _system_says(error: BaseException) -> str | None:
    if not isinstance(error, OSError) or error.errno is None:
        return None
    # asyncio puts words and addresses of its own into strerror; gaierror has numbers of its own.
    return error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno)


def _one_line(error: BaseException, endpoint: Endpoint) -> str:
    """What the error says, without secrets: masked before it is cut, as of a secret that is cut no mask is left."""
    return " ".join(masked(str(error), endpoint.secrets).split())[:200] or type(error).__name__
