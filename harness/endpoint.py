"""What the recorder is told: one request to one endpoint, ready to be sent, and how long to wait for what."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

MAX_BODY = 64 * 1024 * 1024  # bytes: an answer longer than this is no LLM stream


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: `connect` to the connection, `first_event` to the first event, `idle` between two, `total` for all.

    `idle` counts events: comments do not feed it. Source: DESIGN, "providers.yaml"."""

    connect: float = 10.0
    first_event: float = 60.0
    idle: float = 30.0
    total: float = 300.0


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it goes out. `headers` hold the credentials; `secrets` are all values that may reach no file.

    `body` is sent byte for byte; `max_body` bytes of the answer are kept at most. `verify` is true, false, or the path
    of a CA file. `retries` counts further attempts after a 429 or 503. `read_rate`, bytes a second, makes the client a
    slow one. `provider`, `shape` and `shape_sha256` are for messages and the sidecar only.
    """

    url: str
    method: str = "POST"
    headers: dict[str, str] = {}
    body: bytes = b""
    secrets: tuple[str, ...] = ()
    verify: str | bool = True
    timeouts: Timeouts = Timeouts()
    max_body: int = MAX_BODY
    retries: int = 2
    read_rate: int | None = None
    dialect: str | None = None
    provider: str = ""
    shape: str | None = None
    shape_sha256: str | None = None

    def __repr__(self) -> str:
        # Test runners and loggers print reprs, and credentials stand in the headers, in queries, even in bodies.
        return f"Endpoint({self.provider or '?'}: {self.method} {self.where}{urlsplit(self.url).path})"

    @property
    def where(self) -> str:
        """`host:port`, for messages: never the user name, the path or the query."""
        try:
            parts = urlsplit(self.url)
            host, port = parts.hostname or "?", parts.port
        except ValueError:
            return "?"
        if port is None:
            port = 443 if parts.scheme == "https" else 80
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
