"""HAR 1.2, as browsers and proxies export it. Source: the W3C draft "HTTP Archive (HAR) format"."""

from __future__ import annotations

from typing import Any

from harness.errors import UsageError
from harness.importers.base import (
    AS_TEXT,
    READS,
    Entry,
    count_checked,
    decode_content,
    from_base64,
    header_map,
    mapping,
    sized,
    status_of,
    text_bytes,
    transfer_lost,
)
from harness.jsontext import Undecodable, decode


def decoded(data: bytes, name: str) -> Any:
    """The file's JSON. Raises UsageError."""
    try:
        return decode(data.removeprefix(b"\xef\xbb\xbf"))
    except Undecodable as exc:
        raise UsageError(f"{name}: not JSON ({exc}); was the file cut? export it again") from exc


def is_har(value: Any) -> bool:
    """Whether the value is a HAR's."""
    return isinstance(mapping(value).get("log"), dict)


def entries_of_har(value: Any, name: str) -> list[Entry]:
    """The exchanges. Raises UsageError."""
    found = mapping(value["log"]).get("entries")
    if not isinstance(found, list):
        raise UsageError(f"{name}: log.entries is no list; is it a HAR file?")
    return [_entry(mapping(one), f"{name}: entry {number}") for number, one in enumerate(count_checked(found, name), 1)]


def _entry(one: Any, what: str) -> Entry:
    request, response = mapping(one.get("request")), mapping(one.get("response"))
    content = mapping(response.get("content"))
    posted = mapping(request.get("postData"))
    sent, text, date = posted.get("text"), content.get("text"), one.get("startedDateTime")
    entry = Entry(
        method=_text(request.get("method")) or "GET", url=_text(request.get("url")),
        sent=text_bytes(sent) if isinstance(sent, str) else None, status=status_of(response.get("status")),
        headers=header_map((mapping(pair).get("name"), mapping(pair).get("value")) for pair in _list(response)),
        date=date[:10] if isinstance(date, str) else None, lost=[READS],
    )  # fmt: skip
    mime = content.get("mimeType")
    if isinstance(mime, str) and mime and "content-type" not in entry.headers:
        entry.headers |= header_map([("content-type", mime)])
    if not isinstance(text, str):
        entry.lost.append("the body: the browser did not keep it")
    elif content.get("encoding") == "base64":
        entry.body = sized(from_base64(text, what), what)
        decode_content(entry, what)  # the format says that it is undone, and not every tool does
    else:
        entry.body = sized(text_bytes(text), what)
        entry.lost.append(AS_TEXT)
        decode_content(entry, what)
    transfer_lost(entry)
    size = content.get("size")
    if type(size) is int and size > len(entry.body) and text is not None and entry.decoded_from is None:
        entry.lost.append(f"{size - len(entry.body)} of {size} bytes: what the browser kept is shorter")
        entry.end = "cut"
    return entry


def _list(response: Any) -> list[Any]:
    headers = response.get("headers")
    return headers if isinstance(headers, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
