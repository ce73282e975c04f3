"""What facts look for: markup, think tags and stop strings in a text, half a character, members of an error, sights of
the parser, the form of a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from harness.dialects.base import as_string
from harness.events import Text
from harness.jsontext import as_text
from harness.message import Message

MARKUP = re.compile(
    r"<tool_call>|</tool_call>|<\|tool_call|<function=\w|\[TOOL_CALLS\]|<\|python_tag\|>|<｜tool▁call|<invoke name="
    r"|<function_calls>|<\|tool_calls_section_begin\|>"
)
THINK = re.compile(r"</?think(?:ing)?>|<\|channel\|>analysis|</?thought>|◁/?think▷")
SURROGATE = re.compile("[\ud800-\udfff]")
LATEST_SECOND = 10**11  # Unix time in seconds, in the year 5138; what is larger counts milliseconds or less
ERROR_MEMBERS = ("type", "code", "message", "param", "status")

# What the SSE parser saw -> the note that says so.
SEEN_NOTES = {
    "bom": "sse.bom", "comment": "sse.comments", "crlf": "sse.line-endings", "cr": "sse.line-endings",
    "no-space": "sse.data-space", "multi-line-data": "sse.multi-line-data", "long-line": "sse.long-line",
    "empty-data": "sse.empty-data", "control-only": "sse.control-fields", "id": "sse.id-field",
    "retry": "sse.id-field", "unknown-field": "sse.unknown-field",
}  # fmt: skip


def whole_seconds(created: Any) -> bool:
    """Whether the time of a chunk is an integer of seconds."""
    return type(created) is int and created <= LATEST_SECOND


def created_form(created: Any) -> str:
    """How a time that is not `whole_seconds` is written, with its first characters."""
    forms = {int: "more than seconds", float: "a fraction", str: "text", list: "a list", dict: "an object"}
    return f"{forms[type(created)]} ({as_text(created)[:40]})" if type(created) in forms else as_text(created)


class StopWatch:
    """Where the first of some stop strings is complete in a text that comes in pieces. Holds less than the longest."""

    def __init__(self, stops: Iterable[str]) -> None:
        self.place: tuple[int, int] | None = None
        self._stops = tuple(stops)
        self._kept = max(map(len, self._stops)) - 1
        self._tail = ""

    def add(self, event: Text, place: tuple[int, int]) -> None:
        """The next piece of the text, and where it stands in the body."""
        if self.place is not None:
            return
        text = event.text if event.whole else self._tail + event.text
        if any(stop in text for stop in self._stops):
            self.place = place
        self._tail = text[max(0, len(text) - self._kept) :]


def error_detail(message: Message) -> str:
    """Type, code and message of the error, in 120 characters."""
    if message.error is None:
        return ""
    failure = message.error
    parts = [as_string(part) or "" for part in (failure.type, failure.code, failure.message) if part is not None]
    return ": ".join(parts)[:120]
