"""How each dialect is asked: where, with which key, and which members every request has. One row a dialect.

Source: DESIGN, the table of dialects; the headers are the vendors' documented ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """What a request of one dialect looks like from outside.

    `path` is under base_url and may hold `{model}` and a query; `auth` is where the key goes unless the provider says
    otherwise. `model_in` and `stream_member`: whether the body has `model`, and `stream: true`. Header names are lower
    case.
    """

    path: str
    auth: str = "bearer"
    model_in: Literal["body", "path"] = "body"
    stream_member: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    accept: str = "text/event-stream"


CONVENTIONS: dict[str, Convention] = {
    "chat": Convention(path="/chat/completions"),
    "responses": Convention(path="/responses"),
    "anthropic": Convention(path="/messages", auth="x-api-key", headers={"anthropic-version": "2023-06-01"}),
    "gemini": Convention(
        path="/models/{model}:streamGenerateContent?alt=sse", auth="x-goog-api-key", model_in="path",
        stream_member=False,
    ),
    "ollama": Convention(path="/api/chat", auth="none", accept="application/x-ndjson"),
    "completions": Convention(path="/completions"),
    "cohere": Convention(path="/v2/chat"),
}  # fmt: skip

AUTHS = ("bearer", "x-api-key", "x-goog-api-key", "header:NAME", "none")


def auth_header(auth: str) -> str | None:
    """The lower-case name of the header that carries the key; None for `none`. `auth` is one of AUTHS."""
    if auth == "none":
        return None
    if auth == "bearer":
        return "authorization"
    return auth.removeprefix("header:").lower()
