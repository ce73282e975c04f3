"""Request bodies: from a shape's file and what a provider changes about it to the one request that is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isinf
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from harness.config import Project, Provider, Resolved
from harness.conventions import auth_header
from harness.data import request_folder
from harness.endpoint import Endpoint
from harness.errors import ConfigError, UsageError, why_unreadable
from harness.recording import sha256
from harness.settings import suggestion
from harness.shapes import SHAPES
from harness.store import valid_name

MAX_BYTES = 8 * 1024 * 1024  # of a request file: pictures in base64 fit, a dump does not


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFile:
    """A request file: its JSON object, and the digest of its bytes as it stands in sidecars (`shape_sha256`)."""

    path: Path
    body: dict[str, Any]
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request ready to be sent: what the recorder is told, how many copies go out at once, the body as JSON."""

    endpoint: Endpoint
    concurrent: int
    body: dict[str, Any]
    file: RequestFile


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with a JSON merge patch applied, as new values; null removes. Source: RFC 7396, section 2."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def shapes_offered(project: Project, dialect: str) -> list[str]:
    """Names of the shapes that have a request file: ours in their order, then the project's own by name."""
    folders = (project.requests / dialect, request_folder(dialect))
    found = {path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.json")}
    return [*(shape for shape in SHAPES if shape in found), *sorted(found - SHAPES.keys())]


def request_file(project: Project, dialect: str, shape: str) -> RequestFile:
    """The file of a shape: the project's own requests/<dialect>/<shape>.json, else the one shipped.

    Raises UsageError if there is neither, ConfigError (with line and column) if it holds no JSON object.
    """
    if not valid_name(shape):
        raise UsageError(f"{shape!r} cannot name a shape: only lower-case letters, digits and - can")
    for folder in (project.requests / dialect, request_folder(dialect)):
        path = folder / f"{shape}.json"
        if path.is_file():
            return _load(path)
    offered = shapes_offered(project, dialect)
    near = suggestion(shape, offered) or ";"
    raise UsageError(
        f"requests/{dialect}/{shape}.json: no such request file, here or shipped{near} "
        f"shapes of dialect {dialect}: {', '.join(offered) or 'none'}"
    )


def request_for(project: Project, provider: Provider, resolved: Resolved, shape: str) -> Prepared:
    """The request of a shape to a provider: the file, the model filled in, the provider's patches over it.

    The provider's own patch comes first, then that of the shape. The body goes out as compact JSON in UTF-8, streaming
    where the dialect has a member for it. Raises UsageError and ConfigError as `request_file` does.
    """
    convention, settings = provider.convention, provider.shape(shape)
    file = request_file(project, provider.dialect, shape)
    body = dict(file.body)
    if convention.model_in == "body":
        body["model"] = resolved.model
    for patch in (provider.request, settings.request):
        body = merge_patch(body, patch)
    if convention.stream_member:
        if body.get("stream") not in (None, True):
            raise ConfigError(file.path, "stream", "must be true: streams are what is recorded")
        body["stream"] = True
    endpoint = Endpoint(
        url=_url(resolved, convention.path), headers=_headers(provider, resolved), body=encoded(body),
        secrets=tuple(sorted(resolved.secrets)), verify=str(resolved.verify) if resolved.verify else True,
        timeouts=provider.timeouts, dialect=provider.dialect, provider=provider.name, shape=shape,
        shape_sha256=file.sha256,
    )  # fmt: skip
    return Prepared(endpoint=endpoint, concurrent=settings.concurrent, body=body, file=file)


def encoded(body: Any) -> bytes:
    """Compact JSON in UTF-8. Half a character, which UTF-8 cannot hold, goes out as the escape it was written as."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


def _url(resolved: Resolved, conventional: str) -> str:
    """base_url, the path, then the path's own query with the provider's members over it."""
    path, _, own = (resolved.path or conventional).partition("?")
    path = path.replace("{model}", quote(resolved.model, safe=""))
    query = urlencode({**dict(parse_qsl(own, keep_blank_values=True)), **resolved.query}, quote_via=quote)
    return f"{resolved.base_url}{path}{'?' if query else ''}{query}"


def _headers(provider: Provider, resolved: Resolved) -> dict[str, str]:
    """Lower-case names: the dialect's headers, the key, then the provider's own, which win."""
    convention, header = provider.convention, auth_header(provider.auth)
    headers = {"content-type": "application/json", "accept": convention.accept, **convention.headers}
    if header is not None and resolved.api_key is not None:
        headers[header] = f"Bearer {resolved.api_key}" if provider.auth == "bearer" else resolved.api_key
    return headers | {name.lower(): value for name, value in resolved.headers.items()}


def _load(path: Path) -> RequestFile:
    try:
        with path.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    except OSError as exc:
        raise ConfigError(path, "", f"cannot be read: {why_unreadable(exc)}") from exc
    if len(raw) > MAX_BYTES:
        raise ConfigError(path, "", f"is larger than {MAX_BYTES // 1024**2} MiB, the most a request file may be")
    try:
        text = raw.decode()
        body = json.loads(text, object_pairs_hook=_members, parse_constant=_constant, parse_float=_float)
    except json.JSONDecodeError as exc:
        raise ConfigError(path, "", f"line {exc.lineno}, column {exc.colno}: is not JSON: {exc.msg}") from exc
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        column = exc.start - raw.rfind(b"\n", 0, exc.start)
        raise ConfigError(path, "", f"line {line}, column {column}: is not UTF-8; save the file as UTF-8") from exc
    except RecursionError as exc:
        raise ConfigError(path, "", "is nested too deep") from exc
    except ValueError as exc:
        raise ConfigError(path, "", f"is no request body: {exc}") from exc
    if not isinstance(body, dict):
        start = raw[: len(raw) - len(raw.lstrip())]
        line, column = start.count(b"\n") + 1, len(start) - start.rfind(b"\n")
        problem = f"must be one JSON object, the request's body, but is {_KINDS.get(type(body), 'null')}"
        raise ConfigError(path, "", f"line {line}, column {column}: {problem}")
    return RequestFile(path=path, body=body, sha256=sha256(raw))


_KINDS = {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false"}


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"member {next(name for name in names if names.count(name) > 1)!r} is given twice; keep one")
    return members


def _float(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"{text} is too large a number")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
