"""What facts look for: markup and think tags in a text, half a character, members of an error, sights of the parser."""

from __future__ import annotations

import re

MARKUP = re.compile(
    r"<tool_call>|</tool_call>|<\|tool_call|<function=\w|\[TOOL_CALLS\]|<\|python_tag\|>|<｜tool▁call|<invoke name="
    r"|<function_calls>|<\|tool_calls_section_begin\|>"
)
THINK = re.compile(r"</?think(?:ing)?>|<\|channel\|>analysis|</?thought>|◁/?think▷")
SURROGATE = re.compile("[\ud800-\udfff]")
ERROR_MEMBERS = ("type", "code", "message", "param", "status")

# What the SSE parser saw -> the note that says so.
SEEN_NOTES = {
    "bom": "sse.bom", "comment": "sse.comments", "crlf": "sse.line-endings", "cr": "sse.line-endings",
    "no-space": "sse.data-space", "multi-line-data": "sse.multi-line-data", "long-line": "sse.long-line",
    "empty-data": "sse.empty-data", "control-only": "sse.control-fields", "id": "sse.id-field",
    "retry": "sse.id-field", "unknown-field": "sse.unknown-field",
}  # fmt: skip
