"""A provider: an endpoint, its dialect and its model, as providers.yaml tells them; and the environment filled in.

`${NAME}` and `${NAME:-default}` (the default also stands in for an empty variable) may be used in base_url, model,
headers, query, path and verify. They are looked up by `Provider.resolve` only, so a run needs the variables of the
endpoints it calls and no others. Request bodies are sent as written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.conventions import CONVENTIONS, Convention
from harness.endpoint import Timeouts
from harness.errors import ConfigError
from harness.findings import Severity
from harness.secrets import MIN_LENGTH
from harness.timing import Thresholds

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^{}$]|\$(?!\{))*))?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """A finding that is tolerated: its rule, why, where (null: everywhere), until when (that day included, UTC).

    `severity` must be fatal for a fatal finding, and then there is an `until`. `owner` is whom to ask; `baseline` the
    only one in whose gates the entry counts (null: in all). `place` is where it stands, file and key.
    """

    rule: str
    reason: str
    shape: str | None = None
    path: str | None = None
    until: date | None = None
    severity: Severity | None = None
    owner: str | None = None
    baseline: str | None = None
    place: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeSettings:
    """What a provider changes about one shape: copies sent at once, a merge patch, or why the shape is skipped."""

    concurrent: int = 1
    request: Mapping[str, Any] = field(default_factory=dict)
    skip: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens cost, in whatever currency the caps are in."""

    input: float
    output: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most that one run may send to a provider: requests, and what they may cost; null is no cap."""

    requests: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What needed the environment, with it. `secrets` are the values that may reach no file.

    Every value from the environment is one, of MIN_LENGTH characters or more, unless it stands in every honest
    recording: the model's name, or a part of it; and a loopback base_url, which is no secret.
    """

    base_url: str
    model: str
    path: str | None
    verify: Path | None
    headers: Mapping[str, str] = field(repr=False)
    query: Mapping[str, str] = field(repr=False)
    api_key: str | None = field(repr=False)
    secrets: frozenset[str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An entry of providers.yaml, texts as written. `file` is that file as errors name it, `root` its folder.

    `auth` is bearer, x-api-key, x-goog-api-key, header:NAME or none. `parallel` is how many shapes are asked at once.
    """

    name: str
    file: str
    root: Path
    dialect: str
    base_url: str
    model: str
    auth: str
    api_key_env: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    path: str | None = None
    verify: str | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, ShapeSettings] = field(default_factory=dict)
    timeouts: Timeouts = field(default_factory=Timeouts)
    thresholds: Thresholds = field(default_factory=Thresholds)
    prices: Prices | None = None
    caps: Caps = field(default_factory=Caps)
    parallel: int = 1
    accept: tuple[Acceptance, ...] = ()
    clients: tuple[str, ...] = ()

    @property
    def convention(self) -> Convention:
        """How the dialect is asked. One that is not built in is asked as chat is, at the path the provider gives."""
        return CONVENTIONS.get(self.dialect) or Convention(path=self.path or "")

    def shape(self, name: str) -> ShapeSettings:
        """The settings of a shape; the defaults if it has none."""
        return self.shapes.get(name) or ShapeSettings()

    def error(self, key: str, problem: str) -> ConfigError:
        """The error to raise about the value at `key` ("accept[0].rule") of this provider."""
        return ConfigError(self.file, f"providers.{self.name}.{key}", problem)

    def resolve(self, environ: Mapping[str, str]) -> Resolved:
        """Fill in the environment. Raises ConfigError: a variable that is not set, a value that cannot be used."""
        environment = _Environment(self, environ)
        base_url = environment.fill("base_url", self.base_url)
        if problem := url_problem(base_url):
            raise self.error("base_url", problem)
        if is_loopback(base_url):
            environment.used.clear()
        headers = {name: environment.fill(f"headers.{name}", text) for name, text in self.headers.items()}
        for name, text in headers.items():
            if not _fits_header(text):
                raise self.error(f"headers.{name}", "holds what no header may: a line break, or a space at its end")
        query = {name: environment.fill(f"query.{name}", text) for name, text in self.query.items()}
        path = None if self.path is None else environment.fill("path", self.path)
        if path is not None and (path[:1] != "/" or set("#{}") & set(path.replace("{model}", ""))):
            raise self.error("path", "with the environment filled in, this is no path that starts with /")
        api_key = self._api_key(environ)
        environment.used.add(api_key or "")
        secrets = environment.used.copy()
        model = environment.fill("model", self.model)
        return Resolved(
            base_url=base_url.rstrip("/"), model=model, path=path, verify=self._verify(environment), headers=headers,
            query=query, api_key=api_key,
            secrets=frozenset(value for value in secrets if len(value) >= MIN_LENGTH and value not in model),
        )  # fmt: skip

    def _verify(self, environment: _Environment) -> Path | None:
        if self.verify is None:
            return None
        path = self.root / environment.fill("verify", self.verify)
        if not path.is_file():
            raise self.error("verify", f"{path}: no such file; name a file of CA certificates (PEM)")
        return path

    def _api_key(self, environ: Mapping[str, str]) -> str | None:
        name = self.api_key_env
        if name is None:
            return None
        value = environ.get(name, "")
        if not value.strip():
            state = "is empty" if name in environ else "is not set"
            raise self.error("api_key_env", f"the environment variable {name} {state}; it must hold the key")
        if not _fits_header(value):
            problem = f"the environment variable {name} holds what no key has: a line break, or a space at its end"
            raise self.error("api_key_env", problem)
        return value


class _Environment:
    """Fills variables in, and keeps what it `used` of the environment."""

    def __init__(self, provider: Provider, environ: Mapping[str, str]) -> None:
        self.provider = provider
        self.environ = environ
        self.used: set[str] = set()

    def fill(self, key: str, text: str) -> str:
        """The text with its variables replaced. Raises ConfigError for one that is not set and has no default."""

        def value(match: re.Match[str]) -> str:
            name, default = match[1], match[2]
            found = self.environ.get(name, "")
            if found:
                self.used.add(found)
                return found
            if default is None:
                state = "is empty" if name in self.environ else "is not set"
                remedy = f"set it, or give a default: ${{{name}:-...}}"
                raise self.provider.error(key, f"the environment variable {name} {state}; {remedy}")
            return default

        return VARIABLE.sub(value, text)


def url_problem(url: str) -> str | None:
    """Why the text is no base_url: None if it is one. The text itself, which may hold a secret, is not repeated."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is no URL: its host or port cannot be read; write one such as https://api.openai.com/v1"
    if parts.scheme not in ("http", "https") or not host or port == 0 or not url.isprintable() or " " in url:
        return "is no URL of an HTTP endpoint; write one such as https://api.openai.com/v1"
    if parts.username is not None or parts.password is not None:
        return "holds a user name or password; send credentials with `auth:` or `headers:`"
    if "?" in url or "#" in url:
        return "holds a query or fragment; write the query under `query:`"
    return None


def is_loopback(url: str) -> bool:
    """Whether the URL's host is this machine: localhost, 127.0.0.0/8, ::1, and 0.0.0.0 or :: as servers print it."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
        if host == "localhost" or host.endswith(".localhost"):
            return True
        address = ip_address(host)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


def _fits_header(value: str) -> bool:
    return value.isascii() and (value.isprintable() and value == value.strip())
