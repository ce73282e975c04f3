"""VCR cassettes: vcrpy and pytest-recording (YAML or JSON, also the older form for httpx), and Ruby's VCR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.errors import UsageError
from harness.importers.base import (
    AS_TEXT,
    READS,
    Entry,
    count_checked,
    decode_content,
    ended,
    from_base64,
    header_map,
    mapping,
    sized,
    status_of,
    text_bytes,
    transfer_lost,
)
from harness.jsontext import as_text


def entries_of_cassette(value: Any, name: str) -> list[Entry]:
    """The exchanges of a decoded cassette. Raises UsageError."""
    top = mapping(value)
    found = top.get("interactions", top.get("http_interactions"))
    if not isinstance(found, list):
        raise UsageError(f"{name}: holds no list of interactions; is it a cassette or a HAR file?")
    return [_entry(mapping(one), f"{name}: entry {number}") for number, one in enumerate(count_checked(found, name), 1)]


def _entry(one: Any, what: str) -> Entry:
    request, response = mapping(one.get("request")), mapping(one.get("response"))
    status = response.get("status")
    if isinstance(status, dict):
        status = status.get("code")
    date = one.get("recorded_at")
    method, url = request.get("method"), request.get("uri", request.get("url"))
    entry = Entry(
        method=method.upper()[:20] if isinstance(method, str) else "GET", url=url if isinstance(url, str) else "",
        sent=_body(request.get("body"), what)[0], headers=header_map(_pairs(response.get("headers"))),
        status=status_of(status if status is not None else response.get("status_code")),
        date=date[:10] if isinstance(date, str) and date[:4].isdigit() else None, lost=[READS],
    )  # fmt: skip
    body, text = _body(response.get("body", response.get("content")), what)
    if body is None:
        entry.lost.append("the body: the cassette has none")
        return entry
    entry.body = sized(body, what)
    if text:
        entry.lost.append(AS_TEXT)
    transfer_lost(entry)
    ended(entry, len(body))
    decode_content(entry, what)
    return entry


def _body(value: Any, what: str) -> tuple[bytes | None, bool]:
    """The bytes of a body, and whether they were stored as text."""
    if isinstance(value, dict):
        coded = value.get("base64_string")
        if isinstance(coded, str):
            return from_base64(coded, what), False
        if isinstance(coded, bytes):
            return coded, False
        if "string" in value:
            return _body(value["string"], what)
        return text_bytes(as_text(value)), True  # a serializer that spelled the JSON out
    if isinstance(value, str):
        return text_bytes(value), True
    if isinstance(value, bytes):
        return value, False
    return None, False


def _pairs(headers: Any) -> Iterator[tuple[Any, Any]]:
    """Header names with each of their values: a mapping to a text or to a list, or a list of pairs."""
    pairs = headers.items() if isinstance(headers, dict) else headers if isinstance(headers, list) else ()
    for pair in pairs:
        if isinstance(pair, tuple | list) and len(pair) == 2:
            name, values = pair
            for value in values if isinstance(values, list) else [values]:
                yield name, value.decode("latin-1") if isinstance(value, bytes) else value
